"""What `cpu.py` measures, run by a Python that has a torch.

Reads names of cases from standard input, answers with the seconds of one call. Knows nothing of this project, so that
any torch can be measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch  # type: ignore[import-not-found,unused-ignore]

Case = Callable[[], object]
SECONDS = 0.2
"""How long one case is repeated each time that it is asked for."""


def cases() -> dict[str, Callable[[], Case]]:
    """Name -> what prepares it and gives the call that is measured."""
    functional = torch.nn.functional

    def matmul(dtype: torch.dtype) -> Case:
        a, b = (torch.randn(512, 512).to(dtype) for _ in range(2))
        return lambda: a @ b

    def int8() -> Case:
        a, b = (torch.randint(-128, 128, (512, 512), dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b)

    def quantized() -> Case:
        layer = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(512, 512)))
        x = torch.randn(128, 512)
        return lambda: layer(x)

    def conv2d() -> Case:
        x, weight = torch.randn(4, 32, 56, 56), torch.randn(64, 32, 3, 3)
        return lambda: functional.conv2d(x, weight, padding=1)

    def softmax() -> Case:
        x = torch.randn(256, 4096)
        return lambda: x.softmax(-1)

    def layer_norm() -> Case:
        x = torch.randn(256, 4096)
        return lambda: functional.layer_norm(x, (4096,))

    def embedding() -> Case:
        table, rows = torch.randn(10000, 256), torch.randint(10000, (4096,))
        return lambda: functional.embedding(rows, table)

    def sort() -> Case:
        x = torch.randn(64, 8192)
        return lambda: x.sort(-1)

    def indexing() -> Case:
        x, rows = torch.randn(4096, 256), torch.randint(4096, (8192,))
        return lambda: x[rows]

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 10))

    def autograd() -> Case:
        module, x = network(), torch.randn(128, 256)
        return lambda: module(x).square().mean().backward()

    def compiled() -> Case:
        module, x = torch.compile(network()), torch.randn(128, 256)
        return lambda: module(x).square().mean().backward()

    def svd() -> Case:
        x = torch.randn(128, 128)
        return lambda: torch.linalg.svd(x)

    return {
        "matmul f32": lambda: matmul(torch.float32),
        "matmul bf16": lambda: matmul(torch.bfloat16),
        "matmul int8": int8,
        "linear int8, quantised": quantized,
        "conv2d": conv2d,
        "softmax": softmax,
        "layer_norm": layer_norm,
        "embedding": embedding,
        "sort": sort,
        "indexing": indexing,
        "svd": svd,
        "autograd of an MLP": autograd,
        "torch.compile of it": compiled,
    }


def seconds(call: Case) -> float:
    """Of one call: the best of calls for `SECONDS`."""
    best, until = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    prepared: dict[str, Case] = {}
    known = cases()
    print("\t".join(known), flush=True)
    for line in sys.stdin:
        name = line.rstrip("\n")
        try:
            if name not in prepared:
                prepared[name] = known[name]()
                prepared[name]()
            print(seconds(prepared[name]), flush=True)
        except Exception as error:  # this torch cannot: that is a result, too
            print(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)


if __name__ == "__main__":
    main()
