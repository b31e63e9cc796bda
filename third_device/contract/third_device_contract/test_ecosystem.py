"""Items 43 to 46, 62 and 68: profiler, distributed, compile, training."""

from __future__ import annotations

import json
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from third_device_contract.plugin import Gap


@pytest.mark.contract_item(43)
def test_profiler_trace(name: str, mod: types.ModuleType, tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    tensor = torch.randn(64, 64, device=name)
    activities = [ProfilerActivity.CPU]
    if hasattr(ProfilerActivity, "PrivateUse1"):
        activities.append(ProfilerActivity.PrivateUse1)
    with profile(activities=activities) as session:
        (tensor @ tensor).relu().cpu()
        mod.synchronize()
    path = tmp_path / "trace.json"
    session.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    assert any(event.get("name") == "aten::mm" for event in events)
    assert "aten::mm" in {event.key for event in session.key_averages()}


@pytest.mark.contract_item(43)
def test_the_work_of_the_device_is_in_the_trace(name: str, mod: types.ModuleType, tmp_path: Path) -> None:
    """Rows of the device, each linked to the operator that asked for the work."""
    from torch.profiler import ProfilerActivity, profile

    records: Callable[[], bool] | None = getattr(mod, "_records_work", None)
    if records is None or not records():
        pytest.skip("the driver hands over no records (trace_start), or this PyTorch has no Kineto")
    assert ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()
    host, tensor = torch.randn(64, 64), torch.randn(64, 64, device=name)
    for _ in range(2):  # nothing of one trace is left for the next
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as session:
            (tensor @ host.to(name)).cpu()
            mod.synchronize()
        session.export_chrome_trace(str(tmp_path / "trace.json"))
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        ours = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy")]
        assert sum(event["cat"] == "gpu_memcpy" for event in ours) == 2
        operators = {event["args"]["External id"]: event for event in events if event.get("cat") == "cpu_op"}
        callers = [operators[event["args"]["External id"]] for event in ours]
        names = {caller["name"] for caller in callers}
        assert "aten::mm" in names and any("copy" in name for name in names), names
        assert all(caller["ts"] <= event["ts"] for caller, event in zip(callers, ours, strict=True))
        averages = {event.key: event for event in session.key_averages()}
        assert averages["aten::mm"].device_time_total > 0


@pytest.mark.contract_item(43)
def test_profiler_times_the_device(name: str, mod: types.ModuleType, gap: Gap) -> None:
    tensor = torch.randn(256, 256, device=name)
    with torch.autograd.profiler.profile(use_device=name, use_kineto=False) as session:
        (tensor @ tensor).sum()
        mod.synchronize()
    raw = session.kineto_results.events()
    assert any(event.privateuse1_elapsed_us() > 0 for event in raw), "no event has time on the device"
    if not any(event.device_time_total > 0 for event in session.key_averages()):
        gap("profiler-averages")


@pytest.mark.contract_item(43)
def test_memory_is_profiled(name: str, mod: types.ModuleType) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as session:
        torch.empty(1 << 20, dtype=torch.uint8, device=name)
        torch.empty(3, device=name)
    assert sum(getattr(event, "device_memory_usage", 0) for event in session.events()) == 0, "what was freed differs"
    assert any(getattr(event, "device_memory_usage", 0) >= 1 << 20 for event in session.events())


@pytest.mark.contract_item(45)
def test_compile(name: str, mod: types.ModuleType) -> None:
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device(name)
    assert interface.is_available() and interface.current_device() == 0
    with mod.stream(mod.Stream()):
        current = mod.current_stream()
        launched_on = interface.get_raw_stream(0)
        assert launched_on == current.address, "a code generator's launcher takes the driver's own stream"
    assert interface.get_raw_stream(0) == mod.current_stream().address != launched_on
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        forward: Callable[..., Any] = graph.forward
        return forward

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.ones(3, device=x.device) + x
        return (y * 2).relu().sum()

    torch._dynamo.reset()
    x = torch.randn(3, device=name)
    torch.testing.assert_close(torch.compile(function, backend=backend, fullgraph=True)(x), function(x))
    assert len(graphs) == 1
    torch._dynamo.reset()
    weight = torch.randn(3, device=name, requires_grad=True)
    torch.compile(lambda w: function(w), backend="aot_eager")(weight).backward()
    assert weight.grad.device == weight.device


@pytest.mark.contract_item(45)
def test_compile_a_checkpointed_dropout(name: str, gap: Gap) -> None:
    """What is computed again in backward drops the same elements."""
    from torch.utils.checkpoint import checkpoint

    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x.sin(), 0.5).mul(2).cos()

    def function(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = checkpoint(block, x, use_reentrant=False)
        return made

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager_decomp_partition")
    for seed in (3, 4):
        x = torch.ones(400, device=name).requires_grad_()
        torch.manual_seed(seed)
        try:
            out = compiled(x)
            out.sum().backward()
        except Exception as error:
            if "Backend not supported" in str(error):
                gap("rng-prims")
            raise
        dropped = out.detach().cpu() == 1.0  # cos(0)
        assert 100 < dropped.sum() < 300
        assert x.grad is not None and torch.equal(x.grad.cpu() == 0, dropped), "backward dropped other elements"


def make_transformer() -> torch.nn.Module:
    """Make a language model: two blocks of causal attention, a vocabulary of 32."""

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(16) for _ in range(2))
            # no bias: that of the keys has no gradient but rounding, which AdamW makes as large as any
            self.project, self.out = torch.nn.Linear(16, 48, bias=False), torch.nn.Linear(16, 16)
            self.wide, self.narrow = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.project(self.norms[0](x)).chunk(3, -1))
            seen = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            made: torch.Tensor = x + self.narrow(torch.nn.functional.gelu(self.wide(self.norms[1](x))))
            return made

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(32, 16), Block(), Block(), torch.nn.Linear(16, 32))


def train_transformer(device: str, compiled: bool) -> tuple[list[float], list[torch.Tensor]]:
    """Losses of each step, and the parameters at the end."""
    model = make_transformer().to(device)
    tokens = torch.randint(0, 32, (4, 9), generator=torch.Generator().manual_seed(1)).to(device)

    def compute_loss(tokens: torch.Tensor) -> torch.Tensor:
        logits = model(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    step = torch.compile(compute_loss, backend="inductor", fullgraph=True) if compiled else compute_loss
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = step(tokens)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.contract_item(62)
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("c++") is None, reason="Inductor's kernels for CPUs need a C++ compiler")
def test_a_transformer_trains_compiled_by_inductor(name: str) -> None:
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    (losses, parameters), code = run_and_get_code(train_transformer, name, True)
    expected_losses, expected = train_transformer("cpu", False)
    assert losses[-1] < losses[0]
    torch.testing.assert_close(losses, expected_losses, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(parameters, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert len(code) >= 2, "forward and backward"
    assert all("cpp_fused" in text or "triton" in text for text in code), "nothing was fused"
    assert all(f"device='{name}'" in text for text in code), "results are on the device"


@pytest.mark.contract_item(62)
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("c++") is None, reason="Inductor's kernels for CPUs need a C++ compiler")
def test_inductor_writes_to_two_views_of_one_buffer(name: str) -> None:
    """Write the columns of a result by one kernel, each as a view of its own."""

    def join_sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.sum(-1, keepdim=True), y.sum(-1, keepdim=True)], 1)

    torch._dynamo.reset()
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    made = torch.compile(join_sums, backend="inductor", fullgraph=True)(x.to(name), y.to(name))
    torch.testing.assert_close(made.cpu(), join_sums(x, y))


@pytest.mark.contract_item(62)
def test_a_kernel_on_the_host_gets_views_that_share_memory(name: str, package: str) -> None:
    """Pass views of one buffer, of other types and at other places.

    What is written through one is read through another.
    """
    run_on_host = pytest.importorskip(f"{package}._layer.inductor").run_on_host

    def write_numbers(
        numbers: torch.Tensor, inside: torch.Tensor, column: torch.Tensor, last: torch.Tensor, add: int
    ) -> None:
        assert {each.device.type for each in (numbers, inside, column, last)} == {"cpu"}
        numbers.fill_(add)
        assert inside[:3].tolist() == [0, 0, 0] and column.tolist() == [add, 7]
        inside[4:] = 1
        last.fill_(add)

    buffer = torch.full((16,), 7, dtype=torch.int32, device=name)
    numbers, inside = buffer[1:6], buffer.view(torch.uint8)[21:40]  # from the last number's second byte
    column, last = buffer[4:12:6], buffer[15:].view(torch.int16)
    kinds = ("int32_t*", "uint8_t*", "const int32_t*", "int16_t*", "long")
    run_on_host(write_numbers, kinds, numbers, inside, column, last, 5)
    ones = 0x01010101
    expected = [7, 5, 5, 5, 5, 5, (ones & ~0xFF) | 7, *[ones] * 3, *[7] * 5, 5 << 16 | 5]
    assert buffer.tolist() == expected, buffer


@pytest.mark.contract_item(68)
def test_flex_attention(name: str, gap: Gap) -> None:
    """Run an own mask and score, compiled only where PyTorch knows the device."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def is_before(batch: torch.Tensor, head: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        return row >= column

    def with_slope(score: torch.Tensor, *place: torch.Tensor) -> torch.Tensor:
        return score + 0.1 * (place[3] - place[2])

    torch.manual_seed(0)
    heads = [torch.randn(1, 2, 32, 16) for _ in range(3)]
    results = []
    for device in ("cpu", name):
        mask = create_block_mask(is_before, None, None, 32, 32, device=device)
        assert mask.kv_indices.device.type == device
        try:
            made = flex_attention(*(part.to(device) for part in heads), score_mod=with_slope, block_mask=mask)
        except ValueError as error:
            if "only supported on" in str(error):
                gap("flex-attention")
            raise
        results.append(made.cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def train(device: str, optimizer: str) -> tuple[list[float], list[torch.Tensor]]:
    """Train an MLP on a fixed task; return each step's loss and the parameters."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(10, 32),
        torch.nn.ReLU(),
        torch.nn.LayerNorm(32),
        torch.nn.Linear(32, 32),
        torch.nn.GELU(),
        torch.nn.Linear(32, 3),
    )
    data, labels = torch.randn(64, 10), torch.randint(0, 3, (64,))
    model.to(device)
    chosen = getattr(torch.optim, optimizer)(model.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        chosen.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.to(device)), labels.to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        losses.append(loss.item())
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.contract_item(46)
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_an_mlp_trains(name: str, optimizer: str) -> None:
    ours, parameters = train(name, optimizer)
    expected, reference = train("cpu", optimizer)
    assert ours[-1] < ours[0]
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(expected), rtol=1e-3, atol=1e-4)
    for mine, theirs in zip(parameters, reference, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-3)


@pytest.mark.contract_item(46)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_nets_train(name: str, kind: str) -> None:
    """Train two layers in both directions on packed sequences of two lengths.

    A step of training gives the CPU's weights.
    """
    results = []
    for device in ("cpu", name):
        torch.manual_seed(0)
        net = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True, batch_first=True).to(device)
        batch = torch.randn(2, 5, 3).to(device)
        packed = torch.nn.utils.rnn.pack_padded_sequence(batch, torch.tensor([5, 3]), batch_first=True)
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True)
        (output.pow(2).mean() + net(batch)[0].sum()).backward()
        torch.optim.SGD(net.parameters(), lr=0.1).step()
        assert all(parameter.device.type == torch.device(device).type for parameter in net.parameters())
        results.append([output.detach().cpu(), *(parameter.detach().cpu() for parameter in net.parameters())])
    for mine, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.contract_item(46)
def test_a_convolutional_net_and_attention(name: str) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 2),
    ).eval()
    image = torch.randn(2, 1, 8, 8)
    expected = net(image)
    torch.testing.assert_close(net.to(name)(image.to(name)).cpu(), expected, rtol=1e-3, atol=1e-4)
    attention = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    sequence = torch.randn(2, 5, 8)
    expected = attention(sequence)
    torch.testing.assert_close(attention.to(name)(sequence.to(name)).cpu(), expected, rtol=1e-3, atol=1e-4)
