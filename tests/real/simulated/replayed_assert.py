"""A program for the simulated device: what fails in a replay only is a device assert, which sticks: one a process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

source, index = torch.ones(3, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda")
captured: dict[str, Callable[[], object]] = {
    "index": lambda: source[index],
    "condition": lambda: torch._assert_async(index[0] == 0),
}
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    captured[sys.argv[1]]()
graph.replay()
torch.cuda.synchronize()
index.fill_(9)
graph.replay()
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    assert "device-side assert" in str(error), error
else:
    raise AssertionError("the replay went on")
print("ok assert")
