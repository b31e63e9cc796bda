"""Run unmodified CUDA tests of PyPI projects on a backend.

It stands in by ``torch.<dev>.as_cuda()``.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from decouple.base.paths import find_project


@dataclass(frozen=True)
class Program:
    """A project on PyPI.

    Its sdist's version, the tests that it carries, what they need beside torch and pytest.
    """

    name: str
    version: str
    tests: tuple[str, ...]
    needs: tuple[str, ...]
    why: str
    known: Mapping[str, str] = field(default_factory=dict)
    """Last part of a test's name -> why it fails on any device, of which the CPU run, which skips it, says nothing."""


PROGRAMS = (
    Program(
        "torchsde",
        "0.2.6",
        ("tests/test_brownian_path.py", "tests/test_brownian_tree.py"),
        ("scipy", "trampoline", "pytest<8"),  # its tests say pytest.skip(msg=…)
        "each test runs on cpu and on cuda",
    ),
    Program(
        "linear_operator",
        "0.6.1",
        ("test/utils", "test/functions"),
        ("scipy", "jaxtyping", "mpmath"),
        "chooses the least used CUDA device, seeds it, and skips without one",
    ),
    Program(
        "gpytorch",
        "1.15.2",
        ("test/distributions", "test/likelihoods", "test/priors"),
        ("linear_operator==0.6.1", "scipy", "scikit-learn", "jaxtyping", "mpmath"),
        "each test has a variant on CUDA",
        {
            "test_half_cauchy_prior_to_gpu": "the test calls .cuda() of torch.distributions.HalfCauchy, which has none",
            "test_half_normal_prior_to_gpu": "HalfNormalPrior has no concentration, which the test asks for",
            **dict.fromkeys(
                (
                    "test_lkj_prior_to_gpu",
                    "test_lkj_cholesky_factor_prior_to_gpu",
                    "test_lkj_covariance_prior_to_gpu",
                ),
                "LKJPrior registers no buffer, so no move and no .double() reaches eta",
            ),
            "test_multivariate_normal_prior_to_gpu": "covariance_matrix recurses after .cpu() of a CPU prior, too",
        },
    ),
)

CODE = """
import json, sys, warnings
import pytest
import torch
from third_device_contract.traces import changes, trace

device, out, words = sys.argv[1], sys.argv[2], sys.argv[3:]

class Counts:
    outcomes = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.skipped or report.failed:
            self.outcomes[report.nodeid] = report.outcome

def run():
    return pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:third_device_contract", *words], plugins=[Counts()])

left = []
if device:
    with getattr(torch, device).as_cuda():
        assert torch.cuda.is_available()
        torch.ones(2, device="cuda", requires_grad=True).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = trace()
    with getattr(torch, device).as_cuda():
        code = run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = changes(before, trace())
    assert torch.device("cuda").type == "cuda" and not torch.ones(1, device=device).is_cuda
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = trace()
    code = run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = changes(before, trace())
json.dump([int(code), Counts.outcomes, left], open(out, "w"))
"""


def environment(interpreter: Path, folder: Path, program: Program) -> Path:
    """Make an environment of the project's own with what it needs.

    It sees the interpreter's packages, too.
    """
    home = folder / "environments" / program.name
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([str(interpreter), "-I", "-m", "venv", str(home)], check=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    theirs, own = (
        subprocess.run([str(one), "-I", "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
        for one in (interpreter, python)
    )
    Path(own, "above.pth").write_text(theirs + "\n", encoding="utf-8")
    subprocess.run([str(python), "-I", "-m", "pip", "install", "-q", "--no-warn-conflicts", *program.needs], check=True)
    return python


def unpack(python: Path, folder: Path, program: Program) -> Path:
    """Unpack the project's sdist. Raises CalledProcessError where PyPI has none."""
    source = folder / f"{program.name}-{program.version}"
    if not source.is_dir():
        command = [str(python), "-I", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        wanted = f"{program.name}=={program.version}"
        subprocess.run([*command, "--no-build-isolation", "-d", str(folder), wanted], check=True)
        half = folder / "half"  # one that was killed meanwhile must not be taken for the whole
        shutil.rmtree(half, ignore_errors=True)
        shutil.unpack_archive(source.with_name(f"{source.name}.tar.gz"), half)
        (half / source.name).rename(source)
    return source


def run(python: Path, source: Path, program: Program, device: str) -> tuple[dict[str, str], list[str]]:
    """Return outcomes by test, and what is other in PyTorch afterwards.

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
    _, outcomes, left = json.loads(out.read_text(encoding="utf-8"))
    if not outcomes:
        raise SystemExit(f"{program.name} on {device or 'cpu'}: no test ran; see {out.with_suffix('.log')}")
    return outcomes, left


def _path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def counted(outcomes: dict[str, str]) -> str:
    """Outcomes as ``3 passed, 1 skipped``."""
    values = list(outcomes.values())
    return ", ".join(f"{values.count(kind)} {kind}" for kind in ("passed", "failed", "skipped") if kind in values)


def main(words: Sequence[str] | None = None) -> int:
    """Run the projects' tests.

    Returns 1 if a test fails on the device that holds on the CPU, or a trace of the block is left.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", type=Path, required=True, metavar="PYTHON", help="an interpreter with the backend")
    parser.add_argument("--device", default="sim", metavar="NAME")
    parser.add_argument("--folder", type=Path, default=find_project() / "build" / "cuda-programs")
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help="of " + ", ".join(one.name for one in PROGRAMS))
    arguments = parser.parse_args(words)
    if strange := set(arguments.projects) - {one.name for one in PROGRAMS}:
        parser.error(f"no project {', '.join(sorted(strange))}")
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wrong = False
    for program in PROGRAMS:
        if arguments.projects and program.name not in arguments.projects:
            continue
        python = environment(arguments.torch, folder, program)
        source = unpack(python, folder, program)
        host, usual = run(python, source, program, "")
        there, left = run(python, source, program, arguments.device)
        failed = [name for name, outcome in there.items() if outcome == "failed" and host.get(name) != "failed"]
        worse = [name for name in failed if name.rpartition("::")[2] not in program.known]
        traces = [change for change in left if change not in usual]
        wrong |= bool(worse or traces)
        print(f"{program.name} {program.version} ({program.why})")
        print(f"  cpu: {counted(host)}; {arguments.device} as CUDA: {counted(there)}")
        print(f"  of PyTorch {len(traces)} attributes are other than before, {len(left) - len(traces)} as on the CPU")
        for name in failed:
            test = name.rpartition("::")[2]
            print(f"    {test}: {program.known.get(test, 'FAILED here only')}")
        for line in traces:
            print(f"    {line}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
