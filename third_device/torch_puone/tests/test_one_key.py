"""Run CUDA's operators on tensors of ``puone``: the same numbers.

What belongs together stays together. With a GPU ``pytest third_device/torch_puone/tests``; without, the same command
behind ``python -m simcuda run``.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

functional = nn.functional


def make(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor on the CPU, for all devices alike."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


OPERATORS: dict[str, Callable[[torch.Tensor], object]] = {
    "a structured one": lambda x: x.sin(),
    "one with a scalar": lambda x: x * 2 + 1,
    "one of a list": lambda x: torch.cat([x, x + 1]),
    "lists in and out": lambda x: torch._foreach_mul([x, x.t()], 3.0),
    "several outputs": lambda x: x.topk(2),
    "outputs on one memory": lambda x: x.split(2),
    "a size that values decide": lambda x: x[x > 0].nonzero(),
    "optional tensors in a list": lambda x: x[:, torch.tensor([0, 2], device=x.device)],
    "a product": lambda x: x @ x.t(),
    "a complex view": lambda x: torch.fft.fft(x).conj() @ torch.fft.fft(x).t(),
    "linear algebra": lambda x: torch.linalg.qr(x.t() @ x)[1].abs(),
    "convolution": lambda x: functional.conv2d(x.view(1, 1, 4, 6), torch.ones(2, 1, 3, 3, device=x.device)),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "a factory": lambda x: torch.arange(7, device=x.device).to(torch.float64),
    "half precision": lambda x: (x.half() @ x.half().t()).float(),
    "types mixed": lambda x: x.to(torch.bfloat16) + x.double(),
}


def to_cpu(value: object) -> object:
    """Return a result with every tensor of it on the CPU."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    return [to_cpu(each) for each in value]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_what_cuda_gives(name: str) -> None:
    operator, values = OPERATORS[name], make(4, 6)
    with torch.puone.no_fallback():  # to the CPU
        ours = operator(values.to("puone"))
    torch.testing.assert_close(to_cpu(ours), to_cpu(operator(values.to("cuda"))), rtol=0, atol=0)
    first = ours if isinstance(ours, torch.Tensor) else ours[0]  # type: ignore[index]
    assert first.device == torch.device("puone:0")


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_gradients_are_those_of_cuda(cell: type[nn.Module]) -> None:
    gradients = []
    for device in ("cuda", "puone"):
        torch.manual_seed(0)
        network = cell(6, 5).to(device)
        with torch.backends.cudnn.flags(enabled=False):  # which PyTorch has for the device "cuda" alone
            network(make(3, 2, 6).to(device))[0].square().sum().backward()
        gradients.append([each.grad.cpu() for each in network.parameters()])  # type: ignore[union-attr]
    torch.testing.assert_close(*gradients)


def test_a_view_shares_the_memory_of_what_it_is_a_view_of() -> None:
    whole = make(4, 6).to("puone")
    part = whole.t()[1:3]
    part.add_(100)
    assert whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()
    assert whole[:, 1:3].min() > 50 and whole[:, 3:].max() < 50
    assert part._is_view() and part._base is whole


def test_in_place_and_out_return_the_tensor_they_were_given() -> None:
    given = make(4, 6).to("puone")
    assert given.relu_() is given and torch.sin(given, out=given) is given
    torch._foreach_add_([given], 1)
    assert given.min() >= 1


def test_an_output_is_resized_and_its_memory_with_it() -> None:
    values = make(4, 6).to("puone")
    out = torch.empty(0, device="puone")
    torch.mul(values, 2, out=out)
    assert out.shape == (4, 6) and out.untyped_storage().nbytes() == 96
    assert out.equal(values + values)
    other = out.view(-1)  # on the new memory
    out.zero_()
    assert other.count_nonzero() == 0


def test_memory_is_resized_by_the_storage() -> None:
    values = torch.arange(4.0, device="puone")
    values.resize_(8)[4:] = 7
    assert values.tolist() == [0, 1, 2, 3, 7, 7, 7, 7]
    values.untyped_storage().resize_(0)
    values.untyped_storage().resize_(32)
    assert values.fill_(1).sum() == 8


@pytest.mark.parametrize("given", [False, True])
def test_random_numbers_are_those_of_cuda(given: bool) -> None:
    drawn = []
    for device in ("cuda", "puone"):
        torch.manual_seed(3)
        generator = torch.Generator(device).manual_seed(5) if given else None
        once = [torch.rand(8, device=device, generator=generator), torch.randn(8, device=device, generator=generator)]
        drawn.append([each.cpu() for each in (*once, torch.dropout(torch.ones(64, device=device), 0.5, True))])
    torch.testing.assert_close(*drawn, rtol=0, atol=0)


def test_the_generators_of_both_devices_are_apart() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4, device="cuda")
    torch.manual_seed(3)
    torch.rand(100, device="puone")
    assert torch.rand(4, device="cuda").equal(expected)


def test_a_tensor_goes_from_cuda_and_back() -> None:
    values = make(4, 6)
    there = values.to("cuda").t().to("puone")
    assert there.device.type == "puone" and there.cpu().equal(values.t())
    assert there.to("cuda").device.type == "cuda" and there.to("cuda").cpu().equal(values.t())


def test_tensors_of_both_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="on puone:0 and on a cuda device"):
        make(3).to("puone") + make(3).to("cuda")


def test_a_side_stream_computes_too() -> None:
    values, side = make(64, 64).to("puone"), torch.puone.Stream()
    torch.puone.synchronize()
    with torch.puone.stream(side):
        product = values @ values
    product.record_stream(torch.puone.current_stream())
    torch.puone.current_stream().wait_stream(side)
    torch.testing.assert_close(product.cpu(), values.cpu() @ values.cpu())


def test_cuda_keeps_its_own_stream_and_device() -> None:
    before = torch.cuda.current_stream(), torch.cuda.current_device()
    torch.ones(4, device="puone:1").sin()
    assert (torch.cuda.current_stream(), torch.cuda.current_device()) == before


def test_asking_for_memory_starts_nothing(tmp_path: Path) -> None:
    program = "import torch; print(torch.puone.memory_allocated(), torch.puone.is_initialized())"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False"]


def test_memory_is_counted_once_and_given_back() -> None:
    before = torch.puone.memory_allocated()
    held = torch.empty(1 << 20, device="puone") + 1
    assert torch.puone.memory_allocated() == torch.cuda.memory_allocated() == before + (4 << 20)
    assert torch.puone.memory.memory_allocated() == torch.puone.memory_allocated()
    assert torch.puone.memory_stats_as_nested_dict() == torch.cuda.memory_stats_as_nested_dict()
    del held
    assert torch.puone.memory_allocated() == before


def test_memory_for_others_is_of_the_stream_that_is_current_here() -> None:
    side = torch.puone.Stream()
    with torch.puone.stream(side):
        address = torch.puone.caching_allocator_alloc(24 << 20)  # a segment of its own
    segments = {segment["address"]: segment["stream"] for segment in torch.puone.memory_snapshot()}
    torch.puone.caching_allocator_delete(address)
    assert segments[address] == side.address != torch.cuda.current_stream().cuda_stream


def test_a_share_of_the_memory_is_all_that_cuda_takes() -> None:
    torch.puone.set_per_process_memory_fraction(0.5)
    assert torch.puone.memory.get_per_process_memory_fraction() == torch.cuda.get_per_process_memory_fraction() == 0.5
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(torch.puone.mem_get_info()[1] // 4 * 3, dtype=torch.uint8, device="puone")
    torch.puone.set_per_process_memory_fraction(1.0)


def test_pinned_memory_is_copied_without_waiting() -> None:
    values = make(1 << 16).pin_memory()
    there = values.to("puone", non_blocking=True)
    back = torch.empty_like(values, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.puone.synchronize()
    assert values.is_pinned() and back.is_pinned() and back.equal(values)


def test_saved_tensors_come_back(tmp_path: object) -> None:
    torch.save({"w": make(3).to("puone")}, f"{tmp_path}/saved.pt")
    loaded = torch.load(f"{tmp_path}/saved.pt")["w"]
    assert loaded.device == torch.device("puone:0") and loaded.cpu().equal(make(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_trains(dtype: torch.dtype) -> None:
    losses = []
    for device in ("cuda", "puone"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
        optimizer, scaler = torch.optim.Adam(model.parameters(), fused=True), torch.amp.GradScaler(device)
        for _ in range(3):
            with torch.autocast(device, dtype):
                loss = model(make(4, 6).to(device)).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[0] == losses[1]
