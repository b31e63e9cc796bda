"""A whole series: what its patches did to one another, in as few calls of git as that takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from decouple.base.git import Repository
from decouple.rebase.carry import Step
from decouple.rebase.series_carry import Decision, RebaseOutcome, RebaseWork, ReleasePair
from decouple.rebase.verdicts import Verdict
from decouple.stack.commits import NewCommit, write_chain
from decouple.stack.trees import read_blobs, read_entries
from tests.unit.rebase.releases import Files, Upstream, numbered

OTHER = {"other": "upstream's\n"}


def make_steps(upstream: Upstream, first: Files, *later: Files) -> list[Step]:
    """A series: each patch turns the files before it into the next."""
    steps, before = [], dict(first)
    for number, files in enumerate(later, start=1):
        after = {**before, **files}
        steps.append(upstream.patch(upstream.release(before), after, f"1.0/000{number}-a.patch"))
        before = after
    return steps


def carry(upstream: Upstream, steps: Sequence[Step], first: Files, new: Files) -> RebaseOutcome:
    sides = ReleasePair("v1.0", upstream.release(first), "v1.1", upstream.release(new))
    return RebaseWork(upstream.repository, sides, [step.patch for step in steps]).run()


def read_file(repository: Repository, commit: str, path: str) -> str:
    entry = read_entries(repository, commit, [path])[path]
    return read_blobs(repository, [entry.id])[entry.id].decode()


def test_patches_that_share_no_file_are_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream(tmp_path / "upstream")
    first = {name: numbered(1, 20) for name in "abc"}
    steps = make_steps(upstream, first, *({name: numbered(1, 20, {9: "cut\n"})} for name in "abc"))
    written: list[int] = []

    def count(repository: Repository, base: str, commits: Sequence[NewCommit]) -> list[str]:
        written.append(len(commits))
        return write_chain(repository, base, commits)

    monkeypatch.setattr("decouple.rebase.series_carry.write_chain", count)
    outcome = carry(upstream, steps, first, {**first, **OTHER})
    assert [one.verdict for one in outcome.carried] == [Verdict.UNMODIFIED] * 3
    assert [number for number in written if number] == [3, 3], "the old series, and the new"
    assert len(outcome.tips) == 4
    for tip, cut in zip(outcome.tips, range(4), strict=True):
        assert [read_file(upstream.repository, tip, name) for name in "abc"] == [
            numbered(1, 20, {9: "cut\n"}) if at < cut else numbered(1, 20) for at, name in enumerate("abc")
        ]


def test_a_patch_sees_what_the_one_before_did_to_its_file(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "upstream")
    first = {"a": numbered(1, 20), "b": numbered(1, 20)}
    second = {9: "cut\n", 10: "more\n"}
    steps = make_steps(
        upstream,
        first,
        {"a": numbered(1, 20, {9: "cut\n"})},
        {"folder/new": "ours\n"},
        {"a": numbered(1, 20, second), "folder/new": "changed\n"},
    )
    outcome = carry(upstream, steps, first, {**first, **OTHER})
    assert [one.verdict for one in outcome.carried] == [Verdict.UNMODIFIED] * 3
    assert read_file(upstream.repository, outcome.tips[-1], "a") == numbered(1, 20, second)
    assert read_file(upstream.repository, outcome.tips[-1], "folder/new") == "changed\n"


def test_a_stop_stands_on_commits_that_say_what_their_patches_say(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "upstream")
    first = {"a": numbered(1, 20), "b": numbered(1, 20)}
    steps = make_steps(upstream, first, *({name: numbered(1, 20, {9: "cut\n"})} for name in "ab"))
    outcome = carry(upstream, steps, first, {**first, "b": numbered(1, 20, {9: "upstream's\n"})})
    assert outcome.stops == (steps[1].patch.name,)
    log = upstream.repository.read_text("log", "--format=%an %s", f"{outcome.tips[0]}..{outcome.tips[-1]}")
    assert log == "A a patch"
    assert outcome.waiting is not None
    assert upstream.repository.read_text("show", "-s", "--format=%an %s", outcome.waiting.after) == "A a patch"
    assert read_file(upstream.repository, outcome.tips[-1], "a") == numbered(1, 20, {9: "cut\n"})


def test_a_decision_holds_on_the_tree_alone_that_it_was_made_on(tmp_path: Path) -> None:
    """What a person settled would put the files of then in the place of those that are there now."""
    upstream = Upstream(tmp_path / "upstream")
    read_id = upstream.repository.read_tree_id
    first, new = {"a": numbered(1, 20)}, {"a": numbered(1, 20, {9: "upstream's\n"})}
    (step,) = make_steps(upstream, first, {"a": numbered(1, 20, {9: "cut\n"})})
    settled = read_id(upstream.release({"a": numbered(1, 20, {9: "settled\n"})}))
    decisions = {step.patch.name: Decision(settled, read_id(upstream.release(new)))}
    for release, verdict in ((new, Verdict.RESOLVED), ({**new, **OTHER}, Verdict.CONFLICT)):
        sides = ReleasePair("v1.0", upstream.release(first), "v1.1", upstream.release(release))
        outcome = RebaseWork(upstream.repository, sides, [step.patch], decisions=decisions).run()
        assert [one.verdict for one in outcome.carried] == [verdict]
