"""Upstream took a part of a patch, or has its text elsewhere in the file: told, hunk by hunk, with the line."""

from __future__ import annotations

from pathlib import Path

from decouple.rebase.carry import carry_patch
from decouple.rebase.recipe_carry import carry_by_recipe
from decouple.rebase.verdicts import CarryResult, Verdict
from decouple.recipes.model import load_recipe
from tests.unit.rebase.releases import Files, Upstream, numbered

HELPER = "int checked(int value) {\n  require(value > 0);\n  return value;\n}\n"
LINES = numbered(1, 40).replace("line ", "// line ")
OLD = f"#include <a.h>\n\n{LINES}int run() {{\n  return 1;\n}}\n"
COMMENTS = numbered(1, 20).replace("line ", "# line ")
PATCHED = OLD.replace("int run", f"{HELPER}\nint run").replace("return 1", "return checked(1)")


def carried(upstream: Upstream, old: Files, patched: Files, new: Files) -> CarryResult:
    step = upstream.patch(upstream.release(old), patched)
    return carry_patch(upstream.repository, step, upstream.release(new), upstream.repository.root)


def told(result: CarryResult) -> list[str]:
    return [f"{note.path}:{note.line}: {note.text}" for note in result.notes]


def test_of_two_hunks_upstream_took_one(upstream: Upstream) -> None:
    patched = OLD.replace("// line 5\n", "five\n").replace("// line 30\n", "thirty\n")
    new = OLD.replace("// line 5\n", "five\n")
    result = carried(upstream, {"a.cpp": OLD}, {"a.cpp": patched}, {"a.cpp": new})
    assert result.verdict is Verdict.MERGED
    assert result.notes[0].path == "a.cpp"
    assert result.notes[0].line == 7
    assert "hunk 1 of 2" in result.notes[0].text
    assert "already upstream" in result.notes[0].text
    assert not any("hunk 2" in line for line in told(result))


def test_of_two_files_upstream_took_one(upstream: Upstream) -> None:
    patched = OLD.replace("// line 5\n", "five\n")
    old = {"a.cpp": OLD, "b.cpp": OLD}
    result = carried(upstream, old, dict.fromkeys(old, patched), {"a.cpp": patched, "b.cpp": OLD})
    assert result.verdict is Verdict.MERGED
    assert told(result)[:1] == ["a.cpp:7: hunk 1 of 1 is already upstream: the new text of the patch lacks it"]
    assert result.body is not None
    assert b"a.cpp" not in result.body


def test_upstream_took_a_hunk_and_changed_what_stands_around_it(upstream: Upstream) -> None:
    patched = OLD.replace("// line 5\n", "five\n").replace("// line 30\n", "thirty\n")
    new = OLD.replace("// line 5\n", "five\n").replace("// line 7\n", "seven\n")
    result = carried(upstream, {"a.cpp": OLD}, {"a.cpp": patched}, {"a.cpp": new})
    assert any("hunk 1 of 2 is already upstream" in line for line in told(result))


def test_what_upstream_took_out_itself_is_told(upstream: Upstream) -> None:
    patched = OLD.replace("// line 5\n", "").replace("// line 30\n", "thirty\n")
    result = carried(upstream, {"a.cpp": OLD}, {"a.cpp": patched}, {"a.cpp": OLD.replace("// line 5\n", "")})
    assert result.verdict is Verdict.MERGED
    assert "hunk 1 of 2 is already upstream" in told(result)[0]


def test_a_stop_tells_what_upstream_took(upstream: Upstream) -> None:
    patched = OLD.replace("// line 5\n", "five\n").replace("// line 30\n", "thirty\n")
    new = OLD.replace("// line 5\n", "five\n").replace("// line 30\n", "THIRTY\n")
    result = carried(upstream, {"a.cpp": OLD}, {"a.cpp": patched}, {"a.cpp": new})
    assert result.verdict is Verdict.CONFLICT
    assert any("hunk 1 of 2 is already upstream" in line for line in told(result))


def test_a_function_that_upstream_has_elsewhere_would_stand_twice(upstream: Upstream) -> None:
    new = OLD.replace("// line 3\n", f"// line 3\n{HELPER}")
    result = carried(upstream, {"a.cpp": OLD}, {"a.cpp": PATCHED}, {"a.cpp": new})
    assert result.verdict is Verdict.AMBIGUOUS, "two definitions do not compile; only a person knows which goes"
    assert result.notes[0].line == 6
    assert "hunk 1 of 1" in result.notes[0].text
    assert "checked" in result.notes[0].text


def test_so_would_one_that_upstream_writes_otherwise(upstream: Upstream) -> None:
    new = OLD.replace("// line 3\n", f"// line 3\n{HELPER.replace('value', 'number').replace('return', '  return')}")
    result = carried(upstream, {"a.cpp": OLD}, {"a.cpp": PATCHED}, {"a.cpp": new.replace("int number", "int value")})
    assert result.verdict is Verdict.AMBIGUOUS


def test_an_overload_of_upstreams_is_another_function(upstream: Upstream) -> None:
    new = OLD.replace("// line 3\n", "// line 3\nlong checked(long value) {\n  return value;\n}\n")
    result = carried(upstream, {"a.cpp": OLD}, {"a.cpp": PATCHED}, {"a.cpp": new})
    assert result.verdict is Verdict.OFFSET


def test_python_functions_that_would_stand_twice(upstream: Upstream) -> None:
    old = f"import a\n\n{COMMENTS}\n\ndef run():\n    return 1\n"
    patched = old.replace("def run", "def _folder():\n    return a.folder()\n\n\ndef run")
    new = old.replace("import a\n", "import a\n\n\ndef _folder():\n    return a.other()\n")
    result = carried(upstream, {"a.py": old}, {"a.py": patched}, {"a.py": new})
    assert result.verdict is Verdict.AMBIGUOUS
    assert "_folder" in result.notes[0].text


def test_methods_of_two_classes_may_have_one_name(upstream: Upstream) -> None:
    old = f"{COMMENTS}\n\nclass A:\n    x = 1\n"
    patched = old.replace("    x = 1\n", "    x = 1\n\n    def close(self):\n        del self.x\n")
    new = old.replace("# line 2\n", "# line 2\n\n\nclass B:\n    def close(self):\n        pass\n")
    assert carried(upstream, {"a.py": old}, {"a.py": patched}, {"a.py": new}).verdict is Verdict.OFFSET


def test_text_that_stood_twice_before_is_nothing_new(upstream: Upstream) -> None:
    old = OLD.replace("// line 3\n", f"// line 3\nnamespace b {{\n{HELPER}}}\n")
    patched = old.replace("int run", f"{HELPER}\nint run").replace("return 1", "return checked(1)")
    result = carried(upstream, {"a.cpp": old}, {"a.cpp": patched}, {"a.cpp": f"// new\n{old}"})
    assert result.verdict is Verdict.OFFSET


def test_what_a_recipe_makes_is_looked_at_as_well(upstream: Upstream, tmp_path: Path) -> None:
    text = f"{HELPER}\n".replace("\n", "\\n")
    (tmp_path / "a.toml").write_text(
        f'schema = 1\nid = "a"\n[[edit]]\nfile = "a.cpp"\nat = [{{ line = "^int run" }}]\nbefore = "{text}"\n'
        '[[edit]]\nfile = "a.cpp"\nat = [{ line = "return 1" }]\nreplace = [["1", "checked(1)"]]\n'
    )
    step = upstream.patch(upstream.release({"a.cpp": OLD}), {"a.cpp": PATCHED})
    new = OLD.replace("// line 3\n", f"// line 3\n{HELPER}").replace("int run() {\n", "int run() {\n  log();\n")
    tip = upstream.release({"a.cpp": new})
    merged = carry_patch(upstream.repository, step, tip, upstream.repository.root)
    result = carry_by_recipe(upstream.repository, load_recipe(tmp_path / "a.toml"), tip, merged, step)
    assert result.verdict is Verdict.AMBIGUOUS
    assert any("checked" in note.text for note in result.notes)
