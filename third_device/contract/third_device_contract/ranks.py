"""Starts the processes of a distributed test, and what their scripts share."""

from __future__ import annotations

from third_device_contract.plugin import Run

PRELUDE = """
import os, sys, torch
import torch.distributed as dist

NAME, SIZE = "{name}", {size}

def start(rank, folder):
    device = torch.device(NAME, rank % getattr(torch, NAME).device_count())
    torch.get_device_module(NAME).set_device(device)
    backend = "cpu:gloo," + NAME + ":" + dist.Backend.default_device_backend_map[NAME]
    dist.init_process_group(backend, rank=rank, world_size=SIZE, init_method="file://" + folder + "/store")
    return device

def work(rank, folder):
    torch.set_num_threads(1)
    device = start(rank, folder)
    check(rank, device)
    dist.barrier()
    dist.destroy_process_group()
    print("rank done", flush=True)

def main():
    torch.multiprocessing.spawn(work, args=(os.getcwd(),), nprocs=SIZE)
"""

END = """
if __name__ == "__main__":
    main()
"""


def run_ranks(python: Run, name: str, size: int, check: str, timeout: float = 500) -> str:
    """Run ``check`` in ``size`` processes; all must reach its end.

    It is a script that defines ``check(rank, device)``. Returns what they printed.
    """
    code = PRELUDE.replace("{name}", name).replace("{size}", str(size)) + check + END
    done = python(code, timeout=timeout)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("rank done") == size
    return done.stdout
