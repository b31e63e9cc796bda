"""Bad input, each with one clear line and nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.process import run_logged
from decouple.build import probe
from decouple.build.environment import HostEnvironment
from decouple.build.estimate import estimate_remaining, refuse_if_too_small
from decouple.build.options import Provenance
from decouple.build.settings import estimate_cost
from decouple.build.stage import BuildJob
from decouple.build.stage1 import Stage1
from tests.unit.build.conftest import host, provenance, tree  # noqa: F401 - fixtures
from tests.unit.build.test_stages import NO_CACHE

ALL = probe.ProbeResult(nvcc="12.4", archs=("80", "90", "90a"), cudnn="9.1.0", torch="2.6.0+decoupled")
WANTED = probe.Stage2Needs(cuda="12.4", torch="2.6.0", archs=("9.0",), core_prefix="/core")

MARKER = f"600.{os.getpid()}"  # a duration in seconds that no other sleep on the machine has


def test_a_machine_that_has_everything_passes() -> None:
    probe.check_stage2(ALL, WANTED)
    probe.check_stage2(ALL, replace(WANTED, archs=("8.0", "9.0a", "9.0+PTX")))


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ({"nvcc": None}, {}, r"^no nvcc: stage 2 compiles CUDA \(set CUDACXX to it, or use --env rootfs"),
        ({"nvcc": "11.8"}, {}, r"^CUDA 11\.8 is installed, this release is built with 12\.4 \(install CUDA 12\.4"),
        ({"cudnn": None}, {}, r"^cuDNN's headers are missing .*CUDNN_ROOT"),
        ({"torch": "2.7.1+cpu"}, {}, r"^the core in /core is torch 2\.7\.1\+cpu, the source is 2\.6\.0"),
        ({"torch": None}, {}, r"^no torch in /core to build against \(build stage 1 first"),
        ({}, {"archs": ("3.5",)}, r"^--arch 3\.5: nvcc 12\.4 does not know it \(choose from 8\.0, 9\.0\)"),
        ({}, {"archs": ("hopper",)}, r"^--arch hopper: not an architecture"),
    ],
)
def test_what_stage_2_lacks_is_named(
    found: dict[str, str | None], wanted: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(DecoupleError, match=said):
        probe.check_stage2(
            replace(ALL, **found),  # type: ignore[arg-type]
            replace(WANTED, **wanted),  # type: ignore[arg-type]
        )


def test_without_cudnn_its_headers_are_not_asked_for() -> None:
    probe.check_stage2(replace(ALL, cudnn=None), replace(WANTED, cudnn=False))


def test_the_probe_finds_headers_and_a_core_where_it_is_told_to_look(host: HostEnvironment, tmp_path: Path) -> None:  # noqa: F811
    """The script that looks, run on this machine: no nvcc named, headers and a core where it is told to look."""
    (tmp_path / "cudnn" / "include").mkdir(parents=True)
    (tmp_path / "cudnn" / "include" / "cudnn_version.h").write_text(
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"
    )
    package = tmp_path / "core" / "lib" / "python3" / "dist-packages" / "torch"
    package.mkdir(parents=True)
    (package / "version.py").write_text("__version__ = '2.6.0+debian'\n")
    variables = {"CUDACXX": "/no/nvcc", "CUDNN_ROOT": str(tmp_path / "cudnn")}
    found = probe.probe_environment(host, variables, str(tmp_path / "core"))
    assert found == probe.ProbeResult(nvcc=None, archs=(), cudnn="9.1.0", torch="2.6.0+debian")
    assert probe.probe_environment(host, {"CUDACXX": "/no/nvcc"}, str(tmp_path)).torch is None


def test_a_disk_that_is_too_small_is_refused_with_numbers(tmp_path: Path) -> None:
    huge = replace(estimate_cost(1), disk_mib=1 << 30)
    with pytest.raises(DecoupleError, match=r"1048576.*disk"):
        refuse_if_too_small(
            [estimate_remaining("stage 1", huge, done=0, jobs=2)], folder=tmp_path / "not" / "yet", memory=None
        )


def test_memory_that_is_too_small_is_refused_with_numbers(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match=r"stage 2.*4\.0.*2\.0"):
        refuse_if_too_small(
            [estimate_remaining("stage 2", estimate_cost(2), done=0, jobs=2)], folder=tmp_path, memory=2 << 30
        )


def test_what_is_there_already_costs_nothing() -> None:
    whole = estimate_remaining("stage 1", estimate_cost(1), done=0, jobs=2)
    half = estimate_remaining("stage 1", estimate_cost(1), done=764, jobs=2)
    assert half.seconds == pytest.approx(whole.seconds / 2)
    assert "764 of 1528 are there" in half.format_line()


def tmpfs_works() -> bool:
    if os.geteuid() != 0:
        return False
    argv = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(argv, capture_output=True).returncode == 0


@pytest.mark.tools("cc", "mount")
@pytest.mark.skipif(not tmpfs_works(), reason="mounting a tmpfs needs root")
def test_a_full_disk_halfway(tmp_path: Path) -> None:
    """A real compile on a file system of 256 KiB, in a mount namespace of its own; the log lies elsewhere."""
    (tmp_path / "full").mkdir()
    (tmp_path / "big.c").write_text("char big[4000000] = {1}; int main(void) { return big[0]; }\n")
    script = 'mount -t tmpfs -o size=256k tmpfs "$1/full" && cc -c -o "$1/full/big.o" "$1/big.c"'
    with pytest.raises(DecoupleError, match="No space left") as caught:
        argv = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path)]
        run_logged(argv, log=tmp_path / "log", what="compile")
    assert str(tmp_path / "log") in str(caught.value.next_step)
    assert "No space left" in (tmp_path / "log").read_text()


def test_a_killed_compiler_is_tried_again_alone_and_the_build_goes_on(
    host: HostEnvironment,  # noqa: F811
    provenance: Provenance,  # noqa: F811
) -> None:
    mark = host.places.tree.parent / "killed-once"
    launcher = host.places.tree.parent / "launcher"
    launcher.write_text(
        f'#!/bin/sh\ncase "$*" in *part2.c*) [ -e {mark} ] || {{ : > {mark}; kill -9 $$; }};; esac\nexec "$@"\n'
    )
    launcher.chmod(0o755)
    choices = replace(NO_CACHE, variables={**NO_CACHE.variables, "CMAKE_C_COMPILER_LAUNCHER": str(launcher)})
    said: list[str] = []
    assert Stage1(BuildJob(host, provenance, choices, say=said.append)).build_wheel().built
    assert mark.exists()
    assert "part2.c.o: the compiler was killed" in said[-1]
    assert "-j1" in (host.places.logs / "stage1.log").read_text()


@pytest.mark.tools("pgrep")
def test_interrupted_and_run_again(host: HostEnvironment, provenance: Provenance) -> None:  # noqa: F811
    """SIGINT in the middle of a compile: the process ends by itself, nothing is left running, the next run finishes."""
    go = host.places.tree.parent / "go"
    launcher = host.places.tree.parent / "launcher"
    launcher.write_text(f'#!/bin/sh\ncase "$*" in *part3.c*) [ -e {go} ] || sleep {MARKER};; esac\nexec "$@"\n')
    launcher.chmod(0o755)
    choices = replace(NO_CACHE, variables={**NO_CACHE.variables, "CMAKE_C_COMPILER_LAUNCHER": str(launcher)})
    code = (
        "import pickle, sys\nfrom decouple.build.stage import BuildJob\nfrom decouple.build.stage1 import Stage1\n"
        "try: Stage1(BuildJob(*pickle.load(open(sys.argv[1], 'rb')))).build_wheel()\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    import pickle

    call = host.places.tree.parent / "call"
    call.write_bytes(pickle.dumps((host, provenance, choices)))
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(call)],
        cwd=Path(__file__).parents[3],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
    )
    log = host.places.logs / "stage1.log"
    deadline = time.monotonic() + 300
    try:
        while not (log.exists() and "part2.c.o" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=300) == 130
    finally:
        child.terminate()  # with what it started, where an interrupt did not end it
    running = subprocess.run(["pgrep", "-f", f"^sleep {MARKER}$"], capture_output=True, text=True).stdout
    assert running == ""
    go.touch()
    compiled = log.read_text().count("Building C object")
    assert Stage1(BuildJob(host, provenance, choices)).build_wheel().built
    again = log.read_text().count("Building C object") - compiled
    assert 1 <= again < 4  # what was compiled before the interrupt is not compiled again
