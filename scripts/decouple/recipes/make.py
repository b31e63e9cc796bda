"""What a recipe makes of a tree: the new text of every file that it changes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from decouple.base.checkout import make_version_key
from decouple.recipes.conditionals import find_unpaired_line, settle_lines
from decouple.recipes.file_text import is_cpp, make_readable
from decouple.recipes.model import Edit, LostTextError, NewFile, Recipe, RecipeError, Selector, TextMove, UpstreamSign
from decouple.recipes.numbered_lines import Line, find_covered_lines, find_telling_lines, number_lines
from decouple.recipes.places import LineRange, count_places, find_ranges

Read = Callable[[str], str | None]
"""The text of an upstream file, None where there is none."""
_SHOWN = 6
"""Lost lines that an error shows."""


def make_texts(recipe: Recipe, read: Read) -> dict[str, str]:
    """Return path -> new text.

    Raises RecipeError with everything that the tree lacks or that would be lost. ``parts`` of the error has one entry
    for each place. Upstream's text that goes and comes nowhere is a LostTextError.
    """
    return _RecipeRun(recipe, read).make_texts()


def is_done_upstream(recipe: Recipe, read: Read) -> bool:
    """Return whether the tree has every sign that upstream did what the patch does."""
    return bool(recipe.upstream) and all(_is_there(sign, read(sign.file)) for sign in recipe.upstream)


def list_rule_releases(recipe: Recipe, read: Read) -> tuple[str, ...]:
    """Return since which releases the rules hold that this tree calls for.

    Older trees do not call for them; the oldest release comes first.
    """
    making = _RecipeRun(recipe, read)
    tables = [(edit, edit.file) for edit in recipe.edit] + [(new, "") for new in recipe.new]
    found = {
        table.since
        for table, path in [*((take, take.file) for take in recipe.take), *tables]
        if table.since and making.is_met(table, path, read(path) or "" if path else "")
    }
    return tuple(sorted(found, key=make_version_key))


def _is_there(sign: UpstreamSign, text: str | None) -> bool:
    if text is None or any(count_places(text, sign.file, [selector]) for selector in sign.lacks):
        return False
    return not sign.at or count_places(text, sign.file, sign.at) == 1


class _RecipeRun:
    """One recipe on one tree; what is missing is collected and shown at once."""

    def __init__(self, recipe: Recipe, read: Read) -> None:
        self.recipe = recipe
        self._before: dict[str, str] = {}
        self._taken: dict[str, str] = dict.fromkeys((take.name for take in recipe.take), "")
        self._came: dict[str, set[int]] = {}
        """By the name of a take: the numbers of the lines of its file that come with it."""
        self._put: set[str] = set()
        """Names of takes whose text was put somewhere."""
        self._ours: set[str] = set()
        """Lines of ours that were put, white space left out: the same line of upstream's is not lost."""
        self._gone: dict[str, set[int]] = {}
        """By file: the numbers of the lines that no pattern names and that an edit or a take lets go."""
        self._acted = False
        self._either: set[str] = set()
        """Names of alternatives one of which applied."""
        self._faults: list[RecipeError] = []
        for path in recipe.files:
            text = read(path)
            if text is not None:
                self._before[path] = text
            elif path in recipe.needed:
                self._faults.append(_make_missing_file_error(recipe, path))

    def make_texts(self) -> dict[str, str]:
        """Make the texts; see :func:`make_texts`."""
        for take in self.recipe.take:
            with self._collect_errors():
                self._taken[take.name] = self._take_text(take)
        made = {new.path: self._make_file(new) for new in self.recipe.new if self.is_met(new, "", "")}
        for path, text in self._before.items():
            changed = self._apply_edits(path, text)
            if changed != text:
                made[path] = changed
        for name in dict.fromkeys(edit.either for edit in self.recipe.edit if edit.either):
            if name not in self._either:
                self._faults.append(_make_no_edit_error(self.recipe, name))
        if not self._faults and self.recipe.has_edits and not (made and self._acted):
            self._faults.append(_make_no_change_error(self.recipe))
        self._faults += self._find_unpaired_lines(made)
        if faults := [*self._faults, *([] if self._faults else self._find_lost_lines())]:
            raise _join_errors(faults)
        return made

    @contextlib.contextmanager
    def _collect_errors(self) -> Iterator[None]:
        try:
            yield
        except RecipeError as error:
            self._faults.append(error)

    def is_met(self, table: TextMove | Edit | NewFile, path: str, text: str) -> bool:
        """Return whether the condition of ``table`` holds.

        It asks ``text`` of ``path``, or another file as upstream has it.
        """
        if table.where_file:
            path, text = table.where_file, self._before.get(table.where_file, "")
        return not table.where or count_places(text, path, table.where) > 0

    def _take_text(self, take: TextMove) -> str:
        text = self._before.get(take.file)
        if text is None or not self.is_met(take, take.file, text):
            return ""
        self._acted = True
        (where,) = find_ranges(text, take.file, take.at)
        there = number_lines(text)[where.start : where.stop]
        settled = settle_lines(there, define=take.define, undefine=take.undefine)
        self._note_removed_lines(take.file, there, settled, take.gone)
        self._came[take.name] = _list_numbers(settled)
        moved = "\n".join(line.text for line in settled)
        what = f"the text that moves as {take.name!r}"
        moved = _replace_text(moved, take.file, what, [(rf"^.*(?:{pattern}).*\n?", "") for pattern in take.drop])
        return _replace_text(moved, take.file, what, take.replace).strip("\n")

    def _make_file(self, new: NewFile) -> str:
        self._acted |= not self.recipe.take
        return self._fill_places(new.text)

    def _apply_edits(self, path: str, text: str) -> str:
        """Apply the edits one after the other, each on what those before it made."""
        lines = number_lines(text)
        for edit in (edit for edit in self.recipe.edit if edit.file == path):
            with self._collect_errors():
                after = self._apply_edit(path, edit, lines, text)
                if after is not lines:
                    lines, text = after, "\n".join([line.text for line in after])
        return text

    def _apply_edit(self, path: str, edit: Edit, lines: list[Line], text: str) -> list[Line]:
        """Apply ``edit`` to ``lines``, which are ``text``.

        Returns the very same list where its condition does not hold.
        """
        if not self.is_met(edit, path, text):
            return lines
        self._acted = True
        self._either.add(edit.either)
        after = list(lines)
        for where in reversed(find_ranges(text, path, edit.at, every=edit.every)):
            there = after[where.start : where.stop]
            put = self._make_replacement(edit, there)
            after[slice(*_find_changed_range(edit, after, where))] = put
            if not edit.replace and edit.before is None and edit.after is None:
                named = [*_list_patterns(edit.at[-1])] if edit.at else []
                self._note_removed_lines(path, there, put, [*edit.gone, *named])
        return after

    def _make_replacement(self, edit: Edit, there: Sequence[Line]) -> list[Line]:
        if edit.replace:
            old = [line.text for line in there]
            new = _replace_text("\n".join(old), edit.file, "what the edit finds", edit.replace).split("\n")
            return _keep_numbers(there, new)
        if edit.define or edit.undefine:
            return settle_lines(there, define=edit.define, undefine=edit.undefine)
        return [Line(line) for line in _split_lines(self._fill_places(edit.put or edit.before or edit.after or ""))]

    def _fill_places(self, text: str) -> str:
        """Put what was taken into its places in ``text``.

        A place of nothing goes, with the empty line below it.
        """

        def put_place(place: re.Match[str]) -> str:
            self._put.add(place[1])
            return f"{self._taken[place[1]]}{place[2]}" if self._taken[place[1]] else ""

        self._ours |= {"".join(line.split()) for line in text.split("\n")}
        return re.sub(r"^\{\{([\w-]+)\}\}(\n*)", put_place, text, flags=re.MULTILINE)

    def _note_removed_lines(
        self, path: str, before: Sequence[Line], after: Sequence[Line], explained: Iterable[str]
    ) -> None:
        gone = _list_numbers(before) - _list_numbers(after)
        if gone:
            self._gone.setdefault(path, set()).update(gone - set(find_covered_lines(before, explained)))

    def _find_unpaired_lines(self, made: Mapping[str, str]) -> list[RecipeError]:
        """Return one error for each file whose conditionals pair no more."""
        return [
            _make_unpaired_line_error(self.recipe, path, line)
            for path, text in made.items()
            if is_cpp(path)
            and (line := find_unpaired_line(text))
            and not find_unpaired_line(self._before.get(path, ""))
        ]

    def _find_lost_lines(self) -> list[RecipeError]:
        """Return one error for each file that loses lines which say something."""
        came: dict[str, set[int]] = {}
        for take in self.recipe.take:
            if take.name in self._put:
                came.setdefault(take.file, set()).update(self._came.get(take.name, ()))
        errors: list[RecipeError] = []
        for path, numbers in self._gone.items():
            text = self._before[path]
            lines = text.split("\n")
            lost = sorted(numbers & find_telling_lines(text, path) - came.get(path, set()))
            lost = [number for number in lost if "".join(lines[number].split()) not in self._ours]
            if lost:
                errors.append(_make_lost_text_error(self.recipe, path, lines, lost))
        return errors


def _keep_numbers(there: Sequence[Line], new: Sequence[str]) -> list[Line]:
    """Return ``new`` as lines; those that stood ``there`` already keep their numbers."""
    lines = [Line(text) for text in new]
    matcher = SequenceMatcher(None, [line.text for line in there], list(new), autojunk=False)
    for block in matcher.get_matching_blocks():
        for at in range(block.size):
            lines[block.b + at] = there[block.a + at]
    return lines


def _list_numbers(lines: Iterable[Line]) -> set[int]:
    return {line.number for line in lines if line.number is not None}


def _list_patterns(step: Selector) -> Iterable[str]:
    """Return the patterns of a step.

    What they find is named in the recipe, so it is meant to go.
    """
    if step.include is not None:
        yield rf"^.*{re.escape(step.include)}.*$"
    yield from (pattern for pattern in (step.line, step.begin, step.end) if pattern)


def _make_missing_file_error(recipe: Recipe, path: str) -> RecipeError:
    return RecipeError(
        f"{path}: not in this tree, and the recipe {recipe.id} changes it",
        next_step=f"name its new place in series/recipes/{recipe.id}.toml",
        path=path,
    )


def _make_no_change_error(recipe: Recipe) -> RecipeError:
    return RecipeError(
        f"the recipe {recipe.id} changes nothing in this tree: no condition (where) of its tables holds",
        next_step=f"see what upstream made of {', '.join(recipe.files)}, then add a table for it, or an [[upstream]] "
        f"sign that the patch is not needed, to series/recipes/{recipe.id}.toml",
    )


def _make_no_edit_error(recipe: Recipe, name: str) -> RecipeError:
    edits = [edit for edit in recipe.edit if edit.either == name]
    return RecipeError(
        f"{edits[0].file}: none of {len(edits)} edits for {name!r} applies: no condition (where) of theirs holds",
        next_step=f"see what upstream made of it, then add an edit with either = {name!r} to "
        f"series/recipes/{recipe.id}.toml",
        path=edits[0].file,
    )


def _make_unpaired_line_error(recipe: Recipe, path: str, line: int) -> RecipeError:
    return RecipeError(
        f"{path}: the conditional in line {line} of what the recipe {recipe.id} makes has no end or no begin",
        next_step=f"see what upstream made of it, then narrow the patterns in series/recipes/{recipe.id}.toml",
        path=path,
    )


def _make_lost_text_error(recipe: Recipe, path: str, lines: Sequence[str], lost: Sequence[int]) -> LostTextError:
    shown = "; ".join(f"line {number + 1}: {make_readable(lines[number].strip()[:100])}" for number in lost[:_SHOWN])
    more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return LostTextError(
        f"{path}: {len(lost)} lines would go and come nowhere: {shown}{more}",
        next_step=f"add a [[take]] that carries them to series/recipes/{recipe.id}.toml, or a pattern to `gone` of the "
        "edit where stage 2 answers for them",
        path=path,
    )


def _join_errors(faults: Sequence[RecipeError]) -> RecipeError:
    if len(faults) == 1:
        return faults[0]
    kind = LostTextError if all(isinstance(error, LostTextError) for error in faults) else RecipeError
    return kind(
        f"{len(faults)} places: " + "; ".join(error.what for error in faults),
        next_step=faults[0].next_step or "",
        path=faults[0].path,
        parts=faults,
    )


def _replace_text(text: str, path: str, what: str, pairs: Sequence[tuple[str, str]]) -> str:
    for pattern, put in pairs:
        text, count = re.subn(pattern, put, text, flags=re.MULTILINE)
        if not count:
            raise RecipeError(
                f"{path}: {what} has nothing that {pattern!r} finds",
                next_step="see what upstream made of it, then change the recipe in series/recipes",
                path=path,
            )
    return text


def _find_changed_range(edit: Edit, lines: Sequence[Line], where: LineRange) -> tuple[int, int]:
    if edit.before is not None:
        return where.start, where.start
    if edit.after is not None:
        return where.stop, where.stop
    below = edit.blank and where.stop < len(lines) and not lines[where.stop].text.strip()
    return where.start, where.stop + below


def _split_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
