"""A person's environment and git configuration, by the thousand: nothing of it may reach a tree, a patch or a baseline.

Two readers of ``tests/long/hostile.py``. `started` looks at what git would be started with, and starts nothing.
`real_git` starts it: every foreign setting of a batch at once, hundreds of them, and what comes out compared with what
comes out without any. A setting is in a batch once by its name, so none hides another; where a batch has an effect,
halves of it are tried until the setting is found. Every eighth batch is one setting alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from decouple.base import git as runner
from decouple.base.errors import DecoupleError
from decouple.stack.engine import Stack
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.unpacked_release import UnpackedRelease
from tests.support import series
from tests.support.releases import DEBIAN_PATCH, manifest, sample_tree

MANY = 400
"""Settings of a batch."""
VALUES = (
    "", "0", "1", "-1", "true", "false", "auto", "always", "never", "input", "copies", "99999999999999999999", "1e999",
    "sha256", "reftable", "99", "patience", "UTF-16", "ISO-8859-1", "/nonexistent", "..", "*", "touch evil",
    "!touch evil", "evil", "/dev/full", "HEAD", "refs/heads/evil", "Eve <eve@example.org>", "2001-02-03T04:05:06Z",
    "--unified=1", "=", "\"", "'core.bare=true'", "\x1b[2J", "caf\u00e9", "\udcff", "x" * 5000,
)  # fmt: skip
CALLERS = (
    "LC_ALL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "EMAIL",
    "POSIXLY_CORRECT",
    "LESS",
    "NO_COLOR",
)
#: Variables that would hide what is in a file of the same batch.
HIDING = ("GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_ATTR_NOSYSTEM")
#: What a repository's own files may say: its owner put it there, and it still must not matter.
CONFIGURED = {
    "core.autocrlf": ["true", "input"], "core.eol": ["crlf"], "core.fileMode": ["false"], "core.symlinks": ["false"],
    "core.ignoreCase": ["true"], "core.hooksPath": ["hooks"], "core.fsmonitor": ["touch evil"], "core.bare": ["true"],
    "core.attributesFile": ["attributes"], "core.sparseCheckout": ["true"], "core.splitIndex": ["true"],
    "core.sharedRepository": ["0777"], "core.quotePath": ["false"], "core.bigFileThreshold": ["1"],
    "core.checkStat": ["minimal"], "core.compression": ["0"], "core.abbrev": ["4"], "core.safecrlf": ["true"],
    "core.untrackedCache": ["true"], "core.whitespace": ["cr-at-eol"], "apply.whitespace": ["fix", "error-all"],
    "apply.ignoreWhitespace": ["change"], "diff.renames": ["copies", "false"], "diff.noprefix": ["true"],
    "diff.mnemonicPrefix": ["true"], "diff.algorithm": ["histogram"], "diff.context": ["0"],
    "diff.external": ["touch evil"],
    "diff.orderFile": ["order"], "diff.ignoreSubmodules": ["all"], "diff.indentHeuristic": ["false"],
    "i18n.commitEncoding": ["ISO-8859-1", "UTF-16"], "i18n.logOutputEncoding": ["UTF-16"], "commit.gpgSign": ["true"],
    "gpg.program": ["touch"], "user.name": ["Eve"], "color.ui": ["always"], "log.showSignature": ["true"],
    "index.version": ["4"], "feature.manyFiles": ["true"], "filter.evil.clean": ["tr a b"],
    "filter.evil.smudge": ["tr a b"],
    "filter.evil.required": ["true"], "status.short": ["true"], "status.branch": ["true"], "merge.renames": ["false"],
    "gc.auto": ["1"], "pack.packSizeLimit": ["1"], "advice.detachedHead": ["true"], "core.pager": ["touch evil"],
    "alias.status": ["!touch evil"], "core.logAllRefUpdates": ["always"], "include.path": ["more"],
    "core.editor": ["touch"],
}  # fmt: skip
ATTRIBUTES = (
    "* text", "* eol=crlf", "* -diff", "* binary", "* working-tree-encoding=UTF-16", "* ident", "* filter=evil",
    "* merge=ours", "* export-ignore", "* whitespace=-trailing", "*.py diff=evil", "* -text", "*.cu -text",
    "*.h eol=lf", "setup.py -diff", "[attr]binary text", "* diff=", "torch/** delta=false", "* text=auto", "* !text",
)  # fmt: skip
IGNORED = ("*", "torch/", "*.py", "/setup.py", "third_device/**", "!*", "registry.py")
#: Where a setting is said, and how often. "own": in the repository's files, not in the person's.
PLACES = {
    "global": 6, "xdg": 4, "system": 4, "counted": 4, "variable": 7, "attribute": 1, "ignore": 1,
    "own config": 2, "own attribute": 1, "own exclude": 1,
}  # fmt: skip


#: How many of a batch are the repository's own: they may change what git does, and do so in threes and fours.
OWN = {"own config": 4, "own attribute": 2, "own exclude": 1}

#: What its own attributes must not ask for: git converts what is written then, as in any repository.
CONVERTING = re.compile("filter|working-tree-encoding")


class Setting(NamedTuple):
    """One thing that git is told."""

    place: str
    name: str
    value: str


@functools.cache
def variables() -> tuple[str, ...]:
    """Every name in the program git that looks like one of its variables."""
    program = Path(subprocess.check_output(["git", "--exec-path"], text=True).strip(), "git")
    found = {name.decode() for name in re.findall(rb"GIT_[A-Z0-9_]{1,40}", program.read_bytes())}
    return tuple(sorted({*found, "GIT_X", "GIT_ATTR_SOURCE", "GIT_ATTR_GLOBAL", "GIT_DEFAULT_HASH", "GIT_ADVICE"}))


@functools.cache
def keys() -> tuple[str, ...]:
    """Every key of configuration that git's help lists; `evil` where a name of one's own stands."""
    listed = subprocess.check_output(["git", "help", "--config"], text=True, env=series.ENVIRONMENT).split()
    found = (re.sub(r"<[^>]*>|\*", "evil", word) for word in listed)
    return tuple(sorted({*(word for word in found if re.fullmatch(r"[A-Za-z][\w-]*(\.[\w-]+)+", word)), *CONFIGURED}))


def _setting(dice: random.Random, many: int) -> Setting:
    place = dice.choices(list(PLACES), list(PLACES.values()))[0]
    value = dice.choice(VALUES)
    if place == "variable":
        name = dice.choice((*variables(), *CALLERS))
        return Setting(place, "GIT_X" if many > 1 and name in HIDING else name, value)
    if place == "own config":
        name = dice.choice(sorted(CONFIGURED))
        return Setting(place, name, dice.choice(CONFIGURED[name]))
    if place.endswith("attribute"):
        return Setting(place, dice.choice(ATTRIBUTES), "")
    if place in ("ignore", "own exclude"):
        return Setting(place, dice.choice(IGNORED), "")
    return Setting(place, dice.choice(keys()), dice.choice(CONFIGURED.get(value, (value,))))


@functools.lru_cache(maxsize=4)
def batch(roll: int) -> tuple[Setting, ...]:
    """The settings that a number stands for."""
    dice = random.Random(roll)
    many = 1 if roll % 8 == 0 else MANY
    made: dict[tuple[str, str], Setting] = {}
    for _ in range(20 * many):
        if len(made) < many:
            one = _setting(dice, many)
            said = [other for other in made.values() if other.place == one.place]
            if len(said) < OWN.get(one.place, many) and not (
                one.place == "own attribute" and CONVERTING.search(one.name)
            ):
                made.setdefault((one.place, one.name.lower()), one)
    return tuple(made.values())


# ---- with git


def real_git(roll: int, folder: Path) -> None:
    """A baseline with Debian's patches, a push, an edit, a refresh and a pop are the same, whatever git was told."""
    if not _plain:
        _plain.append(_work(folder / "plain", ()))
        shutil.rmtree(folder / "plain")
    told, mask = batch(roll), random.Random(roll).choice([0o022, 0o022, 0o077, 0o000, 0o277])
    fault = _fault(told, mask, folder / "told")
    if fault:
        guilty, fault = _guilty(told, mask, folder / "told", fault)
        raise AssertionError(f"umask {mask:o}, {guilty[:5]} of {len(guilty)} settings: {fault}")


_plain: list[dict[str, str]] = []


def _guilty(told: tuple[Setting, ...], mask: int, folder: Path, fault: str) -> tuple[tuple[Setting, ...], str]:
    """The fewest settings that halving finds, and what they do."""
    while len(told) > 1:
        half = len(told) // 2
        for part in (told[:half], told[half:]):
            found = _fault(part, mask, folder)
            if found:
                told, fault = part, found
                break
        else:
            break
    return told, fault


def _fault(told: tuple[Setting, ...], mask: int, folder: Path) -> str:
    """What differs when git is told all this; "" when nothing does."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        seen = _work(folder, told, mask)
    except DecoupleError as error:
        return f"refused: {error.what}"
    finally:
        evil = [str(path) for path in folder.rglob("evil*")]
    shutil.rmtree(folder)
    if evil:
        return f"a program or file that a setting names: {evil}"
    return "; ".join(f"{key}: {seen[key]}, not {_plain[0][key]}" for key in seen if seen[key] != _plain[0][key])


def _work(folder: Path, told: tuple[Setting, ...], mask: int = 0o022) -> dict[str, str]:
    """Ids and digests of what is made below ``folder``, a new one."""
    from tests.unit.upstream.test_baseline import debian_folder

    tree = sample_tree(folder / "release")
    source = UnpackedRelease("local", "source", tree, "one", debian=debian_folder(folder / "debian", DEBIAN_PATCH))
    world = series.usual_world(folder / "world")
    info = world.source / ".git/info"
    with _told(told, folder, world, mask), _temporary(folder / "temporary"):
        reaching = runner.make_fetch_environment()
        base = ensure_baseline(folder / "cache", manifest(), source, debian_patches=True)
        with Stack.open(world.places) as stack:
            patch = series.edited_patch(world, stack)
            whole, there = stack.state.head, _digest(world)
            (info / "attributes").write_bytes(_lines(told, "own attribute"))
            stack.pop(1)
    asked = [str(value) for key, value in reaching.items() if key.startswith("GIT_CONFIG_KEY_")]
    return {
        "pristine": base.upstream,
        "with Debian's patches": base.commit,
        "head": whole,
        "files": there,
        "patch": hashlib.sha256(patch).hexdigest(),
        "popped": stack.state.head,
        "files of fewer": _digest(world),
        "for fetching": str([key for key in asked if not re.search(runner._REACHING_CONFIG, key)]),
    }


def _digest(world: series.World) -> str:
    return hashlib.sha256(repr(sorted(series.contents(world.source).items())).encode()).hexdigest()


@contextlib.contextmanager
def _told(told: tuple[Setting, ...], folder: Path, world: series.World, mask: int) -> Iterator[None]:
    """All of it said where it belongs, while this lasts."""
    home, system = folder / "home", folder / "system"
    (home / "xdg/git").mkdir(parents=True)

    files = {"global": home / ".gitconfig", "xdg": home / "xdg/git/config", "system": system}
    for place, path in files.items():
        path.write_bytes(b"".join(_config(one) for one in told if one.place == place))
    (home / "xdg/git/attributes").write_bytes(_lines(told, "attribute"))
    (home / "xdg/git/ignore").write_bytes(_lines(told, "ignore"))
    info = world.source / ".git/info"
    info.mkdir(exist_ok=True)
    with (info / "attributes").open("ab") as attributes:  # what filters and line ends they name comes later
        attributes.write(b"".join(line for line in _lines(told, "own attribute").splitlines(True) if b"diff" in line))
    (info / "exclude").write_bytes(_lines(told, "own exclude"))
    with (world.source / ".git/config").open("ab") as config:
        config.write(b"".join(_config(one) for one in told if one.place == "own config"))
    counted = [one for one in told if one.place == "counted"]
    said = {one.name: one.value for one in told if one.place == "variable"}
    said |= {key: str(folder / value) for key, value in said.items() if value == "evil"}
    if counted:
        said["GIT_CONFIG_COUNT"] = str(len(counted))
    for number, one in enumerate(counted):
        said |= {f"GIT_CONFIG_KEY_{number}": one.name, f"GIT_CONFIG_VALUE_{number}": one.value}
    said |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "xdg")}
    if any(one.place == "system" for one in told):
        said["GIT_CONFIG_SYSTEM"] = str(system)
    with _environment(said):
        before = os.umask(mask)
        try:
            yield
        finally:
            os.umask(before)


def _lines(told: tuple[Setting, ...], place: str) -> bytes:
    return "".join(f"{one.name}\n" for one in told if one.place == place).encode()


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[None]:
    """What Python makes for a while is made there."""
    folder.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _config(one: Setting) -> bytes:
    section, _, key = one.name.rpartition(".")
    section, dot, rest = section.partition(".")
    head = f'[{section} "{rest}"]' if dot else f"[{section}]"
    value = one.value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{head}\n\t{key} = "{value}"\n'.encode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _environment(said: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    for name in HIDING:  # tests/conftest.py sets three of them
        os.environ.pop(name, None)
    os.environ.update(said)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# ---- without git


def environment(roll: int) -> dict[str, str]:
    """The variables that a number stands for: of git, of others, and names that nobody knows."""
    dice = random.Random(roll)
    names = (*variables(), *CALLERS, "HOME", "XDG_CONFIG_HOME")
    made = {dice.choice(names): dice.choice(VALUES) for _ in range(dice.randint(1, 12))}
    made |= {f"GIT_{dice.randbytes(4).hex().upper()}": dice.choice(VALUES) for _ in range(dice.randint(0, 2))}
    many = dice.randint(0, 3)
    for number in range(many):
        made |= {f"GIT_CONFIG_KEY_{number}": dice.choice(keys()), f"GIT_CONFIG_VALUE_{number}": dice.choice(VALUES)}
    return made | ({"GIT_CONFIG_COUNT": str(many)} if many else {})


class _Started(NamedTuple):
    words: tuple[str, ...]
    env: dict[str, str]

    @property
    def of_git(self) -> dict[str, str]:
        return {key: value for key, value in self.env.items() if key.startswith("GIT_")}


@contextlib.contextmanager
def _recorded(answer: bytes) -> Iterator[list[_Started]]:
    """What git is started with goes to a list; nothing is started, and every answer is ``answer``."""
    found: list[_Started] = []

    class Nothing:
        returncode = 0

        def __init__(self, words: list[str], env: dict[str, str], **_: Any) -> None:
            found.append(_Started(tuple(words), env))

        def __enter__(self) -> Nothing:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def communicate(self, _: bytes | None) -> tuple[bytes, bytes]:
            return answer, b""

    real, there = runner.subprocess, {"Popen": Nothing, "PIPE": subprocess.PIPE, "DEVNULL": subprocess.DEVNULL}
    vars(runner)["subprocess"] = SimpleNamespace(**there)
    try:
        yield found
    finally:
        vars(runner)["subprocess"] = real


def _calls(answer: bytes) -> list[_Started]:
    """One call of each kind: for oneself, on a repository, for a person's name, for what fetches."""
    with _recorded(answer) as found:
        runner.try_git("version", cwd=Path("/"))
        repository = runner.Repository(Path("/nowhere"))
        repository.try_run("status")
        repository.try_run("config", "user.name", user_config=True)
        runner.try_git("clone", cwd=Path("/"), env=runner.make_fetch_environment())
    return found


def started(roll: int, folder: Path) -> None:
    """Nothing of the caller's is among what git is started with, but what is asked for by name."""
    dice, said = random.Random(roll), environment(roll)
    listed = [(dice.choice(keys()), dice.choice(VALUES)) for _ in range(dice.randint(0, 3))]
    answer = b"\0".join(f"{key}\n{value}".encode("utf-8", "surrogateescape") for key, value in listed)
    fixed = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_LITERAL_PATHSPECS"}
    with _environment({}):
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            del os.environ[name]
        plain = _calls(answer)
    with _environment(said):
        seen = _calls(answer)
    for number, (theirs, ours) in enumerate(zip(seen, plain, strict=True)):
        assert theirs.words == ours.words, said
        assert theirs.words[: 1 + len(runner._OPTIONS)] == ("git", *runner._OPTIONS), said
        assert theirs.env["LC_ALL"] == "C", said
        assert not any("\0" in key + value for key, value in theirs.env.items()), said
        mine, more = ours.of_git, {key for key in theirs.of_git if theirs.of_git[key] != ours.of_git.get(key)}
        if number in (0, 1):
            assert theirs.of_git == mine, f"{said}: {more}"
        elif number in (2, 3):  # what a person configured, asked for: their name; how they reach others
            assert all(key.startswith("GIT_CONFIG") for key in more), f"{said}: {more}"
        else:
            counted = [value for key, value in theirs.of_git.items() if key.startswith("GIT_CONFIG_KEY_")]
            assert counted == [key for key, _ in listed], f"{said}: {counted}"
            allowed = ("GIT_CONFIG_", *runner._REACHING)
            assert "GIT_NO_LAZY_FETCH" not in theirs.env and "GIT_NO_LAZY_FETCH" in seen[0].env, said
            assert all(key.startswith(allowed) for key in more), f"{said}: {more}"
            assert theirs.env["GIT_CONFIG_GLOBAL"] == os.devnull, said
        if number in (1, 2):
            assert all(theirs.env[key] == mine[key] for key in fixed), said
