"""CI types what README.md says: the commands are read out of the page, and the page names every package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from decouple.build.environment import Places
from tests.support.tools import read_tools

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "ci"))

import newcomer  # noqa: E402 - a script of ci/, no module of the package

README = (ROOT / "README.md").read_text(encoding="utf-8")


def place_in(folder: Path) -> newcomer.Place:
    return newcomer.Place(("/usr/bin/env", "-C", str(folder), f"HOME={folder}"), folder / "decouple")


def test_commands_are_those_of_the_blocks_below_the_headings() -> None:
    page = """# Product

```console
$ apt-get install -y git
$ git clone "$REPOSITORY" product
```

## Elsewhere

```console
$ rm -rf /
```

## Tests

```console
$ nox
it prints this
```
"""
    assert newcomer.read_commands(page, ("Product", "Tests")) == [
        "apt-get install -y git",
        'git clone "$REPOSITORY" product',
        "nox",
    ]


@pytest.mark.parametrize("block", ["", "```console\nnox\n```\n"], ids=["no block", "no command"])
def test_a_page_without_a_command_is_refused(block: str) -> None:
    """Of blocks without a `$` nothing was typed, and CI was content."""
    page = f"# Product\n\n```console\n$ nox\n```\n\n# Tests\n\n{block}"
    with pytest.raises(newcomer.NewcomerError, match="Tests"):
        newcomer.read_commands(page, ("Product", "Tests"))


@pytest.mark.parametrize("missing", ["git", "mmdebstrap", "mount"])
def test_each_missing_tool_is_installed_before_the_commands_run(tmp_path: Path, missing: str) -> None:
    installed = tmp_path / "installed"
    script = {"apt-get": f'#!/bin/sh\necho "$@" >> {installed}\n', "python3": "#!/bin/sh\n"}
    for tool in {"git", "mmdebstrap", "mount"} - {missing}:
        script[tool] = "#!/bin/sh\n"
    for tool, text in script.items():
        (tmp_path / tool).write_text(text)
        (tmp_path / tool).chmod(0o755)
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or tool)

    subprocess.run([str(tmp_path / "bash"), str(ROOT / ".ci/run")], env={"PATH": str(tmp_path)}, check=True)

    assert missing in installed.read_text()


def test_the_readme_begins_with_packages_and_ends_with_plain_nox() -> None:
    commands = newcomer.read_commands(README)
    assert commands[0].startswith("apt-get update && apt-get install -y ")
    assert commands[-1].split("  #")[0] == "pipx run nox"
    assert [bool(newcomer.BUILD_COMMAND.search(command)) for command in commands].count(True) == 1


def test_the_readme_names_every_package_that_tests_need() -> None:
    installs = [line for line in newcomer.read_commands(README) if "apt-get install" in line]
    named = {word for line in installs for word in line.split("#")[0].split()}
    # gcc and binutils come with g++, procps and uidmap stand in the table of what a root does not have
    assert set(read_tools().values()) <= named | {"gcc", "binutils"}


def test_commands_of_one_run_share_a_folder_and_the_first_failure_ends_it(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    newcomer.run_commands(["mkdir a", "cd a", "touch b  # in a"], place)
    assert (tmp_path / "a/b").is_file()
    with pytest.raises(newcomer.NewcomerError, match="false && true"):
        newcomer.run_commands(["false && true", "touch never"], place)
    assert not (tmp_path / "never").exists()


def test_what_a_user_puts_sudo_before_runs_as_root_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = newcomer.Place(
        ("/usr/bin/env", "-C", str(tmp_path), f"HOME={tmp_path}", "WHO=user"),
        tmp_path / "decouple",
        ("/usr/bin/env", "-C", str(tmp_path), "WHO=root"),
    )
    newcomer.run_commands(
        [": apt-get update; echo $WHO >packages", "mkdir a && cd a", ": apt-get install", "echo $WHO >built"], place
    )
    assert (tmp_path / "packages").read_text() == "root\n"
    assert (tmp_path / "a/built").read_text() == "user\n"
    assert "No such file" not in capfd.readouterr().err


def test_a_build_is_interrupted_also_from_a_background_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newcomer, "END_SECONDS", 5)
    place = place_in(tmp_path)
    log = place.clone / "build/2.6/src/build/.ninja_log"
    script = f"mkdir -p {log.parent}; seq 100 > {log}; exec sleep 60"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert newcomer.run_script(script, place, builds=True) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_build_is_interrupted_when_it_compiles(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    script = "mkdir -p decouple/build/9.9/stage2; seq 100 >decouple/build/9.9/stage2/.ninja_log; exec sleep 600"
    assert newcomer.run_script(script, place, builds=True) == 0


@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_the_objects_that_are_looked_for_are_those_of_the_two_stages(tmp_path: Path, stage: str) -> None:
    """CMake makes and deletes folders with a log of ninja's own below them while it configures."""
    folder: Path = getattr(Places.of_release(tmp_path / "decouple", "2.6", tmp_path), stage)
    scratch = folder / "CMakeFiles/CMakeScratch/TryCompile-a"
    scratch.mkdir(parents=True)
    for tried in (scratch, folder):
        assert not place_in(tmp_path).has_compiled()
        (tried / ".ninja_log").write_text("object\n" * 100)
    assert place_in(tmp_path).has_compiled()


def test_a_log_that_went_while_it_was_looked_for_is_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([self / "build/2.6/src/build/.ninja_log"]))
    assert not place_in(tmp_path).has_compiled()


@pytest.mark.parametrize("lacks", ["mmdebstrap", "network", "folder"])
def test_a_root_that_cannot_be_made_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacks: str
) -> None:
    def choose_place(*_: object, **__: object) -> newcomer.Place:
        if lacks == "network":
            urllib.request.urlopen("http://127.0.0.1:9/keys.deb")
        subprocess.run(["/nowhere/mmdebstrap"])
        raise AssertionError

    monkeypatch.setattr(newcomer, "choose_place", choose_place)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert newcomer.main(["--folder", str(tmp_path / ("none" if lacks == "folder" else ""))]) == 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    said = capsys.readouterr().err
    assert said.startswith("newcomer: ") and said.count("\n") == 1


def test_a_cancelled_run_leaves_neither_its_commands_nor_its_root(tmp_path: Path) -> None:
    """A CI host cancels by SIGTERM: what runs in the root ends, and the root goes."""
    started = tmp_path / "started"
    code = (
        "import sys, newcomer\n"
        f"newcomer.read_commands = lambda text: ['echo $$ > {started}; sleep 600']\n"
        "newcomer.choose_place = lambda suite, folder, *_, **__: newcomer.Place(('env',), folder / 'decouple')\n"
        "sys.exit(newcomer.main(['--folder', sys.argv[1]]))\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=ROOT / "ci", stdout=subprocess.DEVNULL)
    while not (started.exists() and started.read_text().endswith("\n")):
        assert run.poll() is None
        time.sleep(0.05)
    run.terminate()
    assert run.wait(60) == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("newcomer-*"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_a_build_that_ends_before_it_compiles_is_a_failure(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    assert newcomer.run_script("exit 3", place, builds=True) == 3
    assert newcomer.run_script("exit 0", place, builds=True) != 0


def test_a_build_that_fails_once_it_compiles_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A few C files are compiled within a second, before whatever of C++ is broken."""
    compiles = "mkdir -p decouple/build/2.6/src/build; seq 100 > decouple/build/2.6/src/build/.ninja_log"
    assert newcomer.run_script(f"{compiles}; exit 3", place_in(tmp_path), builds=True) == 3
    assert "ended there" not in capsys.readouterr().out
    assert newcomer.run_script(compiles, place_in(tmp_path), builds=True) == 0


def test_a_root_gets_no_variable_of_this_machine_but_proxies_and_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
    words = newcomer.clean_environment("/", "/srv/decouple.git")
    printed = subprocess.run([*words, "env"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^(\w+)=", printed, re.MULTILINE))
    assert "PYTHONDONTWRITEBYTECODE" not in names
    assert {"HTTPS_PROXY", "SSL_CERT_FILE", "HOME", "PATH", "REPOSITORY"} <= names


def test_tests_in_a_root_fail_for_want_of_what_it_should_have() -> None:
    """Else a root that lacks a package, or that pip fails in, is green with whole suites skipped."""
    words = newcomer.clean_environment("/", "/srv/decouple.git")
    assert subprocess.run([*words, "printenv", "DECOUPLE_REQUIRE_TOOLS"], capture_output=True).stdout == b"1\n"


@pytest.fixture
def without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that lets nobody mount, as a plain container."""
    monkeypatch.setattr(newcomer, "NAMESPACE", ("sh", "-c", "echo unshare failed >&2; exit 1"))


def test_without_a_root_nothing_is_typed_on_the_machine_itself(tmp_path: Path, without_namespaces: None) -> None:
    """Else packages are installed there, and `--suite noble` is green on Debian."""
    with pytest.raises(newcomer.NewcomerError, match=r"no bare root here: unshare failed; .* or `--here`"):
        newcomer.choose_place("noble", tmp_path, tmp_path)


def test_who_asks_for_it_types_on_the_machine_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newcomer, "CHECKOUT", tmp_path / "checkout")
    subprocess.run(["git", "init", "-q", str(tmp_path / "checkout")], check=True)
    place = newcomer.choose_place("trixie", tmp_path, tmp_path, here=True)
    newcomer.run_commands(['git clone -q "$REPOSITORY" decouple'], place)
    assert place.clone == tmp_path / "home/decouple" and (place.clone / ".git").is_dir()


@pytest.mark.parametrize("other", [["--suite", "noble"], ["--user"]])
def test_the_machine_itself_is_no_root_of_a_suite_and_no_other_user(other: list[str]) -> None:
    with pytest.raises(SystemExit):
        newcomer.read_arguments(["--here", *other])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--without", "valgrnd"], "--without valgrnd: README.md installs no such package"),
        (["--only", "0"], "--only 0: types no command"),
        (["--only", "-7"], "--only -7: types no command"),
    ],
    ids=["package", "no command", "less than none"],
)
def test_what_would_try_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    """An hour later nothing had noticed that the package was missing, and no command had failed: rc 0."""
    try:
        code = newcomer.main([*words, "--folder", str(tmp_path)])
    except SystemExit as ended:
        code = ended.code
    assert code == 2 and told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_package_is_left_out_of_the_line_that_installs_it() -> None:
    lines = ["apt-get install -y git valgrind git-lfs", "git clone x  # by git"]
    assert [line.split() for line in newcomer.leave_out("git", lines)] == [
        ["apt-get", "install", "-y", "valgrind", "git-lfs"],
        lines[1].split(),
    ]


def test_the_workflow_types_the_page_on_every_distribution() -> None:
    text = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    suites = yaml.safe_load(text)["jobs"]["newcomer"]["strategy"]["matrix"]["suite"]
    assert suites == list(newcomer.SUITES)
    (words,) = re.findall(r"python3 ci/newcomer\.py (.*)", text)
    for suite in suites:
        args = newcomer.read_arguments(shlex.split(words.replace("${{ matrix.suite }}", suite)))
        assert (args.suite, args.here, args.only) == (suite, False, None)


def test_pre_commit_runs_the_ruff_that_nox_installs() -> None:
    (revision,) = re.findall(r"rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert f"ruff=={revision}" in (ROOT / "ci/constraints.txt").read_text(encoding="utf-8").splitlines()
