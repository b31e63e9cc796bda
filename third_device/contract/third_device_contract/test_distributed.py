"""Items 44, 52, 53 and 55 on two and on four ranks.

They are about collectives, DDP, FSDP2, DTensor and checkpoints.
"""

from __future__ import annotations

import pytest
import torch

from third_device_contract.plugin import Gap, Run
from third_device_contract.ranks import run_ranks

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this PyTorch was built without torch.distributed"
)

MOVES = """
def like(values, device, dtype):
    return torch.tensor(values, device="cpu").to(dtype).to(device)

def check(rank, device):
    for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.complex64, torch.float8_e4m3fn):
        number = lambda rank: rank % 2 if dtype == torch.bool else rank
        mine = like([number(rank), 1], device, dtype)
        expected = [like([number(other), 1], "cpu", dtype) for other in range(SIZE)]
        raw = lambda tensor: tensor.cpu().view(torch.uint8)
        same = lambda found, wanted: found.device == device and raw(found).equal(raw(wanted))
        sent = mine.clone()
        dist.broadcast(sent, src=1)
        assert same(sent, expected[1]), (dtype, sent)
        parts = [torch.zeros_like(mine) for _ in range(SIZE)]
        dist.all_gather(parts, mine)
        assert all(map(same, parts, expected)), (dtype, parts)
        whole = mine.new_empty(2 * SIZE)
        dist.all_gather_into_tensor(whole, mine)
        assert same(whole, torch.cat([each.view(torch.uint8) for each in expected]).view(dtype)), (dtype, whole)
        parts = [torch.zeros_like(mine) for _ in range(SIZE)] if rank == 0 else None
        dist.gather(mine, parts, dst=0)
        assert rank or all(map(same, parts, expected)), (dtype, parts)
        got = torch.zeros_like(mine)
        dist.scatter(got, [each.to(device) for each in expected] if rank == 0 else None, src=0)
        assert same(got, expected[rank]), (dtype, got)
        parts = [torch.zeros_like(mine) for _ in range(SIZE)]
        dist.all_to_all(parts, [mine.clone() for _ in range(SIZE)])
        assert all(map(same, parts, expected)), (dtype, parts)
        if rank == 0:
            dist.send(mine, dst=1, tag=7)
        elif rank == 1:
            dist.recv(got, src=0, tag=7)
            assert same(got, expected[0]), (dtype, got)
    # parts of unlike size
    lists = [torch.arange(1.0 + other) + 10 * rank for other in range(SIZE)]
    received = [torch.zeros(1 + rank, device=device) for _ in range(SIZE)]
    dist.all_to_all(received, [each.to(device) for each in lists])
    assert [each.cpu().tolist() for each in received] == [[10.0 * o + i for i in range(1 + rank)] for o in range(SIZE)]
    single = torch.zeros(SIZE * (1 + rank), 2, device=device)
    sizes = [1 + other for other in range(SIZE)]
    source = torch.full((sum(sizes), 2), float(rank), device=device)
    dist.all_to_all_single(single, source, output_split_sizes=[1 + rank] * SIZE, input_split_sizes=sizes)
    assert single.cpu()[:, 0].tolist() == [float(o) for o in range(SIZE) for _ in range(1 + rank)]
    even = torch.zeros(SIZE, device=device)
    dist.all_to_all_single(even, torch.arange(float(SIZE), device=device) + 100 * rank)
    assert even.cpu().tolist() == [100.0 * other + rank for other in range(SIZE)]
"""

REDUCTIONS = """
def check(rank, device):
    ops = dist.ReduceOp
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int16, torch.uint8):
        each = [torch.tensor([other + 1, 2]).to(dtype) for other in range(SIZE)]
        stacked = torch.stack([one.to(torch.float64) for one in each])
        for op, expected in (
            (ops.SUM, stacked.sum(0)), (ops.MAX, stacked.amax(0)), (ops.MIN, stacked.amin(0)),
            (ops.PRODUCT, stacked.prod(0)), (ops.AVG, stacked.mean(0)),
        ):
            mine, wanted = each[rank].to(device), expected.to(dtype)
            dist.all_reduce(mine, op=op)
            assert mine.cpu().equal(wanted), (dtype, op, mine, wanted)
            mine = each[rank].to(device)
            dist.reduce(mine, dst=0, op=op)
            assert mine.cpu().equal(wanted if rank == 0 else each[rank]), (dtype, op, mine)
            part = torch.zeros(1, dtype=dtype, device=device)
            dist.reduce_scatter_tensor(part, each[rank][:1].repeat(SIZE).to(device), op=op)
            assert part.item() == wanted[0].item(), (dtype, op, part)
            part = torch.zeros(2, dtype=dtype, device=device)
            dist.reduce_scatter(part, [each[rank].to(device)] * SIZE, op=op)
            assert part.cpu().equal(wanted), (dtype, op, part)
    numbers = torch.tensor([1 + 2j], device=device)
    dist.all_reduce(numbers)
    assert numbers.item() == SIZE * (1 + 2j)
    for factor in (rank + 0.5, torch.tensor([rank + 0.5], device=device)):  # each rank has its own
        scaled = dist._make_nccl_premul_sum(factor)
        mine, part = torch.full((2,), 2.0, device=device), torch.zeros(1, device=device)
        dist.reduce_scatter_tensor(part, torch.full((SIZE,), 2.0, device=device), op=scaled)
        dist.all_reduce(mine, op=scaled)
        wanted = sum(2 * (other + 0.5) for other in range(SIZE))
        assert mine.cpu().tolist() == [wanted] * 2 and part.item() == wanted, (factor, mine, part)
    truth = torch.tensor([rank == 0, True, False], device=device)
    dist.all_reduce(truth)
    assert truth.cpu().tolist() == [True, True, False]
    ramp = torch.arange(2.0 * SIZE).view(2 * SIZE, 1) + rank
    part = torch.zeros(2, 1, device=device)
    dist.reduce_scatter_tensor(part, ramp.to(device))
    total = sum(torch.arange(2.0 * SIZE).view(2 * SIZE, 1) + other for other in range(SIZE))
    assert part.cpu().equal(total[2 * rank : 2 * rank + 2])
"""

TOGETHER = """
def check(rank, device):
    from torch.distributed.distributed_c10d import _coalescing_manager

    sums = [torch.full((2,), rank + other + 1.0, device=device) for other in range(3)]
    with _coalescing_manager(device=device):
        for each in sums:
            dist.all_reduce(each)
    ranks = range(SIZE)
    assert [each[0].item() for each in sums] == [sum(r + other + 1.0 for r in ranks) for other in range(3)]
    wholes = [torch.zeros(SIZE, device=device) for _ in range(2)]
    parts = [torch.tensor([1.0 * rank + k], device=device) for k in range(2)]
    with _coalescing_manager(device=device):
        for whole, part in zip(wholes, parts):
            dist.all_gather_into_tensor(whole, part)
    assert [whole.cpu().tolist() for whole in wholes] == [[float(r + k) for r in ranks] for k in range(2)]
    with _coalescing_manager(device=device, async_ops=True) as manager:
        for whole, part in zip(wholes, parts):
            dist.reduce_scatter_tensor(part, whole)
    manager.wait()
    assert [part.item() for part in parts] == [SIZE * float(rank + k) for k in range(2)]

    # everybody sends before anybody receives
    after, before = (rank + 1) % SIZE, (rank - 1) % SIZE
    out, back = torch.full((1 << 16,), float(rank), device=device), torch.zeros(1 << 16, device=device)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, back, before)])
    for each in works:
        each.wait()
    assert back.unique().cpu().tolist() == [float(before)]
    sending = dist.isend(out, after, tag=3)
    receiving = dist.irecv(back.zero_(), before, tag=3)
    receiving.wait()
    sending.wait()
    assert back.unique().cpu().tolist() == [float(before)]
    if rank == 0:  # tags tell messages apart, whatever their order
        for tag in (1, 2):
            dist.send(torch.tensor([float(tag)], device=device), 1, tag=tag)
    if rank == 1:
        first, second = torch.zeros(1, device=device), torch.zeros(1, device=device)
        waiting = [dist.irecv(second, 0, tag=2), dist.irecv(first, 0, tag=1)]
        for each in waiting:
            each.wait()
        assert (first.item(), second.item()) == (1.0, 2.0)
    if rank == 0:  # from anybody
        seen = set()
        for _ in range(SIZE - 1):
            got = torch.zeros(1, device=device)
            assert dist.recv(got) == int(got.item())
            seen.add(int(got.item()))
        assert seen == set(range(1, SIZE))
    else:
        dist.send(torch.tensor([float(rank)], device=device), 0)
    dist.barrier(device_ids=[device.index])
    work = dist.all_reduce(torch.ones(1, device=device), async_op=True)
    work.wait()
    assert work.is_completed() and work.get_future().value()[0].item() == SIZE
    group = dist.new_group([0, 1])
    if rank < 2:
        pair = torch.ones(1, device=device)
        dist.all_reduce(pair, group=group)
        assert pair.item() == 2
"""

STREAMS = """
def check(rank, device):
    module = torch.get_device_module(NAME)
    side, ranks = module.Stream(), range(SIZE)
    occupy = getattr(module, "_sleep", lambda milliseconds: None)

    # what a stream still makes is what is sent, and any stream may read what came
    with module.stream(side):
        occupy(100)
        made = torch.full((4,), rank + 1.0, device=device)
        work = dist.all_reduce(made, async_op=True)
    work.wait()
    assert made.cpu().tolist() == [sum(r + 1.0 for r in ranks)] * 4
    work = dist.all_gather_into_tensor(torch.zeros(4 * SIZE, device=device), made, async_op=True)
    with module.stream(side):
        work.wait()
        assert work.result()[0].cpu().tolist() == made.cpu().tolist() * SIZE

    # what a stream still reads is not overwritten by what arrives on another
    after, before = (rank + 1) % SIZE, (rank - 1) % SIZE
    box = torch.full((4,), -1.0, device=device)
    sending = dist.isend(torch.full((4,), float(rank), device=device), after, tag=5)
    with module.stream(side):
        occupy(100)
        read = box.clone()
        receiving = dist.irecv(box, before, tag=5)
    receiving.wait()
    sending.wait()
    with module.stream(side):
        assert read.cpu().tolist() == [-1.0] * 4
    assert box.cpu().tolist() == [float(before)] * 4

    # futures, what follows them, and a wait on another stream
    future = dist.all_reduce(torch.ones(2, device=device), async_op=True).get_future()
    assert future.then(lambda done: done.value()[0] * 2).wait().cpu().tolist() == [2.0 * SIZE] * 2
    with module.stream(side):
        assert future.wait()[0].cpu().tolist() == [float(SIZE)] * 2
    if rank < 2:
        box.fill_(-1)
        sending = dist.isend(torch.full((4,), float(rank), device=device), 1 - rank, tag=6)
        arrived = dist.irecv(box, 1 - rank, tag=6).get_future()
        assert arrived.wait()[0].cpu().tolist() == [1.0 - rank] * 4
        sending.wait()
    sending = dist.isend(torch.full((4,), float(rank), device=device), after, tag=7)
    for work in (dist.all_reduce(torch.ones(2, device=device), async_op=True), dist.irecv(box, before, tag=7)):
        if hasattr(work, "block_current_stream"):
            work.block_current_stream()
        work.wait()
        assert work.is_completed() and work.is_success()
    sending.wait()
    assert box.cpu().tolist() == [float(before)] * 4
"""

HOOK = """
def check(rank, device):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2).to(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    wrapped.register_comm_hook(None, fp16_compress_hook)
    batches = torch.ones(SIZE, 3, 4) * torch.arange(1.0, SIZE + 1).view(-1, 1, 1)
    wrapped(batches[rank].to(device)).sum().backward()
    mean = batches.sum(dim=1).mean(dim=0)
    assert model.weight.grad.cpu().tolist() == [mean.tolist()] * 2  # exact in float16
"""

DDP = """
def check(rank, device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    torch.manual_seed(0)
    alone = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    expected = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(3):
        batches = torch.randn(SIZE, 8, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        wrapped(batches[rank].to(device)).pow(2).mean().backward()
        optimizer.step()
        expected.zero_grad()
        (sum(alone(each).pow(2).mean() for each in batches) / SIZE).backward()
        expected.step()
    for mine, theirs in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(mine.cpu(), theirs)
"""

FSDP = """
def check(rank, device):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(NAME, (SIZE,))
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for policy in (MixedPrecisionPolicy(), mixed):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).to(device)
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        torch.manual_seed(0)
        alone = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
        expected = torch.optim.AdamW(alone.parameters(), lr=0.05)
        for step in range(3):
            batches = torch.randn(SIZE, 8, 4, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            model(batches[rank].to(device)).float().pow(2).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            expected.zero_grad()
            (sum(alone(each).pow(2).mean() for each in batches) / SIZE).backward()
            torch.nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
            expected.step()
        exact = policy.param_dtype is None
        for mine, theirs in zip(model.parameters(), alone.parameters()):
            close = {} if exact else {"rtol": 0.1, "atol": 0.1}
            torch.testing.assert_close(mine.full_tensor().cpu(), theirs, **close)
"""

DTENSOR = """
def check(rank, device):
    import torch.distributed.tensor as dt
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor._random import manual_seed
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(NAME, (SIZE,))
    whole = torch.arange(8.0 * SIZE).view(SIZE * 2, 4)
    sharded = dt.distribute_tensor(whole.to(device), mesh, [dt.Shard(0)])
    assert sharded.to_local().device == device
    assert (sharded + sharded).redistribute(mesh, [dt.Shard(1)]).full_tensor().cpu().equal(whole * 2)
    assert sharded.sum().full_tensor().item() == whole.sum().item()

    manual_seed(1, mesh)
    state = torch.get_device_module(NAME).get_rng_state()
    assert state.dtype == torch.uint8 and state.numel() == 16, "seed and offset"
    shards = dt.rand(4 * SIZE, 4, device_mesh=mesh, placements=[dt.Shard(0)])
    copies = dt.rand(6, device_mesh=mesh, placements=[dt.Replicate()])
    rows = shards.full_tensor().cpu()
    assert rows.unique().numel() == rows.numel(), "every rank has numbers of its own"
    gathered = [torch.zeros(6, device=device) for _ in range(SIZE)]
    dist.all_gather(gathered, copies.to_local())
    assert all(each.cpu().equal(copies.to_local().cpu()) for each in gathered), "replicas are alike"
    manual_seed(1, mesh)
    assert dt.rand(4 * SIZE, 4, device_mesh=mesh, placements=[dt.Shard(0)]).full_tensor().cpu().equal(rows)
    for make in (dt.randn, dt.rand):
        assert make(3 * SIZE, device_mesh=mesh, placements=[dt.Shard(0)]).full_tensor().isfinite().all()

    # tensor parallelism; in training with dropout between the layers
    torch.manual_seed(0)
    nn = torch.nn
    model, alone = (
        nn.Sequential(nn.Linear(4, 4 * SIZE), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4 * SIZE, 2)) for _ in range(2)
    )
    alone.load_state_dict(model.state_dict())
    plan = {"0": ColwiseParallel(use_local_output=False), "3": RowwiseParallel()}
    model = parallelize_module(model.to(device), mesh, plan)
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(5))
    model.eval(), alone.eval()
    torch.testing.assert_close(model(batch.to(device)).cpu(), alone(batch))
    model.train()
    dropped = model[2](model[0](batch.to(device)) * 0 + 1).full_tensor().cpu()
    assert 0 < (dropped == 0).sum() < dropped.numel() and set(dropped.unique().tolist()) == {0.0, 2.0}
    blocks = dropped.chunk(SIZE, dim=1)
    assert not blocks[0].equal(blocks[1]), "ranks drop other elements"
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05), []
    for _ in range(10):
        optimizer.zero_grad()
        loss = (model(batch.to(device)) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
"""

CHECKPOINT = """
def check(rank, device):
    import torch.distributed.checkpoint as dcp
    import torch.distributed.tensor as dt
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(NAME, (SIZE,))

    def make(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).to(device)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        model(torch.ones(2, 4, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return model, optimizer

    def whole(model):
        return {key: value.full_tensor().cpu() for key, value in model.state_dict().items()}

    model, optimizer = make(0)
    expected = whole(model)
    saved, fast = os.path.join(os.getcwd(), "saved"), os.path.join(os.getcwd(), "fast")
    about, state = get_state_dict(model, optimizer)
    dcp.save({"model": about, "optimizer": state, "step": 3}, checkpoint_id=saved)
    dcp.async_save({"model": about}, checkpoint_id=fast).result()
    for folder in (saved, fast):
        other, its = make(1)
        assert not whole(other)["0.weight"].equal(expected["0.weight"])
        about, state = get_state_dict(other, its)
        wanted = {"model": about, "optimizer": state, "step": 0} if folder == saved else {"model": about}
        dcp.load(wanted, checkpoint_id=folder)
        set_state_dict(other, its, model_state_dict=about, optim_state_dict=wanted.get("optimizer", state))
        assert all(value.equal(expected[key]) for key, value in whole(other).items()), folder
        assert all(each.device == device for each in (p.to_local() for p in other.parameters()))
        if folder == saved:
            assert wanted["step"] == 3
            for mine, theirs in zip(optimizer.state.values(), its.state.values()):
                assert mine["exp_avg"].full_tensor().cpu().equal(theirs["exp_avg"].full_tensor().cpu())
    # in other pieces, and whole: what was saved in rows is loaded in columns, and by everybody
    columns = dt.distribute_tensor(torch.zeros(6, 4, device=device), mesh, [dt.Shard(1)])
    alike = torch.zeros(6, device=device)
    dcp.load({"model": {"0.weight": columns, "0.bias": alike}}, checkpoint_id=saved)
    assert columns.full_tensor().cpu().equal(expected["0.weight"]) and alike.cpu().equal(expected["0.bias"])
    if rank == 0:
        dcp_to_torch_save(saved, "whole.pt")
        assert torch.load("whole.pt", weights_only=False)["model"]["0.weight"].cpu().equal(expected["0.weight"])
"""

SEEDED = """
def check(rank, device):
    import torch.distributed.tensor as dt
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor._random import manual_seed

    mesh = init_device_mesh(NAME, (SIZE,))
    manual_seed(0, mesh)
    drawn = []
    for _ in range(2):
        torch.manual_seed(1)
        drawn.append(dt.rand(4 * SIZE, device_mesh=mesh, placements=[dt.Shard(0)]).full_tensor().cpu())
    if not drawn[0].equal(drawn[1]):
        print("a state of its own", flush=True)
"""

UNSEEDED = """
def check(rank, device):
    import torch.distributed.tensor as dt
    from torch.distributed.device_mesh import init_device_mesh

    torch.manual_seed(1)
    try:
        drawn = dt.rand(4 * SIZE, device_mesh=init_device_mesh(NAME, (SIZE,)), placements=[dt.Shard(0)])
    except RuntimeError as error:
        if "requires the presence of CUDA" not in str(error):
            raise
        print("CUDA alone", flush=True)
        return
    assert drawn.to_local().device == device and drawn.to_local().shape == (4,)
    assert len(set(drawn.full_tensor().tolist())) == 4 * SIZE, "each rank has numbers of its own"
"""

CONVERTED = """
def check(rank, device):
    import torch.distributed.tensor as dt
    from torch.distributed.device_mesh import init_device_mesh

    net = dt.distribute_module(torch.nn.Linear(2, 2).to(device), init_device_mesh(NAME, (SIZE,)))
    net.to(torch.float64)
    assert isinstance(net.weight, dt.DTensor) and net.weight.to_local().dtype == torch.float64
"""


UNSEEN = """
def check(rank, device):
    weight = torch.ones(4, device=device, requires_grad=True)
    first, _ = weight.chunk(2)
    dist.broadcast(weight.detach(), 0)
    dist.all_gather_into_tensor(weight.detach(), torch.full((2,), rank + 1.0, device=device))
    first.sum().backward()
    assert weight.tolist() == [1.0, 1.0, 2.0, 2.0] and weight.grad.tolist() == [1.0, 1.0, 0.0, 0.0]
"""


@pytest.mark.contract_item(44)
def test_autograd_sees_no_collective(python: Run, name: str) -> None:
    """What a collective writes is no change in place, as with NCCL and Gloo."""
    run_ranks(python, name, 2, UNSEEN)


@pytest.mark.contract_item(44)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("what", ["MOVES", "REDUCTIONS", "TOGETHER", "STREAMS"])
def test_collectives(python: Run, name: str, size: int, what: str) -> None:
    """Every collective of c10d, in all types, alone and together."""
    run_ranks(python, name, size, globals()[what])


@pytest.mark.contract_item(52)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("what", ["DDP", "HOOK", "FSDP"])
def test_training_in_parallel(python: Run, name: str, size: int, what: str) -> None:
    """The weights after three steps are those of one process on the CPU."""
    run_ranks(python, name, size, globals()[what])


@pytest.mark.contract_item(55)
@pytest.mark.parametrize("size", [2, 4])
def test_checkpoints(python: Run, name: str, size: int) -> None:
    """Save and load a sharded model and its optimizer.

    They are saved at once and in the background, and loaded in other pieces, too.
    """
    run_ranks(python, name, size, CHECKPOINT)


@pytest.mark.contract_item(53)
def test_a_module_of_distributed_tensors_changes_its_type(python: Run, name: str) -> None:
    run_ranks(python, name, 2, CONVERTED)


@pytest.mark.contract_item(53)
@pytest.mark.parametrize("size", [2, 4])
def test_distributed_tensors(python: Run, name: str, size: int) -> None:
    """DTensor with its random operators, and tensor parallelism with dropout."""
    run_ranks(python, name, size, DTENSOR)


@pytest.mark.contract_item(53)
def test_a_seed_is_for_distributed_tensors_too(python: Run, name: str, gap: Gap) -> None:
    """``torch.manual_seed`` alone begins the random numbers of DTensor again."""
    if "a state of its own" in run_ranks(python, name, 2, SEEDED):
        gap("dtensor-seed")


@pytest.mark.contract_item(53)
def test_a_random_distributed_tensor_comes_first(python: Run, name: str, gap: Gap) -> None:
    """DTensor makes random numbers before anything else was done with the mesh."""
    if "CUDA alone" in run_ranks(python, name, 2, UNSEEDED):
        gap("dtensor-first")
