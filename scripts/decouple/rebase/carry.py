"""Carry one patch onto another release, with git objects only.

It is tried forwards, backwards, and as a 3-way merge through renames. No single test is trusted. A forward apply that
lands where a merge would not is a conflict (repeated context led it astray); a reverse apply proves "already upstream"
only when the merge changes nothing either. What the three say together is the verdict; see the table in docs/rebase.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.git import EXECUTABLE, REGULAR, SUBMODULE, TREE, Repository
from decouple.patch.apply import PatchResult, Tree, apply_patch
from decouple.patch.lines import split_lines
from decouple.patch.moved_runs import find_moved_runs as moved_text
from decouple.patch.parse import Patch
from decouple.rebase import adjacent_additions, enclosing_lines, moved_text_port, upstreamed_hunks
from decouple.rebase.line_map import LineMap
from decouple.rebase.moved_text_port import FileTexts
from decouple.rebase.tree_source import TreeSource
from decouple.rebase.verdicts import CarryResult, Note, Verdict
from decouple.stack import applier
from decouple.stack.commits import SCRATCH, NewCommit, write_chain
from decouple.stack.export import make_diff
from decouple.stack.trees import TreeEntry, list_parents, read_blobs, read_changes, read_entries, write_blob

_TELLING = 20
"""Characters of a line that is looked for elsewhere: shorter ones are in many files."""
_ASKED = 8
_SIDES = ("decouple/release", "decouple/patch")
"""What is merged, below ``refs/``."""
_SIDE = re.compile(r"~decouple_(?:release|patch)(?:_\d+)?\Z")


class Step(Struct, frozen=True):
    """A patch in its old series: the commits before and after it."""

    patch: Patch
    before: str
    after: str


class Merge(Struct, frozen=True):
    """A 3-way merge: the tree it made, and git's words on each conflict.

    The tree has conflict markers where git could not merge.
    """

    tree: str
    conflicts: tuple[tuple[str, str], ...]
    """(path, kind), kind as git names it: "contents", "modify/delete", "rename/delete", …"""


def carry_patch(repository: Repository, step: Step, tip: str, scratch: Path) -> CarryResult:
    """Judge what becomes of ``step.patch`` on the commit ``tip``.

    Only objects are written.
    """
    judged = _judge_patch(repository, step, tip, scratch)
    judged = upstreamed_hunks.examine_patch(repository, step.patch, step.before, tip, judged)
    return enclosing_lines.examine_places(repository, step.patch, step.before, tip, judged)


def is_stopped_by_conflicts(repository: Repository, step: Step, tip: str, scratch: Path) -> bool:
    """Return whether git's conflicts are what a person is asked about.

    Not where they are settled here, or the patch applies both ways: what stops it then is something else.
    """
    return _judge_patch(repository, step, tip, scratch).verdict in (Verdict.CONFLICT, Verdict.TARGET_GONE)


def carry_unchanged(repository: Repository, step: Step, tip: str) -> CarryResult | None:
    """Return the verdict where ``tip`` has what the patch's old series had.

    That holds wherever the patch looks. Nothing but the paths that the patch names, and the folders above them, is
    read. None: ask :func:`carry_patch`.
    """
    patch = step.patch
    same = _find_unmerged_changes(repository, step, tip)
    if not same:
        return None
    source = TreeSource(repository, tip, patch.touched_paths)
    forward = apply_patch(patch, Tree(source))
    if not forward.applies or forward.offsets or _applies_backwards(patch, source):
        return None
    return CarryResult(patch.name, Verdict.UNMODIFIED, same)


def _judge_patch(repository: Repository, step: Step, tip: str, scratch: Path) -> CarryResult:
    if unchanged := carry_unchanged(repository, step, tip):
        return unchanged
    patch = step.patch
    source = TreeSource(repository, tip, patch.touched_paths)
    forward = apply_patch(patch, Tree(source))
    backward = apply_patch(patch, Tree(source), reverse=True)
    merge = merge_patch(repository, step, tip)
    here = repository.read_tree_id(tip)
    clean = not merge.conflicts
    if forward.applies and backward.applies and _has_text(patch):
        return CarryResult(patch.name, Verdict.AMBIGUOUS, notes=_note_ambiguity(forward, backward))
    if clean and merge.tree == here:
        return CarryResult(patch.name, Verdict.ALREADY_UPSTREAM, {}, _note_evidence(backward.applies, patch))
    if forward.applies:
        outcome = applier.apply_patches(repository, tip, [patch], scratch)[0]
        if clean and write_tree_after(repository, tip, outcome.changes) == merge.tree:
            return CarryResult(
                patch.name,
                Verdict.OFFSET if outcome.offsets else Verdict.UNMODIFIED,
                outcome.changes,
                tuple(
                    Note(offset.path, offset.line, f"hunk {offset.hunk}: {offset.lines:+d} lines")
                    for offset in outcome.offsets
                ),
                make_diff(repository, tip, merge.tree) if outcome.offsets else None,
            )
        return CarryResult(patch.name, Verdict.CONFLICT, notes=_note_wrong_place(outcome, merge))
    if clean:
        changes = read_changes(repository, here, merge.tree)
        notes = (*_explain_failures(forward), *_note_new_names(patch, changes))
        return CarryResult(patch.name, Verdict.MERGED, changes, notes, make_diff(repository, tip, merge.tree))
    if result := _merge_additions(repository, step, tip, merge):
        return result
    texts = _read_texts(repository, step, tip, merge)
    if result := _port_patch(repository, step, tip, merge, texts):
        return result
    stopped = _make_stop(patch, forward, merge, backward.applies, source, texts)
    if stopped.verdict is Verdict.TARGET_GONE:
        gone = [find_own_name(path) for path, kind in merge.conflicts if "delete" in kind]
        stopped = replace(stopped, notes=(*stopped.notes, *_find_moved_lines(repository, patch, gone, tip)))
    return stopped


def _applies_backwards(patch: Patch, source: TreeSource) -> bool:
    return _has_text(patch) and apply_patch(patch, Tree(source), reverse=True).applies


def _has_text(patch: Patch) -> bool:
    """Return whether the patch changes lines.

    One that changes modes alone applies both ways wherever its files are.
    """
    return any(file.hunks for file in patch.files)


def find_former_changes(repository: Repository, step: Step, tip: str) -> Mapping[str, TreeEntry | None] | None:
    """Return what the patch did in its old series.

    None unless ``tip`` has the same as then at every path that it names.
    """
    named = step.patch.touched_paths
    before = read_entries(repository, step.before, named)
    if any(entry.mode == TREE for entry in before.values()) or read_entries(repository, tip, named) != before:
        return None
    after = read_entries(repository, step.after, named)
    return {path: after.get(path) for path in step.patch.changed_paths}


def _find_unmerged_changes(repository: Repository, step: Step, tip: str) -> Mapping[str, TreeEntry | None] | None:
    """Return what the patch does where a merge can find nothing else.

    There upstream has its files as they were, in their folders. None where the patch deletes or renames, and where a
    folder that it adds a file to is gone: upstream may have renamed that, and then the file belongs elsewhere
    (git-config(1), merge.directoryRenames).
    """
    if any(file.new_path is None or file.old_path not in (None, file.new_path) for file in step.patch.files):
        return None
    folders = {folder for path in step.patch.touched_paths for folder in list_parents(path) if folder}
    if read_entries(repository, step.before, folders).keys() - read_entries(repository, tip, folders).keys():
        return None
    changes = find_former_changes(repository, step, tip)
    return changes if changes and all(changes.values()) else None


def _find_moved_lines(repository: Repository, patch: Patch, gone: Sequence[str], tip: str) -> list[Note]:
    """Find where lines that the patch takes out of a file that is gone stand now.

    Upstream may have split the file.
    """
    notes = []
    for file in (file for file in patch.files if file.path in gone):
        lines = {line.text.strip() for hunk in file.hunks for line in hunk.lines if line.kind != "+"}
        telling = sorted((line for line in lines if len(line) >= _TELLING), key=len, reverse=True)[:_ASKED]
        patterns = [word for line in telling for word in ("-e", line.decode("utf-8", "surrogateescape"))]
        if not patterns:
            continue
        answer = repository.try_run("grep", "-c", "-z", "-I", "-F", *patterns, repository.read_tree_id(tip))
        rows = [row.rsplit("\0", 1) for row in answer.out.decode("utf-8", "replace").splitlines()]
        counts = sorted(((int(count), name.partition(":")[2]) for name, count in rows if count.isdigit()), reverse=True)
        for count, name in counts[:3]:
            notes.append(Note(name, 0, f"has {count} of {len(telling)} lines that it looks for in {file.path}"))
    return notes


def _read_texts(repository: Repository, step: Step, tip: str, merge: Merge) -> dict[str, FileTexts]:
    """Read the three texts of every file in conflict that all three trees have."""
    texts = {}
    for path, kind in merge.conflicts:
        entries = [read_entries(repository, tree, [path]).get(path) for tree in (step.before, step.after, tip)]
        ids = [entry.id for entry in entries if entry and entry.mode != SUBMODULE]
        if kind == "contents" and len(ids) == 3:
            data = read_blobs(repository, ids)
            texts[path] = FileTexts(*(data[blob_id] for blob_id in ids))
    return texts


def _port_patch(
    repository: Repository, step: Step, tip: str, merge: Merge, texts: Mapping[str, FileTexts]
) -> CarryResult | None:
    """Return the verdict where upstream's changes of moved lines merge in the copies."""
    if len(texts) != len(merge.conflicts):
        return None
    targets = {run.target for run in moved_text(step.patch)} - texts.keys()
    there = read_entries(repository, merge.tree, sorted(targets))
    data = read_blobs(repository, [entry.id for entry in there.values()])
    result = moved_text_port.port_changes(
        repository, step.patch, texts, {path: data[entry.id] for path, entry in there.items()}
    )
    if result is None:
        return None
    modes = read_entries(repository, merge.tree, list(result.texts))
    settled = {path: TreeEntry(modes[path].mode, write_blob(repository, text)) for path, text in result.texts.items()}
    return _make_merged_verdict(repository, step, tip, merge, settled, result.notes)


def _merge_additions(repository: Repository, step: Step, tip: str, merge: Merge) -> CarryResult | None:
    """Return the verdict where upstream only added lines beside removed ones.

    Every conflict has to be of that kind.
    """
    files = {file.path: file for file in step.patch.files}
    notes: list[Note] = []
    settled: dict[str, TreeEntry] = {}
    for path, kind in merge.conflicts:
        file = files.get(path)
        entries = [read_entries(repository, tree, [path]).get(path) for tree in (step.before, step.after, tip)]
        old, patched, new = entries
        if kind != "contents" or file is None or old is None or patched is None or new is None:
            return None
        data = read_blobs(repository, [old.id, patched.id, new.id])
        merged_file = adjacent_additions.settle_file(repository, file, data[old.id], data[patched.id], data[new.id])
        if merged_file is None:
            return None
        settled[path] = TreeEntry(new.mode, write_blob(repository, merged_file.data))
        notes += [
            Note(
                path,
                addition.new + 1,
                f"upstream added {len(addition.lines)} lines right beside those that the patch takes out",
            )
            for addition in merged_file.additions
        ]
    return _make_merged_verdict(repository, step, tip, merge, settled, tuple(notes))


def _make_merged_verdict(
    repository: Repository, step: Step, tip: str, merge: Merge, settled: dict[str, TreeEntry], notes: tuple[Note, ...]
) -> CarryResult:
    """Return the verdict of a merge with what conflicted in it ``settled``."""
    changes = {**read_changes(repository, repository.read_tree_id(tip), merge.tree), **settled}
    body = make_diff(repository, tip, write_tree_after(repository, tip, changes))
    return CarryResult(step.patch.name, Verdict.MERGED, changes, notes, body)


def merge_patch(repository: Repository, step: Step, tip: str) -> Merge:
    """Merge what the patch did into ``tip``, with the tree before the patch as base.

    git finds renames on both sides (``git merge-tree``, git 2.38 and later). Raises DecoupleError if git cannot.
    """
    ours, theirs = _make_reduced_commits(repository, step, tip) or _make_whole_commits(repository, step, tip)
    return _run_merge_tree(repository, step, ours, theirs)


def _make_whole_commits(repository: Repository, step: Step, tip: str) -> tuple[str, str]:
    """Make commits to merge that hold all of both releases.

    git looks for renames between them.
    """
    base = _commit_tree(repository, step.before, ())
    return _commit_tree(repository, tip, (base,)), _commit_tree(repository, step.after, (base,))


def _make_reduced_commits(repository: Repository, step: Step, tip: str) -> tuple[str, str] | None:
    """Make commits to merge in which only the patch's files differ.

    None where a rename may matter. It matters only for a file that is not where the patch has it: no file that is
    still in its place is taken for the source of a rename (gitdiffcore(7)). So where the patch creates, deletes and
    renames nothing and the release has all its files, the merge is the same one, and git need not compare two releases
    for each patch.
    """
    paths = step.patch.touched_paths
    before, after, here = (read_entries(repository, commit, paths) for commit in (step.before, step.after, tip))
    if not before.keys() == after.keys() == here.keys() == set(paths):
        return None
    chain = [
        NewCommit(SCRATCH, before),
        NewCommit(SCRATCH, here, parent=":1"),
        NewCommit(SCRATCH, after, parent=":1"),
    ]
    _, ours, theirs = write_chain(repository, tip, chain)
    return ours, theirs


def _run_merge_tree(repository: Repository, step: Step, ours: str, theirs: str) -> Merge:
    """Merge two commits.

    git names a file that cannot have its own name after the side that it is of: by words that are the same each time,
    since a resolution is found by them.
    """
    merge = _read_merge(repository, step, ours, theirs)
    if any(path.endswith((f"~{ours}", f"~{theirs}")) for path, _ in merge.conflicts):
        refs = "".join(f"update refs/{name} {one}\n" for name, one in zip(_SIDES, (ours, theirs), strict=True))
        repository.run("update-ref", "--stdin", stdin=refs.encode())
        return _read_merge(repository, step, *_SIDES)
    return merge


def find_own_name(path: str) -> str:
    """Return the name of a file in a merge without the side that git adds."""
    return _SIDE.sub("", path)


def _read_merge(repository: Repository, step: Step, ours: str, theirs: str) -> Merge:
    answer = repository.try_run(
        "-c", "merge.conflictStyle=diff3", "merge-tree", "--write-tree", "-z", "--messages", "--name-only", ours, theirs
    )  # fmt: skip
    if answer.status not in (0, 1):
        raise DecoupleError(
            f"git merge-tree failed for {step.patch.name}: {answer.err.strip() or answer.status}",
            next_step="rebase needs git 2.38 or later",
        )
    fields = answer.out.decode("utf-8", "surrogateescape").split("\0")
    tree, rest = fields[0], fields[1:]
    if answer.status == 0:
        return Merge(tree, ())
    files = rest[: rest.index("")]
    return Merge(tree, tuple(_parse_conflicts(rest[len(files) + 1 :], files)))


def _parse_conflicts(words: list[str], files: list[str]) -> list[tuple[str, str]]:
    """Read (path, kind) from the messages of ``git merge-tree -z``.

    Count, paths, type, text, repeated: git-merge-tree(1).
    """
    kinds: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].isdigit():
        count = int(words[at])
        paths, kind = words[at + 1 : at + 1 + count], words[at + 1 + count]
        at += count + 3
        match = re.fullmatch(r"CONFLICT \((.*)\)", kind)
        if match:
            kinds.update(dict.fromkeys(paths[:1], match.group(1)))
    return [(path, kinds.get(path, "contents")) for path in dict.fromkeys([*files, *kinds])]


def _commit_tree(repository: Repository, tree_of: str, parents: tuple[str, ...]) -> str:
    """Make a throw-away commit with the tree of another one.

    So merge-tree sees the base we mean.
    """
    arguments = [argument for parent in parents for argument in ("-p", parent)]
    answer = repository.run(
        "-c", "user.name=decouple", "-c", "user.email=decouple@localhost",
        "commit-tree", *arguments, "-m", "rebase", repository.read_tree_id(tree_of),
    )  # fmt: skip
    return answer.decode().strip()


def write_tree_after(repository: Repository, tip: str, changes: Mapping[str, TreeEntry | None]) -> str:
    """Write the tree that ``tip`` has after ``changes``; returns its id."""
    (commit,) = write_chain(repository, tip, [NewCommit(SCRATCH, changes)])
    return repository.read_tree_id(commit)


def _note_ambiguity(forward: PatchResult, backward: PatchResult) -> tuple[Note, ...]:
    notes = []
    for there, back in zip(forward.files, reversed(backward.files), strict=True):
        for hunk, again in zip(there.placed, back.placed, strict=False):
            notes.append(
                Note(
                    there.file.path,
                    hunk.line,
                    f"hunk {hunk.number} applies at line {hunk.line}, and so does its reverse at line {again.line}",
                )
            )
    return tuple(notes)


def _note_evidence(reverse_applies: bool, patch: Patch) -> tuple[Note, ...]:
    how = (
        "its reverse applies and it does not"
        if reverse_applies
        else "the release has the same change in another context"
    )
    return tuple(Note(file.path, 0, f"merging the patch changes nothing; {how}") for file in patch.files)


def _note_wrong_place(outcome: applier.AppliedPatch, merge: Merge) -> tuple[Note, ...]:
    if merge.conflicts:
        return tuple(
            Note(path, 0, f"git apply finds a place for it, but upstream changed the place it was cut for ({kind})")
            for path, kind in merge.conflicts
        )
    return tuple(
        Note(offset.path, offset.line, f"hunk {offset.hunk} would go here by its context, elsewhere by a merge")
        for offset in outcome.offsets
    )


def _explain_failures(forward: PatchResult) -> tuple[Note, ...]:
    """Explain hunk by hunk why the old text does not apply."""
    notes = []
    for result in forward.files:
        failure = result.failure
        if failure is None:
            continue
        path = result.file.path
        expected = tuple(_format_line(line) for line in failure.hunk.old_lines) if failure.hunk else ()
        lines = tuple(_format_line(line) for line in failure.found)
        what = failure.message.removeprefix(path).removeprefix(":").strip()
        notes.append(Note(path, failure.near, what, expected, lines))
    return tuple(notes)


def _note_new_names(patch: Patch, changes: Mapping[str, TreeEntry | None]) -> tuple[Note, ...]:
    """Note the files that the patch changes under a name that is not its own."""
    new = (path for path, entry in changes.items() if entry and path not in patch.touched_paths)
    return tuple(
        Note(path, 0, "upstream gave a file of the patch this name: its change goes here") for path in sorted(new)
    )


def _make_stop(
    patch: Patch,
    forward: PatchResult,
    merge: Merge,
    reverse_applies: bool,
    source: TreeSource,
    texts: Mapping[str, FileTexts],
) -> CarryResult:
    notes = [*_explain_upstream_changes(patch, texts), *moved_text_port.explain_unported(patch, texts)]
    notes += [note for note in _explain_failures(forward) if note.path not in {earlier.path for earlier in notes}]
    noted = {note.path for note in notes}
    conflicts = [(find_own_name(path), kind) for path, kind in merge.conflicts]
    gone = [path for path, kind in conflicts if "delete" in kind and source.mode(path) not in (REGULAR, EXECUTABLE)]
    for path, kind in conflicts:
        if path in gone:
            notes.append(Note(path, 0, f"not in this release, under no name that git's rename search finds ({kind})"))
        elif "delete" in kind:
            notes.append(Note(path, 0, f"the patch deletes it, and upstream changed or renamed it ({kind})"))
        elif path not in noted:
            notes.append(Note(path, 0, f"merge conflict ({kind})"))
    if reverse_applies:
        notes.append(
            Note(patch.files[0].path, 0, "its reverse applies, but a merge does not confirm that upstream has it")
        )
    notes += _find_flipped_line_ends(forward, source)
    return CarryResult(patch.name, Verdict.TARGET_GONE if gone else Verdict.CONFLICT, notes=tuple(notes))


def _explain_upstream_changes(patch: Patch, texts: Mapping[str, FileTexts]) -> list[Note]:
    """Note for each hunk in conflict what became of its lines between the releases."""
    notes = []
    for file in patch.files:
        text = texts.get(file.path)
        if text is None:
            continue
        across = LineMap(split_lines(text.old), split_lines(text.new))
        for number, hunk in enumerate(file.hunks, start=1):
            start = max(hunk.old_start - 1, 0)
            did = across.format_diff(start, start + hunk.old_count)
            if did:
                line = across.find_surroundings(start, start + hunk.old_count)[0] + 1
                what = f"hunk {number} of {len(file.hunks)}: upstream changed its lines"
                notes.append(Note(file.path, line, what, upstream=did))
    return notes


def _find_flipped_line_ends(forward: PatchResult, source: TreeSource) -> list[Note]:
    """Note files that would take the patch if their lines ended as the patch's do."""
    notes = []
    for result in forward.files:
        file, failure = result.file, result.failure
        if failure is None or failure.hunk is None or file.old_path is None:
            continue
        data = source.read(file.old_path)
        wants = any(line.endswith(b"\r\n") for line in failure.hunk.old_lines)
        if wants != (b"\r\n" in data):
            now, before = ("LF", "CRLF") if wants else ("CRLF", "LF")
            notes.append(Note(file.path, 0, f"the file's lines end in {now} here, in {before} where the patch was cut"))
    return notes


def _format_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\n")
