"""Carry a series to another release, each patch on top of those before it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from decouple.base.git import Repository
from decouple.base.objects import keep_object_reader
from decouple.base.progress import SILENT, Progress
from decouple.patch.moved_runs import find_moved_runs
from decouple.patch.parse import Patch
from decouple.rebase import resolution_replay
from decouple.rebase.carry import Step, carry_patch, carry_unchanged, find_former_changes, write_tree_after
from decouple.rebase.partial_release import find_hidden_files
from decouple.rebase.recipe_carry import carry_by_recipe, reads_the_same
from decouple.rebase.resolutions import Resolution
from decouple.rebase.verdicts import CarryResult, Note, Verdict
from decouple.recipes.model import Recipe, is_explained
from decouple.stack import applier
from decouple.stack.commits import SCRATCH, NewCommit, parse_commit_text, write_chain
from decouple.stack.export import make_diff
from decouple.stack.journal import Id
from decouple.stack.trees import TreeEntry, list_parents, read_changes, read_entries

_TOLD = ("Drop-When", "Verify")
"""Fields of a header that say whether the patch is still wanted, and how to see that it works."""

Regenerate = Callable[[Patch], "RegeneratedPatch | None"]
"""Makes a generated patch anew for the new release; None for a patch that is written by hand."""


class RegeneratedPatch(Struct, frozen=True):
    """A generated patch for the new release.

    ``data`` is None where the rules do not cover it; ``notes`` say why.
    """

    data: bytes | None
    notes: tuple[Note, ...] = ()


class Decision(Struct, frozen=True):
    """What a person decided on a patch: leave it out, or the tree id it leads to."""

    tree: Id | None
    """None: skip the patch."""
    preimage: Id
    """Tree id before the patch; the decision holds only there."""
    reason: str = ""
    """Why, in a person's words."""


class ReleasePair(Struct, frozen=True):
    """The releases: their tags, and the commits that their series starts from."""

    old_tag: str
    old: str
    new_tag: str
    new: str


class RebaseOutcome(Struct, frozen=True):
    """How far a rebase got.

    ``tips`` holds the commit after each carried patch, the new release itself first.
    """

    carried: tuple[CarryResult, ...]
    steps: tuple[Step, ...]
    tips: tuple[str, ...]
    stopped: CarryResult | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The patches that a person must settle, by name."""
        return tuple(result.name for result in self.carried if result.verdict.is_stop)

    @property
    def waiting(self) -> Step | None:
        """Return the step that a person must settle."""
        return self.steps[len(self.carried) - 1] if self.stopped else None


class _CarriedCommits:
    """The commits of what was carried.

    They are written together, where no patch asks what one before it did.
    """

    def __init__(self, repository: Repository, base: str) -> None:
        self._repository = repository
        self.tips = [base]
        """``base``, and the commit after each patch, as far as they are written."""
        self._waiting: list[Mapping[str, TreeEntry | None]] = []
        self._changed: set[str] = set()
        self._folders: set[str] = set()

    def add(self, changes: Mapping[str, TreeEntry | None]) -> None:
        """Add what a patch changes.

        Where a file goes, a folder may come: that is written at once.
        """
        self._waiting.append(changes)
        self._changed |= changes.keys()
        self._folders |= {folder for path in changes for folder in list_parents(path)}
        if None in changes.values():
            self.write()

    def holds_back(self, paths: set[str]) -> bool:
        """Return whether the last commit lacks something that was added at ``paths``.

        Paths above or below them count too.
        """
        reach = {*paths, *(folder for path in paths for folder in list_parents(path))}
        return not self._changed.isdisjoint(reach) or not self._folders.isdisjoint(paths)

    def write(self) -> str:
        """Write what was added, and return the last commit."""
        chain = [NewCommit(SCRATCH, changes) for changes in self._waiting if changes]
        written = iter(write_chain(self._repository, self.tips[-1], chain))
        for changes in self._waiting:
            self.tips.append(next(written) if changes else self.tips[-1])
        self._waiting.clear()
        self._changed.clear()
        self._folders.clear()
        return self.tips[-1]


class RebaseWork(Struct, dict=True):
    """The work, with everything that it depends on.

    ``run`` may be called again with more decisions.
    """

    repository: Repository
    sides: ReleasePair
    patches: Sequence[Patch]
    regenerate: Regenerate = lambda patch: None
    memory: Sequence[Resolution] = ()
    decisions: Mapping[str, Decision] = {}
    recipes: Mapping[str, Recipe] = {}
    """By the Decouple-Id of the patch that each makes."""
    partial: bool = False
    """The new release is known from its wheel only."""

    def run(self, *, stop: bool = True, progress: Progress = SILENT) -> RebaseOutcome:
        """Carry every patch.

        With ``stop`` the first that a person must settle ends it, without it is left out. Raises DecoupleError when the
        old series does not apply to its own release.
        """
        with keep_object_reader(self.repository):
            return self._carry_steps(stop=stop, progress=progress)

    def _carry_steps(self, *, stop: bool, progress: Progress) -> RebaseOutcome:
        steps = self.steps
        carried: list[CarryResult] = []
        commits = _CarriedCommits(self.repository, self.sides.new)
        without: dict[str, str] = {}
        progress.start("carrying patches", len(steps))
        for step in steps:
            if made := self.regenerate(step.patch):
                result = self._carry_regenerated(step, made, commits.write())
            else:
                result = self._carry_unchanged(step, commits) or self._carry_step(step, commits.write(), without)
            carried.append(result)
            identity = step.patch.header.decouple_id
            if result.verdict is Verdict.NOT_SEEN and identity:
                without[identity] = step.patch.name
            progress.advance()
            if result.verdict.is_stop:
                result = structs.replace(result, notes=(*result.notes, *self._describe_step(step)))
                carried[-1] = result
            if result.verdict.is_stop and stop:
                progress.finish(f"stopped at {step.patch.name}")
                shown = (*steps[: len(carried) - 1], self._name_step(step), *steps[len(carried) :])
                return RebaseOutcome(tuple(carried), shown, self._write_named_commits(carried[:-1]), result)
            commits.add(result.changes or {})
        progress.finish()
        commits.write()
        return RebaseOutcome(tuple(carried), steps, tuple(commits.tips))

    def _write_named_commits(self, carried: Sequence[CarryResult]) -> tuple[str, ...]:
        """Write the commits of ``carried`` with what their patches say.

        A person is shown the last. Returns the commit after each, the new release itself first.
        """
        patches = {patch.name: patch for patch in self.patches}
        changing = [result for result in carried if result.changes]
        texts = [parse_commit_text(patches[result.name].header_text, result.name) for result in changing]
        chain = [NewCommit(text, result.changes or {}) for text, result in zip(texts, changing, strict=True)]
        written = iter(write_chain(self.repository, self.sides.new, chain))
        tips = [self.sides.new]
        for result in carried:
            tips.append(next(written) if result.changes else tips[-1])
        return tuple(tips)

    def _name_step(self, step: Step) -> Step:
        """Return ``step`` with a commit of its patch's text, which git shows a person."""
        text = parse_commit_text(step.patch.header_text, step.patch.name)
        commit = NewCommit(text, read_changes(self.repository, step.before, step.after))
        return structs.replace(step, after=write_chain(self.repository, step.before, [commit])[0])

    def _describe_step(self, step: Step) -> tuple[Note, ...]:
        """Note what a person who must settle the patch wants to know of it.

        Also which later patches stand on it.
        """
        header, name = step.patch.header, step.patch.name
        notes = [Note("", 0, f"{key}: {' '.join(field.value.split())}") for key in _TOLD if (field := header.find(key))]
        later = self.patches[[patch.name for patch in self.patches].index(name) + 1 :]
        needing = [later_patch.name for later_patch in later if header.decouple_id in later_patch.header.depends]
        touching = [
            later_patch.name
            for later_patch in later
            if set(later_patch.touched_paths) & set(step.patch.touched_paths) and later_patch.name not in needing
        ]
        for names, how in ((needing, "needed by"), (touching, "changes files that these change too")):
            if names:
                notes.append(Note("", 0, f"{how}: {', '.join(names)}"))
        return tuple(notes)

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """Return each patch with the commits before and after it in the old series."""
        outcomes = applier.apply_patches(self.repository, self.sides.old, self.patches, self._scratch)
        chain = [NewCommit(SCRATCH, outcome.changes) for outcome in outcomes]
        commits = [self.sides.old, *write_chain(self.repository, self.sides.old, chain)]
        return tuple(
            Step(patch, before, after)
            for patch, before, after in zip(self.patches, commits[:-1], commits[1:], strict=True)
        )

    def list_recipe_paths(self, patch: Patch) -> set[str]:
        """List the paths that the recipe of ``patch`` reads; none without one."""
        recipe = self.recipes.get(patch.header.decouple_id or "")
        return recipe.read_paths if recipe else set()

    def _carry_unchanged(self, step: Step, commits: _CarriedCommits) -> CarryResult | None:
        """Carry a patch that finds all as its old series had it.

        This comes before those in front of it are committed. None where it has to be asked of a commit that holds them.
        """
        if self.partial or step.patch.name in self.decisions:
            return None
        recipe = self.recipes.get(step.patch.header.decouple_id or "")
        if commits.holds_back({*step.patch.touched_paths, *self.list_recipe_paths(step.patch)}):
            return None
        tip = commits.tips[-1]
        result = carry_unchanged(self.repository, step, tip)
        if result and recipe and not reads_the_same(self.repository, recipe, step.before, tip):
            return None
        return result

    def _carry_step(self, step: Step, tip: str, without: Mapping[str, str]) -> CarryResult:
        if self.partial and (notes := find_hidden_files(self.repository, step.patch, tip, without)):
            return CarryResult(step.patch.name, Verdict.NOT_SEEN, {}, notes)
        decision = self.decisions.get(step.patch.name)
        if decision is not None and decision.preimage == self.repository.read_tree_id(tip):
            return self._carry_decided(step.patch, decision, tip)
        result = carry_patch(self.repository, step, tip, self._scratch)
        if recipe := self.recipes.get(step.patch.header.decouple_id or ""):
            result = carry_by_recipe(self.repository, recipe, tip, result, step)
        return (result.verdict.is_stop and self._replay_memory(step, tip)) or result

    def _carry_regenerated(self, step: Step, made: RegeneratedPatch, tip: str) -> CarryResult:
        if made.data is None:
            # the rules do not place every file: what still moves as before is carried, so that the rest can be judged
            present = read_entries(
                self.repository, tip, [path for t in step.patch.files for path in (t.old_path,) if path]
            )
            moving: dict[str, TreeEntry | None] = {}
            for file in step.patch.files:
                if file.old_path in present and file.new_path:
                    moving |= {file.old_path: None, file.new_path: present[file.old_path]}
            return CarryResult(step.patch.name, Verdict.CONFLICT, moving, made.notes)
        same = made.data == step.patch.data
        changes = find_former_changes(self.repository, step, tip) if same else None
        if changes is None:
            patch = step.patch if same else Patch(step.patch.name, made.data, step.patch.strip)
            (outcome,) = applier.apply_patches(self.repository, tip, [patch], self._scratch)
            changes = outcome.changes
        verdict = Verdict.UNMODIFIED if same else Verdict.REGENERATED
        return CarryResult(step.patch.name, verdict, changes, made.notes, None if same else made.data)

    def _carry_decided(self, patch: Patch, decision: Decision, tip: str) -> CarryResult:
        if decision.tree is None:
            return CarryResult(
                patch.name,
                Verdict.SKIPPED,
                {},
                (Note("", 0, f"left out by hand{': ' if decision.reason else ''}{decision.reason}"),),
            )
        changes = read_changes(self.repository, self.repository.read_tree_id(tip), decision.tree)
        if not changes:
            return CarryResult(patch.name, Verdict.SKIPPED, {}, (Note("", 0, "settled by hand with no change left"),))
        body = make_diff(self.repository, tip, decision.tree)
        notes = (Note("", 0, "settled by hand"), *self._find_lost_lines(patch, body))
        return CarryResult(patch.name, Verdict.RESOLVED, changes, notes, body)

    def _find_lost_lines(self, patch: Patch, body: bytes) -> tuple[Note, ...]:
        """Note lines that a person's text takes out among moved text, and puts nowhere."""
        if patch.header.find("Moved-Differs"):
            return ()
        return tuple(
            Note(run.source, line, f"LOST on the way to {run.target}: {text.decode('utf-8', 'replace').strip()}")
            for run in find_moved_runs(Patch(patch.name, patch.header_bytes + body, patch.strip))
            for line, text in run.lost
            if not is_explained(
                self.recipes, patch.header.decouple_id or "", text.decode("utf-8", "replace").rstrip("\n")
            )
        )

    def _replay_memory(self, step: Step, tip: str) -> CarryResult | None:
        read = self.list_recipe_paths(step.patch)
        known = resolution_replay.recall_resolution(self.repository, self.memory, step, tip, read)
        if known is None:
            return None
        why = f": {known.reason}" if known.reason else ""
        settled = f" (settled on {known.since})" if known.since else ""
        if known.skip:
            note = Note("", 0, f"left out by hand before{settled}{why}")
            return CarryResult(step.patch.name, Verdict.SKIPPED, {}, (note,))
        changes = resolution_replay.replay_resolution(self.repository, known, step, tip)
        if changes is None:
            return None
        note = Note("", 0, f"a stored resolution of this very conflict was used{settled}{why}; review it")
        body = make_diff(self.repository, tip, write_tree_after(self.repository, tip, changes))
        return CarryResult(
            step.patch.name, Verdict.REPLAYED, changes, (note, *self._find_lost_lines(step.patch, body)), body
        )

    @property
    def _scratch(self) -> Path:
        scratch = self.repository.state_folder
        scratch.mkdir(parents=True, exist_ok=True)
        return scratch
