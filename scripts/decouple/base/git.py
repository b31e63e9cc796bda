"""Start every git process of this tool, independent of the caller's settings.

So a tree is the same whoever runs the command.

No ``GIT_*`` variable of the caller reaches git, and neither do the global and system configuration and attributes.
What a repository's own configuration could still change is overridden on the command line. Fetching alone may know
what a person set to reach other hosts (:func:`make_fetch_environment`), and only those names of it.

A repository may be somebody else's, and its configuration names programs. So nothing but fetching opens a transport:
what a partial clone lacks is missing. Hooks and monitors are off, diffs are asked for without drivers, and a
repository of another owner is refused as git refuses it, unless the person said ``safe.directory``.

``git apply`` run below another repository's work tree skips every path and exits 0 (seen). So a :class:`Repository`
names ``GIT_DIR``, ``GIT_WORK_TREE`` and ``GIT_INDEX_FILE`` in every call.

GitPython reads the progress of a clone here. It runs nothing: it can add to the environment and not take away, and to
import it costs several times what a verb of the stack takes (it starts ``git version`` twice).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import has_no_room, is_disk_full_message, write_atomically
from decouple.base.untrusted_input import is_count, read_bounded

# Modes as git has them in trees and patches.
TREE = 0o040000
REGULAR = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
SUBMODULE = 0o160000

_LOOKED_AT = 8000
"""Bytes in which git looks for a NUL (its xdiff-interface.c)."""

#: Configuration of every call; it goes before what a repository says itself.
_CONFIG = (
    "advice.detachedHead=false",
    "apply.ignoreWhitespace=no",
    "core.attributesFile=/dev/null",  # without this, git reads $XDG_CONFIG_HOME/git/attributes
    "core.autocrlf=false",  # bytes go in and out as they are
    "core.excludesFile=/dev/null",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",  # no hook of a template may run in between
    "core.precomposeUnicode=false",
    "core.quotePath=true",  # the same path spelling on every machine
    "core.safecrlf=false",
    "diff.orderFile=/dev/null",
    "diff.suppressBlankEmpty=false",
    "gc.auto=0",  # housekeeping is not ours to start in the middle of a push
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
)
#: For ``diff`` and ``log``: no program that a repository names for some files.
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv")
#: For one call on a repository whose whole content is known to be ours, whoever owns it.
WHOEVER_OWNS_IT = ("-c", "safe.directory=*")
_OPTIONS = tuple(word for setting in _CONFIG for word in ("-c", setting))
_SLATE = {
    "GIT_ADVICE": "0",
    "GIT_ALLOW_PROTOCOL": "none",  # the name of no transport: a promisor remote may name any program as one
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",  # git 2.45 and what Debian took back to 2.39: fewer words than of a refused transport
    "GIT_NO_REPLACE_OBJECTS": "1",  # else refs/replace/ gives other bytes under an id
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
#: Variables and settings by which git reaches other hosts.
_REACHING = ("GIT_ALLOW_PROTOCOL", "GIT_ASKPASS", "GIT_HTTP_", "GIT_PROTOCOL", "GIT_PROXY_", "GIT_SSH", "GIT_SSL_")
_REACHING_CONFIG = r"^(http|https|credential|url|ssh|protocol)\.|^core\.(sshcommand|gitproxy|askpass)$"

_DIED = 128
"""git's exit status when it could not do what was asked (its usage.c): no answer."""

_WHOLE_ID = re.compile("[0-9a-f]{40}")


def is_binary(data: bytes) -> bool:
    """Return whether git takes a file of this content for a binary one."""
    return b"\0" in data[:_LOOKED_AT]


class Answer(Struct, frozen=True):
    """The exit status and output of a git command."""

    status: int
    out: bytes
    err: str
    full: bool = False
    """Whether it failed and there was no room on a disk that it writes to."""


def make_answer(status: int, out: bytes, err: str, *places: Path) -> Answer:
    """Make the answer of a git that has ended; ``places`` are where it writes."""
    return Answer(status, out, err, status != 0 and (is_disk_full_message(err) or has_no_room(*places)))


class GitObject(Struct, frozen=True):
    """An object of a git repository."""

    id: str
    kind: str
    """"blob", "tree", "commit", "tag"."""
    data: bytes


class Reader(Protocol):
    """A reader of objects that starts no process for each; see ``base.objects``."""

    def read_objects(self, names: Sequence[str]) -> list[GitObject | None]:
        """Return what stands under each of ``names``."""


class GitError(DecoupleError):
    """A git command that failed; ``answer`` has its words."""

    def __init__(self, doing: str, answer: Answer, *, next_step: str | None = None) -> None:
        words = [line for line in answer.err.splitlines() if line.strip()]
        marked = [line for line in words if line.startswith(("fatal: ", "error: "))]
        shown = "; ".join(marked[:3] or words[-3:]) or f"exit status {answer.status}"
        if answer.full:
            doing, next_step = f"the disk is full: {doing}", "free space there, then run the same command again"
        super().__init__(f"{doing}: {shown}", next_step=next_step)
        self.answer = answer


def make_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of this process with ``GIT_*`` variables replaced.

    Every one of the caller's goes, ours take their place. ``extra`` is added last.
    """
    return {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | _SLATE | dict(extra or {})


def _merge_environment(extra: Mapping[str, str | None]) -> dict[str, str]:
    """Make the environment; a None in ``extra`` takes a variable away."""
    merged = make_environment({key: value for key, value in extra.items() if value is not None})
    return {key: value for key, value in merged.items() if key not in extra or extra[key] is not None}


def make_person_environment() -> dict[str, str | None]:
    """Return the variables that let git read a person's own configuration.

    They undo what `make_environment` sets; for ``env`` of :func:`try_git`.
    """
    theirs = {key: value for key, value in os.environ.items() if key.startswith("GIT_CONFIG")}
    return {"GIT_CONFIG_GLOBAL": None, "GIT_CONFIG_NOSYSTEM": None, **theirs}


def is_repository(path: Path) -> bool:
    """Return whether a folder is a git repository with commits, bare or not."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


class _OwnedRepository(Struct, frozen=True):
    """A repository that a git process would read, and the owners of its configuration."""

    root: Path
    """The work tree, or the bare repository: what ``safe.directory`` names."""
    owners: frozenset[int]


def _read_owners(root: Path, git_dir: Path) -> _OwnedRepository:
    """Read who owns the repository in ``git_dir``. Raises OSError.

    ``git_dir`` is a file that names it where it is a linked work tree's.
    """
    places = {root, git_dir}
    if git_dir.is_file():
        named = os.fsdecode(read_bounded(git_dir, 1 << 16)).removeprefix("gitdir:").strip()
        places.add(root / named)
    return _OwnedRepository(root, frozenset(place.stat().st_uid for place in places))


def _find_repository(cwd: Path, env: Mapping[str, str | None]) -> _OwnedRepository | None:
    """Find what git would take for the repository there; None where there is none."""
    with contextlib.suppress(OSError, DecoupleError):
        named = env.get("GIT_DIR")
        if named:
            return _read_owners(Path(env.get("GIT_WORK_TREE") or named), Path(named))
        start = cwd.resolve()
        for folder in (start, *start.parents):
            if os.path.lexists(folder / ".git"):
                return _read_owners(folder, folder / ".git")
            if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
                return _read_owners(folder, folder)
    return None


def _is_foreign(repository: _OwnedRepository | None) -> bool:
    """Say whether another user could have written its configuration.

    The user who called sudo is no other user, as in git.
    """
    person = {os.geteuid()}
    if os.geteuid() == 0 and is_count(os.environ.get("SUDO_UID")):
        person.add(int(os.environ["SUDO_UID"]))
    return repository is not None and not repository.owners <= person


def _is_allowed(repository: _OwnedRepository) -> bool:
    """Say whether a repository of another owner may be used.

    It may where it lies in the checkout that this program runs from, whose owner decides what it does anyway, and
    where the person's own configuration names it (``safe.directory``, in whichever way git reads it).
    """
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "series").is_dir() and repository.root.resolve().is_relative_to(checkout):
        return True
    env = _merge_environment(make_person_environment())
    process = subprocess.run(
        ["git", "rev-parse", "--git-dir"], cwd=repository.root, env=env, capture_output=True, check=False
    )
    return process.returncode == 0


def _make_owner_error(repository: _OwnedRepository) -> DecoupleError:
    return DecoupleError(
        f"{repository.root} belongs to another user, and git would do what their configuration there says",
        next_step=f"git config --global --add safe.directory {shlex.quote(str(repository.root))}",
    )


def make_fetch_environment() -> dict[str, str | None]:
    """Return what a person set to reach other hosts.

    These are transports, proxy, credentials, ssh and TLS; they are ``env`` for a git that fetches.

    For repositories that we made: their configuration may name programs then.
    """
    variables: dict[str, str | None] = {"GIT_ALLOW_PROTOCOL": None, "GIT_NO_LAZY_FETCH": None}
    variables |= {key: value for key, value in os.environ.items() if key.startswith(_REACHING)}
    answer = try_git("config", "--null", "--get-regexp", _REACHING_CONFIG, cwd=Path("/"), env=make_person_environment())
    settings = [line.partition("\n") for line in os.fsdecode(answer.out).split("\0") if line]
    variables["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, _, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def start_git(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str | None] | None = None, **streams: Any
) -> subprocess.Popen[bytes]:
    """Start ``git ARGUMENTS`` in ``cwd``; ``streams`` are Popen's.

    A None in ``env`` takes a variable away.

    Raises DecoupleError when git is not installed, the folder is gone, or ``GIT_DIR`` names a repository of another
    owner, which git itself would take without asking.
    """
    variables = _merge_environment(env or {})
    more: tuple[str, ...] = ()
    repository = None if tuple(arguments[:2]) == WHOEVER_OWNS_IT else _find_repository(cwd, variables)
    if repository is not None and _is_foreign(repository):
        if _is_allowed(repository):
            more = WHOEVER_OWNS_IT
        elif "GIT_DIR" in variables:
            raise _make_owner_error(repository)
    try:
        return subprocess.Popen(["git", *_OPTIONS, *more, *arguments], cwd=cwd, env=variables, **streams)
    except FileNotFoundError:
        if not cwd.is_dir():
            raise DecoupleError(
                f"{cwd}: no such folder", next_step="did something delete it? run the same command again"
            ) from None
        raise DecoupleError("git is not installed", next_step="apt-get install git") from None


def try_git(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes | None = None,
    held: tuple[int, ...] = (),
) -> Answer:
    """Run ``git ARGUMENTS`` in ``cwd``, whatever its exit status.

    ``held``: open files that it inherits.

    Raises GitError when the disk is full, DecoupleError when the repository is another owner's: whatever was asked,
    that is not its answer.
    """
    source = subprocess.PIPE if stdin is not None else subprocess.DEVNULL
    pipe = subprocess.PIPE
    with start_git(arguments, cwd=cwd, env=env, stdin=source, stdout=pipe, stderr=pipe, pass_fds=held) as process:
        out, err = process.communicate(stdin)
    places = [Path(value) for key in ("GIT_DIR", "GIT_INDEX_FILE") if (value := (env or {}).get(key))]
    answer = make_answer(process.returncode, out, err.decode("utf-8", "replace"), cwd, *places)
    if answer.full and (answer.status != 1 or is_disk_full_message(answer.err)):  # 1 is also how it says no
        raise GitError(f"git {arguments[0]} in {cwd}", answer)
    if answer.status == _DIED and arguments[:2] != WHOEVER_OWNS_IT:
        repository = _find_repository(cwd, env or {})
        if repository is not None and _is_foreign(repository) and not _is_allowed(repository):
            raise _make_owner_error(repository)
    return answer


def run_git(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes | None = None,
    doing: str = "",
    next_step: str | None = None,
) -> bytes:
    """Run git and return what it wrote. Raises GitError.

    ``doing`` replaces "git VERB in FOLDER" in messages.
    """
    answer = try_git(*arguments, cwd=cwd, env=env, stdin=stdin)
    if answer.status:
        raise GitError(doing or f"git {arguments[0]} in {cwd}", answer, next_step=next_step)
    return answer.out


def read_git_text(*arguments: str, cwd: Path) -> str:
    """Run git and return its output as text, without the newline at the end."""
    return run_git(*arguments, cwd=cwd).decode("utf-8", "surrogateescape").rstrip("\n")


def split_names(listing: bytes) -> list[str]:
    """Split the paths in what a git command wrote with ``-z``."""
    return [os.fsdecode(name) for name in listing.split(b"\0") if name]


def is_unedited(tree: Path) -> bool:
    """Say whether a work tree and its submodules hold what their commits hold.

    Files that git is not told to ignore count as edits. What their configuration says of their files is left out: a
    filter would be a program of theirs.

    Raises DecoupleError when git cannot read it.
    """
    listing = run_git("ls-files", "-z", "--stage", cwd=tree)
    commit = read_git_text("rev-parse", "HEAD", cwd=tree)
    places = {name: read_git_text("rev-parse", "--git-path", name, cwd=tree) for name in ("index", "objects")}
    with tempfile.TemporaryDirectory(prefix="decouple-status-") as folder:
        bare = Path(folder)
        make_bare_repository(bare, commit)
        env = {
            "GIT_DIR": str(bare),
            "GIT_OBJECT_DIRECTORY": str(tree / places["objects"]),
            "GIT_WORK_TREE": str(tree),
            "GIT_INDEX_FILE": str(tree / places["index"]),
        }
        # a submodule is looked at below, as git would do it by its own configuration
        if run_git("status", "--porcelain", "--ignore-submodules=dirty", cwd=tree, env=env):
            return False
    links = [name.split("\t", 1)[1] for name in split_names(listing) if name.startswith(f"{SUBMODULE:o} ")]
    return all(is_unedited(tree / name) for name in links if (tree / name / ".git").exists())


def make_bare_repository(bare: Path, head: str = "ref: refs/heads/none") -> None:
    """Make ``bare`` a repository of our own, without configuration and attributes.

    It is for objects that lie elsewhere.
    """
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True, exist_ok=True)
    write_atomically(bare / "HEAD", f"{head}\n")


def clone_repository(
    url: str, into: Path, *options: str, doing: str, next_step: str, told: Callable[[float, float | None], None]
) -> None:
    """Run ``git clone OPTIONS URL INTO``, with what a person set to reach other hosts.

    ``told`` gets how many objects have come, of how many. Raises GitError.
    """
    from git import RemoteProgress  # reads git's lines, through all its versions of them

    class Lines(RemoteProgress):
        def update(
            self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
        ) -> None:
            if op_code & self.OP_MASK == self.RECEIVING:
                told(float(cur_count), float(max_count) if max_count else None)

    read = Lines().new_message_handler()
    words: list[str] = []
    full = False
    arguments = ("clone", "--progress", *options, url, str(into))
    with start_git(
        arguments, cwd=into.parent, env=make_fetch_environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr
        for line in io.TextIOWrapper(process.stderr, "utf-8", "replace"):  # it takes \r for the end of a line
            read(line)
            words.append(line)
            full = full or has_no_room(into.parent)  # now: what it wrote goes when it fails
    if process.returncode:
        answer = make_answer(process.returncode, b"", "\n".join(words), into.parent)
        raise GitError(doing, replace(answer, full=answer.full or full), next_step=next_step)


def quote_import_path(raw: bytes) -> bytes:
    """Quote a path as git-fast-import(1) wants it.

    It stays as it is, unless it starts with a quote or has a newline: then it is C-quoted.
    """
    if raw.startswith(b'"') or b"\n" in raw:
        return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    return raw


_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def quote_diff_path(path: str) -> str:
    """Quote a path as git writes it in a diff, where core.quotePath is set.

    It stays as it is, unless it has a control character, a quote, a backslash or a byte past ASCII.
    """
    escaped = escape_diff_path(path)
    return path if escaped == path else f'"{escaped}"'


def escape_diff_path(path: str) -> str:
    """Return what git writes of a path between the quotes: ASCII alone."""
    raw = path.encode("utf-8", "surrogateescape")
    return "".join(_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in raw)


def format_git(root: Path, *words: str) -> str:
    """Format a git command for the repository at ``root``, from any folder.

    In the folder where a person types it there is often another repository: the checkout with its series.
    """
    return shlex.join(["git", "-C", str(root), *words])


def name_status(root: Path) -> str:
    """Name the command that shows in which state the repository at ``root`` is."""
    return f"`{format_git(root, 'status')}`"


class Repository:
    """A git repository and its work tree."""

    def __init__(self, root: Path, git_dir: Path | None = None) -> None:
        """Name the work tree ``root`` and its repository.

        The repository is ``root/.git`` unless ``git_dir`` names it (bare).
        """
        self.root = root.absolute()
        self.git_dir = (git_dir or root / ".git").absolute()
        self._trees: dict[str, str] = {}
        self.held: tuple[int, ...] = ()
        """Files that every git process inherits: the lock, so that a git that outlives a killed run still holds it."""
        self.reader: Reader | None = None
        """Set while ``base.objects.keep_object_reader`` lasts."""

    @property
    def state_folder(self) -> Path:
        """Return the folder where the stack keeps its state: ``.git/decouple``."""
        return self.git_dir / "decouple"

    def make_variables(self, index: Path | None = None) -> dict[str, str | None]:
        """Return the variables by which git finds this repository and no other."""
        return {
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.root),
            "GIT_INDEX_FILE": str(index or self.git_dir / "index"),
            "GIT_LITERAL_PATHSPECS": "1",  # a path is a path, also with a * in it
        }

    def try_run(
        self, *arguments: str, stdin: bytes | None = None, index: Path | None = None, user_config: bool = False
    ) -> Answer:
        """Run ``git ARGUMENTS`` and return its answer, whatever its exit status."""
        place = self.make_variables(index)
        env = make_person_environment() | place if user_config else place
        return try_git(*arguments, cwd=self.root, env=env, stdin=stdin, held=self.held)

    def run(self, *arguments: str, stdin: bytes | None = None, index: Path | None = None) -> bytes:
        """Run ``git ARGUMENTS`` and return its standard output.

        Raises GitError with git's own words.
        """
        answer = self.try_run(*arguments, stdin=stdin, index=index)
        if answer.status:
            raise self.make_error(arguments[0], answer)
        return answer.out

    def run_on_objects(self, *arguments: str) -> bytes:
        """Run git in a repository beside this one that has its objects and nothing else.

        No configuration and no attributes of this repository's own are in it: what they say of diffs cannot be
        overridden on the command line.
        """
        bare = self.state_folder / "objects-only.git"
        if not (bare / "HEAD").is_file():
            make_bare_repository(bare)
        place = {"GIT_DIR": str(bare), "GIT_OBJECT_DIRECTORY": str(self._find_objects())}
        answer = try_git(*arguments, cwd=bare, env=place, held=self.held)
        if answer.status:
            raise self.make_error(arguments[0], answer)
        return answer.out

    def _find_objects(self) -> Path:
        """Return the folder of its objects; a linked work tree has none of its own."""
        own = self.git_dir / "objects"
        return own if own.is_dir() else self.root / self.read_text("rev-parse", "--git-path", "objects")

    def make_error(self, verb: str, answer: Answer) -> GitError:
        """Make the error that tells why ``git VERB`` failed here."""
        return GitError(
            f"git {verb} in {self.root}",
            answer,
            next_step=f"{name_status(self.root)} shows the state it is in",
        )

    def read_text(self, *arguments: str, index: Path | None = None) -> str:
        """Run git and return its output, decoded and without the newline at the end."""
        return self.run(*arguments, index=index).decode("utf-8", "surrogateescape").rstrip("\n")

    def resolve_commit(self, name: str) -> str | None:
        """Return the commit id that ``name`` stands for, or None."""
        answer = self.try_run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return answer.out.decode().strip() if answer.status == 0 else None

    def read_head(self) -> str | None:
        """Return the commit id of HEAD, or None.

        It is read from the files where they have it: most verbs ask for nothing else.
        """
        try:
            text = (self.git_dir / "HEAD").read_text("ascii").strip()
            if text.startswith("ref: "):
                text = (self.git_dir / text[5:]).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):  # packed, or another storage of refs: git knows
            return self.resolve_commit("HEAD")
        return text if len(text) == 40 and not text.startswith("ref:") else self.resolve_commit("HEAD")

    def read_tree_id(self, commit: str) -> str:
        """Return the tree id of a commit.

        That of a whole id never changes, so git is asked for it once.
        """
        tree = self._trees.get(commit)
        if tree is None:
            entry = self.reader.read_objects([f"{commit}^{{tree}}"])[0] if self.reader else None
            tree = entry.id if entry else self.read_text("rev-parse", "--verify", f"{commit}^{{tree}}")
            if _WHOLE_ID.fullmatch(commit):
                self._trees[commit] = tree
        return tree
