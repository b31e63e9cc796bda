"""Items 40 to 42, 54 and 67: what leaves the process, and what comes back."""

from __future__ import annotations

import copy
import io
import pickle
import types

import pytest
import torch

from third_device_contract.plugin import Gap, Run


def saved(value: object) -> io.BytesIO:
    """``value`` as torch.save writes it, rewound."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.contract_item(40)
@pytest.mark.parametrize("weights_only", [True, False])
def test_save_and_load(name: str, weights_only: bool) -> None:
    base = torch.arange(12.0).to(name).view(3, 4)
    back = torch.load(saved({"base": base, "part": base[1:]}), weights_only=weights_only)
    assert back["base"].device == base.device and torch.equal(back["base"].cpu(), base.cpu())
    back["base"][1, 0] = 99
    assert back["part"][0, 0].item() == 99  # still one storage
    to_cpu = torch.load(saved(base), map_location="cpu", weights_only=weights_only)
    assert to_cpu.device.type == "cpu" and torch.equal(to_cpu, base.cpu())
    to_device = torch.load(saved(torch.ones(3)), map_location=name, weights_only=weights_only)
    assert to_device.device.type == name
    mapped = torch.load(saved(base), map_location={f"{name}:0": "cpu"}, weights_only=weights_only)
    assert mapped.device.type == "cpu"


@pytest.mark.contract_item(40)
def test_other_devices_and_modules(name: str, two: None) -> None:
    far = torch.ones(3, device=f"{name}:1")
    assert torch.load(saved(far)).device.index == 1
    assert torch.load(saved(far), map_location=f"{name}:0").device.index == 0
    model = torch.nn.Linear(3, 2).to(name)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(torch.load(saved(model.state_dict()), map_location="cpu"))
    assert torch.equal(other.weight, model.weight.cpu())
    parameter = torch.load(saved(torch.nn.Parameter(far)), weights_only=False)
    assert isinstance(parameter, torch.nn.Parameter) and parameter.device == far.device


@pytest.mark.contract_item(40)
def test_pickle_and_deepcopy(name: str) -> None:
    tensor = torch.arange(4.0, device=name)
    for back in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)), torch.empty(4).copy_(tensor)):
        assert torch.equal(back.cpu(), tensor.cpu()) and back.data_ptr() != tensor.data_ptr()
    assert copy.deepcopy(tensor).device == tensor.device


QUEUE = """
import torch
import torch.multiprocessing as mp

NAME = "{name}"

def work(there, back):
    while (got := there.get()) is not None:
        what, tensor = got
        assert tensor.device.type == NAME, (what, tensor.device)
        about = (type(tensor).__name__, tensor.requires_grad, tensor.stride())
        back.put((what, tensor, tensor.detach().cpu().tolist(), about))
        del tensor, got
    there.get()  # what was sent lives until the other side has it

if __name__ == "__main__":
    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=work, args=(there, back))
    process.start()
    base = torch.arange(12.0).to(NAME).view(3, 4)
    last = torch.device(NAME, getattr(torch, NAME).device_count() - 1)
    for what, tensor in {
        "plain": base, "view": base[1:, ::2], "transposed": base.t(), "empty": base[:0], "number": base[1, 1],
        "half": base.half(), "parameter": torch.nn.Parameter(base.clone()), "far": base.to(last),
        "leaf": base.clone().requires_grad_(), "host": None,
    }.items():
        if tensor is None:
            continue
        there.put((what, tensor))
        told, returned, values, about = back.get(timeout=120)
        assert told == what and returned.device == tensor.device, (what, returned.device)
        assert values == tensor.detach().cpu().tolist() == returned.detach().cpu().tolist(), (what, values)
        assert about == (type(tensor).__name__, tensor.requires_grad, tensor.stride()), (what, about)
    there.put(None)
    there.put(None)
    process.join()
    assert process.exitcode == 0
    print("queue done")
"""


@pytest.mark.contract_item(54)
def test_queues(python: Run, name: str) -> None:
    """Send a tensor to another process and back, same kind and same device."""
    done = python(QUEUE.replace("{name}", name))
    assert done.returncode == 0 and "queue done" in done.stdout, done.stderr[-3000:]


@pytest.mark.contract_item(67)
def test_memory_goes_by_copy_where_it_cannot_be_shared(name: str, mod: types.ModuleType) -> None:
    """Send a tensor of the device where its memory cannot be shared.

    PyTorch maps memory into another process for CUDA by name; a tensor of the device reaches it (item 54).
    """
    tensor = torch.arange(4.0, device=name)
    assert tensor.share_memory_() is tensor  # as CUDA's, it needs no preparing; 2.6 tells is_shared() of CUDA's alone
    for share in (tensor.untyped_storage()._share_cuda_, tensor.untyped_storage()._share_fd_cpu_):
        with pytest.raises(RuntimeError) as caught:
            share()
        assert str(caught.value).splitlines()[0]
    mod.ipc_collect()
    assert tensor.tolist() == [0, 1, 2, 3], "a refused call leaves it as it was"


@pytest.mark.contract_item(67)
def test_an_event_goes_to_another_process(name: str, mod: types.ModuleType, gap: Gap) -> None:
    event = mod.Event(interprocess=True)
    event.record()
    try:
        handle = event.ipc_handle()
        same = mod.Event.from_ipc_handle(torch.device(name, 0), handle)
    except (NotImplementedError, RuntimeError) as error:
        if "ipc is not supported" in str(error):
            gap("event-ipc")
        raise
    same.synchronize()
    assert same.query()


@pytest.mark.contract_item(41)
def test_storage_and_backend_meta(name: str, mod: types.ModuleType) -> None:
    if not hasattr(mod, "_set_flags"):
        pytest.skip("this backend keeps no BackendMeta (torch.<dev>._set_flags, _get_flags)")
    tensor = torch.ones(3, device=name)
    assert mod._get_flags(tensor) == {}
    mod._set_flags(tensor, {"tiled": True, "padded": False})
    back = torch.load(saved(tensor), weights_only=False)
    assert mod._get_flags(back) == {"tiled": True, "padded": False}
    assert torch.equal(back.cpu(), tensor.cpu())
    assert back.untyped_storage().device.type == name


@pytest.mark.contract_item(42)
def test_dlpack(name: str, mod: types.ModuleType) -> None:
    for dtype in (torch.float32, torch.int16, torch.complex64):
        tensor = torch.arange(6, device=torch.device(name, mod.device_count() - 1)).to(dtype).view(2, 3)[:, 1:].t()
        back = torch.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
        assert back.device == tensor.device and back.dtype == dtype and back.data_ptr() == tensor.data_ptr()
        assert back.stride() == tensor.stride() and torch.equal(back.cpu(), tensor.cpu())


@pytest.mark.contract_item(42)
def test_dlpack_protocol(name: str, gap: Gap) -> None:
    tensor = torch.arange(6.0, device=name)
    try:
        kind, index = tensor.__dlpack_device__()
    except ValueError:
        gap("dlpack-protocol")
    assert int(kind) == 12 and index == 0  # kDLExtDev
    assert torch.from_dlpack(tensor).data_ptr() == tensor.data_ptr()


@pytest.mark.contract_item(42)
def test_type_names(name: str) -> None:
    tensor = torch.ones(1, device=name)
    assert tensor.type() == f"torch.{name}.FloatTensor"
    assert tensor.long().type() == f"torch.{name}.LongTensor"
    assert tensor.to(torch.device(name, 0), torch.int32).dtype == torch.int32


@pytest.mark.contract_item(42)
def test_quantize(name: str) -> None:
    tensor = torch.tensor([-1.0, 0.0, 0.26, 1.0])
    host = torch.quantize_per_tensor(tensor, 0.1, 10, torch.quint8)
    there = torch.quantize_per_tensor(tensor.to(name), 0.1, 10, torch.quint8)
    assert there.is_quantized and there.device.type == name and there.q_scale() == host.q_scale()
    assert torch.equal(there.int_repr().cpu(), host.int_repr())
    assert torch.equal(there.dequantize().cpu(), host.dequantize())


@pytest.mark.contract_item(42)
def test_numbers_are_quantized_by_the_tensor_that_they_are_copied_into(name: str) -> None:
    numbers = torch.tensor([[-1.0, 0.0], [0.26, 1.0]])
    scales, zeros = torch.tensor([0.1, 0.2]), torch.tensor([10, 3])
    for host in (
        torch.quantize_per_tensor(torch.zeros(2, 2), 0.1, 10, torch.quint8),
        torch.quantize_per_channel(torch.zeros(2, 2), scales, zeros, 0, torch.quint8),
    ):
        expected = host.clone().copy_(numbers)
        for place in (name, "cpu"):
            assert torch.equal(host.to(name).copy_(numbers.to(place)).int_repr().cpu(), expected.int_repr()), place
        assert torch.equal(host.clone().copy_(numbers.to(name)).int_repr(), expected.int_repr())
        with pytest.raises(RuntimeError, match="dequantize"):
            numbers.to(name).copy_(host.to(name))


@pytest.mark.contract_item(42)
def test_quantized_views_and_copies(name: str) -> None:
    host = torch.quantize_per_tensor(torch.arange(6.0).view(2, 3), 0.5, 0, torch.qint8)
    there = host.to(name)
    for change in (
        torch.clone,
        lambda t: t.t().contiguous(),
        lambda t: t.flip(0),
        lambda t: t.ravel(),
        lambda t: t[1],
        lambda t: t.t()[1:],
    ):
        made = change(there)
        assert made.device.type == name and torch.equal(made.cpu().int_repr(), change(host).int_repr())
    there.t().copy_(host.flip(0).t())  # into what is not contiguous
    assert torch.equal(there.cpu().int_repr(), host.flip(0).int_repr())
