"""A child that is forked after ``import torch`` uses CUDA, and so does the parent behind it."""

import os

import torch

child = os.fork()
total = torch.linalg.inv(torch.eye(3, device="cuda") / 2).sum().item()
if not child:
    os._exit(0 if total == 6 else 1)
_, status = os.waitpid(child, 0)
assert (status, total) == (0, 6), (status, total)
print("ok child and parent")
