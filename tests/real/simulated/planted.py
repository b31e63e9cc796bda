"""Prints a line per test, with its ledger, for a good torch and for one with each fault that ``planted.cpp`` has.

A binding's fault is planted here: torch gets another function in its place.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from simcuda.ledger import Ledger

side = torch.cuda.Stream()


def softmax() -> None:
    torch.softmax(x, 1)


def cumulative_sum_on_a_stream() -> None:
    with torch.cuda.stream(side):
        torch.cumsum(x, 1)


def addition_on_a_stream() -> None:
    with torch.cuda.stream(side):
        x + x


def large_tensor() -> None:
    torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()


def event() -> None:
    torch.cuda.Event().record()
    torch.cuda.synchronize()


def addition_on_the_second_device() -> None:
    far + far


def product_on_a_stream() -> None:
    with torch.cuda.stream(side):
        x @ x


def product_in_reduced_precision() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    x @ x
    torch.backends.cuda.matmul.allow_tf32 = False


def two_streams() -> None:
    side.wait_stream(torch.cuda.current_stream())


TESTS: tuple[Callable[[], None], ...] = (
    softmax,
    cumulative_sum_on_a_stream,
    addition_on_a_stream,
    large_tensor,
    event,
    addition_on_the_second_device,
    product_on_a_stream,
    product_in_reduced_precision,
    two_streams,
)


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """For a while torch has this fault."""
    ctypes.CDLL(None).planted(fault.encode())
    right = torch._C._cuda_setStream
    if fault == "binding":
        torch._C._cuda_setStream = lambda **_: None
    try:
        yield
    finally:
        ctypes.CDLL(None).planted(b"")
        torch._C._cuda_setStream = right


ledger = Ledger.find_loaded()
assert ledger
x = torch.zeros(64, 64, device="cuda")
far = torch.zeros(64, device="cuda:1")
for test in TESTS:  # what is made once is there
    test()
for fault in ("", "grid", "stream", "allocator", "binding", "guard", "handle", "mode", "wait", "again"):
    with planted(fault):
        for test in TESTS:
            torch.cuda.empty_cache()  # of what the test before left
            ledger.reset()
            test()
            row = {"id": f"planted.py::{test.__name__}", "outcome": "passed", "ledger": ledger.read_totals().as_dict()}
            print(json.dumps({"fault": fault, **row}))
