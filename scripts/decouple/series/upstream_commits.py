"""Format one patch of a series as upstream could take it.

It is on pristine text, without anything that only this project has. A section below ``third_device/`` is brought back
to the file that the series moved there, or dropped where that file is the project's own. What then still needs the
project is refused, with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.base.git import escape_diff_path
from decouple.patch import mail
from decouple.patch.apply import File, Source, Tree, apply_patch
from decouple.patch.parse import FilePatch, Patch
from decouple.series.dependencies import find_dependencies

OURS = "third_device/"
ONLY_HERE = "only-here"
"""The file beside the texts that lists the names which only this project has."""


class UpstreamTest(Struct, frozen=True):
    """A test of ours in upstream's layout."""

    file: str
    """Where it goes: a new file of upstream's tree."""
    run: str
    """The command that runs it, in upstream's tree."""
    fails: str
    """How it fails without the patch."""
    text: str


class UpstreamText(Struct, frozen=True):
    """``series/upstream/<Decouple-Id>.toml``: what upstream's reviewers read and run."""

    id: str
    refused: str = ""
    """Why it is nothing for upstream; then nothing else is said."""
    title: str = ""
    """Empty: the patch's own."""
    motivation: str = ""
    """Why, and what fails without it. Empty: the free text of the patch's header."""
    change: str = ""
    needs: list[str] = []
    """Ids of earlier patches that it cannot do without although it applies."""
    test: UpstreamTest | None = None

    def __post_init__(self) -> None:
        """Check that it has either a refusal or a text."""
        if not self.refused and not (self.change and self.test):
            raise ValueError("neither `refused` nor both `change` and [test]")


class LocalName(Struct, frozen=True):
    """A name that means nothing to upstream."""

    pattern: re.Pattern[str]
    is_: str = field(name="is")


class _Names(Struct, frozen=True):
    name: list[LocalName]


class UpstreamTexts(Struct, frozen=True):
    """The texts of ``series/upstream``."""

    texts: Mapping[str, UpstreamText]
    only_here: tuple[LocalName, ...]


class UpstreamCommit(Struct, frozen=True):
    """A commit that upstream could take."""

    patch: Patch
    """Without what is ours, its paths upstream's."""
    text: UpstreamText
    changes: Mapping[str, File | None]
    """path -> file after it, its test included; None: deleted."""
    brought_back: tuple[str, ...]
    """Upstream's names of files that the series had moved."""

    @property
    def title(self) -> str:
        """Return its first line."""
        return self.text.title or mail.read_mail(self.patch.header_text).title

    @property
    def motivation(self) -> str:
        """Return why it is needed."""
        return (self.text.motivation or mail.read_free_text(self.patch.header)).strip()

    @property
    def test(self) -> UpstreamTest:
        """Return its test; a commit without one is refused."""
        assert self.text.test
        return self.text.test


class NotForUpstreamError(DecoupleError):
    """A patch that is nothing for upstream, or not yet."""


def load_texts(folder: Path) -> UpstreamTexts:
    """Load every text of ``series/upstream``. Raises DecoupleError with file and key."""
    mend = "docs/patches.md, Upstream, says what a text has"
    texts = {}
    for path in sorted(folder.glob("*.toml")):
        if path.stem != ONLY_HERE:
            text = toml.read_toml(path, UpstreamText, mend=mend)
            if text.id != path.stem:
                raise DecoupleError(f"{path}: $.id: {text.id} is not the file's name", next_step=mend)
            texts[text.id] = text
    names = folder / f"{ONLY_HERE}.toml"
    return UpstreamTexts(texts, tuple(toml.read_toml(names, _Names, mend=mend).name) if names.is_file() else ())


def refuse_patch(
    series: Sequence[Patch], identity: str, known: UpstreamTexts, taken: Callable[[str], str] = lambda identity: ""
) -> None:
    """Raise NotForUpstreamError where the patch ``identity`` is nothing for upstream.

    It is raised for what is known without upstream's tree.
    """
    _judge_patch(_find_patch(_convert_series(series), identity), series, known, taken)


def make_commits(
    series: Sequence[Patch],
    source: Source,
    identity: str,
    known: UpstreamTexts,
    taken: Callable[[str], str] = lambda identity: "",
) -> list[UpstreamCommit]:
    """Make the commits that bring the patch ``identity`` to ``source``.

    Those that it needs come first.

    ``taken``: what upstream did itself about an id, "" where nothing is known. Raises NotForUpstreamError, with the
    reason in one line, for this patch and for any that it needs.
    """
    forms = _convert_series(series)
    patch, chain = _find_patch(forms, identity), list[Patch]()
    _judge_patch(patch, series, known, taken)
    _add_needed(patch, series, forms, source, known, chain)
    made, tree = [], Tree(source)
    for step in chain:
        name = step.identity
        try:
            _judge_patch(step, series, known, taken)
        except NotForUpstreamError as error:
            if name == identity:
                raise
            raise NotForUpstreamError(f"{identity} needs {error.what}", next_step=error.next_step) from None
        done = apply_patch(step, tree)
        for result in done.files:
            if result.failure:
                raise NotForUpstreamError(
                    f"{name} does not apply to this source: {result.failure.message}",
                    next_step="carry the series there first: decouple rebase",
                )
        text = known.texts[name]
        assert text.test
        if tree.get(text.test.file):
            raise NotForUpstreamError(
                f"{name}: its test {text.test.file} is in this source already",
                next_step=f"another name in series/upstream/{name}.toml",
            )
        changes = {**done.changes, text.test.file: File(0o100644, text.test.text.encode())}
        tree.update(changes)
        mine = {path for file in _find_patch(series, name).files for path in file.paths}
        made.append(UpstreamCommit(step, text, changes, tuple(path for path in step.touched_paths if path not in mine)))
    return made


def _convert_series(series: Sequence[Patch]) -> list[Patch]:
    """Return the series with upstream's paths, without files of ours.

    Patches that only rename, or have nothing left, are in it, too.
    """
    moved: dict[str, str] = {}
    forms = []
    for patch in series:
        sections = []
        for file in patch.check_readable().files:
            if file.rename and file.path.startswith(OURS):
                moved[file.path] = moved.get(file.old_path or "", file.old_path or "")
            elif not any(path.startswith(OURS) and path not in moved for path in file.paths):
                sections.append(_convert_section(file, moved))
        forms.append(Patch(patch.name, patch.header_bytes + b"".join(sections)))
    return forms


def _convert_section(file: FilePatch, moved: Mapping[str, str]) -> bytes:
    """Return the section with upstream's path, where the series had moved the file."""
    header = file.raw_header
    for path in file.paths:
        if path in moved:  # as it is, or in quotes
            header = header.replace(os.fsencode(path), os.fsencode(moved[path]))
            header = header.replace(escape_diff_path(path).encode(), escape_diff_path(moved[path]).encode())
    return header + b"".join(hunk.raw for hunk in file.hunks) + file.raw_tail


def _find_patch(patches: Sequence[Patch], identity: str) -> Patch:
    patch = next((candidate for candidate in patches if candidate.identity == identity), None)
    if patch is None:
        raise DecoupleError(
            f"{identity}: no patch of this series has that Decouple-Id", next_step="decouple upstream patch"
        )
    return patch


def _judge_patch(patch: Patch, series: Sequence[Patch], known: UpstreamTexts, taken: Callable[[str], str]) -> None:
    """Raise NotForUpstreamError where the patch is nothing for upstream.

    The patch is in upstream's form.
    """
    name = patch.identity
    why, mend = _find_reason(patch, _find_patch(series, name), name, known, taken)
    if why:
        raise NotForUpstreamError(f"{name}: {why}", next_step=mend)


def _find_reason(
    patch: Patch, original: Patch, name: str, known: UpstreamTexts, taken: Callable[[str], str]
) -> tuple[str, str | None]:
    if since := taken(name):
        return f"upstream did it itself: {since}", "nothing to submit"
    text = known.texts.get(name)
    if text and text.refused:
        return text.refused, None
    if edited := _find_edited_move(original):
        return f"it moves {edited.old_path} to {OURS} and edits it at once", "make two patches of it"
    for file in original.files:
        if patch.files and file.creates and file.path.startswith(OURS):
            return f"what it takes from the core goes to {file.path}, which upstream has not", None
    if not patch.files:
        return f"nothing is left of it outside {OURS}", None
    for file in patch.files:
        for hunk in file.hunks:
            for line in hunk.lines:
                for ours in known.only_here if line.kind == "+" else ():
                    if match := ours.pattern.search(line.text.decode("utf-8", "replace")):
                        return f"{file.path} would name {match.group()}: {ours.is_}", None
    if patch.header.decouple_id is None:
        return "it has no Decouple-Id", "docs/patches.md, Header, says what a header has"
    if text is None:
        return "it has no text and no test for upstream", f"write series/upstream/{name}.toml"
    return "", None


def _find_edited_move(original: Patch) -> FilePatch | None:
    return next((file for file in original.files if file.rename and file.hunks and file.path.startswith(OURS)), None)


def _add_needed(
    patch: Patch,
    series: Sequence[Patch],
    forms: Sequence[Patch],
    source: Source,
    known: UpstreamTexts,
    chain: list[Patch],
) -> None:
    """Put what ``patch`` needs into ``chain``, in order, and then itself.

    A needed patch of which nothing is left is none of upstream's: it is left out.
    """
    if patch in chain:
        return
    name = patch.identity
    text = known.texts.get(name)
    ids = {*(text.needs if text else ()), *patch.header.depends}
    before = {form.identity: form for form in forms[: forms.index(patch)]}
    if unknown := sorted(ids - before.keys()):
        raise NotForUpstreamError(
            f"{name}: it needs {unknown[0]}, and no patch before it has that Decouple-Id",
            next_step=f"correct Depends of {patch.name}, or `needs` of series/upstream/{name}.toml",
        )
    if not apply_patch(patch, Tree(source)).applies:
        ids |= _find_needs(patch, [form for form in before.values() if form.files], source)
    for identity in ids:
        if before[identity].files or _find_edited_move(_find_patch(series, identity)):
            _add_needed(before[identity], series, forms, source, known, chain)
    chain.append(patch)
    chain.sort(key=forms.index)


def _find_needs(patch: Patch, before: Sequence[Patch], source: Source) -> set[str]:
    """Find the ids of the earlier patches without which it does not apply.

    There are none where it does not apply with them either.
    """
    wanted, near = set(patch.touched_paths), list[Patch]()
    for one in reversed(before):
        if wanted & set(one.touched_paths):
            near.insert(0, one)
            wanted |= set(one.touched_paths)
    try:
        names = find_dependencies([*near, patch], source)[patch.name]
    except DecoupleError:
        return set()
    return {patch.identity for patch in near if patch.name in names}
