"""A program for the simulated device: two processes, a device each, every collective that a training uses."""

from __future__ import annotations

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number: int, port: int) -> None:
    """One process."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("nccl", rank=number, world_size=2)
    torch.cuda.set_device(number)
    mine = torch.arange(4.0, device="cuda") + 10 * number

    total = mine.clone()
    dist.all_reduce(total)
    assert total.tolist() == [10, 12, 14, 16], total
    most = mine.clone()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    assert most.tolist() == [10, 11, 12, 13], most
    mean = mine.bfloat16()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert mean.tolist() == [5, 6, 7, 8], mean

    sent = mine.clone()
    dist.broadcast(sent, src=1)
    assert sent.tolist() == [10, 11, 12, 13], sent
    parts = [torch.empty(4, device="cuda") for _ in range(2)]
    dist.all_gather(parts, mine)
    assert [part[0].item() for part in parts] == [0, 10], parts
    half = torch.empty(2, device="cuda")
    dist.reduce_scatter_tensor(half, mine)
    assert half.tolist() == [[10, 12], [14, 16]][number], half
    exchanged = torch.empty(4, device="cuda")
    dist.all_to_all_single(exchanged, mine)
    assert exchanged.tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]][number], exchanged
    other = torch.empty(4, device="cuda")
    if number == 0:
        dist.send(mine, 1)
        dist.recv(other, 1)
    else:
        dist.recv(other, 0)
        dist.send(mine, 0)
    assert other[0].item() == (10 if number == 0 else 0), other
    one = dist.new_group([number], use_local_synchronization=True)
    alone = mine.clone()
    dist.all_reduce(alone, group=one)
    assert alone.tolist() == mine.tolist(), alone
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(rank, args=(port,), nprocs=2)
    print("ok collectives")
    sys.exit(0)
