"""What nox makes of a session whose command cannot run on this machine, and of a checkout that was moved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.files import hold_lock
from tests.unit.index.wheels import make_wheel

ROOT = Path(__file__).parents[3]

#: Appended to noxfile.py: plain ``nox`` is one session, and ``decouple`` is beside it.
SMALL = """
nox.options.sessions = ["smoke-2.6"]
make_environment = lambda session, extra="": ROOT
"""


@pytest.mark.parametrize(
    ("words", "required", "code"),
    [([], "", 0), ([], "1", 1), (["-s", "smoke-2.6"], "", 1), (["--session=smoke-2.6"], "", 1)],
    ids=["plain nox", "plain nox in CI", "by name", "by name in one word"],
)
def test_only_plain_nox_skips_what_this_machine_cannot_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], required: str, code: int
) -> None:
    """Who asks for a session by name, a script for one, has to learn that it did not run.

    So has CI, where a session that is left out on every machine would be tested nowhere.
    """
    monkeypatch.setenv("DECOUPLE_REQUIRE_TOOLS", required)
    for name in ("scripts", "series", "ci", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "noxfile.py").write_text((ROOT / "noxfile.py").read_text(encoding="utf-8") + SMALL)
    (tmp_path / "decouple").write_text("#!/bin/sh\necho 'no namespaces here'\nexit 75\n")
    (tmp_path / "decouple").chmod(0o755)
    done = subprocess.run([sys.executable, "-m", "nox", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert "no namespaces here" in done.stdout + done.stderr


#: Appended to noxfile.py: what a bench is started with says how, and measures nothing.
NO_ENVIRONMENT = """
make_environment = lambda session, extra="": ROOT
"""


def run_session(name: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the session, in a checkout in ``folder``, with a ``python`` and a ``pytest`` that only print arguments."""
    for linked in ("scripts", "series", "ci", "pyproject.toml", "tests"):
        (folder / linked).symlink_to(ROOT / linked)
    (folder / "noxfile.py").write_text((ROOT / "noxfile.py").read_text(encoding="utf-8") + NO_ENVIRONMENT)
    for program in ("python", "pytest"):
        (folder / program).write_text('#!/bin/sh\necho "measures $*"\n')
        (folder / program).chmod(0o755)
    command = [sys.executable, "-m", "nox", "-s", name, "--", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "unknown"),
    [(["strtup"], "strtup"), (["startup", "--rounds", "3"], "--rounds, 3")],
    ids=["a name", "an option"],
)
def test_a_bench_that_does_not_exist_is_told_and_nothing_is_measured(
    tmp_path: Path, words: list[str], unknown: str
) -> None:
    """The session was successful, and had measured nothing, or without the option."""
    done = run_session("bench", tmp_path, *words)
    assert done.returncode == 1 and "measures" not in done.stdout
    assert f"no bench {unknown}; there are " in done.stderr and ", startup." in done.stderr


def test_the_benches_that_are_named_are_run(tmp_path: Path) -> None:
    done = run_session("bench", tmp_path, "startup", "census")
    assert done.returncode == 0, done.stderr
    started = [Path(line.split()[1]).name for line in done.stdout.splitlines()]
    assert started == ["startup.py", "census.py"]


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ([], ["tests/real"]),
        (["-k", "docs"], ["-k", "docs", "tests/real"]),
        (["--basetemp", "/tmp"], ["--basetemp", "/tmp", "tests/real"]),
        (["--ignore", "tests/unit"], ["--ignore", "tests/unit", "tests/real"]),
        (["tests/real/test_later.py::test_a", "-x"], ["tests/real/test_later.py::test_a", "-x"]),
    ],
    ids=["nothing", "an option alone", "a folder elsewhere", "what is left out", "a test"],
)
def test_a_session_of_tests_takes_its_own_where_none_is_named(
    tmp_path: Path, words: list[str], taken: list[str]
) -> None:
    """With `-k` alone pytest chose among the quick tests and the contract's, and none of tests/real was run."""
    done = run_session("tests-real", tmp_path, *words)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.split()[-len(taken) :] == taken
    assert line.count("tests/") == sum(word.startswith("tests/") for word in taken)


#: Appended to noxfile.py: a session that runs a script of what the checkout depends on, as lint runs ruff.
LINTER = """
@nox.session(venv_backend="none")
def run_linter(session):
    session.run(str(make_environment(session, *session.posargs) / "linter"), external=True)
"""

#: A checkout that needs no network to be installed.
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """
import shutil
from pathlib import Path

def build_editable(folder, *others):
    return Path(shutil.copy("checkout-1-py3-none-any.whl", folder)).name
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose noxfile.py is ours with a session run_linter, which is in a wheel of its own."""
    points = b"[console_scripts]\nlinter = linter.run:main\n"
    program = b"def main():\n    print('it is linted')\n"
    make_wheel(
        tmp_path, "linter", "1", extra_members={"linter/run.py": program, "linter-1.dist-info/entry_points.txt": points}
    )
    made = tmp_path / "before"
    made.mkdir()
    make_wheel(made, "checkout", "1", requires=("linter",))
    for name in ("scripts", "series", "ci"):
        (made / name).symlink_to(ROOT / name)
    (made / "noxfile.py").write_text((ROOT / "noxfile.py").read_text(encoding="utf-8") + LINTER)
    (made / "pyproject.toml").write_text(PYPROJECT)
    (made / "backend.py").write_text(BACKEND)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return made


def run_linter(checkout: Path, *extra: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nox", "-s", "run_linter", "--", *extra]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True)


def test_a_checkout_that_was_renamed_gets_its_environment_anew(checkout: Path) -> None:
    """The scripts of its tools named a Python in the folder that was no more: also where another extra is asked for."""
    for name, extra in (("before", []), ("after", ["dev"])):
        checkout = checkout.rename(checkout.with_name(name))
        done = run_linter(checkout, *extra)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "it is linted" in done.stdout


def test_two_sessions_install_one_after_the_other(checkout: Path) -> None:
    """Two terminals of a new checkout wrote the same environment at once: pip went away under the other's pip."""
    command = [sys.executable, "-m", "nox", "-s", "run_linter"]
    with hold_lock(checkout / ".nox/decouple.install"):
        other = subprocess.Popen(command, cwd=checkout, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert other.stderr
        assert any("waits: another session installs" in line for line in other.stderr)
        assert not (checkout / ".nox/decouple").exists()
    assert "successful" in other.communicate()[1] and other.returncode == 0


def test_an_environment_stays_while_a_session_works_in_it(checkout: Path) -> None:
    """A build of hours runs there, and starts its Python again and again: "git pull", "nox -s lint" took it away."""
    assert run_linter(checkout).returncode == 0
    used = checkout / ".nox/decouple/used-by-a-build"
    used.touch()
    (checkout / "pyproject.toml").write_text(f"{PYPROJECT}# another\n")
    assert run_linter(checkout).returncode == 0
    assert used.exists(), "pip installs what is new"
    moved = checkout.rename(checkout.with_name("after"))
    with hold_lock(moved / ".nox/decouple.lock", shared=True):
        done = run_linter(moved)
    assert done.returncode == 1 and "another session works in it" in done.stderr
    assert (moved / ".nox/decouple/used-by-a-build").exists()
    assert run_linter(moved).returncode == 0
    assert not (moved / ".nox/decouple/used-by-a-build").exists()
