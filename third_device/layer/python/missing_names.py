"""Names that ``torch.cuda`` has and ``torch.<name>`` has not, with the reason.

It is for who calls them all the same. A name that PyTorch adds and that stands neither here nor in ``torch.<name>``
fails the contract.
"""

from __future__ import annotations

GRAPHS = "the driver table has no capture of a stream's work"
ALLOCATOR = "the caching allocator belongs to the layer; the driver gives it memory and no other takes its place"
CUDART = "it is the C interface of CUDA's own runtime"
NVML = (
    "the driver table tells nothing of clocks, power, temperature, load and other processes; the vendor's own tool does"
)
LIBRARY = "it belongs to a library of NVIDIA's"
STORAGES = 'typed storages are deprecated; say tensor.untyped_storage(), or storage.to("DEVICE")'

REASONS: dict[str, str] = {
    "CUDAGraph": "its name is torch.DEVICE.Graph, where the driver table has the capture of a stream's work",
    **dict.fromkeys(("export_dot", "export_graph_data", "graph_annotations"), "the driver tells nothing of a graph"),
    **dict.fromkeys(("CUDAPluggableAllocator", "change_current_allocator"), ALLOCATOR),
    "MemPoolContext": "of 2.6 alone; say use_mem_pool",
    **dict.fromkeys(("CudaError", "DeferredCudaCallError", "check_error", "cudaStatus", "cudart", "profiler"), CUDART),
    **dict.fromkeys(
        ("clock_rate", "list_gpu_processes", "memory_usage", "power_draw", "temperature", "utilization"),
        NVML,
    ),
    "current_blas_handle": f"{LIBRARY} (cuBLAS)",
    "current_solver_handle": f"{LIBRARY} (cuSOLVER)",
    "gds": f"{LIBRARY} (cuFile)",
    "has_magma": "it belongs to MAGMA, which runs on CUDA and ROCm",
    "has_half": "deprecated, and always true",
    "jiterator": f"{LIBRARY} (NVRTC)",
    **dict.fromkeys(
        ("nvtx.range_start", "nvtx.range_end"),
        "the driver table has the ranges of a thread alone: say range_push and range_pop",
    ),
    "nccl": f"{LIBRARY} (NCCL); say torch.distributed",
    "comm": "its functions are in CUDA's part of PyTorch's C++; say torch.distributed",
    "tunable": f"{LIBRARY} (cuBLAS and its like), which it chooses kernels of",
    "sparse": "an empty module, kept for old programs",
    "GreenContext": "the driver table divides no device",
    **{
        f"{kind}Storage": STORAGES
        for kind in (
            *("BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half"),
            *("Int", "Long", "Short"),
        )
    },
}
"""Public name of ``torch.cuda`` -> the reason, one sentence without its full stop."""
WITHOUT_GRAPHS: dict[str, str] = dict.fromkeys(
    ("Graph", "graph", "graph_pool_handle", "graphs", "make_graphed_callables"), GRAPHS
)
"""The same of what a device has if its driver has graphs."""


def as_sentence(name: str) -> str:
    """Say why there is no ``name``, and where that is told.

    It is a name of ``torch.cuda``, or ``module.name``.
    """
    known = WITHOUT_GRAPHS | REASONS
    reason = known.get(name) or known.get(name.partition(".")[0]) or "there is nothing like it"
    return f"{reason}; see docs/backends.md, Programs written for CUDA"
