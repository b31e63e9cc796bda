"""The contract's plugin on tests of our own: what a failure tells its reader, and the three forms of the report card.

Needs no PyTorch: a module with the little that the plugin, or a test of the contract, asks ``torch`` for stands in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import backend_env
import pytest

PAGE = backend_env.THIRD_DEVICE / "contract/third_device_contract/items.toml"
ROWS = tomllib.loads(PAGE.read_text(encoding="utf-8"))["item"]
ITEMS = sorted(item["id"] for item in ROWS)
TESTS = """
import pytest

@pytest.mark.contract_item(22)
def test_numbers(): assert 1 == 2, "no number in the error"

@pytest.mark.contract_item(1)
def test_rename(): pass

@pytest.mark.contract_item(43)
def test_profiler(gap): gap("profiler-averages")

@pytest.mark.contract_item(43)
def test_trace(): pass

@pytest.mark.contract_item(33)
def test_stub(): pytest.skip("abs runs on the CPU here <list it>")

@pytest.mark.contract_item(47)
def test_suite(): pass

@pytest.mark.contract_item(47)
def test_more(): pytest.skip("optional: pass --more")

@pytest.mark.contract_item(68)
def test_only_when_asked(): pytest.skip("optional: pass --more")

@pytest.mark.contract_item(41)
def test_meta(): pass

@pytest.mark.contract_item(41)
@pytest.mark.contract_item(56)
def test_example(): pytest.skip("elsewhere: the template is tried with the examples")

def test_not_of_the_contract(): pass
"""


def run(
    folder: Path, *arguments: str, tests: str = TESTS, torch: str = "__version__ = '2.6.0'\n"
) -> subprocess.CompletedProcess[str]:
    """pytest with the plugin alone on ``tests``, and with ``torch`` for PyTorch."""
    (folder / "torch.py").write_text(torch)
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    command += ["-p", "third_device_contract.plugin", "test_it.py", *arguments]
    path = os.pathsep.join([str(folder), str(backend_env.THIRD_DEVICE / "contract")])
    environment = dict(os.environ, PYTHONPATH=path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", COLUMNS="200")
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


def test_other_projects_tests_do_not_meet_the_plugin(interpreter: Path, contract: Path, tmp_path: Path) -> None:
    """Triton's conftest.py has a `--device`, too: pytest would end before it collects."""
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--device')\n")
    (tmp_path / "test_it.py").write_text("def test_it(request): assert request.config.getoption('device') == 'gpu'\n")
    environment = dict(os.environ, PYTHONPATH=str(contract))
    environment.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)
    command = [str(interpreter), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "gpu"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(("there", "code"), [((), 0), (("torch_cuda",), 1)], ids=["without CUDA", "not loaded"])
def test_a_torch_cuda_that_was_not_loaded_is_no_torch_without_cuda(
    tmp_path: Path, there: tuple[str, ...], code: int
) -> None:
    """`contract --beside-cuda` left item 50 to other tests where the loader had given up."""
    (tmp_path / "torch.py").write_text(
        "import types\nbackends = types.SimpleNamespace(cuda=types.SimpleNamespace(is_built=lambda: False))\n"
    )
    for name in there:
        (tmp_path / f"{name}.py").touch()

    def run_program(program: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(tmp_path), str(backend_env.THIRD_DEVICE / "contract")])
        command, environment = [sys.executable, "-c", program], dict(os.environ, PYTHONPATH=path)
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    program = run_program("from third_device_contract.test_beside import CODE; print(CODE)").stdout
    for word, value in (("first", "torch"), ("name", "sim"), ("package", "torch_sim")):
        program = program.replace(f"{{{word}}}", value)
    ran = run_program(program)
    assert (ran.returncode, ran.stdout) == (code, "" if code else "NO CUDA\n"), ran.stderr


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One run, and its folder."""
    folder = tmp_path_factory.mktemp("report")
    return run(folder, "--device", "acme", "--contract-report", "card"), folder


def test_a_report_that_cannot_be_written_is_told_before_the_first_test(tmp_path: Path) -> None:
    (tmp_path / "card").write_text("a file")
    ran = run(tmp_path, "--device", "acme", "--contract-report", "card")
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--contract-report card: File exists; name another folder" in ran.stderr and "passed" not in ran.stdout


def test_a_failure_says_what_pytorch_expects_and_where(done: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    said = done[0].stdout
    assert done[0].returncode == 1
    assert "item 22: PyTorch expects: zero bytes, free, out-of-memory error with numbers" in said
    assert "see c10/util/Exception.h: OutOfMemoryError" in said


def test_the_terminal_has_every_item_in_its_group(done: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    lines = done[0].stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if "contract: acme" in line)
    assert lines[start + 1] == "Registration and loading"
    assert lines[start + 2] == "   1 ok        renaming PrivateUse1 is idempotent, a second name raises"
    assert any(line.startswith("  22 BROKEN") and "no number in the error" in line for line in lines)
    assert any(line.startswith("  43 gap") and "torch/autograd/profiler.py" in line for line in lines)
    assert any(line.startswith("  33 missing") and "abs runs on the CPU" in line for line in lines)
    assert any(line.startswith("  48 elsewhere") for line in lines)
    others = sum("elsewhere" in item for item in ROWS)
    missing = len(ITEMS) - 6 - others  # six that the made-up tests answer
    assert f"3 supported, 1 broken, {missing} missing, 1 upstream gap, {others + 1} elsewhere" in lines


def test_what_is_optional_leaves_its_item_to_the_others(done: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    """Whoever runs upstream's suites has tried the item, also without those that take an hour more."""
    lines = done[0].stdout.splitlines()
    assert any(line.startswith("  47 ok") for line in lines)
    assert any(line.startswith("  68 missing") and "pass --more" in line for line in lines)


def test_what_is_tried_elsewhere_leaves_its_item_to_what_passes_here(
    done: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    """A vendor may delete the template's examples, and has a device whose memory no other driver knows."""
    lines = done[0].stdout.splitlines()
    assert any(line.startswith("  41 ok") for line in lines)
    assert any(line.startswith("  56 elsewhere") and "with the examples" in line for line in lines)


def test_json_and_html_say_the_same(done: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    card = json.loads((done[1] / "card" / "contract.json").read_text())
    status = {item["number"]: item["status"] for item in card["items"]}
    assert (card["device"], card["torch"], sorted(status)) == ("acme", "2.6.0", ITEMS)
    assert [status[number] for number in (1, 22, 43, 33)] == ["supported", "broken", "upstream gap", "missing"]
    assert (card["counts"]["broken"], card["exit_status"]) == (1, 1)
    profiler = next(item for item in card["items"] if item["number"] == 43)
    assert [test["outcome"] for test in profiler["tests"]] == ["skipped", "passed"]
    page = (done[1] / "card" / "contract.html").read_text()
    assert page.count("<tr><td>") == len(ITEMS) and "<list it>" not in page and "&lt;list it&gt;" in page


def test_tests_that_run_in_other_processes_are_in_the_card(
    done: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path
) -> None:
    """As with ``-n 4`` of pytest-xdist, which a vendor's CI may use."""
    spread = run(tmp_path, "--device", "acme", "--contract-report", "card", "-p", "xdist.plugin", "-n", "1")
    assert "contract: acme" in spread.stdout, spread.stdout + spread.stderr
    assert json.loads((tmp_path / "card" / "contract.json").read_text()) == json.loads(
        (done[1] / "card" / "contract.json").read_text()
    )


def test_a_test_that_ends_its_process_breaks_its_item(tmp_path: Path) -> None:
    """With pytest-xdist the item's other test made it a supported one."""
    tests = """
import os, pytest

@pytest.mark.contract_item(36)
def test_forward(): pass

@pytest.mark.contract_item(36)
def test_backward(): os.abort()
"""
    done = run(tmp_path, "--device", "acme", "-p", "xdist.plugin", "-n", "1", tests=tests)
    assert done.returncode == 1 and "  36 BROKEN" in done.stdout and "crashed while running" in done.stdout


def test_a_device_must_be_named(tmp_path: Path) -> None:
    refused = run(tmp_path)
    assert refused.returncode == 4 and "--device NAME is needed" in refused.stderr + refused.stdout


def test_an_item_that_the_contract_has_not_is_refused(tmp_path: Path) -> None:
    refused = run(tmp_path, "--device", "acme", tests=TESTS.replace("contract_item(22)", "contract_item(99)"))
    assert refused.returncode == 4 and "the contract has no item 99" in refused.stderr + refused.stdout


LOSES_MEMORY = """
import contextlib, types
__version__ = "2.6.0"
acme = types.SimpleNamespace(Stream=object, stream=contextlib.nullcontext)

def full(*arguments, **given):
    raise RuntimeError("no such block")
"""


def test_what_one_of_eight_threads_raises_is_a_failure(tmp_path: Path) -> None:
    """A driver without locks may raise in a thread before any byte is compared."""
    tests = "from third_device_contract.test_faults import test_eight_threads_share_the_allocator\n"
    failed = run(tmp_path, "--device", "acme", tests=tests, torch=LOSES_MEMORY)
    assert failed.returncode == 1 and "1 failed" in failed.stdout, failed.stdout
    assert any(line.startswith("  23 BROKEN") and "no such block" in line for line in failed.stdout.splitlines())


SUITES = """
from third_device_contract.test_upstream import *

@pytest.mark.contract_item(47)
def test_another_suite(): pass
"""


@pytest.mark.parametrize(
    ("torch", "reason"),
    [("2.13.0+cpu", "is told of PyTorch 2.6"), ("2.6.0", "needs 4 devices, there are 2")],
    ids=["release", "devices"],
)
def test_a_suite_that_cannot_run_here_leaves_item_47_to_the_others(tmp_path: Path, torch: str, reason: str) -> None:
    """Who asks for the suites of FSDP2 and DTensor, too, has no worse card."""
    options = ["--upstream-tests", ".", "--upstream-distributed", "-rs", "-k", "another_suite or fully_shard_state-4"]
    stand_in = f"""
import types
__version__ = {torch!r}
acme = types.SimpleNamespace(as_cuda=None, device_count=lambda: 2)
"""
    done = run(tmp_path, "--device", "acme", *options, tests=SUITES, torch=stand_in)
    assert done.returncode == 0 and reason in done.stdout, done.stdout
    assert any(line.startswith("  47 ok") for line in done.stdout.splitlines()), done.stdout


def test_each_python_has_an_environment_of_its_own_in_a_shared_cache() -> None:
    names = {
        backend_env.name_environment("2.13.0", Path(python)) for python in ("/usr/bin/python9", "/opt/bin/python9")
    }
    assert len(names) == 2


def test_each_python_s_environment_has_a_lock_of_its_own() -> None:
    homes = [Path("/cache") / f"torch-2.13.0-py{python}-0279a366" for python in ("3.11", "3.13")]
    assert [backend_env.name_lock(home).name for home in homes] == [
        "torch-2.13.0-py3.11-0279a366.lock",
        "torch-2.13.0-py3.13-0279a366.lock",
    ]


def test_each_checkout_builds_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    checkouts = [tmp_path / name for name in ("main", "w")]
    for checkout in checkouts:
        checkout.mkdir()
    homes = [backend_env.open_builds(Path("/venv/bin/python"), checkout) for checkout in checkouts]
    assert homes[0] != homes[1] and all(home.is_dir() for home in homes)
    checkouts[1].rmdir()
    assert backend_env.open_builds(Path("/venv/bin/python"), checkouts[0]) == homes[0]
    assert homes[0].is_dir() and not homes[1].exists(), "that of a checkout that is gone goes, too"
