"""Recipes: what they find, what they put there, and what they say when upstream has something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.checkout import Checkout
from decouple.recipes.conditionals import settle_lines
from decouple.recipes.file_text import decode_text, encode_text
from decouple.recipes.make import is_done_upstream, make_texts
from decouple.recipes.model import Recipe, RecipeError, Selector, load_recipe
from decouple.recipes.numbered_lines import number_lines
from decouple.recipes.places import LineRange, find_ranges

STORAGE = """\
#include <a.h>
#ifdef USE_CUDA
#include <c10/cuda/CUDAGuard.h>
#endif

static int share(int self) {
  CHECK(self);
#ifdef USE_CUDA
  auto handle = open(self);
  return handle;
#else
  fail("no CUDA");
#endif
}

int other() {
  return 1;
}
"""
RECIPE = """\
schema = 1
id = "storage"

[[take]]
name = "body"
file = "storage.cpp"
at = [{ function = "share" }, { branch = "USE_CUDA" }]
replace = [['open\\(', 'cuda::open(']]

[[new]]
path = "cuda/storage.cpp"
text = '''
static int share(int self) {
{{body}}
}
'''

[[edit]]
file = "storage.cpp"
at = [{ function = "share" }, { guard = "USE_CUDA" }]
gone = ["no CUDA"]
put = '''
  return sharing(self);
'''

[[edit]]
file = "storage.cpp"
undefine = ["USE_CUDA"]
gone = ["CUDAGuard"]
"""


def settle_text(text: str, **macros: list[str]) -> str:
    return "\n".join(line.text for line in settle_lines(number_lines(text), **macros))


def recipe(tmp_path: Path, text: str = RECIPE, name: str = "storage") -> Recipe:
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return load_recipe(path)


def test_a_body_moves_and_a_call_takes_its_place(tmp_path: Path) -> None:
    made = make_texts(recipe(tmp_path), {"storage.cpp": STORAGE}.get)
    assert made["cuda/storage.cpp"] == (
        "static int share(int self) {\n  auto handle = cuda::open(self);\n  return handle;\n}\n"
    )
    assert made["storage.cpp"] == (
        "#include <a.h>\n\nstatic int share(int self) {\n  CHECK(self);\n  return sharing(self);\n}\n\n"
        "int other() {\n  return 1;\n}\n"
    )


def test_bytes_that_are_not_utf_8_move_as_they_are(tmp_path: Path) -> None:
    latin = STORAGE.replace("return handle;", "return handle;  // André").replace("int other", "int öther")
    made = make_texts(recipe(tmp_path), {"storage.cpp": decode_text(latin.encode("latin-1"))}.get)
    assert b"return handle;  // Andr\xe9\n" in encode_text(made["cuda/storage.cpp"])
    assert b"\nint \xf6ther() {\n" in encode_text(made["storage.cpp"])


def test_what_upstream_mends_in_a_moved_body_moves_with_it(tmp_path: Path) -> None:
    mended = STORAGE.replace("return handle;", "check(handle);\n  return handle;")
    made = make_texts(recipe(tmp_path), {"storage.cpp": mended}.get)
    assert "check(handle);" in made["cuda/storage.cpp"]
    assert "check(handle);" not in made["storage.cpp"]


def test_lines_may_be_added_anywhere_around_what_is_found(tmp_path: Path) -> None:
    moved = "// a notice\n" * 40 + STORAGE.replace("CHECK(self);", "CHECK(self);\n  log(self);")
    assert (
        "  log(self);\n  return sharing(self);"
        in make_texts(recipe(tmp_path), {"storage.cpp": moved}.get)["storage.cpp"]
    )


@pytest.mark.parametrize(
    "without",
    [
        "ifndef A",
        "if !defined(A)",
        "if not defined(A)",
        "if B and not defined (A)",
        "if !A",
        "if !(defined(A) && B >= 2)",
    ],
)
def test_a_branch_without_the_macro_is_not_the_macros(without: str) -> None:
    text = f"#{without}\nx\n#elif defined(A) or B\ny\n#endif\n"
    assert find_ranges(text, "a.cpp", [Selector(branch="A")]) == [LineRange(3, 4)]


def test_a_function_that_is_gone_is_named_with_the_file(tmp_path: Path) -> None:
    gone = STORAGE.replace("share(", "share_storage(")
    with pytest.raises(RecipeError, match=r'storage\.cpp.*"share"') as error:
        make_texts(recipe(tmp_path), {"storage.cpp": gone}.get)
    assert error.value.path == "storage.cpp"


def test_what_is_there_twice_is_not_guessed(tmp_path: Path) -> None:
    twice = STORAGE + STORAGE[STORAGE.index("static") :]
    with pytest.raises(RecipeError, match="lines 6, 19"):
        make_texts(recipe(tmp_path), {"storage.cpp": twice}.get)


def test_a_replacement_that_finds_nothing_is_an_error(tmp_path: Path) -> None:
    other = STORAGE.replace("open(self)", "get(self)")
    with pytest.raises(RecipeError, match="'body'"):
        make_texts(recipe(tmp_path), {"storage.cpp": other}.get)


def test_a_pattern_that_takes_the_end_of_another_conditional_stops(tmp_path: Path) -> None:
    edit = "at = [{ function = 'f' }]\nreplace = [['^#ifdef A\\n', ''], ['^#endif\\n(?=  return)', '']]\n"
    made = recipe(tmp_path, f'schema = 1\nid = "storage"\n\n[[edit]]\nfile = "a.cpp"\n{edit}')
    text = "int f() {\n#ifdef A\n  a();\n#endif\n  return 1;\n}\n"
    assert make_texts(made, {"a.cpp": text}.get) == {"a.cpp": "int f() {\n  a();\n  return 1;\n}\n"}
    later = text.replace("  return", "#ifdef B\n  b();\n#endif\n  return")
    with pytest.raises(RecipeError, match=r"a\.cpp: the conditional in line 3 "):
        make_texts(made, {"a.cpp": later}.get)


def test_a_file_that_only_a_later_release_has_may_be_missing(tmp_path: Path) -> None:
    edit = '[[edit]]\nfile = "later.cpp"\nat = [{ line = "cuda" }]\nwhere = [{ line = "cuda" }]\nput = ""\n'
    made = recipe(tmp_path, f"{RECIPE}\n{edit}")
    here = {"storage.cpp": STORAGE}
    assert "later.cpp" not in make_texts(made, here.get)
    assert make_texts(made, (here | {"later.cpp": "a\n#include <cuda.h>\nb\n"}).get)["later.cpp"] == "a\nb\n"


@pytest.mark.parametrize(
    ("call", "left"),
    [
        ("    checkout_nccl()\n", ""),
        ("    if wanted():\n        checkout_nccl()\n", "    if wanted():\n        checkout_nccl()\n"),
    ],
    ids=["2.7", "2.8"],
)
def test_the_core_is_configured_without_fetching_nccl(call: str, left: str) -> None:
    """PyTorch 2.7 clones NCCL whatever USE_CUDA says, and its archive has no version to clone."""
    texts = {
        "CMakeLists.txt": 'option(USE_CUDA "Use CUDA" ON)\n',
        "caffe2/core/macros.h.in": "#cmakedefine CAFFE2_USE_CUDNN\n#cmakedefine CAFFE2_USE_NVTX\n",
    }
    build = "def build_pytorch():\n    env()\n{}    generate()\n"
    indep = load_recipe(Checkout(Path(__file__).parents[3]).recipes / "use-cuda-indep.toml")
    made = make_texts(indep, {**texts, "tools/build_pytorch_libs.py": build.format(call)}.get)
    assert made.get("tools/build_pytorch_libs.py", build.format(call)) == build.format(left)
    as_in_2_6 = {**texts, "tools/build_pytorch_libs.py": build.format("")}
    assert "tools/build_pytorch_libs.py" not in make_texts(indep, as_in_2_6.get)


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ('(so, 1, name, "");', '(so_path, 1, "cuda", "");'),
        ('(so, 1, name, "", /*run_single_threaded=*/false);', '(so_path, 1, "cuda", "", false);'),
    ],
    ids=["2.7", "2.8"],
)
def test_a_registered_runner_is_made_with_the_arguments_of_the_release(other: str, ours: str) -> None:
    """What was carried to 2.8 did not compile: "too few arguments to function"."""
    aoti = load_recipe(Checkout(Path(__file__).parents[3]).recipes / "aoti-runner-registry.toml")
    kept = "#ifdef USE_CUDA\n#include <model_container_runner_cuda.h>\n#endif\n"
    guarded = "#ifdef USE_CUDA\n  return std::make_shared<AOTIModelContainerRunnerCuda>(so_path);\n#endif\n"
    holder = f"{kept}void load() {{\n{guarded}  return make{other}\n}}\n"
    texts = dict.fromkeys(aoti.needed, kept) | {"torch/csrc/inductor/aoti_eager/kernel_holder.cpp": holder}
    assert (
        f"return create->second{ours}"
        in make_texts(aoti, texts.get)["torch/csrc/inductor/aoti_eager/kernel_holder.cpp"]
    )


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"storage\.cpp"):
        make_texts(recipe(tmp_path), {}.get)


UPSTREAM = """
[[upstream]]
since = "9.9: share() asks a hook"
file = "storage.cpp"
at = [{ function = "share" }, { line = 'hook\\(' }]
lacks = [{ guard = "USE_CUDA" }]
"""


@pytest.mark.parametrize(
    ("text", "done"),
    [
        (STORAGE, False),
        ("int share(int self) {\n  return hook(self);\n}\n", True),
        ("int share(int self) {\n  return hook(self);\n#ifdef USE_CUDA\n#endif\n}\n", False),
    ],
)
def test_upstream_did_it_when_every_sign_is_there(tmp_path: Path, text: str, done: bool) -> None:
    assert is_done_upstream(recipe(tmp_path, RECIPE + UPSTREAM), {"storage.cpp": text}.get) is done


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("[[take]]", "[[steal]]"), r"\$\.steal: no such key"),
        (('name = "body"', 'name = "head"'), r"\{\{body\}\} is taken nowhere"),
        (("schema = 1", "schema = 7"), r"schema: expected 1 .*, found 7"),
        (('id = "storage"', 'id = "stowage"'), "id 'stowage' is not the file's name"),
        (('{ branch = "USE_CUDA" }', '{ branch = "USE_CUDA", line = "x" }'), "must have exactly one of"),
        (('undefine = ["USE_CUDA"]', 'undefine = ["USE_CUDA"]\nput = ""'), "exactly one of put, before, after"),
        (("'open\\(', ", "'open(', "), r"is no regular expression"),
        (('name = "body"', 'name = "body"\nsince = "2.14"'), "since '2.14': a release like 2.14, beside a where"),
        (('name = "body"', 'name = "body"\nwhere = [{ line = "x" }]\nsince = "later"'), "since 'later': a release"),
    ],
)
def test_a_wrong_recipe_names_file_and_key(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    assert change[0] in RECIPE
    with pytest.raises(RecipeError, match=rf"storage\.toml: .*{told}"):
        recipe(tmp_path, RECIPE.replace(*change))


def test_text_that_is_taken_and_put_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="'body' is used nowhere"):
        recipe(tmp_path, RECIPE.replace("{{body}}\n", ""))


CMAKE = "if(USE_CUDA)\n  a()\nendif()\nif(USE_MPI AND USE_CUDA)\n  b()\nendif()\n"


@pytest.mark.parametrize(
    ("path", "text", "step", "where"),
    [
        ("a.cpp", "int A::f() {\n  return 1;\n}\n", Selector(function="f"), LineRange(0, 3)),
        ("a.cpp", "int A::f() {\n  return 1;\n}\n", Selector(inside="f"), LineRange(1, 2)),
        ("a.cpp", "#include <x.h>\n  #  include <y.h>\n", Selector(include="y.h"), LineRange(1, 2)),
        ("a.cpp", "#if defined(A) || B\nx\n#endif\n", Selector(guard="B"), LineRange(0, 3)),
        ("a.cpp", "#if defined(A) || \\\n    B\nx\n#endif\n", Selector(branch="B"), LineRange(2, 3)),
        ("CMakeLists.txt", CMAKE, Selector(guard="USE_MPI"), LineRange(3, 6)),
        ("CMakeLists.txt", CMAKE, Selector(guard="USE_CUDA", has=r"a\(\)"), LineRange(0, 3)),
        ("a.py", "x = 1\ny = 2\nz = 3\n", Selector(begin="^x", end="^y"), LineRange(0, 2)),
    ],
)
def test_a_place_is_found_by_what_it_is(path: str, text: str, step: Selector, where: LineRange) -> None:
    assert find_ranges(text, path, [step]) == [where]


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("a\n#ifdef X\nb\n#endif\nc\n", "a\nc\n"),
        ("a\n\n#ifdef X\nb\n#endif\n\nc\n", "a\n\nc\n"),
        ("#ifndef X\nb\n#else\nc\n#endif\n", "b\n"),
        ("#ifdef X\nb\n#elif defined(Y)\nc\n#else\nd\n#endif\n", "#if defined(Y)\nc\n#else\nd\n#endif\n"),
        ("#if defined(X) || defined(Y)\nb\n#endif\n", "#if defined(X) || defined(Y)\nb\n#endif\n"),
        ("#ifdef Y\n#ifdef X\nb\n#else\nc\n#endif\n#endif\n", "#ifdef Y\nc\n#endif\n"),
        ("#ifdef X\n#ifdef X\nb\n#endif\n#endif\nc\n", "c\n"),
        ("#ifdef X\nb\n#  elif defined(Y)\nc\n#  endif\n", "#  if defined(Y)\nc\n#  endif\n"),
        ("#ifdef X\nb\n\t# elif(Y)\nc\n#endif\n", "\t# if(Y)\nc\n#endif\n"),
        ("#ifdef X\nb\n# elifndef Y\nc\n#endif\n", "# ifndef Y\nc\n#endif\n"),
        ("#ifdef X\nb\n#elif Y && \\\n    Z\nc\n#endif\n", "#if Y && \\\n    Z\nc\n#endif\n"),
        ("#if !defined(X) || \\\n    defined(Y)\nb\n#else\nc\n#endif\n", "b\n"),
        ("#if defined(X) && \\\n    defined(Y)\nb\n#else \\\n\nc\n#endif\n", "c\n"),
    ],
)
def test_conditionals_of_a_macro_that_is_not_defined_are_settled(text: str, settled: str) -> None:
    assert settle_text(text, undefine=["X"]) == settled


COMMENTED = """\
#ifdef X /* stage 2
  has it */
b
#else /* stage 1
  has
  this */
c
#endif /* X
*/
d
"""


def test_a_comment_that_goes_on_behind_a_conditional_goes_with_it() -> None:
    assert settle_text(COMMENTED, define=["X"]) == "b\nd\n"
    assert settle_text(COMMENTED, undefine=["X"]) == "c\nd\n"
    assert find_ranges(COMMENTED, "a.cpp", [Selector(guard="X")]) == [LineRange(0, 9)]
    assert find_ranges(COMMENTED, "a.cpp", [Selector(branch="X")]) == [LineRange(2, 3)]


def test_conditionals_of_a_macro_that_is_defined_are_settled() -> None:
    assert settle_text("#ifdef X\nb\n#else\nc\n#endif\n", define=["X"]) == "b\n"
    assert settle_text("#if defined(X) || \\\n    Y\nb\n#else\nc\n#endif\n", define=["X"]) == "b\n"
