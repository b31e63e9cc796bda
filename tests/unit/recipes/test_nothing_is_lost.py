"""A recipe that takes text out says where it goes. What nothing carries stops the recipe, by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.recipes.file_text import decode_text
from decouple.recipes.make import make_texts
from decouple.recipes.model import LostTextError, Recipe, RecipeError, is_explained, load_recipe

BINDINGS = """\
#include <core.h>
#ifdef USE_NCCL
#include <nccl/group.h>
#endif

void bind(Module& module) {
  module.def("send", &send);
#ifdef USE_NCCL
  module.def("nccl", &nccl::create);
#endif
}
"""
RECIPE = """\
schema = 1
id = "bindings"

[[take]]
name = "includes"
file = "bindings.cpp"
at = [{ branch = "USE_NCCL", has = "#include" }]

[[take]]
name = "nccl"
file = "bindings.cpp"
at = [{ branch = "USE_NCCL", has = '"nccl"' }]

[[new]]
path = "cuda/bindings.cpp"
text = '''
{{includes}}

void add(Module& module) {
{{nccl}}
}
'''

[[edit]]
file = "bindings.cpp"
undefine = ["USE_NCCL"]
"""
SECOND = """\
#ifdef USE_NCCL
  module.def("nccl2", &nccl2::create);
#endif
"""


def recipe(tmp_path: Path, text: str = RECIPE) -> Recipe:
    path = tmp_path / "bindings.toml"
    path.write_text(text)
    return load_recipe(path)


def with_second(text: str = BINDINGS) -> str:
    """Upstream binds a second NCCL under the same macro."""
    return text.replace("}\n", f"{SECOND}}}\n")


def test_text_that_is_taken_may_go(tmp_path: Path) -> None:
    made = make_texts(recipe(tmp_path), {"bindings.cpp": BINDINGS}.get)
    assert "nccl" not in made["bindings.cpp"]
    assert '#include <nccl/group.h>\n\nvoid add(Module& module) {\n  module.def("nccl"' in made["cuda/bindings.cpp"]


def test_undefine_stops_where_text_goes_that_no_take_carries(tmp_path: Path) -> None:
    with pytest.raises(LostTextError, match=r"bindings\.cpp.*12.*nccl2") as error:
        make_texts(recipe(tmp_path), {"bindings.cpp": with_second()}.get)
    assert error.value.path == "bindings.cpp"
    assert "[[take]]" in error.value.next_step
    assert "bindings.toml" in error.value.next_step


def test_a_lost_line_that_is_not_utf_8_is_shown_so_that_json_can_hold_it(tmp_path: Path) -> None:
    latin = decode_text(with_second().replace("nccl2::create", "andré").encode("latin-1"))
    with pytest.raises(LostTextError, match="&andr\N{REPLACEMENT CHARACTER}"):
        make_texts(recipe(tmp_path), {"bindings.cpp": latin}.get)


def test_a_take_for_the_new_text_lets_it_go(tmp_path: Path) -> None:
    take = '[[take]]\nname = "nccl2"\nfile = "bindings.cpp"\nat = [{ branch = "USE_NCCL", has = \'"nccl2"\' }]\n'
    more = RECIPE.replace("{{nccl}}\n", "{{nccl}}\n{{nccl2}}\n").replace("[[new]]", f"{take}\n[[new]]")
    assert (
        "nccl2::create" in make_texts(recipe(tmp_path, more), {"bindings.cpp": with_second()}.get)["cuda/bindings.cpp"]
    )


def test_a_pattern_names_what_may_go(tmp_path: Path) -> None:
    named = f"{RECIPE}gone = ['\"nccl2\"']\n"
    assert "nccl2" not in make_texts(recipe(tmp_path, named), {"bindings.cpp": with_second()}.get)["bindings.cpp"]


def test_a_pattern_of_one_edit_excuses_no_other(tmp_path: Path) -> None:
    other = '[[edit]]\nfile = "bindings.cpp"\nat = [{ include = "core.h" }]\nput = ""\ngone = [\'"nccl2"\']\n'
    with pytest.raises(LostTextError, match="nccl2"):
        make_texts(recipe(tmp_path, f"{RECIPE}\n{other}"), {"bindings.cpp": with_second()}.get)


def test_text_that_upstream_adds_where_ours_is_put_stops(tmp_path: Path) -> None:
    """A fixed list of includes stands in for the guarded ones: the new one has to be there."""
    fixed = RECIPE[: RECIPE.index("[[take]]")] + (
        "[[new]]\npath = \"cuda/bindings.cpp\"\ntext = '''\n#include <nccl/group.h>\n'''\n\n"
        '[[edit]]\nfile = "bindings.cpp"\nat = [{ guard = "USE_NCCL", has = "#include" }]\nput = ""\n'
    )
    assert make_texts(recipe(tmp_path, fixed), {"bindings.cpp": BINDINGS}.get)
    later = BINDINGS.replace("#include <nccl/group.h>\n", "#include <nccl/group.h>\n#include <nccl/event.h>\n")
    with pytest.raises(LostTextError, match=r"nccl/event\.h"):
        make_texts(recipe(tmp_path, fixed), {"bindings.cpp": later}.get)


def test_a_branch_that_a_take_settles_away_stops(tmp_path: Path) -> None:
    taking = RECIPE.replace('at = [{ branch = "USE_NCCL", has = \'"nccl"\' }]', 'at = [{ inside = "bind" }]').replace(
        "[[new]]", 'define = ["USE_NCCL"]\n\n[[new]]', 1
    )
    either = BINDINGS.replace("&nccl::create);\n", '&nccl::create);\n#else\n  module.def("none", &none);\n')
    with pytest.raises(LostTextError, match=r'module\.def\("none"'):
        make_texts(recipe(tmp_path, taking), {"bindings.cpp": either}.get)


def test_comments_brackets_and_conditionals_may_go(tmp_path: Path) -> None:
    said = BINDINGS.replace("#ifdef USE_NCCL\n  module", "#ifdef USE_NCCL // two\n  // NCCL\n  {\n  }\n  module")
    make_texts(recipe(tmp_path), {"bindings.cpp": said}.get)


CMAKE = """\
project(x)

# one

# two

# three
if(USE_CUDA)
  add_subdirectory(cuda)
endif()
"""
WITHOUT_CUDA = """\
schema = 1
id = "bindings"

[[edit]]
file = "CMakeLists.txt"
at = [{ guard = "USE_CUDA" }]
put = ""
"""


def test_comments_below_empty_lines_hide_no_line_of_a_build_file(tmp_path: Path) -> None:
    with pytest.raises(LostTextError, match=r"line 9: add_subdirectory\(cuda\)"):
        make_texts(recipe(tmp_path, WITHOUT_CUDA), {"CMakeLists.txt": CMAKE}.get)


def test_a_statement_of_single_letters_is_not_lost(tmp_path: Path) -> None:
    short = BINDINGS.replace("}\n", "#ifdef USE_NCCL\n  i = j;\n#endif\n}\n")
    with pytest.raises(LostTextError, match="i = j;"):
        make_texts(recipe(tmp_path), {"bindings.cpp": short}.get)


def test_an_include_is_known_by_its_name_whatever_is_said_of_it(tmp_path: Path) -> None:
    edit = '[[edit]]\nfile = "a.cpp"\nat = [{ include = "core.h" }]\nput = ""\n'
    text = "#include <core.h>  // IWYU pragma: keep\nint a;\n"
    assert make_texts(recipe(tmp_path, f'schema = 1\nid = "bindings"\n{edit}'), {"a.cpp": text}.get) == {
        "a.cpp": "int a;\n"
    }


@pytest.mark.parametrize("path", ["macros.h.in", "dispatch.inl"])
def test_a_definition_in_a_template_of_a_header_is_no_comment(tmp_path: Path, path: str) -> None:
    """It went without a word: the file was read as CMake's or Python's, in which a # begins a comment."""
    edit = f'[[edit]]\nfile = "{path}"\nat = [{{ begin = "^// ours", end = "^// end" }}]\nput = ""\n'
    text = "int a;\n// ours\n#define AT_CUDNN @AT_CUDNN@\n// end\n"
    with pytest.raises(LostTextError, match="line 3: #define AT_CUDNN"):
        make_texts(recipe(tmp_path, f'schema = 1\nid = "bindings"\n{edit}'), {path: text}.get)


def test_a_condition_may_go_with_all_of_its_lines(tmp_path: Path) -> None:
    said = BINDINGS.replace("#ifdef USE_NCCL\n  module", "#if defined(USE_NCCL) && \\\n    defined(USE_C10D)\n  module")
    made = make_texts(recipe(tmp_path), {"bindings.cpp": said}.get)
    assert "USE_C10D" not in "".join(made.values())


def test_a_line_that_comes_again_in_text_of_ours_is_not_lost(tmp_path: Path) -> None:
    ours = RECIPE.replace("{{nccl}}\n", '{{nccl}}\n    module.def("nccl2", &nccl2::create);\n')
    make_texts(recipe(tmp_path, ours), {"bindings.cpp": with_second()}.get)


CONDITIONAL = """\
schema = 1
id = "bindings"

[[edit]]
file = "CMakeLists.txt"
either = "option"
where = [{ line = "^option" }]
at = [{ line = "^option" }]
replace = [["ON", "OFF"]]

[[edit]]
file = "CMakeLists.txt"
either = "option"
where = [{ line = "^dependent_option" }]
at = [{ line = "^dependent_option" }]
replace = [["ON", "OFF"]]
"""


def test_a_recipe_none_of_whose_conditions_holds_is_an_error(tmp_path: Path) -> None:
    bare = CONDITIONAL.replace('either = "option"\n', "")
    assert make_texts(recipe(tmp_path, bare), {"CMakeLists.txt": "option(A ON)\n"}.get)
    for text in ("choice(A ON)\n", None):
        with pytest.raises(RecipeError, match="bindings") as error:
            make_texts(recipe(tmp_path, bare), {"CMakeLists.txt": text}.get)
        assert "[[upstream]]" in error.value.next_step


def test_of_alternatives_one_must_apply(tmp_path: Path) -> None:
    always = f'{CONDITIONAL}\n[[edit]]\nfile = "a.txt"\nat = [{{ line = "a" }}]\nput = "b"\n'
    for option in ("option(A ON)\n", "dependent_option(A ON)\n"):
        made = make_texts(recipe(tmp_path, always), {"CMakeLists.txt": option, "a.txt": "a\n"}.get)
        assert made["CMakeLists.txt"] == option.replace("ON", "OFF")
    with pytest.raises(RecipeError, match=r"CMakeLists.*'option'"):
        make_texts(recipe(tmp_path, always), {"CMakeLists.txt": "choice(A ON)\n", "a.txt": "a\n"}.get)


def test_every_place_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    other = '[[edit]]\nfile = "other.cpp"\nat = [{ line = "x" }]\nput = "y"\n'
    gone = BINDINGS.replace("USE_NCCL", "USE_RCCL")
    with pytest.raises(RecipeError) as error:
        make_texts(recipe(tmp_path, f"{RECIPE}\n{other}"), {"bindings.cpp": gone}.get)
    assert [one.path for one in error.value.parts] == ["other.cpp", "bindings.cpp", "bindings.cpp"]
    assert all(one.what in error.value.what for one in error.value.parts)


def test_a_condition_may_ask_another_file(tmp_path: Path) -> None:
    """A stub is declared in one file because a call stands in another, and only then; so is a file of ours made."""
    asking = 'where_file = "call.cpp"\nwhere = [{ line = "with_address" }]\n'
    text = (
        'schema = 1\nid = "bindings"\n'
        f'[[edit]]\nfile = "stub.h"\nat = [{{ line = "first" }}]\nafter = "second"\n{asking}'
        f'[[new]]\npath = "register.cpp"\ntext = "second;"\n{asking}'
        '[[edit]]\nfile = "call.cpp"\nat = [{ line = "call" }]\nreplace = [["call", "stub"]]\n'
    )
    made = make_texts(recipe(tmp_path, text), {"stub.h": "first\n", "call.cpp": "call()\n"}.get)
    assert made == {"call.cpp": "stub()\n"}
    made = make_texts(recipe(tmp_path, text), {"stub.h": "first\n", "call.cpp": "call()\nwith_address()\n"}.get)
    assert made["stub.h"] == "first\nsecond\n"
    assert made["register.cpp"] == "second;"


def test_a_condition_of_a_new_file_needs_a_file_to_ask(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="where and where_file"):
        recipe(tmp_path, f'{RECIPE}\n[[new]]\npath = "a"\ntext = ""\nwhere = [{{ line = "a" }}]\n')


def test_what_a_pattern_names_is_explained_to_lint(tmp_path: Path) -> None:
    named = recipe(tmp_path, f"{RECIPE}gone = ['\"nccl2\"']\n")
    assert is_explained({"bindings": named}, "bindings", '  module.def("nccl2", &nccl2::create);')
    assert not is_explained({"bindings": named}, "bindings", '  module.def("nccl3", &nccl3::create);')
