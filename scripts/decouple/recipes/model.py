"""Types and reader of a recipe, ``series/recipes/<Decouple-Id>.toml``.

One recipe makes the body of one patch on any release. A recipe holds our own lines and says where they go by symbol,
guard or node, never by line number, so that it makes the patch anew where upstream moved or mended what stands around
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.path_names import RelativePath


class Selector(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step that narrows a range of lines.

    It is exactly one of the first group; ``has`` chooses among several.
    """

    function: str | None = None
    """The definition of this C++ function or method (its last name), from its first line to its closing brace."""
    inside: str | None = None
    """The lines between the braces of this function."""
    include: str | None = None
    """The ``#include`` line of this header."""
    guard: str | None = None
    """A conditional that asks for this macro, ``#if`` to ``#endif`` or ``if()`` to ``endif()``."""
    branch: str | None = None
    """The lines that are compiled when this macro is defined, without the directives."""
    line: str | None = None
    """The one line that this regular expression finds."""
    begin: str | None = None
    """From the one line that this finds to the first that ``end`` finds, both included."""
    end: str | None = None
    has: str | None = None
    """Of several: those whose text this regular expression finds."""

    @property
    def kind(self) -> str:
        """Return which of the fields is set."""
        return next(name for name in KINDS if getattr(self, name) is not None)

    def __str__(self) -> str:
        words = [f'{name} = "{value}"' for name in (*KINDS, "end", "has") if (value := getattr(self, name)) is not None]
        return "{ " + ", ".join(words) + " }"


KINDS = ("function", "inside", "include", "guard", "branch", "line", "begin")


class TextMove(Struct, frozen=True, forbid_unknown_fields=True):
    """Upstream's text that moves.

    It is found, kept under ``name``, and put where ``{{name}}`` stands in a text of ours.
    """

    name: str
    file: RelativePath
    at: list[Selector]
    where: list[Selector] = []
    """Only where these lead to a place; else ``{{name}}`` goes, with the empty line below it."""
    where_file: str = ""
    """The file that ``where`` looks at, as upstream has it; its own where there is none."""
    since: str = ""
    """The first release that has what ``where`` asks for. The text decides; this tells."""
    undefine: list[str] = []
    """Macros whose conditionals in it are settled as not defined."""
    define: list[str] = []
    """Macros whose conditionals in it are settled as defined."""
    drop: list[str] = []
    """Regular expressions: lines that stay behind. Each must find one."""
    gone: list[str] = []
    """Regular expressions: what may go where ``define`` and ``undefine`` settle. All else that goes is an error."""
    replace: list[tuple[str, str]] = []
    """(regular expression, text): each must find something."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of one place in a file that stays.

    Exactly one of put, before, after, replace and undefine or define says what becomes of it.
    """

    file: RelativePath
    at: list[Selector] = []
    """Each narrows what the one before it found; none: the whole file."""
    where: list[Selector] = []
    """Only where these lead to a place: a file of later releases may have no need of it."""
    where_file: str = ""
    """The file that ``where`` looks at, as upstream has it; its own where there is none."""
    since: str = ""
    """The first release that has what ``where`` asks for. The text decides; this tells."""
    either: str = ""
    """A name that edits with different ``where`` share: of these at least one must apply to the tree."""
    every: bool = False
    """Do so at each place that is found, and at least one. Without it there must be exactly one."""
    blank: bool = False
    """With ``put = ""``: the empty line below goes as well."""
    put: str | None = None
    before: str | None = None
    after: str | None = None
    undefine: list[str] = []
    define: list[str] = []
    replace: list[tuple[str, str]] = []
    """(regular expression, text) within what is found: each must find something."""
    gone: list[str] = []
    """Regular expressions: upstream's text that may go here although no ``take`` carries it. What a pattern of ``at``
    finds is named already; anything else that goes is an error."""


class UpstreamSign(Struct, frozen=True, forbid_unknown_fields=True):
    """A sign that upstream did the same; with all of them the patch is not needed."""

    since: str
    """The first release that has it, and what it does: for people."""
    file: RelativePath
    at: list[Selector] = []
    """Leads to one place."""
    lacks: list[Selector] = []
    """None of these is anywhere in the file."""


class NewFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of ours, with ``{{name}}`` where taken text goes."""

    path: RelativePath
    text: str
    where: list[Selector] = []
    """Only where these lead to a place in ``where_file``."""
    where_file: str = ""
    since: str = ""
    """The first release that has what ``where`` asks for. The text decides; this tells."""


class Recipe(Struct, frozen=True, forbid_unknown_fields=True):
    """All that makes one patch."""

    id: str
    """The ``Decouple-Id`` of the patch, whose header stays as the series has it."""
    take: list[TextMove] = []
    edit: list[Edit] = []
    new: list[NewFile] = []
    upstream: list[UpstreamSign] = []

    @property
    def files(self) -> list[str]:
        """Return every upstream file that it takes from or changes."""
        tables: list[TextMove | Edit | NewFile] = [*self.take, *self.edit, *self.new]
        asked = {table.where_file for table in tables if table.where_file}
        return sorted({*(table.file for table in self.take), *(table.file for table in self.edit), *asked})

    @property
    def read_paths(self) -> set[str]:
        """Return every upstream file that it reads, those of its signs included."""
        return {*self.files, *(sign.file for sign in self.upstream)}

    @property
    def needed(self) -> set[str]:
        """Return the files that the tree must have.

        A file that only tables with ``where`` name may come later.
        """
        takes = {table.file for table in self.take if not table.where}
        return takes | {table.file for table in self.edit if not table.where}

    @property
    def has_edits(self) -> bool:
        """Return whether it makes the patch.

        If not, it only knows when the patch is not needed.
        """
        return bool(self.files)


class RecipeError(DecoupleError):
    """A recipe is wrong or misses its place; ``path`` is the upstream file, if any."""

    def __init__(self, what: str, *, next_step: str, path: str = "", parts: Sequence[RecipeError] = ()) -> None:
        super().__init__(what, next_step=next_step)
        self.path = path
        self.parts: tuple[RecipeError, ...] = tuple(parts) or (self,)
        """Each thing that the recipe misses in the tree; itself where it is one."""


class LostTextError(RecipeError):
    """Upstream's text that would go and come nowhere.

    Merging the patch's old text does not make up for it.
    """


def load_recipes(project: Path) -> dict[str, Recipe]:
    """Read every recipe of a checkout, by the ``Decouple-Id`` of the patch it makes.

    Raises RecipeError.
    """
    return {path.stem: load_recipe(path) for path in sorted(Checkout(project).recipes.glob("*.toml"))}


def load_recipe(path: Path) -> Recipe:
    """Read one recipe. Raises RecipeError that names file and key."""
    mend = "docs/rebase.md lists the keys of a recipe"
    try:
        recipe = toml.read_toml(path, Recipe, mend=mend)
    except DecoupleError as error:
        raise RecipeError(error.what, next_step=mend) from None
    for fault in _find_faults(recipe, path.stem):
        raise RecipeError(f"{path}: {fault}", next_step=mend)
    return recipe


def _find_faults(recipe: Recipe, stem: str) -> list[str]:
    faults = []
    if recipe.id != stem:
        faults.append(f"id {recipe.id!r} is not the file's name")
    for what, steps in _list_steps(recipe):
        for step in steps:
            if sum(getattr(step, kind) is not None for kind in KINDS) != 1:
                faults.append(f"{what}: {step} must have exactly one of {', '.join(KINDS)}")
            if (step.begin is None) != (step.end is None):
                faults.append(f"{what}: {step}: begin and end go together")
            for name in ("line", "begin", "end", "has"):
                faults += _check_pattern(what, getattr(step, name))
    for take in recipe.take:
        for pattern in [*take.drop, *take.gone, *(pattern for pattern, _ in take.replace)]:
            faults += _check_pattern("take", pattern)
    for edit in recipe.edit:
        settles = bool(edit.undefine or edit.define)
        acts = [edit.put is not None, edit.before is not None, edit.after is not None, bool(edit.replace), settles]
        if sum(acts) != 1:
            faults.append(f"edit of {edit.file}: exactly one of put, before, after, replace, undefine/define")
        for pattern in [*edit.gone, *(pattern for pattern, _ in edit.replace)]:
            faults += _check_pattern("edit", pattern)
    faults += [
        f"new {new.path}: where and where_file go together" for new in recipe.new if new.where and not new.where_file
    ]
    tables: list[TextMove | Edit | NewFile] = [*recipe.take, *recipe.edit, *recipe.new]
    for table in tables:
        if table.since and not (re.fullmatch(r"\d+\.\d+", table.since) and table.where):
            faults.append(f"since {table.since!r}: a release like 2.14, beside a where that asks the text for it")
    names = [take.name for take in recipe.take]
    texts = [new.text for new in recipe.new]
    texts += [text for edit in recipe.edit for text in (edit.put, edit.before, edit.after) if text]
    used = {name for text in texts for name in find_placeholders(text)}
    faults += [f"{{{{{name}}}}} is taken nowhere" for name in sorted(used - set(names))]
    faults += [f"take {name!r} is used nowhere, so its text would be lost" for name in names if name not in used]
    return faults


def _list_steps(recipe: Recipe) -> list[tuple[str, list[Selector]]]:
    steps = [("take", [*table.at, *table.where]) for table in recipe.take]
    steps += [("edit", [*table.at, *table.where]) for table in recipe.edit]
    steps += [("new", table.where) for table in recipe.new]
    return steps + [("upstream", [*table.at, *table.lacks]) for table in recipe.upstream]


def find_placeholders(text: str) -> list[str]:
    """Return the names in ``{{name}}``."""
    return re.findall(r"^\{\{([\w-]+)\}\}$", text, re.MULTILINE)


def _check_pattern(what: str, pattern: str | None) -> list[str]:
    if pattern is None:
        return []
    try:
        re.compile(pattern)
    except re.error as error:
        return [f"{what}: {pattern!r} is no regular expression: {error}"]
    return []


def is_explained(recipes: Mapping[str, Recipe], identity: str, line: str) -> bool:
    """Return whether a recipe drops or rewrites a line.

    The line may then be missing from the copy. ``identity`` is the Decouple-Id of the recipe's patch, ``line`` the
    text.
    """
    recipe = recipes.get(identity)
    if recipe is None:
        return False
    patterns = [
        pattern for take in recipe.take for pattern in [*take.drop, *take.gone, *(old for old, _ in take.replace)]
    ]
    patterns += [pattern for edit in recipe.edit for pattern in edit.gone]
    return any(re.search(pattern, line, re.MULTILINE) for pattern in patterns)
