'''A patch of the series as commits that upstream PyTorch could take, with a test and a pull request's text.

>>> from decouple.flows.upstream import ToUpstream, to_upstream
>>> _ = (project / "series/upstream").mkdir()
>>> _ = (project / "series/upstream/hooks.toml").write_text("""schema = 1
... id = "hooks"
... motivation = "A device asks."
... change = "Line 7."
... test = { file = "test/test_7.py", run = "python test/test_7.py", fails = "line 7", text = "assert True" }
... """)
>>> [path.name for path in to_upstream(ToUpstream(project, "hooks", "2.6", source=str(source))).files]
['0001-hooks.patch', 'pull-request.md']
'''

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import work_folder
from decouple.base.git import git
from decouple.flows.listener import QUIET, Listener
from decouple.patch import mail
from decouple.patch.apply import File, Source
from decouple.patch.parse import Patch
from decouple.recipes import model
from decouple.series import check, forward
from decouple.series.forward import UpstreamCommit, UpstreamTexts
from decouple.upstream.source_word import open_named

_LETTER = "pull-request.md"


class ToUpstream(Struct, frozen=True):
    """Which patch of which series, on what."""

    project: Path
    id: str = ""
    """A Decouple-Id; empty: only say of every patch what it is for upstream."""
    release: str | None = None
    """None: the newest whole series."""
    source: str = "auto"
    """What ``check`` takes: the release, or another tree of upstream's."""
    out: Path | None = None
    """The folder to write, made anew; None: ``build/upstream/ID`` of the project."""
    offline: bool = False


class UpstreamPatches(Struct, frozen=True):
    """What was made."""

    described: str
    """The source in words."""
    commits: tuple[UpstreamCommit, ...]
    files: tuple[Path, ...]
    """Mails for ``git am``, in order, and the text of the pull request."""


class UpstreamVerdict(Struct, frozen=True):
    """What one patch is for upstream."""

    id: str
    refused: str
    """Why it is nothing for upstream; empty where it is ready."""
    needs: tuple[str, ...] = ()
    """Ids of the patches that would go with it."""


def to_upstream(request: ToUpstream, listener: Listener = QUIET) -> UpstreamPatches:
    """Make the mails and the letter. Raises NotForUpstream, in one line, where there is nothing to submit."""
    release, series, known = _series(request)
    forward.refuse(series, request.id, known, _taken(request.project))
    source, described = _opened(request, listener, release, series, known)
    made = tuple(forward.commits(series, source, request.id, known, _taken(request.project)))
    out = request.out or request.project / "build" / "upstream" / request.id
    if out.exists() and not (out / _LETTER).is_file():
        raise DecoupleError(f"{out}: not a folder that this command made", next_step="name another with --out")
    with work_folder(out.parent, out.name) as scratch:
        ready = Path(scratch, "ready")
        _mails(made, source, Path(scratch, "tree"), ready)
        (ready / _LETTER).write_text(letter(made, described), encoding="utf-8")
        if out.exists():
            out.rename(Path(scratch, "old"))
        ready.rename(out)
    return UpstreamPatches(described, made, tuple(sorted(out.iterdir())))


def verdicts(request: ToUpstream, listener: Listener = QUIET) -> list[UpstreamVerdict]:
    """Of every patch of the series, in order, what it is for upstream."""
    release, series, known = _series(request)
    source, _ = _opened(request, listener, release, series, known)
    taken, found = _taken(request.project), []
    for patch in series:
        identity = patch.header.decouple_id or patch.name
        try:
            made = forward.commits(series, source, identity, known, taken)
        except forward.NotForUpstream as error:
            found.append(UpstreamVerdict(identity, error.what))
        else:
            needs = tuple(one.patch.header.decouple_id or "" for one in made[:-1])
            found.append(UpstreamVerdict(identity, "", needs))
    return found


def letter(made: Sequence[UpstreamCommit], described: str) -> str:
    """The text of the pull request, of its last commit; the others are named first."""
    last = made[-1]
    parts = [f"# {last.title}\n\n## Motivation\n\n{last.motivation}\n\n## Change\n\n{last.text.change.strip()}\n"]
    if made[:-1]:
        parts.append("It comes after:\n\n" + "".join(f"- {one.title}\n" for one in made[:-1]))
    parts.append("## Test\n")
    for one in made:
        parts.append(f"`{one.test.run}`\n\nWithout {one.title!r}: {one.test.fails.strip()}\n")
    parts.append(f"Cut on {described}.\n")
    return "\n".join(parts)


def _series(request: ToUpstream) -> tuple[str, list[Patch], UpstreamTexts]:
    checkout = Checkout(request.project)
    release = request.release or checkout.newest()
    return release, check.load(request.project, release), forward.load(checkout.upstream_texts)


def _opened(
    request: ToUpstream, listener: Listener, release: str, series: list[Patch], known: UpstreamTexts
) -> tuple[Source, str]:
    wanted = check.wanted(series) | {text.test.file for text in known.texts.values() if text.test}
    opened, _ = open_named(
        request.project, release, request.source, wanted, offline=request.offline, progress=listener.progress
    )
    return opened.source, opened.described


def _taken(project: Path) -> Callable[[str], str]:
    """What upstream did itself about an id, by the signs of the recipes; "" where they know of nothing."""
    found = {name: "; ".join(sign.since for sign in one.upstream) for name, one in model.load_all(project).items()}
    return lambda identity: found.get(identity, "")


def _mails(made: Sequence[UpstreamCommit], source: Source, tree: Path, out: Path) -> None:
    """Commit only the touched files and let git write the mails: the blob ids are those of the whole tree."""
    tree.mkdir()
    git("init", "-q", cwd=tree)
    for path in {path: None for one in made for path in one.changes}:
        if (mode := source.mode(path)) is not None:
            _write(tree, path, File(mode, source.read(path)))
    _commit(tree, "upstream", "nobody <nobody@invalid>", "1970-01-01T00:00:00Z")
    for one in made:
        for path, file in one.changes.items():
            _write(tree, path, file)
        plan = f"Test Plan:\n\n    {one.test.run}\n\nWithout this commit: {one.test.fails.strip()}"
        written = mail.read(one.patch.header_text)
        message = f"{one.title}\n\n{one.motivation}\n\n{plan}\n"
        _commit(tree, message, written.author, f"@{written.date}")
    words = ("--full-index", "--no-signature", "--zero-commit", "-M", "-q", f"-{len(made)}")
    git("format-patch", *words, "-o", str(out), "HEAD", cwd=tree)


def _write(tree: Path, name: str, file: File | None) -> None:
    path = tree / name
    if file is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    path.chmod(0o755 if file.mode & 0o100 else 0o644)


def _commit(tree: Path, message: str, author: str, date: str) -> None:
    name, _, address = author.removesuffix(">").rpartition(" <")
    who = {"NAME": name, "EMAIL": address, "DATE": date}
    env = {f"GIT_{side}_{key}": value for side in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    git("add", "-Af", ".", cwd=tree)
    git("commit", "-q", "--allow-empty", "-F", "-", cwd=tree, env=env, stdin=message.encode())
