"""A patch with a recipe on a release where its old text does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.rebase.carry import carry_patch
from decouple.rebase.rebase_state import find_next_step
from decouple.rebase.recipe_carry import carry_by_recipe
from decouple.rebase.verdicts import CarryResult, Verdict
from decouple.recipes.model import load_recipe
from tests.unit.rebase.releases import Files, Upstream

OLD = "int a() {\n#ifdef USE_CUDA\n  return cuda(1);\n#else\n  return 0;\n#endif\n}\n"
PATCHED = "int a() {\n  return hook();\n}\n"
RECIPE = """
schema = 1
id = "a"
[[edit]]
file = "a.cpp"
at = [{ function = "a" }, { guard = "USE_CUDA" }]
gone = ['return cuda\\(.*\\);', 'return 0;']
put = "  return hook();"
[[upstream]]
since = "9.9: a() asks a hook"
file = "a.cpp"
at = [{ line = "their_hook" }]
"""


def made(upstream: Upstream, folder: Path, new: Files) -> CarryResult:
    (folder / "a.toml").write_text(RECIPE)
    step = upstream.patch(upstream.release({"a.cpp": OLD}), {"a.cpp": PATCHED})
    tip = upstream.release(new)
    merged = carry_patch(upstream.repository, step, tip, upstream.repository.root)
    return carry_by_recipe(upstream.repository, load_recipe(folder / "a.toml"), tip, merged)


def test_lines_that_upstream_rewrote_do_not_stop_it(upstream: Upstream, tmp_path: Path) -> None:
    result = made(upstream, tmp_path, {"a.cpp": OLD.replace("cuda(1)", "cuda(1, 2)")})
    assert result.verdict is Verdict.MADE
    assert result.body is not None and b"-  return cuda(1, 2);" in result.body and b"+  return hook();" in result.body


def test_a_byte_that_is_not_utf_8_stays_as_it_is(upstream: Upstream, tmp_path: Path) -> None:
    latin = "// Andr\udce9\n"
    result = made(upstream, tmp_path, {"a.cpp": latin + OLD.replace("cuda(1)", "cuda(1, 2)")})
    assert result.verdict is Verdict.MADE
    assert result.body is not None and b" // Andr\xe9\n" in result.body


def test_where_the_old_text_gives_the_same_the_old_file_serves(upstream: Upstream, tmp_path: Path) -> None:
    assert made(upstream, tmp_path, {"a.cpp": OLD, "b": "new\n"}).verdict is Verdict.UNMODIFIED


def test_rules_that_hold_from_a_later_release_on_are_told(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = """[[edit]]
file = "a.cpp"
where = [{ line = "from_%s" }]
since = "%s"
at = [{ line = "from_%s" }]
gone = ["from_"]
put = ""
"""
    rules = "".join(later % (number, since, number) for number, since in ((10, "2.10"), (9, "2.9"), (15, "2.15")))
    monkeypatch.setattr("tests.unit.rebase.test_recipe_carry.RECIPE", f"{RECIPE}\n{rules}")
    result = made(upstream, tmp_path, {"a.cpp": f"{OLD}int from_10;\nint from_9;\n"})
    assert result.verdict is Verdict.MADE
    assert result.notes[-1].text == "with rules that hold from 2.9, 2.10 on"
    assert result.body is not None and b"-int from_10;" in result.body


def test_what_upstream_did_itself_is_not_needed(upstream: Upstream, tmp_path: Path) -> None:
    result = made(upstream, tmp_path, {"a.cpp": "int a() {\n  return their_hook();\n}\n"})
    assert result.verdict is Verdict.ALREADY_UPSTREAM
    assert result.notes[0].text == "since 9.9: a() asks a hook"


def test_a_recipe_that_finds_nothing_says_so_at_the_stop(upstream: Upstream, tmp_path: Path) -> None:
    result = made(upstream, tmp_path, {"a.cpp": OLD.replace("int a()", "long b()").replace("cuda(1)", "cuda(3)")})
    assert result.verdict is Verdict.CONFLICT
    assert result.notes[-1].text == 'its recipe: a.cpp: { function = "a" } is not there'
    assert "series/recipes" in find_next_step(result)
    assert "--restart" in find_next_step(result)


def test_text_that_would_be_lost_stops_what_merges_well(upstream: Upstream, tmp_path: Path) -> None:
    """Upstream couples another function: the old text fits, and the recipe would take the new lines out with it."""
    more = '[[edit]]\nfile = "a.cpp"\nundefine = ["USE_CUDA"]\n'
    other = "int b() {\n#ifdef USE_CUDA\n  return cuda(2);\n#endif\n}\n"
    (tmp_path / "a.toml").write_text(RECIPE.replace("[[upstream]]", f"{more}[[upstream]]"))
    step = upstream.patch(upstream.release({"a.cpp": OLD}), {"a.cpp": PATCHED})
    tip = upstream.release({"a.cpp": f"{OLD}\n{other}"})
    merged = carry_patch(upstream.repository, step, tip, upstream.repository.root)
    assert not merged.verdict.is_stop
    result = carry_by_recipe(upstream.repository, load_recipe(tmp_path / "a.toml"), tip, merged, step)
    assert result.verdict is Verdict.CONFLICT
    assert "return cuda(2);" in result.notes[-1].text


def test_where_the_recipe_would_read_what_it_read_before_nothing_is_made(upstream: Upstream, tmp_path: Path) -> None:
    """Making all patches of a series anew took most of the time of carrying one."""
    (tmp_path / "a.toml").write_text(RECIPE.replace('"  return hook();"', '"  return another_hook();"'))
    recipe = load_recipe(tmp_path / "a.toml")
    step = upstream.patch(upstream.release({"a.cpp": OLD}), {"a.cpp": PATCHED})
    for files, verdict in (({"a.cpp": OLD, "b": "new\n"}, Verdict.UNMODIFIED), ({"a.cpp": f"{OLD}\n"}, Verdict.MADE)):
        tip = upstream.release(files)
        merged = carry_patch(upstream.repository, step, tip, upstream.repository.root)
        assert carry_by_recipe(upstream.repository, recipe, tip, merged, step).verdict is verdict


def test_a_conflict_without_a_recipe_is_settled_by_hand(upstream: Upstream) -> None:
    step = upstream.patch(upstream.release({"a.cpp": OLD}), {"a.cpp": PATCHED})
    result = carry_patch(upstream.repository, step, upstream.release({"a.cpp": "int a();\n"}), upstream.repository.root)
    assert result.verdict.is_stop
    assert find_next_step(result).startswith("settle it")
