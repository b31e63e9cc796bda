'''Make a patch into commits for upstream, with a test and a pull request's text.

>>> from decouple.flows.upstream import UpstreamRequest, make_upstream_patches
>>> _ = (project / "series/upstream").mkdir()
>>> _ = (project / "series/upstream/hooks.toml").write_text("""schema = 1
... id = "hooks"
... motivation = "A device asks."
... change = "Line 7."
... test = { file = "test/test_7.py", run = "python test/test_7.py", fails = "line 7", text = "assert True" }
... """)
>>> [path.name for path in make_upstream_patches(UpstreamRequest(project, "hooks", "2.6", source=str(source))).files]
['0001-hooks.patch', 'pull-request.md']
'''

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import make_work_folder
from decouple.base.git import run_git
from decouple.flows.listener import QUIET, Listener
from decouple.patch import mail
from decouple.patch.apply import File, Source
from decouple.patch.parse import Patch
from decouple.recipes import model
from decouple.series import check, upstream_commits
from decouple.series.upstream_commits import UpstreamCommit, UpstreamTexts
from decouple.upstream import source_specifier
from decouple.upstream.named_sources import open_named_source

_LETTER = "pull-request.md"


class UpstreamRequest(Struct, frozen=True):
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


def make_upstream_patches(request: UpstreamRequest, listener: Listener = QUIET) -> UpstreamPatches:
    """Make the mails and the pull request's text.

    Raises NotForUpstreamError, in one line, where there is nothing to submit.
    """
    release, series, known = _load_series(request)
    upstream_commits.refuse_patch(series, request.id, known, _make_taken_check(request.project))
    source, described = _open_source(request, listener, release, series, known)
    made = tuple(upstream_commits.make_commits(series, source, request.id, known, _make_taken_check(request.project)))
    out = request.out or request.project / "build" / "upstream" / request.id
    if out.exists() and not (out / _LETTER).is_file():
        raise DecoupleError(f"{out}: not a folder that this command made", next_step="name another with --out")
    with make_work_folder(out.parent, out.name) as scratch:
        ready = Path(scratch, "ready")
        _write_mails(made, source, Path(scratch, "tree"), ready)
        (ready / _LETTER).write_text(format_letter(made, described), encoding="utf-8")
        if out.exists():
            out.rename(Path(scratch, "old"))
        ready.rename(out)
    return UpstreamPatches(described, made, tuple(sorted(out.iterdir())))


def judge_patches(request: UpstreamRequest, listener: Listener = QUIET) -> list[UpstreamVerdict]:
    """Of every patch of the series, in order, what it is for upstream."""
    release, series, known = _load_series(request)
    source, _ = _open_source(request, listener, release, series, known)
    taken, found = _make_taken_check(request.project), []
    for patch in series:
        identity = patch.identity
        try:
            made = upstream_commits.make_commits(series, source, identity, known, taken)
        except upstream_commits.NotForUpstreamError as error:
            found.append(UpstreamVerdict(identity, error.what))
        else:
            needs = tuple(commit.patch.identity for commit in made[:-1])
            found.append(UpstreamVerdict(identity, "", needs))
    return found


def format_letter(made: Sequence[UpstreamCommit], described: str) -> str:
    """Return the text of the pull request, of its last commit.

    The others are named first.
    """
    last = made[-1]
    parts = [f"# {last.title}\n\n## Motivation\n\n{last.motivation}\n\n## Change\n\n{last.text.change.strip()}\n"]
    if made[:-1]:
        parts.append("It comes after:\n\n" + "".join(f"- {commit.title}\n" for commit in made[:-1]))
    parts.append("## Test\n")
    for commit in made:
        parts.append(f"`{commit.test.run}`\n\nWithout {commit.title!r}: {commit.test.fails.strip()}\n")
    parts.append(f"Cut on {described}.\n")
    return "\n".join(parts)


def _load_series(request: UpstreamRequest) -> tuple[str, list[Patch], UpstreamTexts]:
    checkout = Checkout(request.project)
    release = request.release or checkout.find_newest_release()
    return release, check.load_series(request.project, release), upstream_commits.load_texts(checkout.upstream_texts)


def _open_source(
    request: UpstreamRequest, listener: Listener, release: str, series: list[Patch], known: UpstreamTexts
) -> tuple[Source, str]:
    wanted = check.list_wanted_paths(series) | {text.test.file for text in known.texts.values() if text.test}
    with source_specifier.name_option("--on"):
        opened, _ = open_named_source(
            request.project, release, request.source, wanted, offline=request.offline, progress=listener.progress
        )
    return opened.source, opened.described


def _make_taken_check(project: Path) -> Callable[[str], str]:
    """Return a function that says what upstream did itself about an id.

    It goes by the signs of the recipes; "" where they know of nothing.
    """
    signs = {
        name: "; ".join(sign.since for sign in recipe.upstream) for name, recipe in model.load_recipes(project).items()
    }
    return lambda identity: signs.get(identity, "")


def _write_mails(made: Sequence[UpstreamCommit], source: Source, tree: Path, out: Path) -> None:
    """Commit only the touched files and let git write the mails.

    The blob ids are those of the whole tree.
    """
    tree.mkdir()
    run_git("init", "-q", cwd=tree)
    for path in {path: None for commit in made for path in commit.changes}:
        if (mode := source.mode(path)) is not None:
            _write_file(tree, path, File(mode, source.read(path)))
    _commit_files(tree, "upstream", "nobody <nobody@invalid>", "1970-01-01T00:00:00Z")
    for commit in made:
        for path, file in commit.changes.items():
            _write_file(tree, path, file)
        plan = f"Test Plan:\n\n    {commit.test.run}\n\nWithout this commit: {commit.test.fails.strip()}"
        written = mail.read_mail(commit.patch.header_text)
        message = f"{commit.title}\n\n{commit.motivation}\n\n{plan}\n"
        _commit_files(tree, message, written.author, f"@{written.date}")
    words = ("--full-index", "--no-signature", "--zero-commit", "-M", "-q", f"-{len(made)}")
    run_git("format-patch", *words, "-o", str(out), "HEAD", cwd=tree)


def _write_file(tree: Path, name: str, file: File | None) -> None:
    path = tree / name
    if file is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    path.chmod(0o755 if file.mode & 0o100 else 0o644)


def _commit_files(tree: Path, message: str, author: str, date: str) -> None:
    name, _, address = author.removesuffix(">").rpartition(" <")
    who = {"NAME": name, "EMAIL": address, "DATE": date}
    env = {f"GIT_{side}_{key}": value for side in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    run_git("add", "-Af", ".", cwd=tree)
    run_git("commit", "-q", "--allow-empty", "-F", "-", cwd=tree, env=env, stdin=message.encode())
