"""Items 70 and 71: programs written for CUDA, and the names of ``torch.cuda``."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import subprocess
import sys
import threading
import types
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.cuda.amp
import torch.profiler

from third_device_contract.plugin import Run
from third_device_contract.traces import changes, trace


@pytest.fixture
def as_cuda(mod: types.ModuleType) -> Any:
    """``torch.<dev>.as_cuda``."""
    if not hasattr(mod, "as_cuda"):
        pytest.skip("this backend does not run programs written for CUDA (torch.<dev>.as_cuda)")
    return mod.as_cuda


def use() -> None:
    """Do a little of everything that a program does with CUDA."""
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    (torch.nn.Linear(3, 2).cuda()(x)).sum().backward()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (x @ x.t()).dtype == torch.bfloat16
    assert torch.cuda.is_available() and x.is_cuda and x.device.type == "cuda"
    torch.amp.GradScaler().scale(x.sum()).backward()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: torch.zeros(1).cuda().is_cuda).result()
    torch.Generator(device="cuda").manual_seed(3)
    torch.load(io.BytesIO(checkpoint("cuda:0")))


@pytest.fixture
def no_trace(as_cuda: Any) -> Iterator[None]:
    """Check that the test leaves PyTorch as it was, attribute by attribute."""
    with as_cuda():
        use()  # what PyTorch itself keeps from its first use is there before
    before = trace()
    yield
    assert changes(before, trace()) == []
    assert not torch.cuda.is_available() or torch.device("cuda").type == "cuda"


def pickled(text: str) -> bytes:
    """Return a text as a pickle holds it."""
    return b"X" + bytes([len(text), 0, 0, 0]) + text.encode()


def checkpoint(location: str) -> bytes:
    """Return what torch.save writes of three ones that lie at ``location``."""
    written, changed = io.BytesIO(), io.BytesIO()
    torch.save({"weight": torch.ones(3)}, written)
    with zipfile.ZipFile(written) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(pickled("cpu"), pickled(location)))
    return changed.getvalue()


@pytest.mark.contract_item(70)
def test_devices_of_cuda_are_this_one(name: str, as_cuda: Any, no_trace: None) -> None:
    before = torch.device("cuda:0")
    with as_cuda():
        x = torch.ones(2, 3, device="cuda:0")
        for there in (
            x,
            torch.ones(1).cuda(),
            torch.ones(1).cuda(0),
            torch.ones(1).to("cuda"),
            torch.ones(1).to(before),
            torch.ones(1, device=torch.device("cuda", 0)),
            torch.nn.Linear(2, 2).cuda().weight,
            torch.nn.Linear(2, 2, device="cuda").to("cuda:0").weight,
            torch.tensor([1.0]).type("torch.cuda.FloatTensor"),
            torch.cuda.LongTensor([1, 2]),
            torch.cuda.FloatTensor(2, device="cuda:0"),
            torch.cuda.FloatTensor(x),
            torch.randn(2, device="cuda", generator=torch.Generator(device="cuda")),
        ):
            assert there.is_cuda and there.device == torch.device("cuda:0") and there.device.type == "cuda"
            assert not there.cpu().is_cuda and there.untyped_storage().is_cuda
        assert x.type() == "torch.cuda.FloatTensor" and isinstance(x, torch.cuda.FloatTensor)
        assert torch.cuda.FloatTensor(x).data_ptr() == x.data_ptr()
        with torch.device("cuda"):
            assert torch.ones(1).is_cuda
        assert getattr(torch, x.device.type).device_count() == torch.cuda.device_count() >= 1
        assert torch.einsum("cuda", torch.ones(1, 1, 1, 1)).shape == (1, 1, 1, 1)  # no device, an equation
    assert x.device == torch.device(name, 0) and x.device.type == name and not x.is_cuda
    assert torch.device("cuda") != torch.device(name)


@pytest.mark.contract_item(70)
def test_torch_cuda_answers(name: str, mod: types.ModuleType, as_cuda: Any, no_trace: None) -> None:
    real = torch.cuda.is_available()
    with as_cuda() as given:
        assert given is mod and torch.cuda.is_available()
        assert torch.cuda.get_device_name(0) == mod.get_device_name(0)
        assert torch.cuda.Stream is mod.Stream and isinstance(torch.cuda.current_stream(), torch.Stream)
        with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
            x = torch.ones(8, device="cuda")
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() == torch.cuda.memory.memory_allocated() >= x.nbytes
        assert "allocated" in torch.cuda.memory_summary()
        from torch.cuda import device_count, memory  # what a program imports inside is the device's

        assert device_count() == mod.device_count() and memory.memory_reserved() == mod.memory_reserved()
        with mock.patch("torch.cuda.is_available", return_value=False):  # the program's own say goes first
            assert not torch.cuda.is_available()
        assert torch.cuda.is_available()
    assert torch.cuda.is_available() == real


@pytest.mark.contract_item(65)
@pytest.mark.contract_item(70)
def test_graphs_of_a_program(mod: types.ModuleType, as_cuda: Any, no_trace: None) -> None:
    if not hasattr(mod, "graph"):
        pytest.skip("optional: this driver has no graphs")
    with as_cuda():
        graph = torch.cuda.CUDAGraph()
        assert isinstance(graph, torch.cuda.graphs.CUDAGraph) and not torch.cuda.is_current_stream_capturing()
        x = torch.ones(4, device="cuda")
        with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle(), stream=torch.cuda.Stream()):
            assert torch.cuda.is_current_stream_capturing()
            y = x.clone()
        x.fill_(3.0)
        graph.replay()
        assert y.tolist() == [3] * 4


@pytest.mark.contract_item(70)
def test_what_cannot_be_mapped_says_why(name: str, as_cuda: Any, no_trace: None) -> None:
    with as_cuda():
        for call in (torch.cuda.cudart, torch.cuda.utilization, torch.cuda.temperature):
            with pytest.raises(
                NotImplementedError, match=rf"torch\.cuda\.{call.__name__} on {name}: .+docs/backends.md"
            ):
                call()
        with pytest.raises(NotImplementedError, match="set_default_device"):
            torch.set_default_tensor_type("torch.cuda.FloatTensor")
        with pytest.raises(AttributeError):
            torch.cuda.never_was_there  # noqa: B018
        assert not hasattr(torch.cuda, "never_was_there")


@pytest.mark.contract_item(70)
def test_autocast_and_scaler_by_name(name: str, as_cuda: Any, no_trace: None) -> None:
    with as_cuda(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.cuda.amp is deprecated
        x = torch.ones(2, 2, device="cuda")
        for context in (
            torch.autocast("cuda", torch.float16),
            torch.autocast(device_type="cuda"),
            torch.cuda.amp.autocast(),
        ):
            with context:
                assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
                assert (x @ x).dtype == torch.get_autocast_gpu_dtype() == torch.get_autocast_dtype("cuda")
        assert not torch.is_autocast_enabled()
        for scaler in (torch.amp.GradScaler(), torch.amp.GradScaler("cuda"), torch.cuda.amp.GradScaler()):
            assert scaler.is_enabled() and isinstance(scaler, torch.amp.GradScaler)
            assert scaler.scale(torch.ones(1, device="cuda")).item() == scaler.get_scale()
    assert not torch.is_autocast_enabled(name)


@pytest.mark.contract_item(70)
@pytest.mark.parametrize("custom_fwd", [torch.cuda.amp.custom_fwd, partial(torch.amp.custom_fwd, device_type="cuda")])
def test_a_function_that_wants_float32_under_autocast_gets_it(
    as_cuda: Any, no_trace: None, custom_fwd: Callable[..., Any]
) -> None:
    with as_cuda(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.cuda.amp is deprecated

        class Doubled(torch.autograd.Function):
            @staticmethod
            @custom_fwd(cast_inputs=torch.float32)
            def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
                return x * 2

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
                return grad * 2

        x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
        with torch.autocast("cuda"):
            made = Doubled.apply(x)
        assert made.dtype == torch.float32 and made.is_cuda
        made.sum().backward()
        assert x.grad is not None and x.grad.tolist() == [2, 2]


@pytest.mark.contract_item(70)
@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoints_of_cuda_load(name: str, as_cuda: Any, no_trace: None, weights_only: bool) -> None:
    def load(location: Any = None) -> torch.Tensor:
        return torch.load(io.BytesIO(checkpoint("cuda:0")), location, weights_only=weights_only)["weight"]

    with as_cuda():
        for location in (None, "cuda", torch.device("cuda:0"), {"cuda:0": "cuda:0"}, lambda storage, _: storage.cuda()):
            assert load(location).is_cuda
        for location in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, _: storage):
            assert load(location).device.type == "cpu"
        with pytest.raises(RuntimeError, match="map_location"):
            torch.load(io.BytesIO(checkpoint("cuda:77")), weights_only=weights_only)
        kept = io.BytesIO()
        torch.save(torch.ones(2, device="cuda"), kept)
    kept.seek(0)
    assert torch.load(kept).device.type == name  # what is written inside is read outside


@pytest.mark.contract_item(70)
def test_classes_and_pickles_stay(name: str, as_cuda: Any, no_trace: None) -> None:
    with as_cuda():
        x = torch.ones(2, device="cuda")
        assert type(x) is torch.Tensor and isinstance(x.device, torch.device)
        assert isinstance(torch.Generator(device="cuda"), torch.Generator) and issubclass(
            torch.cuda.Stream, torch.Stream
        )

        class Own(torch.Generator):
            pass

        assert issubclass(Own, torch.Generator) and isinstance(Own(), torch.Generator)
        kept = pickle.dumps([x, x.device, torch.Generator, torch.float32])
        assert copy.deepcopy(x).is_cuda
    tensor, device, kind, _ = pickle.loads(kept)
    assert tensor.device == device == torch.device(name, 0) and kind is torch.Generator
    assert torch.Generator.__mro__[-1] is object


@pytest.mark.contract_item(70)
def test_blocks_nest_and_end_with_exceptions(as_cuda: Any, no_trace: None) -> None:
    before = trace()
    with pytest.raises(KeyError), as_cuda():
        raise KeyError("the program's")
    assert changes(before, trace()) == []
    context = as_cuda()
    with context, as_cuda(), context:
        use()
    with as_cuda():
        with pytest.raises(RuntimeError), as_cuda():
            torch.ones(2, device="cuda") @ torch.ones(3, device="cuda")
        assert torch.ones(1, device="cuda").is_cuda  # the outer one goes on
    assert changes(before, trace()) == []


@pytest.mark.contract_item(70)
def test_threads(as_cuda: Any, no_trace: None) -> None:
    """Those that are started inside are inside until the block ends; others never are."""
    inside, ended, told = threading.Event(), threading.Event(), {}

    def stranger() -> None:
        inside.wait(60)
        told["stranger"] = (torch.cuda.is_available(), torch.device("cuda").type, torch.ones(1).is_cuda)

    def child() -> None:
        told["child"] = torch.ones(1, device="cuda").is_cuda
        inside.set()
        ended.wait(60)
        told["afterwards"] = torch.cuda.is_available()

    real = torch.cuda.is_available()
    other = threading.Thread(target=stranger)
    other.start()
    with as_cuda():
        own = threading.Thread(target=child)
        own.start()
        other.join()
    assert "run" not in vars(own)
    ended.set()
    own.join()
    assert told == {"stranger": (real, "cuda", False), "child": True, "afterwards": real}

    def many(number: int) -> bool:
        with as_cuda():
            return bool(torch.full((2,), float(number), device="cuda").is_cuda)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(many, range(64)))


class Doubled(torch.autograd.Function):
    """Asks for CUDA in its backward."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor * 2

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        assert gradient.is_cuda and torch.cuda.is_available()
        return gradient * torch.full((1,), 2.0, device="cuda")


@pytest.mark.contract_item(70)
def test_backward_is_inside(as_cuda: Any, no_trace: None) -> None:
    """Autograd calls the program on threads of its own."""
    with as_cuda():
        seen = []
        x = torch.ones(2, device="cuda", requires_grad=True)
        x.register_hook(lambda gradient: seen.append((gradient.is_cuda, torch.zeros(1, device="cuda").is_cuda)))
        Doubled.apply(x).sum().backward()
        torch.autograd.grad(Doubled.apply(x).sum(), x)
        assert x.grad.tolist() == [2.0, 2.0] and seen == [(True, True)] * 2


class QueuesCallback(torch.autograd.Function):
    """Identity; asks at the end of the backward whether it is inside."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, seen: list[bool]) -> torch.Tensor:
        context.seen = seen
        return tensor.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        seen = context.seen
        torch.autograd.Variable._execution_engine.queue_callback(
            lambda: seen.append(torch.cuda.is_available() and torch.zeros(1, device="cuda").is_cuda)
        )
        return gradient, None


@pytest.mark.contract_item(70)
def test_the_end_of_a_backward_is_inside(as_cuda: Any, no_trace: None) -> None:
    """What FSDP2 queues for then is called on the thread of the last node."""
    with as_cuda():
        seen: list[bool] = []
        x = torch.ones(2, device="cuda", requires_grad=True)
        QueuesCallback.apply(x, seen).sum().backward()
        assert seen == [True]


SHARDED = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def forward(self, x):
        assert x.is_cuda, x.device
        x = self.first(x)
        self.last.unshard(async_op=True)  # nothing waits for it
        return x

dist.init_process_group("nccl", init_method="file://{folder}/sharded", rank=0, world_size=1)
mesh = init_device_mesh("cuda", (1,))
net = Net().cuda()
for part in (net.first, net.last, net):
    fully_shard(part, mesh=mesh)
net(torch.ones(1, 2)).sum().backward()
assert net.first.weight.grad.to_local().cpu().tolist() == [[1.0, 1.0]] * 2
dist.destroy_process_group()
print("sharded")
"""


@pytest.mark.contract_item(70)
def test_fsdp2_does_what_it_does_for_cuda(python: Run, name: str, as_cuda: Any, tmp_path: Path) -> None:
    """It moves inputs to ``cuda`` by name; 2.6 waits on ``torch.cuda`` streams."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    done = python(SHARDED.replace("{folder}", str(tmp_path)), env={"DECOUPLE_AS_CUDA": name})
    assert done.returncode == 0 and "sharded" in done.stdout, done.stderr[-3000:]


@pytest.mark.contract_item(70)
def test_profiles_and_compilation(name: str, as_cuda: Any) -> None:
    kinds = torch.profiler.ProfilerActivity
    with as_cuda():
        x = torch.ones(2, 2, device="cuda")
        session = torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA])
        assert kinds.PrivateUse1 in session.activities and kinds.CUDA not in session.activities
        for older in (
            torch.autograd.profiler.profile(use_device="cuda"),
            torch.autograd.profiler.profile(use_cuda=True),
        ):
            assert older.use_device == name

        def compute(a: torch.Tensor) -> torch.Tensor:
            return a.cuda() + torch.ones(2, device="cuda") if a.is_cuda else a

        assert torch.equal(torch.compile(compute, backend="aot_eager")(x), x + 1)


GROUP = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

assert dist.is_nccl_available() and torch.cuda.is_available() and torch.cuda.nccl.version() >= (2, 10)
for backend in ("nccl", "cpu:gloo,cuda:nccl"):
    dist.init_process_group(backend, init_method="file://{folder}/" + backend, rank=0, world_size=1)
    assert "nccl" in dist.get_backend(), dist.get_backend()
    assert dist.get_backend_config() == {"nccl": "cuda:nccl"}.get(backend, backend), dist.get_backend_config()
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[0])
    net(x).sum().backward()
    mesh = init_device_mesh("cuda", (1,))
    assert mesh.device_type == x.device.type == "cuda"
    dist.all_reduce(x, group=mesh.get_group())
    assert x.tolist() == [1.0, 1.0] and x.is_cuda
    dist.destroy_process_group()
print("grouped")
"""


@pytest.mark.contract_item(70)
def test_nccl_is_the_device_s_collectives(python: Run, name: str, as_cuda: Any, tmp_path: Path) -> None:
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    done = python(GROUP.replace("{folder}", str(tmp_path)), env={"DECOUPLE_AS_CUDA": name})
    assert done.returncode == 0 and "grouped" in done.stdout, done.stderr[-3000:]


OWN_GROUP = """
import torch, torch.distributed as dist

def make(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)

default = dist.Backend.default_device_backend_map["{name}"]
dist.Backend.register_backend("mine", make, devices=["cuda"])
assert dist.Backend.default_device_backend_map["{name}"] == default
dist.init_process_group("cuda:mine", init_method="file://{folder}/own", rank=0, world_size=1)
assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "gloo"
print("grouped")
"""


@pytest.mark.contract_item(70)
def test_a_group_registered_for_cuda_is_the_device_s(python: Run, name: str, as_cuda: Any, tmp_path: Path) -> None:
    if not torch.distributed.is_available() or not hasattr(torch.distributed, "ProcessGroupGloo"):
        pytest.skip("this PyTorch has no torch.distributed with Gloo")
    done = python(OWN_GROUP.format(name=name, folder=tmp_path), env={"DECOUPLE_AS_CUDA": name})
    assert done.returncode == 0 and "grouped" in done.stdout, done.stderr[-3000:]


ANY_DEVICE = """
import torch, torch.distributed as dist

def make(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)

default = dict(dist.Backend.default_device_backend_map)
dist.Backend.register_backend("mine", make)  # of the CPU and of CUDA, as PyTorch has it
dist.Backend.register_backend("host", make, devices=["cpu"])
assert dist.Backend.default_device_backend_map == default
assert dist.Backend.backend_capability["mine"] == ["cpu", "{name}"], dist.Backend.backend_capability
assert dist.Backend.backend_capability["host"] == ["cpu"] and "cuda" in dist.Backend.backend_capability["gloo"]
dist.init_process_group("mine", init_method="file://{folder}/any", rank=0, world_size=1)
for device in ("cpu", "cuda"):
    assert dist.group.WORLD._get_backend(torch.device(device)).name() == "gloo"
print("grouped")
"""


@pytest.mark.contract_item(70)
def test_a_group_registered_without_devices_is_the_device_s(
    python: Run, name: str, as_cuda: Any, tmp_path: Path
) -> None:
    if not torch.distributed.is_available() or not hasattr(torch.distributed, "ProcessGroupGloo"):
        pytest.skip("this PyTorch has no torch.distributed with Gloo")
    done = python(ANY_DEVICE.format(name=name, folder=tmp_path), env={"DECOUPLE_AS_CUDA": name})
    assert done.returncode == 0 and "grouped" in done.stdout, done.stderr[-3000:]


RACE = """
def race():
    x = torch.zeros(4, device="cuda")
    try:
        with torch.cuda.stream(side):
            x.add_(1)
    except RuntimeError as error:
        return error
    return None
"""

SANITIZED = f"""
import sys, torch
{RACE}
with torch.NAME.as_cuda():
    side = torch.cuda.Stream()
    assert "torch.cuda._sanitizer" not in sys.modules
    import torch.cuda._sanitizer as csan
    from torch.cuda._sanitizer import enable_cuda_sanitizer
    assert race() is None
    enable_cuda_sanitizer()
    torch.cuda._sanitizer.enable_cuda_sanitizer()
    assert csan.cuda_sanitizer.enabled and isinstance(csan.cuda_sanitizer, csan.CUDASanitizer)
    assert isinstance(race(), csan.CUDASanitizerErrors)
    csan.cuda_sanitizer.disable()
    assert race() is None
    with csan.CUDASanitizerDispatchMode():
        assert race()
    csan.enable_cuda_sanitizer()
    with torch.NAME.as_cuda():
        pass
    assert race(), "ended by a block inside"
    assert list(csan.zip_by_key({{1: 2}}, {{1: 3}})) == [(1, 2, 3)]
assert type(torch.cuda) is type(csan) is type(sys) and csan.CUDASanitizer.__module__ == csan.__name__
x = torch.zeros(4, device="NAME")
with torch.NAME.stream(torch.NAME.Stream()):
    x.add_(1)
print("found")
"""

SANITIZED_BY_VARIABLE = f"""
import torch
side = torch.cuda.Stream()
{RACE}
assert race() and torch.cuda._sanitizer.cuda_sanitizer.enabled
print("found")
"""


@pytest.mark.contract_item(70)
def test_cuda_s_sanitizer_is_the_device_s(python: Run, name: str, mod: types.ModuleType, as_cuda: Any) -> None:
    if not hasattr(mod, "sanitizer"):
        pytest.skip("this backend has no sanitizer()")
    done = python(SANITIZED.replace("NAME", name))
    assert done.returncode == 0 and "found" in done.stdout, done.stderr[-3000:]
    asked = {"DECOUPLE_AS_CUDA": name, "TORCH_CUDA_SANITIZER": "1"}
    for both in ({}, {f"TORCH_{name.upper()}_SANITIZER": "1"}):
        done = python(SANITIZED_BY_VARIABLE, env=asked | both)
        assert done.returncode == 0 and "found" in done.stdout, done.stderr[-3000:]


@pytest.mark.contract_item(70)
def test_modules_imported_inside_are_the_device_s(python: Run, name: str, as_cuda: Any) -> None:
    code = f"""
import sys, torch
with torch.{name}.as_cuda():
    import torch.cuda.comm
    try:
        torch.cuda.comm.broadcast(torch.ones(1), [0])
    except NotImplementedError as error:
        assert "torch.cuda.comm.broadcast on {name}" in str(error)
    else:
        raise AssertionError("it was let through")
assert type(torch.cuda.comm) is type(sys)
print("refused")
"""
    done = python(code)
    assert done.returncode == 0 and "refused" in done.stdout, done.stderr[-3000:]


@pytest.mark.contract_item(70)
def test_helpers_of_pytorch_s_tests_are_the_program_s(python: Run, name: str, as_cuda: Any) -> None:
    pytest.importorskip("expecttest", reason="torch.testing._internal.common_utils imports it")
    code = "from torch.testing._internal.common_cuda import TEST_CUDA; print(TEST_CUDA)"
    done = python(code, env={"DECOUPLE_AS_CUDA": name})
    assert done.stdout.split()[-1:] == ["True"], done.stderr[-3000:]


@pytest.mark.contract_item(70)
def test_cycles_of_a_wait_are_not_milliseconds(mod: types.ModuleType, as_cuda: Any) -> None:
    if not hasattr(mod, "_sleep"):
        pytest.skip("this backend has no _sleep(milliseconds, stream)")
    with as_cuda(), mock.patch.object(mod, "_sleep") as slept:
        torch.cuda._sleep(25_000_000)  # CUDA's counts cycles
    slept.assert_called_once_with(25)


PROGRAM = """
import sys, threading, torch
print(sys.argv[1:], __name__, torch.cuda.is_available(), torch.zeros(1, device="cuda").is_cuda)
"""


@pytest.mark.contract_item(70)
def test_whole_programs(python: Run, name: str, package: str, as_cuda: Any, tmp_path: Path) -> None:
    done = python(PROGRAM, env={"DECOUPLE_AS_CUDA": name})
    assert done.stdout.split() == ["[]", "__main__", "True", "True"], done.stderr
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    for words in ([str(script)], ["-m", "program"]):
        command = [sys.executable, "-m", f"{package}.as_cuda", *words, "--size", "3"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert "['--size', '3'] __main__ True True" in done.stdout, done.stderr
    if not torch.cuda.is_available():
        off = python("import torch; print(torch.cuda.is_available(), torch.device('cuda').type)")
        assert off.stdout.split() == ["False", "cuda"]  # off by default
    other = python("import torch; torch.zeros(1)", env={"DECOUPLE_AS_CUDA": "nobodys"})
    assert other.returncode == 0 and "nobodys" in other.stderr


@pytest.mark.contract_item(70)
def test_the_way_out_is_told(as_cuda: Any) -> None:
    with as_cuda(warn=True), pytest.warns(DeprecationWarning, match=r"torch\.accelerator"):
        torch.cuda.is_available()
    with as_cuda(), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.cuda.is_available()


# --- torch.<dev> itself ---


@pytest.mark.contract_item(71)
def test_names_of_torch_cuda(mod: types.ModuleType) -> None:
    """Hold the device's names against ``torch.cuda``'s; no reason outlives its name."""
    reasons: dict[str, str] = mod.names_without() if hasattr(mod, "names_without") else {}
    public = [name for name in torch.cuda.__all__ if not hasattr(mod, name)]
    assert [name for name in public if not reasons.get(name)] == []
    assert [name for name in reasons if hasattr(mod, name)] == []
    for module in ("memory", "nvtx", "random"):
        theirs, own = getattr(torch.cuda, module), getattr(mod, module, None)
        public = [f"{module}.{name}" for name in theirs.__all__ if not hasattr(own, name)]
        assert [name for name in public if not (reasons.get(name) or reasons.get(name.partition(".")[2]))] == []


@pytest.mark.contract_item(71)
@pytest.mark.parametrize("module", ["", "graphs", "memory", "nvtx", "random"])
def test_whoever_can_call_torch_cuda_s_can_call_the_device_s(mod: types.ModuleType, module: str) -> None:
    """Hold parameters against ``torch.cuda``'s, by position and by name."""
    theirs, own = (getattr(each, module, None) if module else each for each in (torch.cuda, mod))
    if theirs is None or own is None:
        pytest.skip(f"no module {module}: test_names_of_torch_cuda has the reason")
    refused, compared = [], 0
    for name in getattr(theirs, "__all__", vars(theirs)):
        called, offered = getattr(theirs, name), getattr(own, name, None)
        if not any(is_kind(called) and is_kind(offered) for is_kind in (inspect.isfunction, inspect.isclass)):
            continue
        try:
            wanted = inspect.signature(called).parameters.values()
        except ValueError:  # written in C, which tells no parameters
            continue
        compared += 1
        by_position = [each for each in wanted if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        by_name = {each.name: each for each in wanted if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}
        for positional, named in ((by_position, {}), ([], by_name)):
            try:
                inspect.signature(offered).bind(*positional, **named)  # type: ignore[arg-type]
            except TypeError as error:
                refused.append(f"{name}: {error}")
    assert refused == []
    assert compared, f"torch.cuda.{module} has nothing to compare"


@pytest.mark.contract_item(71)
def test_memory_is_told(mod: types.ModuleType, name: str) -> None:
    held = torch.ones(1024, device=name)
    flat, nested = mod.memory.memory_stats(0), mod.memory_stats_as_nested_dict(0)
    assert nested["allocated_bytes"]["all"]["current"] == flat["allocated_bytes.all.current"] >= held.nbytes
    assert mod.memory_summary(0).count("\n") > mod.memory_summary(0, abbreviated=True).count("\n") > 3
    assert mod.get_allocator_backend() and mod.host_memory_stats_as_nested_dict() == mod.host_memory_stats()
    with pytest.warns(FutureWarning):
        assert mod.memory_cached(0) == mod.memory_reserved(0)


@pytest.mark.contract_item(71)
def test_operators_that_wait_are_told(mod: types.ModuleType, name: str) -> None:
    """Warn or raise where an operator waits; who asks to wait, waits."""
    if not hasattr(mod, "set_sync_debug_mode"):
        pytest.skip("this backend has no set_sync_debug_mode")
    tensor = torch.ones(1000, device=name)
    pinned = torch.ones(1000).pin_memory()
    waiting: list[Callable[[], Any]] = [
        tensor.cpu,
        tensor[0].item,
        tensor.nonzero,
        lambda: torch.ones(1000).to(name, non_blocking=True),
        lambda: pinned.to(name),
    ]
    try:
        mod.set_sync_debug_mode("warn")
        assert mod.get_sync_debug_mode() == 1
        for operator in waiting:
            with pytest.warns(UserWarning, match=f"waits for the {name} device"):
                operator()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            there = pinned.to(name, non_blocking=True)
            mod.synchronize()
            mod.current_stream().synchronize()
        mod.set_sync_debug_mode(2)
        for operator in waiting:
            with pytest.raises(RuntimeError, match=f"waits for the {name} device"):
                operator()
        with pytest.raises(RuntimeError, match="default, warn, error"):
            mod.set_sync_debug_mode("always")
    finally:
        mod.set_sync_debug_mode("default")
    assert mod.get_sync_debug_mode() == 0 and there.sum().item() == 1000


@pytest.mark.contract_item(70)
def test_pools_and_snapshots_of_a_program(as_cuda: Any, mod: types.ModuleType) -> None:
    if not hasattr(mod, "MemPool"):
        pytest.skip("optional: this backend has no MemPool")
    with as_cuda():
        torch.cuda.memory._record_memory_history(clear_history=True)
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            held = torch.empty(24 << 20, dtype=torch.uint8, device="cuda")
        torch.cuda.memory._record_memory_history(enabled=None)
        data = torch.cuda.memory._snapshot()
        assert torch.cuda.memory_snapshot() == data["segments"]
        assert [step["pool_id"] for step in data["device_traces"][0] if step["action"] == "alloc"] == [pool.id]
        address = torch.cuda.caching_allocator_alloc(100)
        torch.cuda.caching_allocator_delete(address)
        torch.cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="waits"):
            held[0].item()
        torch.cuda.set_sync_debug_mode(0)
    mod.memory._record_memory_history(None, clear_history=True)


@pytest.mark.contract_item(71)
def test_modules_of_the_device_import(python: Run, name: str) -> None:
    code = f"""
import torch
import torch.{name}.nvtx as nvtx
from torch.{name}.amp import GradScaler, autocast, custom_bwd, custom_fwd
from torch.{name}.memory import memory_summary
from torch.{name}.random import get_rng_state, manual_seed
a = torch.ones(2, 2, device="{name}")
with autocast(dtype=torch.bfloat16), nvtx.range("product of {{}}", 2):
    assert (a @ a).dtype == torch.bfloat16
assert nvtx.range_push("one") == 0 and nvtx.range_push("two") == 1
assert nvtx.range_pop() == 1 and nvtx.range_pop() == 0 and nvtx.range_pop() == -1
nvtx.mark("here")
assert GradScaler().scale(a.sum()).item() == 4 * 2**16
assert torch.{name}.FloatTensor([1.0, 2.0]).tolist() == [1.0, 2.0]
assert isinstance(a, torch.{name}.FloatTensor) and not isinstance(a, torch.{name}.HalfTensor)
print(memory_summary(), "fine")
"""
    done = python(code)
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr
