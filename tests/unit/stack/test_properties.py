"""Random small repositories and random verbs: what must hold, whatever the series."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decouple.base.checkout import SeriesPlaces
from decouple.base.git import Repository
from decouple.stack import branch, edits, export
from decouple.stack.commits import CommitText, NewCommit, write_chain
from decouple.stack.engine import Stack, create_tree
from tests.support.series import git, header, tree_of

Tree = Mapping[str, bytes]

#: Few names, so that files move onto each other, become directories and come back.
PATHS = ("a", "b/c", "b/d", "b/e/f", "e", "g h/ä.py", "g h/-x", "z*")
LINES = (
    "one",
    "two",
    "three",
    "",
    "\tfour",
    "fünf ",
    "--- a/x",
    "+++ b/x",
    "@@ -1 +1 @@",
    "diff --git a/x b/x",
    "-- ",
    "\\",
)

contents = st.builds(
    lambda lines, end, crlf: ("\r\n" if crlf else "\n").join(lines).encode() + (b"\n" if end and lines else b""),
    st.lists(st.sampled_from(LINES), max_size=14),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
)
trees = st.dictionaries(st.sampled_from(PATHS), contents, min_size=1).filter(
    lambda tree: not any(other.startswith(path + "/") for path in tree for other in tree)
)
moves = st.lists(st.tuples(st.sampled_from(("push", "pop", "refresh")), st.integers(1, 3)), max_size=6)


def commit_trees(repository: Repository, states: list[Tree]) -> list[str]:
    """Each state as a commit on the one before it."""
    text = CommitText("Ada <ada@example.org>", "1700000000 +0000", "state\n")
    chain = []
    before: Tree = {}
    for state in states:
        changes: dict[str, tuple[str, bytes] | None] = {path: None for path in before if path not in state}
        changes |= {path: (0o100644, data) for path, data in state.items() if before.get(path) != data}
        chain.append(NewCommit(text, changes))
        before = state
    root = git(repository.root, "commit-tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "-m", "root")
    return write_chain(repository, root, chain)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(trees, min_size=2, max_size=5), moves)
def test_any_series_goes_on_and_off_and_out_again(states: list[Tree], verbs: list[tuple[str, int]]) -> None:
    states = [state for at, state in enumerate(states) if at == 0 or state != states[at - 1]]
    root = Path(tempfile.mkdtemp(prefix="decouple-any-"))
    try:
        bare = root / "upstream.git"
        bare.mkdir()
        git(bare, "init", "-q", "--bare")
        git(bare, "hash-object", "-w", "-t", "tree", "--stdin", stdin=b"")
        repository = Repository(bare, bare)
        commits = commit_trees(repository, states)
        wanted = [git(bare, "rev-parse", f"{commit}^{{tree}}") for commit in commits]
        (root / "patches/2.6").mkdir(parents=True)
        names = []
        for number in range(1, len(commits)):
            name = f"2.6/{number:04}-step.patch"
            body = export.make_diff(repository, commits[number - 1], commits[number])
            (root / "patches" / name).write_bytes(header(f"step {number}", f"step-{number}").encode() + body)
            names.append(name)
        series = root / "2.6"
        series.write_text("".join(f"{name}\n" for name in names))
        places = SeriesPlaces("2.6", series, root / "patches", root / "src")
        create_tree(places, bare, commits[0], commits[0], {})
        before = {path: path.read_bytes() for path in (root / "patches").rglob("*.patch")}

        with Stack.open(places) as stack:
            moved = stack.push(None)
            assert moved.stopped is None, moved.stopped
            assert not moved.offsets
            for item, tree in zip(stack.state.applied, wanted[1:], strict=True):
                assert stack.repository.read_tree_id(item.commit) == tree
            assert tree_of(places.tree) == wanted[-1]
            head = stack.state.head

            # import then export: the same bytes
            assert edits.refresh_patches(stack).written.files == {}
            edits.export_patches(stack, root / "out")
            for name in names:
                assert (root / "out" / name).read_bytes() == (root / "patches" / name).read_bytes()

            # a branch and back: nothing to write
            made = branch.make_branch(places, repository, "series", commits[0])
            assert made.commit == head
            assert branch.import_branch(stack, repository, "series", commits[0]).files == {}

            # any verbs in any order: the tree is the one of so many patches
            for verb, amount in verbs:
                if verb == "refresh":
                    assert edits.refresh_patches(stack).written.files == {}
                else:
                    (stack.push if verb == "push" else stack.pop)(amount)
                assert stack.repository.read_tree_id("HEAD") == wanted[len(stack.applied)]
            assert tree_of(places.tree) == wanted[len(stack.applied)]

            stack.pop(None)
            assert tree_of(places.tree) == wanted[0]
            assert git(places.tree, "status", "--porcelain") == ""
            stack.push(None)
            assert stack.state.head == head
        assert {path: path.read_bytes() for path in (root / "patches").rglob("*.patch")} == before
    finally:
        shutil.rmtree(root)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(trees, min_size=2, max_size=2))
def test_any_edit_is_taken_and_comes_back(states: list[Tree]) -> None:
    """A work tree edited at random, refreshed, popped and pushed, holds the same files."""
    root = Path(tempfile.mkdtemp(prefix="decouple-any-"))
    try:
        bare = root / "upstream.git"
        bare.mkdir()
        git(bare, "init", "-q", "--bare")
        git(bare, "hash-object", "-w", "-t", "tree", "--stdin", stdin=b"")
        (base, _) = commit_trees(Repository(bare, bare), states)
        (root / "patches/2.6").mkdir(parents=True)
        (root / "2.6").write_text("")
        places = SeriesPlaces("2.6", root / "2.6", root / "patches", root / "src")
        create_tree(places, bare, base, base, {})
        with Stack.open(places) as stack:
            edits.create_patch(stack, "the-edit", now=1_700_000_000)
            for name in states[0]:
                (places.tree / name).unlink()
            for name, text in states[1].items():
                target = places.tree / name
                for parent in reversed(target.relative_to(places.tree).parents[:-1]):
                    (places.tree / parent).mkdir(exist_ok=True)
                if target.is_dir():
                    shutil.rmtree(target)
                target.write_bytes(text)
            git(places.tree, "add", "-A")
            wanted = tree_of(places.tree)
            edits.refresh_patches(stack)
            assert stack.repository.read_tree_id("HEAD") == wanted
            stack.pop(None)
            assert stack.repository.read_tree_id("HEAD") == git(bare, "rev-parse", f"{base}^{{tree}}")
            stack.push(None)
            assert tree_of(places.tree) == wanted
            assert edits.refresh_patches(stack).written.files == {}
    finally:
        shutil.rmtree(root)
