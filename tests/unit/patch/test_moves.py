"""Where a series moved files, and text that a patch moves: what did not come is found."""

from __future__ import annotations

from decouple.patch.moved_runs import find_moved_runs
from decouple.patch.parse import Patch, parse_patch
from decouple.patch.renames import find_renames


def rename(name: str, old: str, new: str) -> Patch:
    text = f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
    return parse_patch(text.encode(), name=name)


def test_a_file_that_was_moved_twice_is_where_the_last_patch_put_it() -> None:
    moved = find_renames([rename("0001", "a", "b"), rename("0002", "b", "c")])
    assert {old: str(place) for old, place in moved.items()} == {"a": "0002 moved it to c", "b": "0002 moved it to c"}


def test_a_path_that_has_a_file_again_is_no_longer_said_to_be_moved() -> None:
    again = parse_patch(b"diff --git a/a b/a\nnew file mode 100644\n", name="0002")
    assert find_renames([rename("0001", "a", "b"), again]) == {}


BODY = [f"  step_number({number});" for number in range(8)]
BRANCHES = ["#ifdef USE_CUDA", "  run_on_gpu();", "#else", "  run_on_cpu();", "#endif"]


def lost(came: list[str]) -> list[str]:
    """What of a function with a conditional goes from core.cpp and is not in ``came``, which comes in cuda.cpp."""
    gone = [*BODY, *BRANCHES]
    text = f"--- a/core.cpp\n+++ b/core.cpp\n@@ -1,{len(gone)} +0,0 @@\n" + "".join(f"-{line}\n" for line in gone)
    text += f"--- /dev/null\n+++ b/cuda.cpp\n@@ -0,0 +1,{len(came)} @@\n" + "".join(f"+{line}\n" for line in came)
    (run,) = find_moved_runs(parse_patch(text.encode()))
    return [line.decode().strip() for _, line in run.lost]


def test_one_branch_of_a_conditional_may_stay_away_where_the_other_came() -> None:
    assert lost([*BODY, "  run_on_gpu();"]) == []


def test_a_conditional_of_which_no_branch_came_is_lost() -> None:
    assert lost(BODY) == ["run_on_gpu();", "run_on_cpu();"]
