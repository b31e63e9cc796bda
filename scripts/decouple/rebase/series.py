"""A whole series onto another release: patch after patch, each on top of what the ones before it became."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from decouple.base.git import Repository
from decouple.base.objects import asked_often
from decouple.base.progress import SILENT, Progress
from decouple.patch.moved import moved
from decouple.patch.parse import Patch
from decouple.rebase import memory
from decouple.rebase.carry import Step, as_before, carry, tree_after
from decouple.rebase.made import by_recipe
from decouple.rebase.partial import hidden
from decouple.rebase.resolutions import Resolution
from decouple.rebase.verdicts import Carried, Note, Verdict
from decouple.recipes.model import Recipe
from decouple.recipes.moved import explained
from decouple.stack import applier
from decouple.stack.commits import NewCommit, from_header, write_chain
from decouple.stack.export import diff
from decouple.stack.journal import Id
from decouple.stack.trees import TreeEntry, changed, look_up

_TOLD = ("Drop-When", "Verify")
"""Fields of a header that say whether the patch is still wanted, and how to see that it works."""

Regenerate = Callable[[Patch], "Regenerated | None"]
"""Makes a generated patch anew for the new release; None for a patch that is written by hand."""


class Regenerated(Struct, frozen=True):
    """A generated patch for the new release. ``data`` is None where the rules do not cover it; ``notes`` say why."""

    data: bytes | None
    notes: tuple[Note, ...] = ()


class Decision(Struct, frozen=True):
    """What a person decided about one patch: leave it out, or the tree id it shall lead to."""

    tree: Id | None
    """None: skip the patch."""
    preimage: Id
    """Tree id before the patch; the decision holds only there."""
    reason: str = ""
    """Why, in a person's words."""


class Sides(Struct, frozen=True):
    """The releases: their tags, and the commits that their series starts from."""

    old_tag: str
    old: str
    new_tag: str
    new: str


class RebaseOutcome(Struct, frozen=True):
    """How far a rebase got. ``tips`` holds the commit after each carried patch, the new release itself first."""

    carried: tuple[Carried, ...]
    steps: tuple[Step, ...]
    tips: tuple[str, ...]
    stopped: Carried | None = None

    @property
    def waiting(self) -> Step | None:
        """The step that a person must settle."""
        return self.steps[len(self.carried) - 1] if self.stopped else None


class RebaseWork(Struct, dict=True):
    """The work, with everything that it depends on. ``run`` may be called again with more decisions."""

    repository: Repository
    sides: Sides
    patches: Sequence[Patch]
    regenerate: Regenerate = lambda patch: None
    memory: Sequence[Resolution] = ()
    decisions: Mapping[str, Decision] = {}
    recipes: Mapping[str, Recipe] = {}
    """By the Decouple-Id of the patch that each makes."""
    partial: bool = False
    """The new release is known from its wheel only."""

    def run(self, *, stop: bool = True, progress: Progress = SILENT) -> RebaseOutcome:
        """Carry every patch; with ``stop`` the first that a person must settle ends it, without it is left out.

        Raises DecoupleError when the old series does not apply to its own release.
        """
        with asked_often(self.repository):
            return self._run(stop=stop, progress=progress)

    def _run(self, *, stop: bool, progress: Progress) -> RebaseOutcome:
        steps = self.steps
        carried: list[Carried] = []
        tips = [self.sides.new]
        without: dict[str, str] = {}
        progress.start("carrying patches", len(steps))
        for step in steps:
            result = self._one(step, tips[-1], without)
            carried.append(result)
            identity = step.patch.header.decouple_id
            if result.verdict is Verdict.NOT_SEEN and identity:
                without[identity] = step.patch.name
            progress.advance()
            if result.verdict.stops:
                result = structs.replace(result, notes=(*result.notes, *self._about(step)))
                carried[-1] = result
            if result.verdict.stops and stop:
                progress.finish(f"stopped at {step.patch.name}")
                return RebaseOutcome(tuple(carried), steps, tuple(tips), result)
            tips.append(self._commit(step.patch, result, tips[-1]) if result.changes else tips[-1])
        progress.finish()
        return RebaseOutcome(tuple(carried), steps, tuple(tips))

    def _about(self, step: Step) -> tuple[Note, ...]:
        """What a person who must settle the patch wants to know of it, and which later patches stand on it."""
        header, name = step.patch.header, step.patch.name
        notes = [Note("", 0, f"{key}: {' '.join(field.value.split())}") for key in _TOLD if (field := header.find(key))]
        later = self.patches[[patch.name for patch in self.patches].index(name) + 1 :]
        needing = [one.name for one in later if header.decouple_id in one.header.depends]
        touching = [one.name for one in later if set(one.touched) & set(step.patch.touched) and one.name not in needing]
        for names, how in ((needing, "needed by"), (touching, "changes files that these change too")):
            if names:
                notes.append(Note("", 0, f"{how}: {', '.join(names)}"))
        return tuple(notes)

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """Each patch with the commits before and after it in the old series."""
        outcomes = applier.apply(self.repository, self.sides.old, self.patches, self._scratch)
        chain = [
            NewCommit(from_header(outcome.patch.header_text, outcome.patch.name), outcome.changes)
            for outcome in outcomes
        ]
        commits = [self.sides.old, *write_chain(self.repository, self.sides.old, chain)]
        return tuple(
            Step(patch, before, after)
            for patch, before, after in zip(self.patches, commits[:-1], commits[1:], strict=True)
        )

    def _one(self, step: Step, tip: str, without: Mapping[str, str]) -> Carried:
        made = self.regenerate(step.patch)
        if made is not None:
            return self._regenerated(step, made, tip)
        if self.partial and (notes := hidden(self.repository, step.patch, tip, without)):
            return Carried(step.patch.name, Verdict.NOT_SEEN, {}, notes)
        decision = self.decisions.get(step.patch.name)
        if decision is not None and decision.preimage == self.repository.tree_of(tip):
            return self._decided(step.patch, decision, tip)
        result = carry(self.repository, step, tip, self._scratch)
        if recipe := self.recipes.get(step.patch.header.decouple_id or ""):
            result = by_recipe(self.repository, recipe, tip, result, step)
        return (result.verdict.stops and self._replayed(step, tip)) or result

    def _regenerated(self, step: Step, made: Regenerated, tip: str) -> Carried:
        if made.data is None:
            # the rules do not place every file: what still moves as before is carried, so that the rest can be judged
            present = look_up(self.repository, tip, [path for t in step.patch.files for path in (t.old_path,) if path])
            moving: dict[str, TreeEntry | None] = {}
            for file in step.patch.files:
                if file.old_path in present and file.new_path:
                    moving |= {file.old_path: None, file.new_path: present[file.old_path]}
            return Carried(step.patch.name, Verdict.CONFLICT, moving, made.notes)
        same = made.data == step.patch.data
        changes = as_before(self.repository, step, tip) if same else None
        if changes is None:
            patch = Patch(step.patch.name, made.data, step.patch.strip)
            (outcome,) = applier.apply(self.repository, tip, [patch], self._scratch)
            changes = outcome.changes
        verdict = Verdict.UNMODIFIED if same else Verdict.REGENERATED
        return Carried(step.patch.name, verdict, changes, made.notes, None if same else made.data)

    def _decided(self, patch: Patch, decision: Decision, tip: str) -> Carried:
        if decision.tree is None:
            return Carried(
                patch.name,
                Verdict.SKIPPED,
                {},
                (Note("", 0, f"left out by hand{': ' if decision.reason else ''}{decision.reason}"),),
            )
        changes = changed(self.repository, self.repository.tree_of(tip), decision.tree)
        if not changes:
            return Carried(patch.name, Verdict.SKIPPED, {}, (Note("", 0, "settled by hand with no change left"),))
        body = diff(self.repository, tip, decision.tree)
        notes = (Note("", 0, "settled by hand"), *self._lost(patch, body))
        return Carried(patch.name, Verdict.RESOLVED, changes, notes, body)

    def _lost(self, patch: Patch, body: bytes) -> tuple[Note, ...]:
        """Lines that a person's text takes out among text that it moves, and that do not stand where that went."""
        if patch.header.find("Moved-Differs"):
            return ()
        return tuple(
            Note(one.source, line, f"LOST on the way to {one.target}: {text.decode('utf-8', 'replace').strip()}")
            for one in moved(Patch(patch.name, patch.header_bytes + body, patch.strip))
            for line, text in one.lost
            if not explained(self.recipes, patch.header.decouple_id or "", text.decode("utf-8", "replace").rstrip("\n"))
        )

    def _replayed(self, step: Step, tip: str) -> Carried | None:
        known = memory.recall(self.repository, self.memory, step, tip)
        if known is None:
            return None
        why = f": {known.reason}" if known.reason else ""
        if known.skip:
            return Carried(step.patch.name, Verdict.SKIPPED, {}, (Note("", 0, f"left out by hand before{why}"),))
        changes = memory.replayed(self.repository, known, step, tip)
        if changes is None:
            return None
        note = Note("", 0, f"a stored resolution of this very conflict was used{why}; review it")
        body = diff(self.repository, tip, tree_after(self.repository, tip, changes))
        return Carried(step.patch.name, Verdict.REPLAYED, changes, (note, *self._lost(step.patch, body)), body)

    def _commit(self, patch: Patch, result: Carried, tip: str) -> str:
        assert result.changes is not None
        text = from_header(patch.header_text, patch.name)
        return write_chain(self.repository, tip, [NewCommit(text, result.changes)])[0]

    @property
    def _scratch(self) -> Path:
        scratch = self.repository.own
        scratch.mkdir(parents=True, exist_ok=True)
        return scratch
