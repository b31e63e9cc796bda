"""``torch.<name>.graphs``: work that is captured once and replayed.

It is there where the driver has graphs. A graph holds what was enqueued, with the addresses of its tensors: to replay
it on other values, copy them into the tensors that it reads. What it allocates comes from a pool of its own, and stays
where it is as long as the graph.

An operator that runs on the CPU, random numbers, and whatever waits for the device end a capture, and say so.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _C
from .._build_info import NAME
from . import device as _device

__all__ = ["Graph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

Pool = tuple[int, int]
is_current_stream_capturing = _device.is_current_stream_capturing


def graph_pool_handle() -> Pool:
    """Name a pool of memory for several graphs.

    They are replayed in the order of their capture: what one of them has freed another one takes.
    """
    made: Pool = _C.make_graph_pool()
    return made


class Graph:
    """The work of a stream, to be replayed."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._own = _C.Graph()

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        """Capture what is enqueued on the current stream from now on.

        It is not the default stream. Streams that wait on its events join it; others go on, whatever the mode says.
        Raises RuntimeError, also where another graph is captured in this process.
        """
        _device._lazy_init()
        self._own.begin((0, 0) if pool is None else tuple(pool))

    def capture_end(self) -> None:
        """End the capture.

        Raises RuntimeError with the reason where something ended it before.
        """
        self._own.end()

    def instantiate(self) -> None:
        """Do nothing: the end of a capture has made what is replayed."""

    def replay(self) -> None:
        """Enqueue the work again, on the current stream."""
        self._own.replay()

    def reset(self) -> None:
        """Wait for the replays, and forget the graph: another one can be captured."""
        self._own.reset()

    def pool(self) -> Pool:
        """Return the name of this graph's pool, for others that share it."""
        found: Pool = self._own.pool()
        return found


class graph:
    """Captures the work of a ``with`` block as a graph.

    The parameters have CUDA's names, for programs that pass them by name; ``annotation_config`` configures annotations,
    which no driver has, and is not read.
    """

    default_capture_stream: _device.Stream | None = None

    def __init__(
        self,
        cuda_graph: Graph,
        pool: Pool | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        annotation_config: dict[str, Any] | None = None,
        check_input_liveness: bool = False,
    ) -> None:
        _refuse_options(enable_annotations=enable_annotations, check_input_liveness=check_input_liveness)
        if stream is None:
            index = _device.current_device()
            stream = type(self).default_capture_stream
            if stream is None or stream.device_index != index:
                stream = type(self).default_capture_stream = _device.Stream(index)
        self.capture_stream = stream
        self._graph, self._pool, self._mode = cuda_graph, pool, capture_error_mode
        self._stream = _device.StreamContext(stream)

    def __enter__(self) -> None:
        _device.synchronize(self.capture_stream.device_index)
        _device.empty_cache()
        self._stream.__enter__()
        try:
            self._graph.capture_begin(self._pool, self._mode)
        except BaseException:
            self._stream.__exit__()
            raise

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None:
                self._graph.capture_end()
            else:  # half a graph is none
                self._graph.reset()
        finally:
            self._stream.__exit__()


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
    capture_error_mode: str = "global",
    enable_annotations: bool = False,
) -> Any:
    """Let functions or modules replay graphs of their forward and backward.

    One, or a tuple in the order in which they are called, each with a tuple of tensors for arguments. They return a
    tensor or a tuple of tensors, which the next call overwrites. A module is changed in place; in the other mode,
    training or eval, it runs as ever. Raises NotImplementedError for annotations, which no driver has.
    """
    _refuse_options(enable_annotations=enable_annotations)
    one = not isinstance(callables, tuple)
    functions = (callables,) if one else callables
    arguments = (tuple(sample_args),) if one else tuple(map(tuple, sample_args))
    surfaces = [
        (*given, *(function.parameters() if isinstance(function, torch.nn.Module) else ()))
        for function, given in zip(functions, arguments, strict=True)
    ]
    shared = graph_pool_handle() if pool is None else pool

    def compute_gradients(outputs: tuple[torch.Tensor, ...], grads: tuple[torch.Tensor, ...], surface: Any) -> Any:
        wanted = [each for each in surface if each.requires_grad]
        found = iter(
            torch.autograd.grad(
                [each for each in outputs if each.requires_grad], wanted, grads, allow_unused=allow_unused_input
            )
        )
        return tuple(next(found) if each.requires_grad else None for each in surface)

    def make_grads(outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty_like(each) for each in outputs if each.requires_grad)

    _device.synchronize()
    with _device.stream(_device.Stream()):  # what is made at the first use only is made before a capture
        for function, given, surface in zip(functions, arguments, surfaces, strict=True):
            for _ in range(num_warmup_iters):
                outputs = _as_tuple(function(*given))
                if any(each.requires_grad for each in outputs):
                    compute_gradients(outputs, make_grads(outputs), surface)
                del outputs
    _device.synchronize()

    forwards = []
    for function, given in zip(functions, arguments, strict=True):
        forward = Graph()
        with graph(forward, shared, capture_error_mode=capture_error_mode):
            returned = function(*given)
        forwards.append((forward, returned))
    backwards: list[Any] = []
    for (_, returned), surface in zip(reversed(forwards), reversed(surfaces), strict=True):
        outputs = _as_tuple(returned)
        backward, grads, found = Graph(), make_grads(outputs), ()
        if grads:
            with graph(backward, shared, capture_error_mode=capture_error_mode):
                found = compute_gradients(outputs, grads, surface)
        backwards.append((backward, grads, found))
    backwards.reverse()

    made = [
        _replace_forward(function, _Replayed(*forward, *backward, surface, len(given)))
        for function, given, surface, forward, backward in zip(
            functions, arguments, surfaces, forwards, backwards, strict=True
        )
    ]
    return made[0] if one else tuple(made)


def _refuse_options(**options: object) -> None:
    """Raise NotImplementedError for an option that only CUDA's graphs have."""
    for name, value in options.items():
        if value:
            raise NotImplementedError(f"{name} of a graph on {NAME}: the driver tells nothing of a graph's work")


def _as_tuple(returned: Any) -> tuple[torch.Tensor, ...]:
    return (returned,) if isinstance(returned, torch.Tensor) else tuple(returned)


def _copy_values(targets: Any, values: Any) -> None:
    """Copy values into the tensors that a graph reads."""
    for target, value in zip(targets, values, strict=True):
        if target.data_ptr() != value.data_ptr():
            target.copy_(value)


class _Replayed:
    """A function by the graphs of its forward and its backward."""

    def __init__(
        self, work: Graph, returned: Any, backward_work: Graph, grads: Any, found: Any, surface: Any, count: int
    ) -> None:
        outputs = _as_tuple(returned)
        differentiable = [each.requires_grad for each in outputs]

        class Function(torch.autograd.Function):
            @staticmethod
            def forward(context: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
                _copy_values(surface[:count], inputs[:count])
                work.replay()
                made = tuple(each.detach() for each in outputs)
                context.mark_non_differentiable(
                    *(each for each, wanted in zip(made, differentiable, strict=True) if not wanted)
                )
                return made

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(context: Any, *given: torch.Tensor) -> Any:
                _copy_values(grads, [each for each, wanted in zip(given, differentiable, strict=True) if wanted])
                backward_work.replay()
                # Copies: autograd may keep them as a parameter's .grad, which the next replay would overwrite.
                return tuple(None if each is None else each.clone() for each in found)

        self._function, self._parameters = Function, surface[count:]
        self._alone = isinstance(returned, torch.Tensor)

    def __call__(self, *inputs: torch.Tensor) -> Any:
        made = self._function.apply(*inputs, *self._parameters)
        return made[0] if self._alone else made


def _replace_forward(function: Any, replayed: _Replayed) -> Any:
    if not isinstance(function, torch.nn.Module):
        return replayed
    usual, training = function.forward, function.training

    def forward(*inputs: Any, **more: Any) -> Any:
        return replayed(*inputs) if function.training == training and not more else usual(*inputs, **more)

    function.forward = forward
    return function
