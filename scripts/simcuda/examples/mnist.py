"""Train a net of the MNIST example's shape on made-up data.

It has two epochs, AMP, pinned memory, DDP over two processes with NCCL.

    python -m simcuda run python scripts/simcuda/examples/mnist.py
    python scripts/simcuda/examples/mnist.py      # on a GPU

Trains on two devices, or on one where there is no second, then on the CPU, and compares the weights. ``--amp`` computes
in bfloat16 and compares roughly.
"""

import argparse
import os
import socket
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

IMAGES, BATCH, EPOCHS, MOST_RANKS = 128, 16, 2, 2


def make_network() -> nn.Module:
    """Make the network, always with the same weights."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 144, 10),
    )


def make_images() -> TensorDataset:
    """Numbers for pictures: (128, 1, 28, 28) and labels 0 to 9."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 10, (IMAGES,), generator=generator)
    return TensorDataset(torch.randn(IMAGES, 1, 28, 28, generator=generator), labels)


def train_rank(rank: int, ranks: int, port: int, amp: bool, answer: Any) -> None:
    """Train in one process on one device."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    torch.cuda.set_device(rank)
    torch.backends.cudnn.set_flags(_allow_tf32=False)  # on by default: ten bits of the mantissa, and the CPU has all
    model = nn.parallel.DistributedDataParallel(make_network().cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    data = make_images()
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data, ranks, rank, shuffle=False), pin_memory=True)
    for _ in range(EPOCHS):
        for pictures, labels in loader:
            assert pictures.is_pinned()
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=amp):
                output = model(pictures.cuda(non_blocking=True))
                loss = nn.functional.cross_entropy(output, labels.cuda(non_blocking=True))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    mean = loss.detach().float()  # of all ranks' parts of the last batch
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    if rank == 0:
        answer.put(([p.detach().cpu().numpy() for p in model.module.parameters()], mean.item()))
    dist.barrier()
    dist.destroy_process_group()


def train_on_cpu(ranks: int) -> tuple[nn.Module, float]:
    """Take the same steps in one process, on all ranks' batches together."""
    model, data = make_network(), make_images()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(EPOCHS):
        for first in range(0, IMAGES, BATCH * ranks):
            rows = [data[i] for i in range(first, first + BATCH * ranks)]
            optimizer.zero_grad()
            pictures, labels = torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows])
            loss = nn.functional.cross_entropy(model(pictures), labels)
            loss.backward()
            optimizer.step()
    return model, loss.item()


def main() -> int:
    """0 if the numbers agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--amp", action="store_true")
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = max(1, min(MOST_RANKS, torch.cuda.device_count()))
    answer = mp.get_context("spawn").SimpleQueue()
    processes = mp.spawn(train_rank, (ranks, port, options.amp, answer), nprocs=ranks, join=False)
    while answer.empty():
        processes.join(timeout=1)  # raises what a rank failed with, and ends the others
    weights, loss = answer.get()
    while not processes.join():
        pass
    model, expected = train_on_cpu(ranks)
    wanted = [parameter.detach() for parameter in model.parameters()]
    assert len(weights) == len(wanted)
    worst = max((torch.from_numpy(weights[i]) - wanted[i]).abs().max().item() for i in range(len(wanted)))
    print(f"largest difference of a weight {worst:.2g}, loss {loss:.4f}, on the CPU {expected:.4f}; ranks: {ranks}")
    tolerance = 0.05 if options.amp else 1e-5
    return 0 if worst < tolerance and abs(loss - expected) < tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
