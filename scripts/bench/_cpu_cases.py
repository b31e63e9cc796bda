"""What `cpu.py` measures, run by a Python that has a torch.

`gpu.py` measures its own cases in the same way. Reads names of cases from standard input, answers with the seconds of
one call. Knows nothing of this project, so that any torch can be measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch  # type: ignore[import-not-found,unused-ignore]

Case = Callable[[], object]
SECONDS = 0.2
"""How long one case is repeated each time that it is asked for."""


def make_cases() -> dict[str, Callable[[], Case]]:
    """Name -> what prepares it and gives the call that is measured."""
    functional = torch.nn.functional

    def prepare_matmul(dtype: torch.dtype) -> Case:
        a, b = (torch.randn(512, 512).to(dtype) for _ in range(2))
        return lambda: a @ b

    def prepare_int8() -> Case:
        a, b = (torch.randint(-128, 128, (512, 512), dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b)

    def prepare_quantized() -> Case:
        layer = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(512, 512)))
        x = torch.randn(128, 512)
        return lambda: layer(x)

    def prepare_conv2d() -> Case:
        x, weight = torch.randn(4, 32, 56, 56), torch.randn(64, 32, 3, 3)
        return lambda: functional.conv2d(x, weight, padding=1)

    def prepare_softmax() -> Case:
        x = torch.randn(256, 4096)
        return lambda: x.softmax(-1)

    def prepare_layer_norm() -> Case:
        x = torch.randn(256, 4096)
        return lambda: functional.layer_norm(x, (4096,))

    def prepare_embedding() -> Case:
        table, rows = torch.randn(10000, 256), torch.randint(10000, (4096,))
        return lambda: functional.embedding(rows, table)

    def prepare_sort() -> Case:
        x = torch.randn(64, 8192)
        return lambda: x.sort(-1)

    def prepare_indexing() -> Case:
        x, rows = torch.randn(4096, 256), torch.randint(4096, (8192,))
        return lambda: x[rows]

    def make_network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 10))

    def prepare_autograd() -> Case:
        module, x = make_network(), torch.randn(128, 256)
        return lambda: module(x).square().mean().backward()

    def prepare_compiled() -> Case:
        module, x = torch.compile(make_network()), torch.randn(128, 256)
        return lambda: module(x).square().mean().backward()

    def prepare_svd() -> Case:
        x = torch.randn(128, 128)
        return lambda: torch.linalg.svd(x)

    return {
        "matmul f32": lambda: prepare_matmul(torch.float32),
        "matmul bf16": lambda: prepare_matmul(torch.bfloat16),
        "matmul int8": prepare_int8,
        "linear int8, quantised": prepare_quantized,
        "conv2d": prepare_conv2d,
        "softmax": prepare_softmax,
        "layer_norm": prepare_layer_norm,
        "embedding": prepare_embedding,
        "sort": prepare_sort,
        "indexing": prepare_indexing,
        "svd": prepare_svd,
        "autograd of an MLP": prepare_autograd,
        "torch.compile of it": prepare_compiled,
    }


def measure_seconds(call: Case) -> float:
    """Of one call: the best of calls for `SECONDS`."""
    best, until = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def answer_requests(known: dict[str, Callable[[], Case]]) -> None:
    """Print the names of the cases, then the seconds of each one asked for.

    Standard input has the names of those, a line each.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    prepared: dict[str, Case] = {}
    print("\t".join(known), flush=True)
    for line in sys.stdin:
        name = line.rstrip("\n")
        try:
            if name not in prepared:
                prepared[name] = known[name]()
                prepared[name]()
            print(measure_seconds(prepared[name]), flush=True)
        except Exception as error:  # this torch cannot: that is a result, too
            print(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)


if __name__ == "__main__":
    answer_requests(make_cases())
