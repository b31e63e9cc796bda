"""Items 32 to 39: kernels, fallback, autograd, fake tensors, autocast."""

from __future__ import annotations

import copy
import functools
import math
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from third_device_contract.plugin import tell_missing_kernel


@pytest.mark.contract_item(32)
def test_printing_and_scalars(name: str) -> None:
    tensor = torch.tensor([[1.5, math.nan], [-2.0, 1e9]], device=name)
    text = repr(tensor)
    assert f"device='{name}:0'" in text and "1.5" in text and "nan" in text
    assert tensor[0, 0].item() == 1.5 and float(tensor[1, 0]) == -2
    assert torch.masked_select(tensor, tensor > 0).cpu().tolist() == [1.5, 1e9]
    assert "requires_grad" in repr(torch.ones(1, device=name, requires_grad=True))
    assert f"{torch.arange(5, device=name)}".startswith("tensor([0, 1, 2, 3, 4]")
    assert torch.tensor(True, device=name).item() is True
    assert torch.ones(3, device=name).tolist() == [1, 1, 1]
    assert torch.equal(torch.ones(2, device=name), torch.ones(2, device=name))


@pytest.mark.contract_item(33)
def test_stubs_are_used(name: str, mod: types.ModuleType) -> None:
    if not hasattr(mod, "no_fallback"):
        pytest.skip("this backend has no no_fallback() to tell a kernel from the CPU")
    tensor = torch.tensor([-1.0, 2.0, -3.5], device=name)
    with mod.no_fallback():
        try:
            found = tensor.abs()
        except NotImplementedError:
            pytest.skip("abs runs on the CPU here; list it under stubs in operators.yaml")
        written = torch.abs(tensor, out=torch.empty(3, device=name))
    assert found.cpu().tolist() == written.cpu().tolist() == [1, 2, 3.5]
    wide = torch.arange(-6.0, 6.0).view(3, 4)
    assert torch.equal(wide.to(name).t().abs().cpu(), wide.t().abs())
    out = torch.empty(4, 3).t()
    assert torch.equal(torch.abs(wide.to(name), out=out.to(name)).cpu(), wide.abs())


@pytest.mark.contract_item(33)
def test_native_operators_equal_the_cpu(name: str) -> None:
    a, b = torch.randn(5, 7), torch.randn(7)
    da, db = a.to(name), b.to(name)
    pairs = [
        (da + db, a + b),
        (da * db, a * b),
        (da.add(db, alpha=3), a.add(b, alpha=3)),
        (da + 2, a + 2),
        (da @ db.expand(7, 7).contiguous(), a @ b.expand(7, 7)),
        (torch.addmm(db, da, torch.ones(7, 7, device=name)), torch.addmm(b, a, torch.ones(7, 7))),
        (da.relu(), a.relu()),
        (da.t().relu(), a.t().relu()),
        (da.double() + db, a.double() + b),
        (da.add_(1), a + 1),
    ]
    for ours, expected in pairs:
        assert ours.dtype == expected.dtype
        torch.testing.assert_close(ours.cpu(), expected)


@pytest.mark.contract_item(34)
def test_an_output_elsewhere_is_refused(name: str, mod: types.ModuleType) -> None:
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.nonzero(torch.ones(3, device=name), out=torch.empty(0, dtype=torch.long))
    with pytest.raises(RuntimeError):
        torch.ones(3).add_(torch.ones(3, device=name))
    if mod.device_count() > 1 and hasattr(mod, "no_fallback"):  # a kernel sees operands of one device
        near, far = (torch.ones(2, 2, device=f"{name}:{index}") for index in (0, 1))
        calls: tuple[Callable[[torch.Tensor], Any], ...] = (
            lambda other: near @ other,
            lambda other: torch.mm(near, near, out=other),
            lambda other: torch.cat([near, other]),
        )
        for call in calls:
            if not tell_missing_kernel(mod, functools.partial(call, near.clone())):
                with mod.no_fallback(), pytest.raises(RuntimeError, match="on the same device"):
                    call(far)
        convolve = torch.nn.functional.conv1d
        meetings: tuple[Callable[[], Any], ...] = (  # whether a kernel or the CPU computes it
            lambda: torch.cat([near.double(), far.double()]),
            lambda: torch.where(near > 0, far, far),
            lambda: convolve(near[None].double(), far[None].double()),
        )
        for meet in meetings:
            with pytest.raises(RuntimeError, match="on the same device"):
                meet()
        near.masked_fill_(near > 0, torch.tensor(2.0, device=far.device))  # one number, as on CUDA
        assert near.tolist() == [[2, 2], [2, 2]]


@pytest.mark.contract_item(34)
def test_fallback_arguments(name: str) -> None:
    host = torch.randn(4, 4)
    there = host.to(name)
    torch.testing.assert_close(there.sub(2.5).cpu(), host.sub(2.5))  # a scalar
    torch.testing.assert_close(torch.atan2(there, there.t()).cpu(), torch.atan2(host, host.t()))
    torch.testing.assert_close(torch.cat([there, there]).cpu(), torch.cat([host, host]))  # a list
    torch.testing.assert_close(torch.stack([there[0], there[1]]).cpu(), host[:2])
    torch.testing.assert_close(there[torch.tensor([0, 2]), :][:, torch.tensor([1, 3])].cpu(), host[[0, 2]][:, [1, 3]])
    image = torch.randn(1, 2, 5, 5)
    weight = torch.randn(3, 2, 3, 3)
    expected = torch.nn.functional.conv2d(image, weight, None)  # an undefined tensor
    torch.testing.assert_close(torch.nn.functional.conv2d(image.to(name), weight.to(name), None).cpu(), expected)
    values, order = there.sort(dim=1)
    torch.testing.assert_close(values.cpu(), host.sort(dim=1).values)
    assert order.device == there.device
    torch._foreach_add_([there, there.t().contiguous()], 1)
    torch.testing.assert_close(there.cpu(), host + 1)
    out = torch.empty(0, device=name)
    assert torch.sin(there, out=out) is out
    torch.testing.assert_close(out.cpu(), torch.sin(host + 1))
    norm = torch.nn.functional.batch_norm(there.view(2, 2, 4), None, None, training=True)
    torch.testing.assert_close(
        norm.cpu(), torch.nn.functional.batch_norm((host + 1).view(2, 2, 4), None, None, training=True)
    )
    assert there.sin_().data_ptr() == there.data_ptr()
    there[0] = 7
    assert there.cpu()[0].tolist() == [7] * 4
    assert torch.randperm(10, device=name).sort().values.cpu().tolist() == list(range(10))
    assert torch.arange(3, device=name).device.type == name
    assert torch.nonzero(there > 6).shape[0] == 4


@pytest.mark.contract_item(34)
def test_fallback_results_are_on_the_device(name: str) -> None:
    """Also where the first tensor is a scalar of the CPU, or parameters are there."""
    there = torch.ones(3, dtype=torch.float64, device=name)
    two = torch.tensor(2.0, dtype=torch.float64)
    for made in (
        two * there,
        there * two,
        torch.maximum(two, there),
        torch.where(there > 0, two, there),
        two.sub(there),
    ):
        assert made.device == there.device and made.shape == (3,)
    many = torch.quantize_per_tensor([there.float()], torch.tensor([0.5]), torch.tensor([1]), torch.quint8)
    assert many[0].device == there.device


@pytest.mark.contract_item(34)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_statistics_of_batches_are_updated(name: str, dtype: torch.dtype) -> None:
    """Their operators write to arguments that no schema marks.

    Lost, they are noticed in ``eval()`` alone.
    """
    layers: tuple[tuple[torch.nn.Module, tuple[int, ...]], ...] = (
        (torch.nn.BatchNorm1d(3), (8, 3)),
        (torch.nn.BatchNorm2d(3), (2, 3, 4, 4)),
        (torch.nn.InstanceNorm1d(3, track_running_stats=True), (2, 3, 8)),
    )
    for layer, shape in layers:
        host = layer.to(dtype)
        there = copy.deepcopy(host).to(name)
        for _ in range(2):
            batch = torch.randn(shape, dtype=dtype) * 3 + 5
            for one in (host, there):
                assert isinstance(one.running_mean, torch.Tensor)
                one(batch.to(one.running_mean.device).requires_grad_()).sum().backward()
        for buffer, expected in host.named_buffers():
            torch.testing.assert_close(there.get_buffer(buffer).cpu(), expected)
        torch.testing.assert_close(there.eval()(batch.to(name)).cpu(), host.eval()(batch))
    batch = torch.randn(8, 3, dtype=dtype) + 5
    mean, var = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
    mean_there, var_there = mean.to(name), var.to(name)
    torch.ops.aten.batch_norm_update_stats(batch, mean, var, 0.1)
    torch.ops.aten.batch_norm_update_stats(batch.to(name), mean_there, var_there, 0.1)
    torch.testing.assert_close(mean_there.cpu(), mean)
    torch.testing.assert_close(var_there.cpu(), var)


@pytest.mark.contract_item(35)
def test_fallback_can_be_switched_off(name: str, mod: types.ModuleType, host_only_operator: None) -> None:
    tensor = torch.ones(3, device=name)
    if not hasattr(mod, "no_fallback"):
        pytest.skip("this backend has no no_fallback()")
    with mod.no_fallback(), pytest.raises(NotImplementedError) as caught:
        torch.ops.contract_host.halve(tensor)
    assert "contract_host::halve" in str(caught.value) and name in str(caught.value)
    halved = torch.ops.contract_host.halve(tensor)
    assert halved.device.type == name and halved.tolist() == [0.5] * 3


@pytest.mark.contract_item(35)
def test_an_operator_nobody_has_is_named(name: str) -> None:
    with torch.library._scoped_library("contract_nobody", "DEF") as library:
        library.define("thing(Tensor x) -> Tensor")
        with pytest.raises(NotImplementedError) as caught:
            torch.ops.contract_nobody.thing(torch.ones(1, device=name))
    assert "contract_nobody::thing" in str(caught.value) and name in str(caught.value).lower()


@pytest.mark.contract_item(36)
def test_autograd(name: str) -> None:
    x = torch.randn(5, 3)
    w = torch.randn(3, 2, requires_grad=True)
    there = w.detach().to(name).requires_grad_()
    (x @ w).relu().pow(2).sum().backward()
    (x.to(name) @ there).relu().pow(2).sum().backward()
    torch.testing.assert_close(there.grad.cpu(), w.grad)
    assert there.grad.device == there.device
    twice = torch.tensor([2.0], device=name, requires_grad=True)
    (first,) = torch.autograd.grad(twice**3, twice, create_graph=True)
    (second,) = torch.autograd.grad(first, twice)
    assert second.item() == 12
    inputs = torch.randn(3, dtype=torch.float64, device=name, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: (t * t.sigmoid()).sum(), (inputs,))


@pytest.mark.contract_item(36)
def test_one_engine_thread_per_device(name: str, two: None) -> None:
    import threading

    threads: dict[int, int] = {}

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(context: Any, grad: torch.Tensor) -> torch.Tensor:
            threads[grad.device.index] = threading.get_ident()
            return grad

    first = torch.ones(2, device=f"{name}:0", requires_grad=True)
    second = torch.ones(2, device=f"{name}:1", requires_grad=True)
    (Note.apply(first).sum() + Note.apply(second).sum().to(f"{name}:0")).backward()
    assert set(threads) == {0, 1} and threads[0] != threads[1]
    assert threading.get_ident() not in threads.values()
    assert first.grad.device.index == 0 and second.grad.device.index == 1


@pytest.mark.contract_item(37)
def test_custom_operator(name: str) -> None:
    @torch.library.custom_op("contract::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x * x * x

    cube.register_fake(lambda x: torch.empty_like(x))
    cube.register_autograd(
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = torch.tensor([2.0, 3.0], device=name, requires_grad=True)
    cube(x).sum().backward()
    assert x.grad.cpu().tolist() == [12, 27]
    assert cube(torch.empty(4, device="meta")).shape == (4,)
    # opcheck's test_autograd_registration is left out: it knows CPU, CUDA and XPU only
    # (torch/testing/_internal/optests/autograd_registration.py: autograd_registration_check).
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(cube, (torch.randn(3, device=name, requires_grad=True),), test_utils=checks)


@pytest.mark.contract_item(38)
def test_fake_and_meta(name: str, mod: types.ModuleType) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        made = torch.empty(8, 4, device=name) @ torch.empty(4, 2, device=name)
        assert made.shape == (8, 2) and made.device == torch.device(name, 0)
        assert (made + 1).relu().sum().device.type == name
    real = torch.randn(3, 3, device=name)
    fake = mode.from_tensor(real)
    with mode:
        assert torch.linalg.inv(fake).shape == (3, 3)
    assert torch.empty_like(real, device="meta").device.type == "meta"
    assert real.to("meta").shape == (3, 3)


@pytest.mark.contract_item(39)
def test_autocast(name: str) -> None:
    a, b = torch.randn(4, 4, device=name), torch.randn(4, 4, device=name)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast(name, dtype=dtype):
            assert torch.is_autocast_enabled(name)
            product = torch.mm(a, b)
            assert product.dtype == dtype
            assert torch.nn.functional.linear(a, b).dtype == dtype
            assert product.softmax(-1).dtype == torch.float32
            assert product.exp().dtype == torch.float32
            assert (product + a).dtype == torch.float32
            assert torch.cat([product, product]).dtype == dtype
            with torch.autocast(name, enabled=False):
                assert torch.mm(a, b).dtype == torch.float32
    assert not torch.is_autocast_enabled(name)
    weight = torch.randn(4, 4, device=name, requires_grad=True)
    with torch.autocast(name, dtype=torch.bfloat16):
        loss = torch.mm(a, weight).sum()
    loss.backward()
    assert weight.grad.dtype == torch.float32


@pytest.mark.contract_item(39)
def test_autocast_reduces_in_float32(name: str) -> None:
    """Reduce more than float16 can hold, by any overload: that is no infinity."""
    ones = torch.ones(70000, 2, dtype=torch.float16, device=name)
    image = torch.ones(1, 1, 2, 2, dtype=torch.float16, device=name)
    with torch.autocast(name, dtype=torch.float16):
        assert ones.sum(0).tolist() == [70000] * 2 and ones.sum().item() == 140000
        reduced = {
            "prod": ones.prod(0),
            "vector_norm": torch.linalg.vector_norm(ones, dim=0),
            "nuclear_norm": torch.ops.aten.nuclear_norm(image[0, 0]),
            "norm": torch.ops.aten.norm(ones, 2, [0]),
            "interpolate": torch.nn.functional.interpolate(image, scale_factor=2, mode="bilinear"),
        }
        hidden, cell = torch.nn.LSTMCell(3, 4).to(name)(torch.ones(1, 3, device=name))
    assert {what: made.dtype for what, made in reduced.items()} == dict.fromkeys(reduced, torch.float32)
    assert hidden.dtype == cell.dtype == torch.float16


@pytest.mark.contract_item(39)
def test_autocast_warns_for_other_dtypes(name: str, mod: types.ModuleType) -> None:
    assert torch.float16 in mod.get_amp_supported_dtype()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autocast(name, dtype=torch.float64):
            result = torch.mm(torch.ones(2, 2, device=name), torch.ones(2, 2, device=name))
    assert result.dtype == torch.float32
    assert any("autocast" in str(warning.message).lower() for warning in caught)


@pytest.mark.contract_item(39)
def test_grad_scaler_skips_inf(name: str) -> None:
    weight = torch.ones(3, device=name, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(name, init_scale=4.0, growth_interval=1)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.detach().cpu().tolist() == [0, 0, 0] and scaler.get_scale() == 8
    optimizer.zero_grad()
    scaler.scale((weight * math.inf).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.detach().cpu().tolist() == [0, 0, 0] and scaler.get_scale() == 4
