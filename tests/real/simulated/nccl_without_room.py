"""A program for the simulated device: where /dev/shm has no room for a collective, every rank hears of it."""

from __future__ import annotations

import os
import resource
import signal
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number: int, port: int) -> None:
    """One process; the first may write no file that large, as where the disk is full."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCH_NCCL_ENABLE_MONITORING="0")
    dist.init_process_group("nccl", rank=number, world_size=2)
    torch.cuda.set_device(number)
    small, large = torch.ones(4, device="cuda"), torch.ones(1 << 20, device="cuda")
    dist.all_reduce(small)
    assert small.tolist() == [2.0] * 4
    if number == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    try:
        dist.all_reduce(large)
    except dist.DistBackendError as error:
        assert "unhandled system error" in str(error), error
    else:
        raise AssertionError(f"rank {number} went on with {large[0].item()}")
    os._exit(0)  # a communicator that failed has no orderly end


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(rank, args=(port,), nprocs=2)
    print("ok errors")
