"""Item 73: public reports of PrivateUse1 backends, tried on this one.

``reports.toml`` has every report with the test that holds it. Here stand those that no other test of the contract had;
the numbers in a docstring are the reports' (of pytorch/pytorch, where no project is named).
"""

from __future__ import annotations

import io
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from third_device_contract.plugin import Gap, Run
from third_device_contract.ranks import run_ranks

distributed = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this PyTorch was built without torch.distributed"
)


def run_fresh(python: Run, name: str, code: str) -> None:
    """Run ``code`` to its end in a new process, where nothing started the device."""
    done = python("import torch\n" + code.replace("NAME", name) + "\nprint('fine')\n")
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr[-3000:]


def write_and_read(value: Any, **options: Any) -> Any:
    """``value`` through torch.save and torch.load."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


# --- names and numbers of devices


@pytest.mark.contract_item(73)
def test_the_key_s_own_name_is_still_the_device(name: str) -> None:
    """Hold what 144845, 144955, 134293 report.

    ``privateuseone`` asked for a module of that name, which nobody registers.
    """
    made = torch.rand(1, 4).to("privateuseone:0")
    assert made.device == torch.device(name, 0) == torch.ones(1, device="privateuseone").device


@pytest.mark.contract_item(73)
def test_a_bare_number_is_the_device_of_that_number(name: str, mod: types.ModuleType) -> None:
    """Hold what 129119, Ascend/pytorch 16 report.

    ``.to(0)`` was CUDA's device, whatever accelerator there was.
    """
    last = mod.device_count() - 1
    assert torch.device(last) == torch.ones(2).to(last).device == torch.device(name, last)
    assert (
        torch.empty(2, device=last).device.index == last and torch.nn.Linear(2, 1).to(last).weight.device.type == name
    )


@pytest.mark.contract_item(73)
def test_the_default_device(name: str, gap: Gap) -> None:
    """Hold what 126646, 124788 report.

    Factories and what a checkpointed block makes in backward are where the default device says.
    """
    from torch.utils.checkpoint import checkpoint

    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * torch.full((3,), 2.0)

    before = torch.get_default_device()
    torch.set_default_device(0)
    try:
        assert torch.tensor([1.0]).device == torch.zeros(1).device == torch.device(name, 0)
        x = torch.ones(3, requires_grad=True)
        made = checkpoint(scale, x, use_reentrant=False).sum()
        try:
            made.backward()
        except RuntimeError as error:
            if "same device" in str(error) or "different metadata" in str(error):
                gap("checkpoint-device")
            raise
        assert x.grad is not None and x.grad.cpu().tolist() == [2.0] * 3
    finally:
        torch.set_default_device(before if before.type != "cpu" else None)
    with torch.device(name):
        assert torch.nn.Linear(2, 2).bias.device.type == name
    assert torch.zeros(1).device.type == "cpu"


@pytest.mark.contract_item(73)
def test_a_legacy_constructor(name: str) -> None:
    """Hold what 95734, 95748, microsoft/DirectML 400 report.

    ``tensor.new()``, as in texts that transformers generate.
    """
    there = torch.tensor([1, 2], device=name)
    made = there.new(3).fill_(4)
    assert made.device == there.device and made.tolist() == [4, 4, 4] and made.dtype == torch.int64
    assert there.new([5, 6]).tolist() == [5, 6] and there.new_tensor([7.0]).device == there.device
    assert there.type_as(torch.ones(1)).device.type == "cpu" and torch.ones(1).type_as(there).device == there.device


# --- before the device was used


@pytest.mark.contract_item(73)
def test_pinning_comes_first(python: Run, name: str) -> None:
    """149032: memory that was pinned before the device was used was not pinned."""
    run_fresh(python, name, "assert torch.tensor([2]).pin_memory().is_pinned()")


@pytest.mark.contract_item(73)
def test_loading_comes_first(python: Run, name: str, tmp_path: Path) -> None:
    """Hold what 112369, 116826 report.

    A file whose tensors are on the device was the first thing that a program did with it.
    """
    file = tmp_path / "first.pt"
    torch.save({"weight": torch.arange(3.0, device=name)}, file)
    code = f"assert torch.load({str(file)!r})['weight'].device.type == 'NAME'"
    run_fresh(python, name, code)
    run_fresh(python, name, f"assert torch.load({str(file)!r}, mmap=True, map_location='NAME')['weight'].sum() == 3")


@pytest.mark.contract_item(73)
def test_statistics_come_first(python: Run, name: str) -> None:
    """Hold what 186265, 186269 report.

    Asking for memory's statistics, or putting them back, raised before the allocator had begun.
    """
    code = """
for function in ("empty_cache", "empty_host_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats"):
    if hasattr(torch.accelerator, function):
        getattr(torch.accelerator, function)()
    if hasattr(torch.NAME, function):
        getattr(torch.NAME, function)()
assert torch.NAME.memory_allocated() == torch.NAME.max_memory_allocated() == 0
if hasattr(torch.accelerator, "memory_allocated"):
    assert torch.accelerator.memory_allocated() == 0
assert torch.ones(2, device="NAME").sum().item() == 2
"""
    run_fresh(python, name, code)


@pytest.mark.contract_item(73)
def test_hooks_come_first(python: Run, name: str) -> None:
    """Hold what torch-spyre 447 report.

    PyTorch asks for the accelerator before anything of the backend was used.
    """
    run_fresh(python, name, "assert torch._C._get_accelerator() == torch.device('NAME')")


# --- data that leaves and comes back


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_tensors_are_saved(name: str, layout: str) -> None:
    """Hold what 121797, 126384 report.

    A sparse tensor of the device went through NumPy, which knows none.
    """
    host = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    host = host.to_sparse() if layout == "coo" else host.to_sparse_csr()
    there = host.to(name)
    back = write_and_read(there)
    assert back.layout == host.layout and back.device == there.device
    assert torch.equal(back.to_dense().cpu(), host.to_dense())
    assert write_and_read(there, map_location="cpu").device.type == "cpu"
    assert write_and_read(host, map_location=name).device.type == name


@pytest.mark.contract_item(73)
def test_arguments_of_compressed_tensors_are_checked(name: str, gap: Gap) -> None:
    """Hold what 149303, 149374, 123826, 122885 report.

    CSR's check of its arguments refused every private device.
    """
    parts = [torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([2.0, 3.0])]
    there = [part.to(name) for part in parts]
    try:
        made = torch.sparse_csr_tensor(*there, size=(2, 2), check_invariants=True)
    except RuntimeError as error:
        if "must be CPU or CUDA" in str(error):
            gap("csr-check")
        raise
    assert made.device.type == name and made.values().device.type == name
    assert torch.equal(made.to_dense().cpu(), torch.sparse_csr_tensor(*parts, size=(2, 2)).to_dense())
    vector = torch.tensor([1.0, 10.0])
    torch.testing.assert_close((made @ vector.to(name)).cpu(), torch.tensor([20.0, 3.0]))
    with pytest.raises(RuntimeError):
        torch.sparse_csr_tensor(there[0][:2], there[1], there[2], size=(2, 2), check_invariants=True)


@pytest.mark.contract_item(73)
def test_storages_are_made_and_saved(name: str, mod: types.ModuleType) -> None:
    """Hold what 99886, 125530 report.

    A storage of the device by itself has the device's tag; one that tensors share stays one.
    """
    storage = torch.UntypedStorage(8, device=torch.device(name))
    assert storage.device.type == name and torch.serialization.location_tag(storage).startswith(name)
    first, second = torch.arange(4.0, device=name), torch.zeros(2, dtype=torch.int32, device=name)
    one, two, again = write_and_read([first, second, first[1:]], weights_only=True)
    assert one.untyped_storage().data_ptr() == again.untyped_storage().data_ptr() and two.dtype == torch.int32
    last = torch.device(name, mod.device_count() - 1)
    assert torch.serialization.location_tag(torch.ones(1, device=last).untyped_storage()) == str(last)


@pytest.mark.contract_item(73)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripts_are_saved_and_loaded(name: str, tmp_path: Path) -> None:
    """99535: ``torch.jit.load`` knew the devices of PyTorch alone."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).to(name)
    x = torch.ones(2, 3, device=name)
    file = str(tmp_path / "model.pt")
    torch.jit.trace(model, x).save(file)
    back = torch.jit.load(file)
    assert {p.device.type for p in back.parameters()} == {name}
    torch.testing.assert_close(back(x), model(x))
    assert {p.device.type for p in torch.jit.load(file, map_location="cpu").parameters()} == {"cpu"}


# --- modules


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("swap", [False, True])
def test_modules_move_in_place(name: str, swap: bool) -> None:
    """Hold what 96026, 117913, 105963 report.

    Parameters keep who they are, tied ones stay tied, and a module of ``meta`` is filled.
    """
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        first, second = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
        second.weight = first.weight
        model, parameter = torch.nn.Sequential(first, second), first.weight
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model.to(name)
        assert first.weight is parameter is second.weight and parameter.device.type == name
        model(torch.ones(1, 3, device=name)).sum().backward()
        old = parameter.detach().clone()
        optimizer.step()
        assert not torch.equal(old, parameter)
        empty = torch.nn.Linear(3, 3, bias=False, device="meta").to_empty(device=name)
        empty.load_state_dict(first.state_dict())
        assert torch.equal(empty.weight, first.weight)
        given = torch.nn.Linear(3, 3, bias=False, device="meta")
        given.load_state_dict(first.state_dict(), assign=True)
        assert given.weight.device.type == name
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


@pytest.mark.contract_item(73)
def test_the_fast_path_of_attention(name: str) -> None:
    """Hold what 103419, 103818 report.

    Modules that look for a device's name before they choose how they compute.
    """
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    batch, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    results = []
    for device in ("cpu", name):
        encoder.to(device), attention.to(device)
        there, hidden = batch.to(device), padding.to(device)
        with torch.inference_mode():
            encoded = encoder(there, src_key_padding_mask=hidden)[0]  # of the other one only what is no padding
            attended, weights = attention(there, there, there, key_padding_mask=hidden)
        results.append([encoded.cpu(), attended.cpu(), weights.cpu()])
    for mine, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("kind", ["causal", "mask", "plain"])
def test_attention_chooses_a_form_that_there_is(name: str, kind: str) -> None:
    """Hold what 162989, 121409, 126392, 116854, 124271 report.

    The choice of a fused form, forwards and backwards.
    """
    torch.manual_seed(0)
    mask = torch.rand(4, 4) > 0.3
    mask |= torch.eye(4, dtype=torch.bool)
    results = []
    for device in ("cpu", name):
        heads = [
            torch.linspace(-1, 1, 64).view(1, 2, 4, 8).roll(turn).to(device).requires_grad_() for turn in (0, 5, 9)
        ]
        options: dict[str, Any] = {"causal": {"is_causal": True}, "mask": {"attn_mask": mask.to(device)}}.get(kind, {})
        made = torch.nn.functional.scaled_dot_product_attention(*heads, **options)
        made.pow(2).sum().backward()
        results.append([made.detach().cpu(), *(head.grad.cpu() for head in heads)])
    for mine, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.contract_item(73)
def test_data_parallel(name: str, two: None, gap: Gap) -> None:
    """162573, microsoft/DirectML 609: one process, two devices."""
    model = torch.nn.Linear(3, 2)
    batch = torch.arange(12.0).view(4, 3)
    expected = model(batch)
    wrapped = torch.nn.DataParallel(model.to(f"{name}:0"), device_ids=[0, 1])
    try:
        made = wrapped(batch.to(f"{name}:0"))
    except (AttributeError, RuntimeError) as error:
        if any(text in str(error) for text in ("_scatter", "NVIDIA", "No CUDA GPUs")):  # which part of CUDA is missing
            gap("data-parallel")
        raise
    torch.testing.assert_close(made.cpu(), expected)


# --- operators


def equal_on_both(name: str, function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """Compare what ``function`` makes, and gradients of ``inputs``, with the CPU's."""
    results = []
    for device in ("cpu", name):
        given = [each.detach().to(device).requires_grad_(each.is_floating_point()) for each in inputs]
        made = function(*given)
        parts = made if isinstance(made, tuple) else (made,)
        assert all(part.device.type == device for part in parts)
        sum(part.sum() for part in parts if part.requires_grad).backward()
        results.append([part.detach().cpu() for part in (*parts, *(g.grad for g in given if g.grad is not None))])
    for mine, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("operator", ["cdist", "pdist", "std_mean", "var", "index_put"])
def test_operators_that_ask_for_a_device_by_name(name: str, operator: str) -> None:
    """Hold what 176715, 176825 report.

    Distances, deviations and indices had a list of devices of their own.
    """
    torch.manual_seed(0)
    first, second, where = torch.randn(4, 3), torch.randn(5, 3), torch.tensor([0, 2, 0])
    if operator == "cdist":
        equal_on_both(name, torch.cdist, first, second)
    elif operator == "pdist":
        equal_on_both(name, torch.nn.functional.pdist, first)
    elif operator == "std_mean":
        equal_on_both(name, lambda t: torch.std_mean(t, dim=1), first)
    elif operator == "var":
        equal_on_both(name, lambda t: t.var(dim=0, correction=0), first)
        assert torch.var(first.to(name), dim=1, out=torch.empty(4, device=name)).device.type == name
    else:
        equal_on_both(name, lambda t, v, w: t.clone().index_put((w,), v, accumulate=True), first, second[:3], where)


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(name: str, mode: str) -> None:
    """155215: the helpers of ``EmbeddingBag`` are no backend's to call."""
    torch.manual_seed(0)
    words, starts = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2])
    bag = torch.nn.functional.embedding_bag
    equal_on_both(name, lambda table, w, s: bag(w, table, s, mode=mode), torch.randn(6, 4), words, starts)


@pytest.mark.contract_item(73)
def test_nested_tensors(name: str) -> None:
    """102696: keys of nested tensors of the device."""
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    made = torch.nested.nested_tensor([part.to(name) for part in parts], layout=torch.jagged, requires_grad=True)
    assert made.device.type == name and made.is_nested
    out = torch.nn.functional.silu(made * 2)
    for mine, theirs in zip(out.unbind(), parts, strict=True):
        torch.testing.assert_close(mine.detach().cpu(), torch.nn.functional.silu(theirs * 2), rtol=1e-3, atol=1e-4)
    out.values().sum().backward()
    assert made.grad is not None and made.grad.device.type == name
    padded = torch.nested.to_padded_tensor(made.detach(), 0.0)
    assert padded.shape == (2, 4, 3) and padded.device.type == name


@pytest.mark.contract_item(73)
def test_an_operand_elsewhere_is_told(name: str) -> None:
    """Hold what microsoft/DirectML 442, 578 report.

    A tensor that was left on the CPU ended in an assertion of the backend's own.
    """
    table, words = torch.randn(5, 2), torch.tensor([1, 3])
    try:
        made = torch.nn.functional.embedding(words, table.to(name))
    except RuntimeError as error:
        assert "INTERNAL ASSERT" not in str(error) and name in str(error) and "cpu" in str(error)
    else:
        assert made.device.type == name and torch.equal(made.cpu(), table[words])
    with pytest.raises(RuntimeError) as caught:
        torch.ones(3).add_(torch.ones(3, device=name))
    assert "INTERNAL ASSERT" not in str(caught.value)


@pytest.mark.contract_item(73)
def test_an_operator_without_a_gradient_is_told(name: str) -> None:
    """Hold what 163979, 165315 report.

    An operator with a kernel and no gradient says so when one is asked for.
    """
    with torch.library._scoped_library("contract_forward", "DEF") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x.detach() * 2, "PrivateUse1")
        x = torch.ones(3, device=name, requires_grad=True)
        made = torch.ops.contract_forward.double(x)
        assert made.tolist() == [2.0] * 3
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                made.sum().backward()
            except RuntimeError as error:
                assert "does not require grad" in str(error) or "not implemented" in str(error)
            else:
                assert any("autograd kernel" in str(warning.message) for warning in caught)


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {"capturable": True}, {}], ids=str)
@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_optimizers_of_every_form(name: str, kind: str, options: dict[str, bool]) -> None:
    """Hold what 102047 report.

    Several tensors at a time, in one kernel, and the form that PyTorch chooses by itself.
    """
    if kind == "SGD" and "capturable" in options:
        pytest.skip("elsewhere: SGD has no such form")
    results = []
    for device in ("cpu", name):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)).to(device)
        given = options if device != "cpu" else {}
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1, weight_decay=0.1, **given)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3, device=device)).pow(2).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=given.get("foreach"))
            optimizer.step()
        results.append([parameter.detach().cpu() for parameter in model.parameters()])
    for mine, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4)


# --- checkpoints of activations, random numbers


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_drops_the_same_again(name: str, reentrant: bool) -> None:
    """Hold what 99626, 128671, 194478, 196951 report.

    What is computed again in backward has the same random numbers and autocast.
    """
    from torch.utils.checkpoint import checkpoint

    mixed = []

    def block(x: torch.Tensor) -> torch.Tensor:
        mixed.append(torch.is_autocast_enabled(name))
        return torch.nn.functional.dropout(x.sin(), 0.5) * 2

    x = torch.ones(300, device=name, requires_grad=True)
    with torch.autocast(name, dtype=torch.bfloat16):
        made = checkpoint(block, x, use_reentrant=reentrant)
    torch.rand(3, device=name)
    made.sum().backward()
    dropped = made.detach().cpu() == 0
    assert mixed == [True, True] and 50 < dropped.sum() < 250
    assert x.grad is not None and torch.equal(x.grad.cpu() == 0, dropped), "backward dropped other elements"


# --- the DataLoader, timers, streams


@pytest.mark.contract_item(73)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_beside_a_device_in_use(python: Run, name: str, method: str) -> None:
    """Hold what 124908, 125016, 131858 report.

    Workers start after the device did, and what they load is pinned.
    """
    code = f"""
if __name__ == "__main__":
    device = torch.device("NAME")
    weight = torch.ones(2, device=device)
    data = torch.utils.data.TensorDataset(torch.arange(16.0).view(8, 2))
    pinned = {{}} if torch.__version__ >= "2.7" else {{"pin_memory_device": "NAME"}}
    loader = torch.utils.data.DataLoader(
        data, batch_size=2, num_workers=2, pin_memory=True, multiprocessing_context="{method}", **pinned
    )
    total = 0.0
    for (batch,) in loader:
        assert batch.is_pinned()
        total += (batch.to(device, non_blocking=True) @ weight).sum().item()
    assert total == 120.0
"""
    run_fresh(python, name, code.replace("\nif __name__", "\nimport torch.utils.data\nif __name__"))


@pytest.mark.contract_item(73)
def test_a_timer_waits_for_the_device(mod: types.ModuleType) -> None:
    """Hold what 109776, 108124 report.

    ``torch.utils.benchmark`` stopped its clock before the device had worked.
    """
    from torch.utils.benchmark import Timer

    if not hasattr(mod, "_sleep"):
        pytest.skip("this backend has no _sleep(milliseconds, stream)")
    assert Timer("sleep(20)", globals={"sleep": mod._sleep}).timeit(2).mean > 0.015


@pytest.mark.contract_item(73)
def test_streams_and_events_of_both_kinds_mix(name: str, mod: types.ModuleType) -> None:
    """173908, 173792, 195458: PyTorch's own streams and events with the device's."""
    plain, own = torch.Stream(device=name), mod.Stream()
    assert plain.stream_id != own.stream_id and plain.stream_id != 0
    tensor = torch.ones(1000, device=name)
    plain.wait_stream(mod.current_stream())  # that writes the ones
    for event in (torch.Event(device=name), mod.Event()):
        for stream, other in ((plain, own), (own, plain)):
            with mod.stream(stream):
                tensor.add_(1)
            event.record(stream)
            event.wait(other)
            other.wait_event(event)
            event.synchronize()
            assert event.query()
    assert tensor[0].item() == 5
    with mod.stream(plain):
        assert torch.accelerator.current_stream() == plain == mod.current_stream()
    if hasattr(plain, "__enter__"):  # in no release before 2.7
        with plain:
            assert mod.current_stream() == plain
    own.wait_stream(plain)
    own.synchronize()


@pytest.mark.contract_item(73)
def test_memory_by_the_accelerator(name: str, mod: types.ModuleType) -> None:
    """Hold what 152932, 156805, 186430, vllm-ascend 14188, torch-spyre 4542 report.

    One set of functions for all devices.
    """
    if not hasattr(torch.accelerator, "memory_stats"):
        pytest.skip("elsewhere: this PyTorch has no torch.accelerator.memory_stats")
    torch.accelerator.empty_cache()
    before = torch.accelerator.memory_allocated()
    held = torch.ones(100_000, device=name)
    assert torch.accelerator.memory_allocated() - before >= held.nbytes
    assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated() == mod.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() >= held.nbytes
    if hasattr(torch.accelerator, "get_memory_info"):
        free, total = torch.accelerator.get_memory_info()
        assert 0 < free <= total == mod.get_device_properties(0).total_memory


# --- torch.compile


@pytest.mark.contract_item(73)
def test_compiled_code_asks_for_the_accelerator(name: str) -> None:
    """Hold what 166696, 181540 report.

    A compiled function asks whether there is an accelerator, and which.
    """

    def function(x: torch.Tensor) -> torch.Tensor:
        if torch.accelerator.is_available():
            x = x + 1
        device = torch.accelerator.current_accelerator()
        return x.to(device) * 2

    torch._dynamo.reset()
    x = torch.ones(3, device=name)
    assert torch.compile(function, backend="eager")(x).tolist() == [4.0] * 3


@pytest.mark.contract_item(73)
def test_compiled_code_waits_and_changes_streams(name: str, mod: types.ModuleType) -> None:
    """Hold what 198080, 92804 report.

    Synchronize, the current stream and another one inside of a compiled function.
    """
    side = mod.Stream()

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 5
        mod.synchronize()
        with mod.stream(side):
            y = y + mod.current_stream().device.index
        side.synchronize()
        return y.relu()

    torch._dynamo.reset()
    x = torch.ones(3, device=name)
    assert torch.compile(function, backend="eager")(x).tolist() == [5.0] * 3
    assert mod.current_stream() == mod.default_stream()


# --- torch.distributed

DETAIL = """
os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"

def check(rank, device):
    ones = torch.ones(2, device=device)
    dist.all_reduce(ones)
    assert ones.tolist() == [float(SIZE)] * 2
    parts = [torch.zeros(1, device=device) for _ in range(SIZE)]
    dist.all_gather(parts, torch.tensor([float(rank)], device=device))
    assert [part.item() for part in parts] == list(range(SIZE))
"""

BARE = """
def check(rank, device):
    group = dist.new_group([0, 1])
    group.barrier().wait()
    dist.barrier()
    assert dist.get_rank(group) == rank and dist.get_process_group_ranks(group) == [0, 1]
    assert group._get_backend(device) is not group._get_backend(torch.device("cpu"))
    alone = dist.new_group([1])
    if rank == 1:
        two = torch.full((1,), 2.0, device=device)
        dist.all_reduce(two, group=alone)
        assert two.item() == 2 and dist.get_world_size(alone) == 1
"""

GLOO = """
def start(rank, folder):
    dist.init_process_group("gloo", rank=rank, world_size=SIZE, init_method="file://" + folder + "/store")
    return torch.device(NAME, rank % getattr(torch, NAME).device_count())

def check(rank, device):
    ones = torch.ones(2, device=device)
    try:
        dist.all_reduce(ones)
        assert ones.tolist() == [float(SIZE)] * 2
    except RuntimeError as error:
        print("refused:", str(error).splitlines()[0], flush=True)
    ones = torch.ones(2)
    dist.all_reduce(ones)
    assert ones.tolist() == [float(SIZE)] * 2
"""

FSDP1 = """
def check(rank, device):
    from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType, FullStateDictConfig

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    alone = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    alone.load_state_dict(model.state_dict())
    model = FullyShardedDataParallel(model, device_id=device, use_orig_params=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(2):
        batches = torch.randn(SIZE, 8, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(batches[rank].to(device)).pow(2).mean().backward()
        optimizer.step()
        expected.zero_grad()
        (sum(alone(each).pow(2).mean() for each in batches) / SIZE).backward()
        expected.step()
    whole = FullStateDictConfig(offload_to_cpu=True, rank0_only=False)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, whole):
        state = model.state_dict()
    for key, value in alone.state_dict().items():
        torch.testing.assert_close(state[key].cpu(), value)
"""


@distributed
@pytest.mark.contract_item(73)
@pytest.mark.parametrize("what", ["DETAIL", "BARE", "FSDP1"])
def test_groups(python: Run, name: str, what: str) -> None:
    """124447 (DETAIL), 169212, 92344, 73163 (BARE), 99024, 104390 (FSDP1)."""
    run_ranks(python, name, 2, globals()[what])


@distributed
@pytest.mark.contract_item(73)
def test_gloo_alone_says_what_it_takes(python: Run, name: str) -> None:
    """Hold what 184010 report.

    A group of Gloo alone takes the device's tensors or refuses them in a line; those of the CPU go on.
    """
    said = run_ranks(python, name, 2, GLOO)
    assert said.count("refused:") == said.count(f"device type {name}") in (0, 2), said
