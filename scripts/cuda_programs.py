"""Run unmodified CUDA tests of PyPI projects on a backend.

It stands in by ``torch.<dev>.as_cuda()``. ``decouple new-device sim`` makes one, and prints how PYTHON gets it.

python scripts/cuda_programs.py --torch PYTHON [--device sim] [--folder build/cuda-programs] [PROJECT ...]

Each project's sdist is fetched and unpacked, what it needs is installed into an environment above PYTHON's packages,
and its tests run twice, each time in one process: on the CPU without any backend, then inside ``as_cuda()``. Printed
are both counts, what failed in the second run only, and what of PyTorch is other than before once the block is over.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from decouple.base import toml
from decouple.base.paths import find_project


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the tests of a project gave.

    Outcomes on the CPU and inside ``as_cuda()``; how many tests of the second run took memory of the device.
    """

    cpu: dict[str, int]
    as_cuda: dict[str, int]
    on_device: int


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project on PyPI.

    Its sdist's version and SHA-256, the tests that it carries, what they need beside torch and pytest.
    """

    name: str
    version: str
    sha256: str
    tests: tuple[str, ...]
    needs: tuple[str, ...]
    why: str
    expected: Expected
    file: str = ""
    """The sdist's name without the version, where it is not the project's."""
    known: dict[str, str] = {}
    """Last part of a test's name -> why it fails on any device, of which the CPU run, which skips it, says nothing."""

    @property
    def folder(self) -> str:
        """Name of the folder in the sdist, and of the sdist without ``.tar.gz``."""
        return f"{self.file or self.name}-{self.version}"


class ProgramTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"programs": "program"}):
    """The file ``cuda_programs.toml``."""

    programs: tuple[Program, ...]


def load_programs() -> ProgramTable:
    """Read ``cuda_programs.toml``, which lies beside this file. Raises DecoupleError."""
    return toml.read_own_table(Path(__file__).with_suffix(".toml"), ProgramTable)


_ABOVE = "above.pth"
"""Names in an environment the packages of the interpreter that it was made for."""
CODE = """
import contextlib, json, random, sys, warnings
import numpy, pytest
import torch
from third_device_contract.traces import changes, trace

device, out, words = sys.argv[1], sys.argv[2], sys.argv[3:]
for seed in (random.seed, numpy.random.seed, torch.manual_seed):  # some tests compare samples without a seed
    seed(0)

class Counts:
    outcomes = {}
    on_device = []

    def count_allocations(self):
        here = getattr(torch, device) if device else None
        numbers = range(here.device_count()) if here else ()
        return sum(here.memory_stats(number).get("allocation.all.allocated", 0) for number in numbers)

    def pytest_runtest_logstart(self, nodeid):
        self.before = self.count_allocations()

    def pytest_runtest_logfinish(self, nodeid):
        if self.count_allocations() > self.before:
            self.on_device.append(nodeid)

    def pytest_runtest_logreport(self, report):
        ended = report.when == "call" or report.skipped or report.failed
        if ended and self.outcomes.get(report.nodeid) != "failed":  # behind a failed subtest comes "passed"
            self.outcomes[report.nodeid] = report.outcome

def take_trace():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trace()

stand_in = getattr(torch, device).as_cuda if device else contextlib.nullcontext
if device:
    with stand_in():
        assert torch.cuda.is_available()
        torch.ones(2, device="cuda", requires_grad=True).sum().backward()
before = take_trace()
with stand_in():
    words = ["-q", "-p", "no:cacheprovider", *words]
    code = pytest.main(words, plugins=[Counts()])
left = changes(before, take_trace())
if device:
    assert torch.device("cuda").type == "cuda" and not torch.ones(1, device=device).is_cuda
json.dump([int(code), Counts.outcomes, left, Counts.on_device], open(out, "w"))
"""


def make_environment(interpreter: Path, folder: Path, program: Program) -> Path:
    """Make an environment of the project's own with what it needs.

    It sees the interpreter's packages, too.
    """
    home = folder / "environments" / program.name
    python = home / "bin" / "python"
    theirs = _find_packages(interpreter)
    above = [path.read_text(encoding="utf-8") for path in home.glob(f"lib/*/site-packages/{_ABOVE}")]
    if above != [f"{theirs}\n"] or not python.exists():
        # none yet, one of another interpreter, or one that was killed while it was made
        subprocess.run([str(interpreter), "-I", "-m", "venv", "--clear", str(home)], check=True)
        Path(_find_packages(python), _ABOVE).write_text(f"{theirs}\n", encoding="utf-8")
    subprocess.run([str(python), "-I", "-m", "pip", "install", "-q", "--no-warn-conflicts", *program.needs], check=True)
    return python


def _find_packages(python: Path) -> str:
    """Return the folder where a Python's packages are installed."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([str(python), "-I", "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


def unpack_sdist(python: Path, folder: Path, program: Program) -> Path:
    """Fetch and unpack the project's sdist.

    Raises SystemExit where PyPI has none of this SHA-256.
    """
    source = folder / program.folder
    if not source.is_dir():
        wanted = folder / f"{program.folder}.txt"  # pip holds the hash before any code of the sdist runs
        wanted.write_text(f"{program.name}=={program.version} --hash=sha256:{program.sha256}\n", encoding="utf-8")
        command = [str(python), "-I", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        done = subprocess.run([*command, "--no-build-isolation", "-d", str(folder), "-r", str(wanted)])
        if done.returncode:
            raise SystemExit(
                f"{program.name}: pip has no sdist of {program.version} with the sha256 of scripts/cuda_programs.toml; "
                "if its message names another hash, see on PyPI why, and correct the row"
            )
        archive = source.with_name(f"{program.folder}.tar.gz")
        half = folder / "half"  # one that was killed meanwhile must not be taken for the whole
        shutil.rmtree(half, ignore_errors=True)
        shutil.unpack_archive(archive, half)
        (half / source.name).rename(source)
    return source


def run_tests(python: Path, source: Path, program: Program, device: str) -> tuple[dict[str, str], list[str], list[str]]:
    """Return outcomes by test, what is other afterwards, tests on the device.

    Other: attributes of PyTorch. On the device: tests that took memory of it.

    An empty ``device``: the CPU, without any backend.
    """
    out = source.with_name(f"{program.name}-{device or 'cpu'}.json")
    contract = find_project() / "third_device" / "contract"
    variables = dict(os.environ, PYTHONPATH=os.pathsep.join([str(contract), *_path(), str(source)]))
    variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1" if device else "0"
    command = [str(python), "-c", CODE, device, str(out), *program.tests]
    with out.with_suffix(".log").open("w", encoding="utf-8") as log:
        done = subprocess.run(command, cwd=source, env=variables, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{program.name} on {device or 'cpu'}: exit code {done.returncode}; see {log.name}")
    _, outcomes, left, on_device = json.loads(out.read_text(encoding="utf-8"))
    if not outcomes:
        raise SystemExit(f"{program.name} on {device or 'cpu'}: no test ran; see {out.with_suffix('.log')}")
    return outcomes, left, on_device


def _path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def count_outcomes(outcomes: dict[str, str]) -> dict[str, int]:
    """Count outcomes, as ``{"passed": 3, "skipped": 1}``."""
    values = list(outcomes.values())
    return {kind: values.count(kind) for kind in ("passed", "failed", "skipped") if kind in values}


def format_counts(counts: dict[str, int]) -> str:
    """Write counts as ``3 passed, 1 skipped``."""
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())


def main(words: Sequence[str] | None = None) -> int:
    """Run the projects' tests.

    Returns 1 if a test fails on the device that holds on the CPU, or a trace of the block is left.
    """
    programs = load_programs().programs
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", type=Path, required=True, metavar="PYTHON", help="an interpreter with the backend")
    parser.add_argument("--device", default="sim", metavar="NAME")
    parser.add_argument("--folder", type=Path, default=find_project() / "build" / "cuda-programs")
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help="of " + ", ".join(one.name for one in programs))
    arguments = parser.parse_args(words)
    if strange := set(arguments.projects) - {one.name for one in programs}:
        parser.error(f"no project {', '.join(sorted(strange))}")
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wrong = False
    for program in programs:
        if arguments.projects and program.name not in arguments.projects:
            continue
        python = make_environment(arguments.torch, folder, program)
        source = unpack_sdist(python, folder, program)
        host, usual, _ = run_tests(python, source, program, "")
        there, left, on_device = run_tests(python, source, program, arguments.device)
        failed = [name for name, outcome in there.items() if outcome == "failed" and host.get(name) != "failed"]
        worse = [name for name in failed if name.rpartition("::")[2] not in program.known]
        traces = [change for change in left if change not in usual]
        found = Expected(count_outcomes(host), count_outcomes(there), len(on_device))
        wrong |= bool(worse or traces or found != program.expected)
        print(f"{program.name} {program.version} ({program.why})")
        print(
            f"  cpu: {format_counts(found.cpu)}; {arguments.device} as CUDA: {format_counts(found.as_cuda)}, ", end=""
        )
        print(f"{found.on_device} took memory of the device")
        print(f"  of PyTorch {len(traces)} attributes are other than before, {len(left) - len(traces)} as on the CPU")
        if found != program.expected:
            print(f"  EXPECTED by scripts/cuda_programs.toml: {msgspec.json.encode(program.expected).decode()}")
        for name in failed:
            test = name.rpartition("::")[2]
            print(f"    {test}: {program.known.get(test, 'FAILED here only')}")
        for line in traces:
            print(f"    {line}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
