"""A program for the simulated device: values are the CPU's, in every way in which an operator can be called."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

CUDA = torch.device("cuda")
Attended = tuple[Any, ...]
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def same(compute: Callable[[torch.device], torch.Tensor], tolerance: float = 1e-5) -> None:
    """The device's result is the CPU's."""
    ours, theirs = compute(CUDA).cpu(), compute(torch.device("cpu"))
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


def numbers(*shape: int, on: torch.device, seed: int = 0) -> torch.Tensor:
    """The same on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(on)


def convolution(on: torch.device) -> torch.Tensor:
    """The gradient of a convolution with batch normalisation."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).to(on)
    net(numbers(2, 3, 8, 8, on=on)).square().sum().backward()
    gradient = net[0].weight.grad
    assert gradient is not None
    return gradient


def recurrent(on: torch.device) -> torch.Tensor:
    """An LSTM of two layers, both directions."""
    torch.manual_seed(0)
    net = torch.nn.LSTM(5, 6, num_layers=2, bidirectional=True).to(on)
    output = net(numbers(3, 4, 5, on=on))[0]
    assert isinstance(output, torch.Tensor)
    return output


def attention(on: torch.device) -> torch.Tensor:
    """The result and the gradients, where the mask is causal; then where two heads share a key and a value."""
    found = []
    for heads, options in ((4, {"is_causal": True}), (2, {"enable_gqa": True})):
        q, k, v = (
            numbers(2, count, 8, 16, on=on, seed=seed).requires_grad_() for seed, count in enumerate((4, heads, heads))
        )
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        found += [out, *torch.autograd.grad(out.square().sum(), (q, k, v))]
    return torch.cat([one.flatten() for one in found])


def attend_keys_in_parts() -> None:
    """Gradients of half of the keys, by the result and the sums of all of them, as ring attention asks for."""
    aten = torch.ops.aten

    def by_efficient(
        grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, done: Attended
    ) -> Gradients:
        out, sums, *state = done
        last = (*state, 0.0, [True, True, True, False])
        return aten._scaled_dot_product_efficient_attention_backward(grad, q, k, v, None, out, sums, *last)[:3]

    def by_flash(grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, done: Attended) -> Gradients:
        out, sums, of_q, of_k, most_q, _, *state = done
        sizes = (of_q, of_k, most_q, k.size(2), 0.0, False)
        return aten._scaled_dot_product_flash_attention_backward(grad, q, k, v, out, sums, *sizes, *state[:2])

    def by_cudnn(grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, done: Attended) -> Gradients:
        out, sums, of_q, of_k, most_q, _, *state = done
        last = (None, of_q, of_k, most_q, k.size(2), 0.0, False)
        return aten._scaled_dot_product_cudnn_attention_backward(grad, q, k, v, out, sums, *state[:2], *last)

    for forward, words, backward in (
        (aten._scaled_dot_product_efficient_attention, (None, True), by_efficient),
        (aten._scaled_dot_product_flash_attention, (), by_flash),
        (aten._scaled_dot_product_cudnn_attention, (None, True), by_cudnn),
    ):
        q, k, v, grad = (numbers(1, 2, 16, 64, on=CUDA, seed=seed).half() for seed in range(4))
        done = forward(q, k, v, *words)
        whole = backward(grad, q, k, v, done)
        halves = zip(k.chunk(2, 2), v.chunk(2, 2), strict=True)
        first, second = (backward(grad, q, key, value, done) for key, value in halves)
        torch.testing.assert_close(first[0] + second[0], whole[0], atol=2e-3, rtol=2e-3)
        for at in (1, 2):
            torch.testing.assert_close(torch.cat([first[at], second[at]], 2), whole[at], atol=2e-3, rtol=2e-3)


def half_attention(on: torch.device) -> torch.Tensor:
    """Flash attention, which is for half precision; a row of keys that fills no tile."""
    q, k, v = (numbers(1, 2, size, 8, on=on, seed=size).half() for size in (5, 7, 7))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).float()


def dropped() -> None:
    """Dropout inside attention: what is dropped is told by the seed and the offset, backwards too."""
    q, k, v = (numbers(2, 3, 8, 16, on=CUDA, seed=seed).requires_grad_() for seed in range(3))
    out, _, seed, offset = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.3)
    drawn = torch._fill_mem_eff_dropout_mask_(torch.empty(2, 3, 8, 8, device=CUDA), 0.3, seed.item(), offset.item())
    kept = (drawn > 0.3).cpu()
    assert 0.5 < kept.float().mean() < 0.9, kept
    a, b, c = (one.detach().cpu().requires_grad_() for one in (q, k, v))
    expected = torch.softmax(a @ b.transpose(-2, -1) / 4, -1) * kept / 0.7 @ c
    torch.testing.assert_close(out.cpu(), expected, atol=1e-4, rtol=1e-4)
    ours, theirs = (torch.autograd.grad(y.sum(), x) for y, x in ((out, (q, k, v)), (expected, (a, b, c))))
    torch.testing.assert_close([one.cpu() for one in ours], list(theirs), atol=1e-4, rtol=1e-4)
    q, k, v = (one.detach().half() for one in (q, k, v))
    *_, mask = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.3, False, return_debug_mask=True)
    assert 0.1 < (mask[..., :8, :8] < 0).float().mean() < 0.5, mask


def attended_sequences() -> None:
    """Attention to sequences of different lengths: dropout by the flash kernel, gradients by both."""
    parts = [numbers(3, length, 16, on=CUDA, seed=length).half() for length in (8, 5)]
    nested = torch.nested.nested_tensor(parts).requires_grad_()
    flash = torch.ops.aten._scaled_dot_product_flash_attention
    out, *_, mask = flash(nested, nested, nested, 0.3, False, return_debug_mask=True)
    assert 0.1 < (mask[0, :, :8, :8] < 0).float().mean() < 0.5, mask
    (grad,) = torch.autograd.grad(out, nested, out.detach().clone())
    as_by_formula(parts, out.unbind(), grad.unbind(), (mask >= 0).cpu() / 0.7)
    jagged = torch.nested.nested_tensor([part.transpose(0, 1) for part in parts], layout=torch.jagged).requires_grad_()
    heads = jagged.transpose(1, 2)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)
    (grad,) = torch.autograd.grad(out, jagged, out.detach().clone())
    found = ([one.transpose(0, 1) for one in unbound.unbind()] for unbound in (out, grad))
    as_by_formula(parts, *found, torch.ones(2, 3, 8, 8))


def as_by_formula(parts: list[torch.Tensor], results: Any, gradients: Any, kept: torch.Tensor) -> None:
    """Compare the attention of each sequence to itself, and its gradient where the result's is the result."""
    for part, result, gradient, factor in zip(parts, results, gradients, kept, strict=True):
        x, length = part.float().cpu().requires_grad_(), part.size(1)
        expected = torch.softmax(x @ x.mT / 4, -1) * factor[:, :length, :length] @ x
        (grad,) = torch.autograd.grad(expected, x, expected.detach())
        torch.testing.assert_close(result.float().cpu(), expected, atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(gradient.float().cpu(), grad, atol=5e-2, rtol=2e-2)


def by_cudnn_and_packed() -> None:
    """Attention by cuDNN, and by the flash kernel on sequences of different lengths, which lie one behind the other."""
    q, k, v = (numbers(2, 3, 16, 64, on=CUDA, seed=seed).half() for seed in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(*(one.cpu().float() for one in (q, k, v)))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(out.cpu().float(), expected, atol=2e-3, rtol=2e-3)
    lengths = (16, 9)
    cut = ([one[i, :, :n].transpose(0, 1) for i, n in enumerate(lengths)] for one in (q, k, v))
    packed = [torch.nested.nested_tensor(parts).transpose(1, 2) for parts in cut]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        nested_out = torch.nn.functional.scaled_dot_product_attention(*packed)
    torch.testing.assert_close(nested_out.unbind()[0].cpu().float(), expected[0], atol=2e-3, rtol=2e-3)


def half_to_single(on: torch.device) -> torch.Tensor:
    """Softmax and its gradient, from half precision to single in one kernel: what autocast makes of every softmax."""
    x = numbers(3, 7, on=on).half().requires_grad_()
    y, z = torch.softmax(x, 1, dtype=torch.float32), torch.log_softmax(x, 0, dtype=torch.float32)
    (y.square().sum() + z.sin().sum()).backward()
    assert x.grad is not None
    return torch.cat([y.detach().flatten(), z.detach().flatten(), x.grad.float().flatten()])


def eight_bit() -> None:
    """A product of eight-bit numbers, with one scale for a matrix and with one for each row and column."""
    x, y = (numbers(16, 32, on=CUDA, seed=seed).to(torch.float8_e4m3fn) for seed in range(2))
    expected = x.cpu().float() @ y.cpu().float().t()
    one, rows, columns = (0.5 + torch.rand(shape, device=CUDA) for shape in ((), (16, 1), (1, 16)))
    for a, b in ((one, one), (rows, columns)):
        out = torch._scaled_mm(x, y.t(), scale_a=a, scale_b=b, out_dtype=torch.bfloat16)
        torch.testing.assert_close(out.cpu().float(), expected * a.cpu() * b.cpu(), atol=0.05, rtol=0.02)


def nested(on: torch.device) -> torch.Tensor:
    """Nested tensors: products, a softmax, a norm, padding, and the gradient through all of them."""
    parts = [numbers(size, 4, on=on, seed=size).requires_grad_() for size in (2, 3)]
    x = torch.nested.as_nested_tensor(parts)
    y = torch.nn.functional.layer_norm(torch.softmax(torch.matmul(x, x.transpose(1, 2)), -1) @ x, (4,))
    padded = torch.nested.to_padded_tensor(y, 0.5)
    padded.square().sum().backward()
    gradients = [part.grad.flatten() for part in parts if part.grad is not None]
    return torch.cat([padded.detach().flatten(), *gradients])


def encoded(on: torch.device) -> torch.Tensor:
    """The fused encoder layer on sequences of different lengths."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(4, 2, 16, batch_first=True).eval().to(on)
        return layer(
            torch.nested.nested_tensor([numbers(size, 4, on=on, seed=size) for size in (2, 3)])
        ).to_padded_tensor(0)


def nested_with_plain() -> None:
    """A sum that no CPU operator has."""
    parts, plain = [numbers(size, 3, on=CUDA, seed=size) for size in (2, 4)], numbers(2, 1, 3, on=CUDA)
    total = torch.nested.nested_tensor(parts, device=CUDA) + plain
    assert all(torch.equal(one, part + row) for one, part, row in zip(total.unbind(), parts, plain, strict=True))


def sparse_place(on: torch.device) -> torch.Tensor:
    """A sum put into a sparse tensor that has other elements."""
    a, b, c = (numbers(5, 5, on=on, seed=seed).relu().to_sparse_csr() for seed in range(3))
    torch.add(a, b, alpha=2, out=c)
    return c.to_dense()


def two_of_four() -> None:
    """Products by a matrix of which two of four elements are left, one of them a negative zero."""
    x, y = numbers(32, 32, on=CUDA).half(), numbers(32, 32, on=CUDA, seed=1).half()
    x *= torch.tensor([0, 1, 0, 1], device=CUDA).tile(8)
    out = torch._cslt_sparse_mm(torch._cslt_compress(x), y, bias=y[0])
    torch.testing.assert_close(out.cpu(), (x.cpu().float() @ y.cpu().float() + y[0].cpu()[:, None]).half())


def operators() -> None:
    """Libraries, sizes that depend on values, sparse layouts, types that the CPU lacks, kernels made at run time."""
    same(lambda on: numbers(4, 5, on=on) @ numbers(5, 6, on=on, seed=1))
    same(lambda on: torch.linalg.svdvals(numbers(5, 4, on=on)))
    same(lambda on: torch.fft.fft(numbers(8, on=on)).abs())
    same(lambda on: numbers(20, on=on)[numbers(20, on=on) > 0])
    same(lambda on: torch.nonzero(numbers(20, on=on) > 0))
    same(lambda on: torch.unique((numbers(20, on=on) * 3).int()))
    same(lambda on: torch.sparse.mm(numbers(4, 4, on=on).relu().to_sparse(), numbers(4, 3, on=on, seed=1)))
    same(lambda on: (numbers(8, 8, on=on).half() @ numbers(8, 8, on=on, seed=1).half()).float(), 1e-2)
    same(lambda on: torch.special.bessel_j0(numbers(9, on=on)))
    same(lambda on: numbers(9, on=on).to(torch.complex64).prod())
    same(convolution)
    same(recurrent)
    same(attention, 1e-4)
    same(half_attention, 1e-3)
    if torch.backends.cuda.is_flash_attention_available():  # not in every build
        attend_keys_in_parts()
        dropped()
        attended_sequences()
        by_cudnn_and_packed()
    same(half_to_single, 1e-3)
    eight_bit()
    if torch.backends.cusparselt.is_available():  # not in every build
        two_of_four()
    same(nested, 1e-4)
    nested_with_plain()
    same(encoded)
    same(sparse_place)
    with torch.sparse.check_sparse_tensor_invariants():
        same(sparse_place)
    lazy = numbers(5, on=CUDA)
    clone = torch._lazy_clone(lazy)
    assert torch.equal((lazy + clone).cpu(), 2 * numbers(5, on=torch.device("cpu")))
    assert torch._C._is_cow_tensor(lazy) and torch._C._is_cow_tensor(clone)  # type: ignore[attr-defined]
    clone.zero_()
    assert torch.equal(lazy.cpu(), numbers(5, on=torch.device("cpu"))) and not clone.any()
    with torch.inference_mode():
        same(lambda on: numbers(7, on=on).softmax(0))


def masked(on: torch.device) -> torch.Tensor:
    """A tensor of the same device put where a mask of the second dimension says."""
    x = numbers(3, 4, on=on)
    x[:, numbers(4, on=on) > 0] = numbers(1, on=on, seed=1)[0]
    return x


def not_the_cpus() -> None:
    """What the device computes and the CPU does not: indices counted by a kernel, whole numbers divided by zero."""
    dirt = torch.full((1 << 20,), 0x0101010101010101, device=CUDA)
    del dirt  # where the next call's count will lie
    same(masked)
    for bits, deviation in ((0, 1.0), (-1, -1.0)):  # what an unwritten answer would be, and what it must be
        dirt = torch.full((1 << 20,), bits, device=CUDA)
        del dirt
        try:
            torch.normal(torch.zeros(3, device=CUDA), torch.full((3,), deviation, device=CUDA))
        except RuntimeError as error:
            assert deviation < 0 and "elements of std" in str(error)
        else:
            assert deviation > 0, "a negative deviation was taken"
    seven = torch.tensor([7, -7], device=CUDA)
    assert (seven % 0).tolist() == torch.fmod(seven, torch.zeros_like(seven)).tolist() == [0xFFFFFFFF, -1]
    assert (seven.byte() % torch.tensor([0, 4], device=CUDA).byte()).tolist() == [255, 1]
    assert torch.add(torch.tensor([6e4], device=CUDA).half(), -7e4).item() == -1e4
    assert torch.ones(3, device=CUDA).half().add(torch.ones(3, device=CUDA)).dtype == torch.float32
    one = numbers(4, 4, on=CUDA).relu().to_sparse()
    one.add_(numbers(4, 4, on=CUDA, seed=1).relu().to_sparse())
    both = (numbers(4, 4, on=torch.device("cpu"), seed=seed).relu() for seed in (0, 1))
    torch.testing.assert_close(one.to_dense().cpu(), sum(both))
    narrow = torch.eye(3, device=CUDA).half().to_sparse()
    narrow.add_(narrow.clone())
    assert torch.equal(narrow.to_dense().cpu(), 2 * torch.eye(3).half())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        seven[torch.tensor([1, 0], device=CUDA).byte()]
    assert len(said) == 1, "the CPU's operator warned as well"
    assert torch.empty(1 << 20, dtype=torch.half, device=CUDA).exponential_().min() > 0


def waiting() -> None:
    """A program that forbids waiting for the device hears of it, also where a size depends on values."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.nonzero(torch.ones(3, device=CUDA))
    except RuntimeError as error:
        assert "called a synchronizing" in str(error)
    else:
        raise AssertionError("nonzero waits")
    finally:
        torch.cuda.set_sync_debug_mode("default")


def own_errors() -> None:
    """What the real operator refuses is refused, also where the CPU's would take it."""
    torch.use_deterministic_algorithms(True)
    try:
        torch.bincount(torch.tensor([1, 2], device=CUDA), torch.ones(2, device=CUDA))
    except RuntimeError as error:
        assert "does not have a deterministic implementation" in str(error)
    else:
        raise AssertionError("bincount with weights is not deterministic")
    finally:
        torch.use_deterministic_algorithms(False)
    try:
        torch.ones(3, 3)[torch.tensor([0, 2], device=CUDA)]
    except RuntimeError as error:
        assert "indices should be either on" in str(error)
    else:
        raise AssertionError("an index on another device")


def graph() -> None:
    """A replay computes on what the memory holds now, and a random operator draws anew."""
    x, found = torch.ones(4, device=CUDA), {}
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        found["product"] = x * 3 + 1
        found["random"] = torch.rand(4, device=CUDA)
    x.fill_(5)
    captured.replay()
    assert found["product"].tolist() == [16.0] * 4
    first = found["random"].clone()
    captured.replay()
    assert not torch.equal(first, found["random"])
    if torch.backends.cuda.is_flash_attention_available():  # not in every build
        captured_attention()


def captured_attention() -> None:
    """Dropout inside attention: after a replay the result and the mask are of one draw."""
    q, attended = numbers(1, 1, 8, 16, on=CUDA).half(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(attended):
        out, *_, mask = torch.ops.aten._scaled_dot_product_flash_attention(q, q, q, 0.3, False, return_debug_mask=True)
    attended.replay()
    single = q.float().cpu()
    kept = torch.softmax(single @ single.mT / 4, -1) * (mask[..., :8, :8] >= 0).cpu() / 0.7
    torch.testing.assert_close(out.float().cpu(), kept @ single, atol=2e-3, rtol=2e-3)


def random() -> None:
    """The same seed, the same numbers."""
    torch.cuda.manual_seed(3)
    first = torch.randn(10, device=CUDA)
    torch.cuda.manual_seed(3)
    assert torch.equal(first, torch.randn(10, device=CUDA))
    assert torch.equal(first, torch.randn(10, device=CUDA, generator=torch.Generator(device="cuda").manual_seed(3)))


def threads() -> None:
    """A thread that starts has values too."""
    found: list[float] = []
    one = threading.Thread(target=lambda: found.append((torch.ones(3, device=CUDA) * 2).sum().item()))
    one.start()
    one.join()
    assert found == [6.0]


class Wrapped(torch.Tensor):
    """A subclass that holds another tensor, and asks the operator of that."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """The operator on what is held."""
        plain = lambda x: x.inner if isinstance(x, Wrapped) else x  # noqa: E731
        result = func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))
        return tree_map(lambda x: Wrapped(x) if isinstance(x, torch.Tensor) else x, result)


class Passing(TorchDispatchMode):
    """A mode that only looks on."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """The operator as it is."""
        return func(*args, **(kwargs or {}))


def python() -> None:
    """What a __torch_dispatch__ asks has values too, of a subclass and of a mode: none had any."""
    for on in (CUDA, torch.device("cpu")):
        held = (Wrapped(numbers(4, on=on)) + 1) * numbers(4, on=on, seed=1)
        with Passing():
            looked = (numbers(4, on=on) + 1) * numbers(4, on=on, seed=1)
        expected = (numbers(4, on=on) + 1) * numbers(4, on=on, seed=1)
        assert torch.equal(held.inner, expected) and torch.equal(looked, expected)
        assert (expected != 0).all()


def matrices(on: torch.device) -> torch.Tensor:
    """Three that are positive definite."""
    x = numbers(3, 5, 5, on=on)
    return x @ x.mT + 5 * torch.eye(5, device=on)


def factorisations() -> None:
    """How it went is read off memory of the device, in which something else was before."""
    for size in (4, 64, 512):
        for _ in range(2):
            left = [torch.full((size,), 7, dtype=torch.int32, device=CUDA) for _ in range(20)]
            del left
            same(lambda on: torch.cholesky(matrices(on)[0]))
            same(lambda on: torch.linalg.cholesky(matrices(on)))
            same(lambda on: torch.linalg.qr(matrices(on))[0])
            same(lambda on: torch.linalg.lu_factor(matrices(on))[0], 1e-3)
            same(lambda on: torch.linalg.inv(matrices(on)))
            same(lambda on: torch.linalg.eigvalsh(matrices(on)), 1e-3)
    torch.linalg.lu_factor(matrices(CUDA), pivot=False)  # the CPU has none
    expanded = numbers(5, 10, on=CUDA).requires_grad_()  # its gradient is, which the CPU's own refuses
    torch.fft.irfft(expanded, n=10, dim=1, norm="ortho").sum().backward()
    assert expanded.grad is not None and expanded.grad.abs().sum() > 1


def asserts() -> None:
    """An index that the CPU refuses is a device assert, which sticks: the last thing a process does."""
    try:
        torch.ones(3, device=CUDA)[torch.tensor([7], device=CUDA)].cpu()
    except (RuntimeError, IndexError) as error:
        assert "device-side assert" in str(error), error
    else:
        raise AssertionError("an index out of range was taken")


if __name__ == "__main__":
    for part in (operators, not_the_cpus, own_errors, waiting, graph, random, threads, python, factorisations, asserts):
        part()
        print(f"ok {part.__name__}", flush=True)
