"""Sessions: each runs ``decouple VERB``, or checks and tests this project.

Plain ``nox`` runs those with a star. Arguments after ``--`` go to the command (``nox -s apply-2.6 -- --source git``) or
to pytest (``nox -s tests -- -k push``).

Sessions named after a release exist for every series in ``series/``; a new series file is all it takes to get them.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import itertools
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nox

# Every session runs in one environment of ours, made by virtualenv: that nox has no uv says nothing.
logging.getLogger("nox").addFilter(lambda record: not record.getMessage().startswith("uv binary not found"))

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["tools", "lint", "tests", "smoke-2.6", "test-cuda-slice-2.6", "tests-real", "tests-contract"]

ROOT = Path(__file__).parent
VENV = ROOT / ".nox" / "decouple"
CONSTRAINTS = ROOT / "ci" / "constraints.txt"
PYTHON = (sys.executable, "-P")  # what -m starts is never a file of the current folder
sys.path.insert(0, str(ROOT / "scripts"))
from decouple.base.checkout import Checkout  # noqa: E402 - needs nothing that is not there before an install
from decouple.base.files import hold_lock  # noqa: E402 - nor does this
from decouple.cli.menu import EXTRAS  # noqa: E402

RELEASES = Checkout(ROOT).list_releases()
OTHERS = [release for release in Checkout(ROOT).list_manifest_releases() if release not in RELEASES]
CARRIED = ("fetch", "apply", "check", "build")
"""The verbs of a release without a whole series: apply carries the nearest one to it, build applies first."""

#: verb -> what the menu says; the session ``<verb>-<release>`` runs ``decouple <verb> <release> [arguments]``
PER_RELEASE = {
    "apply": "fetch, then put the whole series on it: build/<release>/src",
    "status": "how far the applied tree, the series and the patches agree",
    "refresh": "write the commits of build/<release>/src back to patches/",
    "check": "would the series apply to a source? one status per patch, no checkout (-- --source wheel)",
    "census": "every coupling to CUDA before and after the series, as a table, JSON and HTML",
    "build": "both wheels into dist/<release>/ (-- --stage 1|2, --core built|stock, --env, --arch, --jobs, --no-flash)",
    "verify": "ELF audit, imports and parity with the monolith of the wheels in dist/<release>/",
    "test-cuda": "upstream's CUDA suites on a GPU or on the simulated device (-- cuda torch --against official)",
    "fetch": "download, verify and unpack the source of this release",
    "relocate": "which CUDA files move where and why; --write generates 0001-relocate-cuda-sources.patch",
    "smoke": "stage 2's runtime part against a stock core: does it build, does _CUDAC import (needs no GPU)",
    "shell": "a shell in the build environment (-- --stage 2)",
    "clean": "delete what building left (-- --stage 1|2, --results, --rootfs, --all-roots)",
    "units": "what stage 1's translation units open, from the build's record: no file of CUDA (-- --count 60 --jobs 2)",
    "test-patches": "what each patch promises of a running torch, with a device and without (-- --torch PYTHON)",
    "record": "write what is proven of the series without building it to ci/status/ (-- --census FILE)",
    "wheels": "fetch prebuilt wheels from an index (-- --index URL), verified against this checkout",
    "contract": "the template built against the core in dist/<release>/, and the contract on it (-- --beside-cuda)",
    "reuse": "what of the relocated CUDA sources a vendor with the CUDA key can reuse (-- --names acme.toml)",
}

#: session -> the words of its command, where they are others.
WORDS = {
    "units": ["stages", "units"],
    "reuse": ["stages", "reuse"],
    "test-patches": ["try", "patches"],
    "upstream-watch": ["upstream", "watch"],
}

#: What ``test-cuda-slice`` gives to ``decouple test-cuda``: Debian's single-stage build, for which nothing has to be
#: built, and a slice that another commit chooses otherwise, against what the official wheel did with the same tests.
SLICE = [
    *("torch", "--torch", "monolith", "--device", "simulated", "--against", "official"),
    *("--slice", "160", "--files", "4", "--patience", "3", "--minutes", "8", "--again"),
]

#: verb -> what the menu says; the session ``<verb>`` runs ``decouple <verb> [arguments]``
GENERAL: dict[str, str] = {
    "new-device": "a backend from the template, or a newer template merged into one: -- acme",
    "status-table": "put the tables of ci/status/*.json into README.md and docs/",
    "forecast": "a patch x release matrix, without a checkout",
    "upstream-watch": "the series on upstream's main of today, and what changed (-- --source PATH --state FILE)",
    "rebase": "carry the newest series to another upstream release: -- 2.7.0",
}


IN_USE = contextlib.ExitStack()
"""Holds a lock on the environment until nox ends: what runs in it takes hours, and another terminal may empty it."""


def make_environment(session: nox.Session, extra: str = "") -> Path:
    """Return the ``bin`` folder of the one virtual environment of all sessions.

    The ``extra`` is in it. It is installed once per pyproject.toml. nox makes one environment per session; with a menu
    of this size that would install the same package dozens of times. virtualenv is a dependency of nox, so it is there
    also under pipx. An environment of another place or Python is emptied, unless a session works in it: its scripts
    name the Python that they were installed for, and pip leaves what is installed as it is.
    """
    binaries = VENV / ("Scripts" if sys.platform == "win32" else "bin")
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    read = b"".join(path.read_bytes() for path in (ROOT / "pyproject.toml", CONSTRAINTS))
    home = hashlib.sha256(str(ROOT).encode() + sys.version.encode()).hexdigest()
    key = f"{home}\n{hashlib.sha256(read).hexdigest()}\n"
    stamp, lock = VENV / f"installed-{extra or 'base'}", VENV.with_suffix(".lock")
    IN_USE.close()  # of the session before
    if any(path.read_text().partition("\n")[0] != home for path in VENV.glob("installed-*")):
        with hold_lock(lock, lambda: refuse_emptying(session)):
            shutil.rmtree(VENV)  # and the stamps
    IN_USE.enter_context(hold_lock(lock, lambda: session.log(f"waits: another session empties {VENV}"), shared=True))
    with hold_lock(VENV.with_suffix(".install"), lambda: session.log(f"waits: another session installs into {VENV}")):
        if not stamp.exists() or stamp.read_text() != key:
            session.run(*PYTHON, "-m", "virtualenv", "-q", str(VENV), external=True, silent=True)
            pip = [str(binaries / "python"), "-P", "-m", "pip", "install", "-q", "-c", str(CONSTRAINTS)]
            session.run(*pip, "-e", wanted, external=True)
            stamp.write_text(key)
    return binaries


def refuse_emptying(session: nox.Session) -> None:
    """Fail the session whose environment another one works in."""
    session.error(
        f"{VENV}: made for another place or Python ({sys.executable} runs this nox), and another session works in it; "
        "wait until that ends, or use its nox"
    )


CANNOT_HERE = 75
"""What ``decouple`` exits with when this machine is too small or may not, rather than something being wrong."""


def define_session(name: str, summary: str, command: list[str]) -> None:
    """Make one session that runs ``decouple COMMAND [arguments after --]``."""

    def run(session: nox.Session) -> None:
        argv = [str(make_environment(session, EXTRAS.get(command[0], "")) / "decouple"), *command, *session.posargs]
        if name not in nox.options.sessions or name in _asked:
            session.run(*argv, external=True)
        elif code := subprocess.run(argv).returncode:  # part of plain ``nox``, so it may be skipped, with its reason
            # but not in CI: what is skipped everywhere is tested nowhere (tests/support/tools.py)
            may_skip = code == CANNOT_HERE and not os.environ.get("DECOUPLE_REQUIRE_TOOLS")
            (session.skip if may_skip else session.error)(f"exit code {code}, the reason is above")

    run.__doc__ = summary
    nox.session(name=name, venv_backend="none")(run)


for _release in RELEASES:
    for _verb, _summary in PER_RELEASE.items():
        define_session(
            f"{_verb}-{_release}", _summary.replace("<release>", _release), [*WORDS.get(_verb, [_verb]), _release]
        )
    define_session(
        f"test-cuda-slice-{_release}",
        f"upstream's CUDA tests, a slice chosen by the commit, on Debian's build of {_release} without a GPU",
        ["test-cuda", _release, *SLICE],
    )
    define_session(
        f"smoke-hip-{_release}",
        "smoke of torch_hip: the relocated sources, hipified, by Debian's ROCm for gfx90a (needs no GPU)",
        ["smoke", _release, "--toolkit", "rocm"],
    )
# Of releases without a series only the session that is asked for exists, and one line of the menu says which there are.
_asked = {word.rpartition("=")[2] for word in sys.argv} | set(re.split("[, ]", os.environ.get("NOXSESSION", "")))
for _release, _verb in itertools.product(OTHERS, CARRIED):
    if (_name := f"{_verb}-{_release}") in _asked:
        define_session(_name, PER_RELEASE[_verb].replace("<release>", _release), [_verb, _release])


@nox.session(name="apply-2.N", venv_backend="none", default=False)
def other_releases(session: nox.Session) -> None:
    """Not a session: where it would be, the menu says which there are (below)."""
    session.error(f"name a release: nox -s apply-{OTHERS[-1] if OTHERS else RELEASES[-1]}")


other_releases.__doc__ = f"{', '.join(CARRIED)}, of {', '.join(OTHERS)}: the nearest series is carried there"
for _verb, _summary in GENERAL.items():
    define_session(_verb, _summary, WORDS.get(_verb, [_verb]))


TYPED = (
    "ci",
    "scripts/bench",
    "scripts/decouple",
    "scripts/simcuda",
    "tests/contract",
    "tests/long",
    "third_device/layer/backend_build",
    "third_device/contract/third_device_contract",
    "third_device/added_to_core/torch/_decoupled",
    "third_device/tools/wrapped_cmake",
    "third_device/torch_cuda/torch_cuda_build",
)
"""What mypy --strict holds; ``third_device/layer/python`` is a package only inside a backend."""


@nox.session(venv_backend="none")
def tools(session: nox.Session) -> None:
    """Look for the commands of ci/tools.toml that the tests start.

    End plain ``nox`` when one is missing.
    """
    rows = tomllib.loads((ROOT / "ci" / "tools.toml").read_text(encoding="utf-8"))["tool"]
    missing = [row for row in rows if shutil.which(row["command"]) is None]
    if missing:  # SystemExit, where an error of this session would let the others install and run for minutes
        commands, packages = (", ".join(row["command"] for row in missing), " ".join(row["package"] for row in missing))
        sys.exit(f"nox: the tests need {commands}: apt-get install {packages}, or run one session: nox -s tests")
    session.log(f"{len(rows)} commands of ci/tools.toml are there")


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """ruff, mypy --strict, vulture, and every fault of every patch of every series."""
    binaries = make_environment(session, "dev")
    for command in (
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy", *TYPED],
        ["vulture"],
        ["decouple", "lint"],
    ):
        session.run(str(binaries / command[0]), *command[1:], external=True)


#: What every run of tests ends with: where its time went.
SLOWEST = ("--durations", "20")
#: One worker per core, and the tests of a file in one of them: they share what its fixtures make.
#: ``-n 0`` after -- runs all in one process, for a debugger.
WORKERS = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadfile")


#: Options of pytest whose value, in a word of its own, may be a path of the checkout, and names no tests to run.
VALUED = (
    *("-k", "-m", "-c", "--config-file", "--ignore", "--ignore-glob", "--deselect", "--basetemp", "--rootdir"),
    *("--confcutdir", "--junit-xml", "--junitxml", "--log-file"),
)


def run_pytest(session: nox.Session, *folders: str) -> None:
    """Run pytest with the arguments after ``--``.

    Where these name no file or folder it runs on ``folders``: without one pytest would take ``testpaths``, which are
    other sessions' tests, too, and `-k` alone chose among those.
    """
    behind = zip(["", *session.posargs], session.posargs, strict=False)
    words = [word.partition("::")[0] for before, word in behind if before not in VALUED]
    paths = [ROOT / word for word in words if "/" in word or word == "tests"]
    named = any(path.exists() and path.is_relative_to(ROOT) for path in paths)  # not --basetemp /tmp/there
    arguments = session.posargs if named else [*session.posargs, *folders]
    session.run(str(make_environment(session, "dev") / "pytest"), *SLOWEST, *WORKERS, *arguments, external=True)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the quick tests on all cores; after -- any pytest arguments."""
    run_pytest(session, "tests/unit", "tests/fault")


@nox.session(name="tests-real", venv_backend="none")
def tests_real(session: nox.Session) -> None:
    """Run the tests on the real PyTorch source; after -- any pytest arguments.

    The source is fetched once and cached.
    """
    run_pytest(session, "tests/real")


@nox.session(name="tests-contract", venv_backend="none")
def tests_contract(session: nox.Session) -> None:
    """Build the template against an official torch and run the backend contract on it.

    Its tests start pytest themselves, each with a limit; pytest clears what earlier runs left in the folder that all
    share, and the tests of kills leave hundreds of thousands of files there: minutes of one test's ten.
    """
    folder = ROOT / ".nox" / "pytest-contract"  # pytest keeps the last three runs there, as it does elsewhere
    folder.mkdir(parents=True, exist_ok=True)
    session.env["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    run_pytest(session, "tests/contract")


@nox.session(venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """Measure speed as ratios in one run; after -- the names of benches to run.

    Results are in bench-results/.
    """
    benches = {path.stem: path for path in sorted((ROOT / "scripts" / "bench").glob("[!_]*.py"))}
    if unknown := [word for word in session.posargs if word not in benches]:
        session.error(
            f"no bench {', '.join(unknown)}; there are {', '.join(benches)}. One with options is run as a script: "
            "python scripts/bench/startup.py --help"
        )
    python = make_environment(session, "dev") / "python"
    results = ROOT / "bench-results"
    results.mkdir(exist_ok=True)
    for name in session.posargs or benches:
        session.run(str(python), str(benches[name]), "--json", str(results / f"{name}.json"), external=True)


@nox.session(venv_backend="none", default=False)
def ci(session: nox.Session) -> None:
    """Run one job of ci/matrix.toml here: -- JOB; without a name, list them.

    ``-- --json`` lists them with their commands.
    """
    if not session.posargs or session.posargs[0].startswith("-"):
        session.run(sys.executable, str(ROOT / "ci" / "matrix.py"), *session.posargs, external=True)
        return
    command = ["--command-of", session.posargs[0]]
    lines = session.run(sys.executable, str(ROOT / "ci" / "matrix.py"), *command, external=True, silent=True)
    commands = [shlex.split(line) for line in str(lines).splitlines()]
    for number, words in enumerate(commands, start=1):
        more = session.posargs[1:] if number == len(commands) else []
        begin = [*PYTHON, "-m"] if words[0] == "nox" else ["pipx", "run"]  # this nox, and what it may lack
        session.run(*begin, *words, *more, external=True)


def suggest_sessions(words: list[str], known: list[str]) -> list[str]:
    """Return a line for each session asked for (``-s``) that does not exist.

    It has the names near to it. nox only says which it did not find.
    """
    lines, named = [], False
    for word in words[: words.index("--")] if "--" in words else words:
        if word.startswith("-"):
            named = word in ("-s", "-e", "--session", "--sessions")
        elif named and word not in known and (near := difflib.get_close_matches(word, known, 3)):
            lines.append(f"no session {word}: did you mean {' or '.join(near)}?")
    return lines


for _line in suggest_sessions(sys.argv[1:], list(nox.registry.get())):
    print(_line, file=sys.stderr)
