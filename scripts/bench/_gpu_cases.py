"""What `gpu.py` measures, run by a Python that has a torch with CUDA.

It answers as `_cpu_cases.py` does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch  # type: ignore[import-not-found,unused-ignore]
from _cpu_cases import Case, answer_requests


def make_cases() -> dict[str, Callable[[], Case]]:
    """Name -> what prepares it and gives the call that is measured.

    All but the last end before the device has done the work: they are what the host takes.
    """

    def prepare_add() -> Case:
        a, b = torch.ones(16, device="cuda"), torch.ones(16, device="cuda")
        return lambda: a + b

    def prepare_view() -> Case:
        a = torch.ones(16, device="cuda")
        return lambda: a.view(4, 4)

    def prepare_matmul() -> Case:
        a = torch.randn(64, 64, device="cuda")
        return lambda: a @ a

    def prepare_copy() -> Case:
        a = torch.ones(16).pin_memory()
        return lambda: a.to("cuda", non_blocking=True)

    def prepare_stream() -> Case:
        stream = torch.cuda.Stream()

        def enter_stream() -> None:
            with torch.cuda.stream(stream):
                pass

        return enter_stream

    def prepare_replay() -> Case:
        a, graph = torch.ones(16, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            a + 1
        return lambda: graph.replay()

    def prepare_product() -> Case:
        a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

        def multiply_matrices() -> None:
            a @ a
            torch.cuda.synchronize()

        return multiply_matrices

    return {
        "empty": lambda: lambda: torch.empty(16, device="cuda"),
        "view": prepare_view,
        "add": prepare_add,
        "matmul 64": prepare_matmul,
        "copy of pinned memory": prepare_copy,
        "event": lambda: torch.cuda.Event().record,
        "current stream": lambda: torch.cuda.current_stream,
        "another stream": prepare_stream,
        "replay of a graph": prepare_replay,
        "synchronize": lambda: torch.cuda.synchronize,
        "matmul bf16 8192, done": prepare_product,
    }


if __name__ == "__main__":
    answer_requests(make_cases())
