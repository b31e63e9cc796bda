"""The state of a rebase that waits for a person.

It is in one file, the conflict in a git work tree. The state holds only what a person decided; everything else is
worked out anew by the next call, so a kill at any instant loses nothing and ``--continue`` after an edit of a patch
file does the right thing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NoReturn

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import write_atomically
from decouple.base.git import SUBMODULE, GitError, Repository, format_git, is_binary, name_status, split_names
from decouple.base.path_names import PathPart, RelativePath
from decouple.base.python_text import parse_python
from decouple.base.untrusted_input import JSON_BOUND, decode_path_text, encode_path_text, parse_json, read_bounded
from decouple.patch.lines import split_lines
from decouple.rebase.carry import Step, merge_patch
from decouple.rebase.recipe_carry import MISSED
from decouple.rebase.series_carry import Decision
from decouple.rebase.verdicts import CarryResult
from decouple.recipes.file_text import is_cpp
from decouple.stack import worktree
from decouple.stack.journal import Id
from decouple.stack.trees import compare_trees, read_blobs, read_entries

_VERSION = 1
_OF_CMAKE, _OF_PYTHON = (".cmake", ".in", "CMakeLists.txt"), (".py", ".pyi", ".bzl")
_OTHER_NAME = re.compile(r"(.+)~(?:HEAD|[0-9a-f]{7,40} \(.*\))(?:_\d+)?\Z")
"""How a cherry-pick of git's names a file that cannot have its own name."""
_MEND_RULES = "add what its notes name to scripts/decouple/inventory/rules.toml, `decouple rebase --restart`"


class Leg(Struct, frozen=True):
    """A release on the way, and where its source comes from."""

    release: PathPart
    source: str = "auto"
    debian_patches: bool = False


class RebaseState(Struct, frozen=True, forbid_unknown_fields=True):
    """A rebase under way: from and to which release, which source, what was decided."""

    old: PathPart
    new: PathPart
    source: str
    debian_patches: bool
    decisions: Mapping[str, Decision] = {}
    from_source: str = "auto"
    legs: tuple[Leg, ...] = ()
    """The releases that come after ``new``, the last of all at the end."""
    offline: bool = False
    """Only what the cache has, however the rebase is gone on with."""
    stopped_at: RelativePath | None = None
    tip: Id | None = None
    """Commit that the work tree stands on while a conflict is open. With ``stopped_at`` None a run is just putting the
    conflict there or taking it out: what lies there is nobody's decision."""

    @property
    def next_leg(self) -> RebaseState | None:
        """Return the rebase to the release behind ``new``; None behind the last."""
        if not self.legs:
            return None
        leg, *later = self.legs
        debian, left = leg.debian_patches, tuple(later)
        return RebaseState(self.new, leg.release, leg.source, debian, {}, self.source, left, self.offline)

    def save(self, path: Path) -> None:
        """Replace the state file."""
        kept = to_builtins(self.convert_typed_words(encode_path_text))
        write_atomically(path, json.dumps({"version": _VERSION, **kept}, indent=1, sort_keys=True) + "\n")

    def convert_typed_words(self, convert_word: Callable[[str], str]) -> RebaseState:
        """Return the state with each word that was typed converted: it may not be UTF-8."""
        return replace(
            self,
            source=convert_word(self.source),
            from_source=convert_word(self.from_source),
            legs=tuple(replace(leg, source=convert_word(leg.source)) for leg in self.legs),
            decisions={
                name: replace(decision, reason=convert_word(decision.reason))
                for name, decision in self.decisions.items()
            },
        )


def load_state(path: Path) -> RebaseState | None:
    """Read the rebase under way, None when there is none.

    Raises DecoupleError for a file of another version.
    """
    if not path.exists():
        return None
    try:
        data = parse_json(read_bounded(path, JSON_BOUND))
        if data.pop("version", None) != _VERSION:
            raise DecoupleError(f"{path}: made by another version of decouple", next_step="decouple rebase --abort")
        return convert(data, RebaseState).convert_typed_words(decode_path_text)
    except (ValueError, TypeError, AttributeError) as error:
        raise DecoupleError(
            f"{path}: damaged: {error!r}"[:300], next_step="decouple rebase --abort, which forgets that rebase"
        ) from error


def find_next_step(stopped: CarryResult | None) -> str:
    """Return what a person does about ``stopped``.

    A rule, where a recipe or the rules miss something; else the conflict.
    """
    if stopped is not None and any(note.text.startswith(MISSED) for note in stopped.notes):
        rule = "change the recipe in series/recipes (the notes say what it misses), `decouple rebase --restart`"
        return f"{rule}; or settle this release alone by hand, `git add`, `decouple rebase --continue`"
    if stopped is not None and is_generated(stopped):
        return _MEND_RULES
    return "settle it, `git add`, `decouple rebase --continue`"


def is_generated(stopped: CarryResult) -> bool:
    """Say whether what stopped is made by rules.

    What they place moves, and no text of a person's counts.
    """
    return stopped.changes is not None


def refuse_decision(name: str, step: str) -> NoReturn:
    """Raise UsageError for a ``step`` that would settle what rules make."""
    raise UsageError(
        f"--{step}: {name} is made by rules and not settled by hand", next_step=f"{_MEND_RULES}, or --abort"
    )


def refuse_nothing(repository: Repository, name: str) -> NoReturn:
    """Raise UsageError for a conflict that was settled with nothing left of ``name``.

    A ``git reset --hard`` looks so, too, and the patch would be gone.
    """
    raise UsageError(
        f"{repository.root}: nothing of {name} is left there",
        next_step="`decouple rebase --skip` leaves the patch out; `decouple rebase --restart` shows the conflict again",
    )


def list_changed_paths(repository: Repository, step: Step, tip: str) -> set[str]:
    """List the paths that the patch changes on ``tip``.

    Those that it names, and where upstream renamed a folder or a file, the new ones.
    """
    merged = merge_patch(repository, step, tip).tree
    return {*step.patch.changed_paths, *(change.path for change in compare_trees(repository, tip, merged))}


def refuse_edits(repository: Repository, step: Step, changed: Collection[str]) -> None:
    """Raise DecoupleError for edits that showing the conflict there would lose.

    ``changed``: see `list_changed_paths`.
    """
    dirty = repository.read_text("status", "--porcelain", "--untracked-files=no")
    if dirty and repository.resolve_commit("HEAD") is not None:
        raise DecoupleError(
            f"{repository.root} has edits ({dirty.splitlines()[0].strip()}, …)",
            next_step="commit them there and say `decouple rebase --continue`, or drop them with "
            f"`{format_git(repository.root, 'checkout', '-f')}`",
        )
    if untracked := _list_untracked(repository, changed):
        place = shlex.quote(str(repository.root / untracked[0]))
        raise DecoupleError(
            f"{repository.root}: {untracked[0]} is untracked, and {step.patch.name} changes it",
            next_step=f"move {place} away, then `decouple rebase --continue`",
        )


def remove_untracked(repository: Repository, changed: Collection[str]) -> None:
    """Remove what a git of ours wrote at ``changed`` before it was killed.

    It had not put it into its index yet.
    """
    for path in _list_untracked(repository, changed):
        (repository.root / path).unlink()


def _list_differing(repository: Repository, *options: str) -> list[str]:
    """Return the files that the work tree has otherwise than the index.

    They are of those that ``options`` of git-diff(1) choose.
    """
    return split_names(repository.run("diff", "-z", "--name-only", *options))


def _list_untracked(repository: Repository, changed: Collection[str]) -> list[str]:
    """Return the files at ``changed`` that git's index lacks, ignored ones too."""
    return split_names(repository.run("ls-files", "-z", "--others", "--", *sorted(changed))) if changed else []


def show_conflict(repository: Repository, tip: str, step: Step) -> None:
    """Pick the patch's old commit on ``tip``, so that plain git shows the conflict.

    What git merges cleanly is staged and not committed: it is what a person is asked about. A file that is in the way
    of another's new place is staged, too. Raises GitError where git does nothing: an empty conflict would be taken for
    one that was settled with nothing left of the patch.
    """
    repository.run("checkout", "-q", "--detach", tip)
    answer = repository.try_run("-c", "merge.conflictStyle=diff3", "cherry-pick", "--no-commit", step.after)
    if answer.status and not repository.read_text("diff", "--cached", "--name-only"):  # unmerged ones are named, too
        raise GitError(
            f"git cherry-pick in {repository.root}",
            answer,
            next_step=f"{name_status(repository.root)} shows the state it is in; move what is in git's way out of that "
            "folder, then `decouple rebase --continue`",
        )


def drop_conflict(repository: Repository, tip: str) -> None:
    """Take the open conflict out of the work tree, as ``git rebase --abort`` does."""
    repository.try_run("cherry-pick", "--quit")
    repository.run("reset", "-q", "--hard", tip)


def forget_locks(repository: Repository, since: float) -> None:
    """Remove the locks of a git of ours that was killed after ``since``.

    It was killed at the work tree; see `forget_stale_lock`.
    """
    worktree.forget_new_locks(repository, ("index.lock", "HEAD.lock"), since)


def read_settled_tree(repository: Repository, tip: str, step: Step, changed: Collection[str]) -> str:
    """Read the tree that a person made of the conflict of ``step``.

    It is what the index holds, committed on top of ``tip`` or not. Raises UsageError while files are unmerged, edited
    and not staged, or hold conflict markers, while one of ``changed`` is not tracked, while it has what no patch holds,
    and where it lacks what was carried before the patch.
    """
    _refuse_another_start(repository, tip)
    if unmerged := _list_differing(repository, "--diff-filter=U"):
        raise UsageError(
            f"{repository.root}: {unmerged[0]} is still in conflict",
            next_step=f"edit it, `{format_git(repository.root, 'add', '--', unmerged[0])}`, then "
            "`decouple rebase --continue`",
        )
    if unstaged := _list_differing(repository):
        raise UsageError(
            f"{repository.root}: {unstaged[0]} is edited but not staged",
            next_step=f"`{format_git(repository.root, 'add', '--', unstaged[0])}` or "
            f"`{format_git(repository.root, 'checkout', '--', unstaged[0])}`, then `decouple rebase --continue`",
        )
    if untracked := _list_untracked(repository, changed):
        raise UsageError(
            f"{repository.root}: {untracked[0]} is untracked, and {step.patch.name} changes it",
            next_step=f"`{format_git(repository.root, 'add', '--', untracked[0])}`, or delete it, then "
            "`decouple rebase --continue`",
        )
    tree = repository.read_text("write-tree")
    for change in compare_trees(repository, tip, tree):
        if change.old is None and (renamed := _OTHER_NAME.match(change.path)):
            raise UsageError(
                f"{repository.root}: {change.path!r} is what git calls {renamed[1]}, whose name something else has",
                next_step="bring what is wanted of it to another file, "
                f"`{format_git(repository.root, 'rm', '-f', '--', change.path)}`, then `decouple rebase --continue`",
            )
    _refuse_what_no_patch_holds(repository, tip, tree)
    if where := _find_marker(repository, tip, tree):
        raise UsageError(
            f"{repository.root}: {where}: a conflict marker is left",
            next_step=f"settle it, `{format_git(repository.root, 'add', '--', where.rpartition(':')[0])}`, "
            "`decouple rebase --continue`",
        )
    return tree


def _refuse_another_start(repository: Repository, tip: str) -> None:
    """Raise UsageError where the tree does not stand on ``tip`` any more.

    All that it lacks would be taken for what the patch takes out. A commit that was amended is no such thing.
    """
    head = repository.read_head()
    moved_back = (
        head not in (None, tip) and repository.try_run("merge-base", "--is-ancestor", head or "", tip).status == 0
    )
    if moved_back:
        lost = {change.path: change.old for change in compare_trees(repository, head or "", tip)}
        index = repository.read_text("write-tree") if not _list_differing(repository, "--diff-filter=U") else tip
        there = read_entries(repository, index, lost)
        moved_back = all(there.get(path) == entry for path, entry in lost.items())
    restart = "`decouple rebase --restart` shows the conflict again; what was settled before is replayed"
    if head is None:
        raise UsageError(f"{repository.root} is empty, and not how the patch is to be", next_step=restart)
    if moved_back:
        what = f"{repository.root} stands before what was carried ({tip[:12]}): the patch would take that out"
        raise UsageError(what, next_step=restart)
    if not (repository.git_dir / "index").exists():
        raise UsageError(
            f"{repository.root}: git's index is gone",
            next_step=f"`{format_git(repository.root, 'reset', '-q')}`, `git add` what is settled, then "
            "`decouple rebase --continue`",
        )


def _refuse_what_no_patch_holds(repository: Repository, tip: str, tree: str) -> None:
    """Raise UsageError for a binary file or a submodule that changed.

    Between ``tip`` and ``tree``. ``git add -A`` takes what a compiler left there.
    It is told while it can be taken out: later nothing is there.
    """
    changes = compare_trees(repository, tip, tree)
    files = {entry.id for change in changes for entry in (change.old, change.new) if entry and entry.mode != SUBMODULE}
    binary = {blob_id for blob_id, data in read_blobs(repository, sorted(files)).items() if is_binary(data)}
    for change in changes:
        old, new = change.old, change.new
        sides = [entry for entry in (old, new) if entry and not (old and new and old.id == new.id)]
        is_submodule = any(entry.mode == SUBMODULE for entry in sides)
        if is_submodule or any(entry.id in binary for entry in sides):
            undone = ("checkout" if old else "reset", "-q", tip, "--")
            raise UsageError(
                f"{repository.root}: {change.path} is a {'submodule' if is_submodule else 'binary file'}, and a patch "
                "holds text only",
                next_step=f"take it out: `{format_git(repository.root, *undone, change.path)}`, then "
                "`decouple rebase --continue`",
            )


def _find_marker(repository: Repository, tip: str, tree: str) -> str:
    """Return the place of the first conflict marker that is new in ``tree``.

    Its file in ``tip`` has no such line.
    """
    changes = [change for change in compare_trees(repository, tip, tree) if change.new and change.new.mode != SUBMODULE]
    entries = [entry for change in changes for entry in (change.old, change.new) if entry and entry.mode != SUBMODULE]
    texts = read_blobs(repository, [entry.id for entry in entries])
    for change in changes:
        assert change.new
        known = set(split_lines(texts.get(change.old.id, b""))) if change.old else set()
        text = texts[change.new.id]
        for number, line in enumerate(split_lines(text), 1):
            around = line.startswith((b"<<<<<<< ", b"||||||| ", b">>>>>>> "))
            between = line.rstrip() == b"======="
            if (around or (between and not _may_underline(change.path, text))) and line not in known:
                return f"{change.path}:{number}"
    return ""


def _may_underline(path: str, text: bytes) -> bool:
    """Say whether a line of seven ``=`` may underline a title.

    It does not in C++ and CMake, and in Python only within a string: the file can be parsed.
    """
    if is_cpp(path) or path.endswith(_OF_CMAKE):
        return False
    if path.endswith(_OF_PYTHON):
        try:
            parse_python(text.decode("utf-8", "replace"))
        except SyntaxError:
            return False
    return True
