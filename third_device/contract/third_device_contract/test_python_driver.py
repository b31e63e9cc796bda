"""Item 72: functions of a file of Python in the place of the driver's."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from third_device_contract.plugin import Run

DRIVER = """
import ctypes, itertools, threading

__all__ = ["copy", "device_count", "memory_alloc", "memory_free"]
numbers, blocks, threads, trouble = itertools.count(1), {}, set(), {}

def device_count():
    return 2

def memory_alloc(device, size):
    if "memory_alloc" in trouble:
        raise trouble["memory_alloc"]
    number = next(numbers)
    blocks[number] = bytearray(size)
    return number << 40

def memory_free(device, address):
    del blocks[address >> 40]
    if "memory_free" in trouble:
        raise trouble["memory_free"]

def bytes_at(address, device, size):
    if device == -1:
        return address
    return (ctypes.c_char * size).from_buffer(blocks[address >> 40], address & (1 << 40) - 1)

def copy(to, to_device, source, from_device, size):
    threads.add(threading.get_ident())
    if "copy" in trouble:
        raise trouble["copy"]
    ctypes.memmove(bytes_at(to, to_device, size), bytes_at(source, from_device, size), size)
"""

Use = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def with_driver(package: str, name: str, tmp_path: Path, python: Run) -> Use:
    """Return a function that runs code where this backend has a driver in Python.

    The driver is ``made`` (default: of DRIVER's text).
    Whoever has a device of his own has kernels that want its memory: only the simulation's memory is exchanged.
    """
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    home = Path(spec.origin).parent
    if not (home / "include" / "third_device" / "sim_driver.h").is_file():
        pytest.skip(f"elsewhere: the template is tried with a driver in Python; kernels of {package} want its memory")
    site = tmp_path / "site"
    shutil.copytree(home, site / package, ignore=shutil.ignore_patterns("__pycache__", "include"))
    paths = {  # before the installed one, whose entry point then finds this copy
        "PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(home / "lib"), os.environ.get("LD_LIBRARY_PATH")])),
    }

    def use(code: str, driver: str = DRIVER) -> subprocess.CompletedProcess[str]:
        (site / package / "driver.py").write_text(driver)
        start = f"import gc, itertools, sys, threading, time, torch, {package}.driver as made"
        return python(f"{start}\ndevice, mod = {name!r}, torch.{name}\n{code}", env=paths)

    return use


@pytest.mark.contract_item(72)
def test_tensors_lie_where_python_says(with_driver: Use) -> None:
    done = with_driver("""
assert torch.accelerator.device_count() == 2 and not made.blocks
x = torch.arange(6, dtype=torch.float64, device=device).view(2, 3)
assert made.blocks and (x.t() @ x).sum().item() == 153
assert torch.equal(x.to(f"{device}:1").cpu(), x.cpu()) and x.sin().device == x.device
assert torch.zeros(5, dtype=torch.int64, device=device).tolist() == [0] * 5
assert made.threads and threading.get_ident() not in made.threads, "the caller waits for no copy that it does not need"
x.requires_grad_()
torch.nn.functional.linear(x, x).square().sum().backward()
y = x.detach().cpu().requires_grad_()
torch.nn.functional.linear(y, y).square().sum().backward()
torch.testing.assert_close(x.grad.cpu(), y.grad)
with mod.stream(mod.Stream()):
    assert x.detach().to("cpu", non_blocking=False).tolist() == y.tolist()
del x
mod.empty_cache()
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(72)
def test_what_python_raises_is_told(with_driver: Use) -> None:
    done = with_driver("""
def told(call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")

x = torch.ones(4, dtype=torch.float64, device=device)
large = lambda: torch.empty(64 << 20, dtype=torch.uint8, device=device)
made.trouble["memory_alloc"] = ValueError("no such heap")
text = told(large)
assert "memory_alloc: ValueError: no such heap" in text and "driver.py" in text, text
text = told(lambda: mod._driver_control("no such knob", 1))
assert "no such heap" not in text and "knob" in text, "a failure of csrc/driver.cpp has its own text"
made.trouble["memory_alloc"] = MemoryError()
assert "67108864 bytes" in told(large, torch.OutOfMemoryError)
del made.trouble["memory_alloc"]
made.trouble["copy"] = OSError("the link is down")
assert "OSError: the link is down" in told(x.cpu)
mod.synchronize()
x.zero_()  # nobody waits for it
assert "OSError: the link is down" in told(mod.synchronize)
del made.trouble["copy"]
made.numbers = iter([0])
assert "multiple of 512 and not 0" in told(large)
made.numbers = itertools.count(100)
assert x.tolist() == [1] * 4 and large().numel() == 64 << 20
made.trouble["memory_free"] = KeyError("double free")
unraisable = []
sys.unraisablehook = unraisable.append
mod.empty_cache()
assert [type(each.exc_value) for each in unraisable] == [KeyError]
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(72)
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"copy", ', "", "copy is not in __all__"),
        ('"copy", ', '"copy", "threads", ', "no driver has threads"),
        ('"copy", ', '"copy", "memory_info", ', "memory_info is in __all__ alone"),
        ("__all__ =", "names =", "copy, device_count, memory_alloc, memory_free is not in __all__"),
        ("return 2", "return -1", "device_count: -1 devices"),
    ],
)
def test_a_file_that_is_no_driver_is_named(with_driver: Use, old: str, new: str, said: str) -> None:
    done = with_driver("", DRIVER.replace(old, new))
    assert done.returncode != 0 and said in done.stderr, done.stderr


@pytest.mark.contract_item(72)
def test_devices_whose_addresses_overlap_are_refused(with_driver: Use) -> None:
    made = DRIVER.replace("next(numbers)", "device and 1 or next(numbers)")
    done = with_driver(
        """
first = torch.ones(4, dtype=torch.float64, device=f"{device}:0")
try:
    torch.ones(4, dtype=torch.float64, device=f"{device}:1")
except RuntimeError as error:
    assert "is in use; all devices share one space of addresses" in str(error), error
else:
    raise AssertionError("nothing was raised")
""",
        made,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(72)
def test_a_function_that_goes_on_after_the_end_is_left_alone(with_driver: Use) -> None:
    done = with_driver("""
import threading
begun = threading.Event()

def go_on():
    begun.set()
    while True:
        pass

mod.enqueue(go_on)
begun.wait()
print("over", flush=True)
""")
    assert done.returncode == 0 and "over" in done.stdout, (done.returncode, done.stderr)


@pytest.mark.contract_item(72)
def test_threads_neither_wait_for_each_other_for_good_nor_hold_up_the_end(with_driver: Use) -> None:
    """Free tensors and write storages with the GIL held; collect garbage meanwhile."""
    done = with_driver("""
gc.set_threshold(50)
failed = []

def work(number):
    try:
        for i in range(60):
            cycle = [torch.ones(200000, dtype=torch.float64, device=f"{device}:{number % 2}")]
            cycle.append(cycle)
            del cycle
            x = torch.full((50,), float(i), dtype=torch.float64, device=device, requires_grad=True)
            (x * x).sum().backward()
            assert x.grad[0].item() == 2 * i
            if i % 10 == number:
                mod.empty_cache()
                torch.save(x.detach(), __file__ + str(number))
    except BaseException as error:
        failed.append(error)
        raise

threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert not failed
for seconds in (0.2, 0.2, 600):
    mod.enqueue(lambda seconds=seconds: time.sleep(seconds))
print("over", flush=True)
""")
    assert done.returncode == 0 and "over" in done.stdout, done.stderr


@pytest.mark.contract_item(72)
def test_a_function_of_python_runs_in_the_order_of_its_stream(with_driver: Use) -> None:
    done = with_driver("""
order = []
side = mod.Stream()
with mod.stream(side):
    for number in range(5):
        mod.enqueue(lambda number=number: (time.sleep(0.02), order.append(number)))
    assert len(order) < 5, "the caller does not wait"
mod.current_stream().wait_stream(side)
mod.enqueue(lambda: order.append("after"))
mod.synchronize()
assert order == [0, 1, 2, 3, 4, "after"], order
mod.enqueue(lambda: 1 // 0)
try:
    mod.synchronize()
except RuntimeError as error:
    assert "ZeroDivisionError" in str(error)
else:
    raise AssertionError("nothing was raised")
said = []
ones = torch.ones(2, dtype=torch.float64, device=device)

def wait():
    try:
        ones.tolist()
    except RuntimeError as error:
        said.append(str(error))

mod.enqueue(wait)
mod.synchronize()
assert len(said) == 1 and "a function on a stream waits for none" in said[0], said
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(65)
@pytest.mark.contract_item(72)
def test_a_driver_without_graphs_says_so(with_driver: Use) -> None:
    """A driver in Python is one: what it enqueues is called once."""
    done = with_driver("""
for name in ("Graph", "graph", "graph_pool_handle", "make_graphed_callables"):
    try:
        getattr(mod, name)
    except AttributeError as error:
        assert "the driver table has no capture of a stream's work" in str(error), error
    else:
        raise AssertionError(name)
assert not mod.is_current_stream_capturing() and "graph" in mod.names_without()
if hasattr(torch.accelerator, "Graph"):
    try:
        torch.accelerator.Graph()
    except RuntimeError as error:
        assert f"not supported on device type: {device}" in str(error), error
    else:
        raise AssertionError("nothing was raised")
""")
    assert done.returncode == 0, done.stderr
