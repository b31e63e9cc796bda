"""What ``python -m simcuda`` makes, and what it refuses before it takes minutes or becomes the command."""

from __future__ import annotations

import shutil
import sys
import venv
from pathlib import Path
from types import SimpleNamespace

import pytest

from simcuda import build, cli, torchbuild, vendor
from tests.unit.simcuda.test_fingerprint import install


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Those of the command; it is not run."""
    seen: dict[str, str] = {}
    monkeypatch.setattr("simcuda.launch_environment.fix_addresses", lambda: True)
    monkeypatch.setattr("os.execve", lambda program, command, env: seen.update(env))
    return seen


@pytest.mark.parametrize(("words", "made"), [(["--no-shadows"], "stand-ins"), ([], "shadow")])
def test_nothing_is_compiled_for_a_torch_where_no_shadow_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: list[str], made: str
) -> None:
    for name in ("stand-ins", "shadow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "preload").write_text("libcudart.so.12\n")
    monkeypatch.setattr(torchbuild, "find_torch_build", lambda *_: SimpleNamespace(site=tmp_path, word="cuda"))
    monkeypatch.setattr(build, "read_cuda_version", lambda _: "12.4")
    monkeypatch.setattr(build, "make_stand_ins", lambda *_: tmp_path / "stand-ins")
    monkeypatch.setattr(build, "make_device_libraries", lambda *_, **__: tmp_path / "shadow")
    cli.main(["run", *words, "true"])
    assert variables["LD_PRELOAD"].startswith(str(tmp_path / made))
    assert ("SIMCUDA_SHADOW" in variables) == (made == "shadow")


@pytest.mark.parametrize(
    ("program", "own"), [("python3", True), ("python3.13t", True), ("pytest", False), ("python3-config", False)]
)
def test_the_torch_is_that_of_the_python_which_the_command_starts(program: str, own: bool) -> None:
    assert cli.choose_python(f"/env/bin/{program}") == Path(f"/env/bin/{program}" if own else sys.executable)


@pytest.mark.parametrize("folder", ["my cache", "a:b", "a;b"])
@pytest.mark.parametrize("words", [["run"], ["run", "--built"], ["record"]])
def test_a_folder_that_the_linker_would_take_for_two_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], folder: str
) -> None:
    """The linker ignored the halves of such a path with a warning, and torch saw no device."""
    built = words[1:] == ["--built"]
    monkeypatch.setenv("SIMCUDA_CACHE", str(tmp_path if built else tmp_path / folder))
    for name in ("make_stand_ins", "make_device_libraries", "make_recorder"):
        monkeypatch.setattr(build, name, lambda *_, **__: pytest.fail("made"))
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("run"))
    assert cli.main([*words, *([str(tmp_path / folder)] if built else []), "true"]) == 1
    told = capsys.readouterr().err
    assert f"{tmp_path / folder}: has a blank, ':' or ';'" in told and "next: set SIMCUDA_CACHE" in told


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled, in no time: each library is a file with its name."""
    names: list[str] = []

    def write_library(name: str, out: Path) -> str:
        names.append(name)
        return str((out / name).write_text(name))

    monkeypatch.setenv("SIMCUDA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vendor.Kit, "list_include_folders", lambda *_: [])
    monkeypatch.setattr(build, "compile_stand_in", lambda one, fills, kit, out: write_library(one.soname, out))
    monkeypatch.setattr(build, "compile_shadow", lambda torch, kit, out: write_library(build.SHADOW, out))
    return names


def build_for(torch: torchbuild.TorchBuild, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(torchbuild, "find_torch_build", lambda *_: torch)
    return cli.main(["build", "--cuda", "12.4", *words])


@pytest.mark.parametrize("name", ["done", "thesis"])
@pytest.mark.parametrize("word", ["--no-torch", "--cuda=12.4"])
def test_build_puts_nothing_into_a_folder_that_has_other_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    compiled: list[str],
    word: str,
    name: str,
) -> None:
    """Such a folder was removed; one with a file `done` was taken for what would have been made."""
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / name).write_text("mine")
    torch = install(tmp_path / "site", "a torch", "abc")
    assert build_for(torch, monkeypatch, word, "--out", str(tmp_path / "libs")) == 1
    told = capsys.readouterr()
    assert f"{tmp_path / 'libs'}: is there" in told.err and "next: name another folder" in told.err
    assert not told.out and not compiled
    assert [path.name for path in (tmp_path / "libs").iterdir()] == [name]


def test_a_copy_of_what_was_built_is_for_its_torch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiled: list[str]
) -> None:
    """After an upgrade of torch the folder with the shadow for the old one was named again."""
    out, torch = tmp_path / "new/libs", install(tmp_path / "site", "a torch", "abc")
    for _ in range(2):
        assert build_for(torch, monkeypatch, "--out", str(out)) == 0
        assert capsys.readouterr().out == f"{out}\n"
    assert (out / build.SHADOW).read_text() == build.SHADOW and compiled.count(build.SHADOW) == 1
    assert {path.name for path in out.iterdir()} == {*compiled, "preload", "done"}
    upgraded = install(tmp_path / "upgraded", "another", "def")
    assert build_for(upgraded, monkeypatch, "--out", str(out)) == 1
    assert "not made of this torch" in capsys.readouterr().err
    assert build_for(upgraded, monkeypatch) == 0 and compiled.count(build.SHADOW) == 2


def test_a_copy_that_was_interrupted_is_completed_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    """It was refused as not made of this torch, CUDA and simcuda."""
    torch, out = install(tmp_path / "site", "a torch", "abc"), tmp_path / "libs"

    copy_file = shutil.copyfile

    def copy_but_the_shadow(source: str, target: str, **options: bool) -> str:
        if Path(source).name == build.SHADOW:
            raise KeyboardInterrupt
        return copy_file(source, target, **options)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil, "copyfile", copy_but_the_shadow)
        build_for(torch, monkeypatch, "--out", str(out))
    assert out.is_dir() and not (out / "done").exists()
    upgraded = install(tmp_path / "upgraded", "another", "def")
    assert build_for(upgraded, monkeypatch, "--out", str(out)) == 1, "the half of a copy is for its torch alone, too"
    assert build_for(torch, monkeypatch, "--out", str(out)) == 0
    assert {path.name for path in out.iterdir()} == {*compiled, "preload", "done"}


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiled: list[str]
) -> None:
    (tmp_path / "file").touch()
    torch = install(tmp_path / "site", "a torch", "abc")
    assert build_for(torch, monkeypatch, "--out", str(tmp_path / "file/libs")) == 1
    assert f"{tmp_path / 'file/libs'}: Not a directory" in capsys.readouterr().err and not compiled


@pytest.mark.parametrize(("command", "option"), [("run", "--ledger"), ("run", "--log"), ("record", "--ledger")])
def test_a_file_that_the_command_writes_does_not_move_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], command: str, option: str
) -> None:
    """A program that goes to another folder before its first launch wrote its ledger there."""
    (tmp_path / "preload").write_text("libcudart.so.12\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "make_recorder", lambda *_: tmp_path / build.RECORDER)
    words = ["--built", str(tmp_path)] if command == "run" else ["--cuda", "12.4"]
    cli.main([command, *words, option, "calls", "true"])
    assert variables[f"SIMCUDA_{option[2:].upper()}"] == str(tmp_path / "calls")


@pytest.mark.parametrize("words", [["run", "--ledger"], ["run", "--log"], ["record", "--ledger"], ["unset"]])
@pytest.mark.parametrize(("name", "told"), [("out/calls", "has no folder; mkdir -p"), (".", "is a folder")])
def test_a_file_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    name: str,
    told: str,
) -> None:
    """The command ran to its end, with exit code 0, and there was no ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("run"))
    with pytest.raises(SystemExit, match="2"):
        cli.main([*words, name, "true"])
    assert f"{name} {told}" in capsys.readouterr().err


BUILT = ["run", "--built", "built"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--arch", "80", "true"], "80 is no compute capability, as 9.0"),  # it was 80.0
        (["run", "--arch", "sm_80", "true"], "sm_80 is no compute capability, as 9.0"),  # it was 9.0
        ([*BUILT, "--arch", "gfx90a", "true"], "gfx90a is AMD's, and"),
        ([*BUILT, "--cuda", "11.8", "true"], "--built built is there"),
        ([*BUILT, "--unset", "typo.txt", "true"], "typo.txt: No such file or directory"),
        ([*BUILT, "--unset", "damaged.txt", "true"], "damaged.txt: not what simcuda writes: ValueError: line 2: axpy"),
        (["run", "--built", "nowhere", "true"], "nowhere/preload: No such file or directory"),
        (["run", "--python", "/no/such/python", "true"], "/no/such/python does not run: No such file or directory"),
        (["run", "--python", "/bin/echo", "true"], "/bin/echo is no Python"),
        (["run", "pytset"], "no program pytset"),
        (["run"], "which command?"),
        (["unset", "new.txt", "missing.jsonl"], "missing.jsonl: No such file or directory"),
        (["unset", "--known", "missing.txt", "new.txt", "run.jsonl"], "missing.txt: No such file or directory"),
        (["doubt", "run.jsonl", "missing.jsonl"], "missing.jsonl: No such file or directory"),
    ],
)
def test_what_is_taken_wrong_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    """Such an option was taken for another or for none, or its name stood below a traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("run"))
    (tmp_path / "built").mkdir()
    (tmp_path / "built/preload").write_text("libcudart.so.12\n")
    (tmp_path / "damaged.txt").write_text(f"{'0' * 16} 3 2 4\naxpy 3 2 4\n")
    (tmp_path / "run.jsonl").write_text('{"id": "t", "seconds": 1.0, "entries": []}\n')
    try:
        assert cli.main(words) == 1
    except SystemExit as ended:
        assert ended.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("arch", ["9.0", "12.0", "gfx90a", "gfx942", "gfx90a:sramecc+:xnack-"])
def test_an_architecture_is_a_compute_capability_or_a_name_of_amd_s(arch: str) -> None:
    assert cli.build_parser().parse_args(["run", "--arch", arch, "true"]).arch == arch


def test_a_script_without_an_interpreter_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "preload").write_text("libcudart.so.12\n")
    script = tmp_path / "script"
    script.write_text("echo\n")
    script.chmod(0o755)
    monkeypatch.setattr("simcuda.launch_environment.fix_addresses", lambda: True)
    assert cli.main(["run", "--built", str(tmp_path), str(script)]) == 1
    assert f"{script}: Exec format error" in capsys.readouterr().err


def test_a_cache_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SIMCUDA_CACHE", str(tmp_path / "file/cache"))
    assert cli.main(["build", "--no-torch"]) == 1
    assert f"{tmp_path / 'file/cache/wheels'}: Not a directory\n  next: set SIMCUDA_CACHE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "needed", "version"),
    [
        ([], "libcudart.so.11.0", "11.8"),
        ([], "libcudart.so.12", "12.4"),
        (["--cuda", "12.4"], "libcudart.so.11.0", "12.4"),
    ],
)
def test_what_is_recorded_is_the_cuda_of_the_torch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    words: list[str],
    needed: str,
    version: str,
) -> None:
    """It was 12.4 whatever torch there was: a graph of 11.8 was instantiated with three of its five arguments."""
    torch = install(tmp_path, "a torch", "abc")
    (torch.libraries[0] / "libc10_cuda.so").touch()
    made: list[str] = []
    monkeypatch.setattr(torchbuild, "find_torch_build", lambda *_: torch)
    monkeypatch.setattr("simcuda.symbols.read_needed_libraries", lambda _: [needed])
    monkeypatch.setattr(build, "make_recorder", lambda _, version: made.append(version) or tmp_path)
    cli.main(["record", *words, "true"])
    assert made == [version] and variables["LD_PRELOAD"] == str(tmp_path)


def test_a_program_without_a_torch_is_recorded_for_a_version_that_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
) -> None:
    venv.create(tmp_path / "none", with_pip=False)
    monkeypatch.setattr(build, "make_recorder", lambda *_: tmp_path)
    cli.main(["record", str(tmp_path / "none/bin/python"), "program.py"])
    assert variables["LD_PRELOAD"] == str(tmp_path)
    told = capsys.readouterr().err
    assert f"for CUDA {vendor.CUDA}: {tmp_path / 'none/bin/python'} has no torch; --cuda names another" in told
    assert cli.main(["record", "--python", str(tmp_path / "none/bin/python"), "true"]) == 1


@pytest.mark.parametrize("command", ["run", "record"])
def test_addresses_that_go_on_changing_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    command: str,
) -> None:
    """As in a container of Docker's: ledgers of two builds differed, without a hint."""
    (tmp_path / "preload").write_text("libcudart.so.12\n")
    monkeypatch.setattr("simcuda.launch_environment.fix_addresses", lambda: False)
    monkeypatch.setattr(build, "make_recorder", lambda *_: tmp_path)
    cli.main([command, *(["--built", str(tmp_path)] if command == "run" else ["--cuda", "12.4"]), "true"])
    assert f"simcuda {command}: address randomisation stays on" in capsys.readouterr().err and variables
