"""What a recipe makes of a tree: the new text of every file that it changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from decouple.recipes.find import Range, find, found
from decouple.recipes.model import Edit, Recipe, RecipeError, Take, Upstream
from decouple.recipes.settle import settle

Read = Callable[[str], str | None]
"""The text of an upstream file, None where there is none."""


def make(recipe: Recipe, read: Read) -> dict[str, str]:
    """Path -> new text. Raises RecipeError naming file and step where the tree does not have what is looked for."""
    texts = {
        path: _text(recipe, read, path) for path in recipe.files if path in recipe.needed or read(path) is not None
    }
    taken = {take.name: _taken(take, texts[take.file]) if take.file in texts else "" for take in recipe.take}
    made = {new.path: _filled(new.text, taken) for new in recipe.new}
    for path, text in texts.items():
        edits = [edit for edit in recipe.edit if edit.file == path]
        changed = _edited(path, text, edits, taken)
        if changed != text:
            made[path] = changed
    return made


def done_upstream(recipe: Recipe, read: Read) -> bool:
    """Whether the tree shows that upstream did what the patch does: every sign that the recipe knows is there."""
    return bool(recipe.upstream) and all(_is_there(sign, read(sign.file)) for sign in recipe.upstream)


def _is_there(sign: Upstream, text: str | None) -> bool:
    if text is None or any(found(text, sign.file, [one]) for one in sign.lacks):
        return False
    return not sign.at or found(text, sign.file, sign.at) == 1


def _text(recipe: Recipe, read: Read, path: str) -> str:
    text = read(path)
    if text is None:
        raise RecipeError(
            f"{path}: not in this tree, and the recipe {recipe.id} changes it",
            next_step=f"name its new place in series/recipes/{recipe.id}.toml",
            path=path,
        )
    return text


def _taken(take: Take, text: str) -> str:
    if take.where and not found(text, take.file, take.where):
        return ""
    (where,) = find(text, take.file, take.at)
    moved = "\n".join(text.split("\n")[where.start : where.stop])
    moved = settle(moved, define=take.define, undefine=take.undefine)
    what = f"the text that moves as {take.name!r}"
    moved = _replaced(moved, take.file, what, [(rf"^.*(?:{pattern}).*\n?", "") for pattern in take.drop])
    return _replaced(moved, take.file, what, take.replace).strip("\n")


def _replaced(text: str, path: str, what: str, pairs: Sequence[tuple[str, str]]) -> str:
    for pattern, put in pairs:
        text, count = re.subn(pattern, put, text, flags=re.MULTILINE)
        if not count:
            raise RecipeError(
                f"{path}: {what} has nothing that {pattern!r} finds",
                next_step="see what upstream made of it, then change the recipe in series/recipes",
                path=path,
            )
    return text


def _filled(text: str, taken: Mapping[str, str]) -> str:
    """``text`` with what was taken in its places; a place of nothing goes, with the empty line below it."""

    def put(place: re.Match[str]) -> str:
        return f"{taken[place[1]]}{place[2]}" if taken[place[1]] else ""

    return re.sub(r"^\{\{([\w-]+)\}\}(\n*)", put, text, flags=re.MULTILINE)


def _edited(path: str, text: str, edits: Sequence[Edit], taken: Mapping[str, str]) -> str:
    """The edits one after the other, each on what the ones before it made."""
    for edit in edits:
        if edit.where and not found(text, path, edit.where):
            continue
        lines = text.split("\n")
        for where in reversed(find(text, path, edit.at, every=edit.every)):
            lines[slice(*_changed(edit, lines, where))] = _put(edit, lines[where.start : where.stop], taken)
        text = "\n".join(lines)
    return text


def _changed(edit: Edit, lines: Sequence[str], where: Range) -> tuple[int, int]:
    if edit.before is not None:
        return where.start, where.start
    if edit.after is not None:
        return where.stop, where.stop
    below = edit.blank and where.stop < len(lines) and not lines[where.stop].strip()
    return where.start, where.stop + below


def _put(edit: Edit, there: Sequence[str], taken: Mapping[str, str]) -> list[str]:
    if edit.replace:
        return _replaced("\n".join(there), edit.file, "what the edit finds", edit.replace).split("\n")
    if edit.define or edit.undefine:
        return settle("\n".join(there), define=edit.define, undefine=edit.undefine).split("\n")
    return _lines(_filled(edit.put or edit.before or edit.after or "", taken))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
