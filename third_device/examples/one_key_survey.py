"""Compare every operator of PyTorch's own list on ``cuda`` and on ``puone``.

Both must give the same result, or the same refusal. Needs ``expecttest``. Without a GPU: ``python -m simcuda run python
third_device/examples/one_key_survey.py``, and ``python -m simcuda run --no-shadows python
third_device/examples/one_key_survey.py --costs``.
"""

from __future__ import annotations

import argparse
import collections
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

DEVICES = ("cuda", "puone")
SAMPLES = 2
"""Of each operator: its list has thousands."""


def to_device(value: Any, device: str) -> Any:
    """Return an argument with its tensors copied to ``device``, devices replaced."""
    if isinstance(value, torch.Tensor):
        made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
        return made.copy_(value)
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, dict):
        return {key: to_device(each, device) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(to_device(each, device) for each in value)
    return value


def find_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from find_tensors(each)


def call_operator(operator: Any, sample: Any, device: str) -> Any:
    """Return the results, or the first line of the error.

    It has the devices' names as one. Nothing runs on the CPU.
    """
    torch.manual_seed(0)
    former = torch.puone.set_fallback_enabled(False)  # type: ignore[attr-defined]
    try:
        given = to_device((sample.input, sample.args, sample.kwargs), device)
        made = list(find_tensors(operator(given[0], *given[1], **given[2])))
        return [(each.device.type, each.stride(), each.cpu()) for each in made]
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".replace(device, "DEVICE")
    finally:
        torch.puone.set_fallback_enabled(former)  # type: ignore[attr-defined]


def compare_results(cuda: Any, ours: Any) -> str:
    """Return one word for two results of `call_operator`."""
    if isinstance(cuda, str) or isinstance(ours, str):
        same_kind = isinstance(cuda, str) and isinstance(ours, str)
        return "refused by both" if same_kind else f"refused by {'cuda' if isinstance(cuda, str) else 'puone'} alone"
    for (their_type, their_stride, theirs), (our_type, our_stride, mine) in zip(cuda, ours, strict=True):
        if (their_type == "cuda") != (our_type == "puone"):
            return "on another device"
        if theirs.dtype != mine.dtype or theirs.size() != mine.size() or not is_equal(theirs, mine):
            return "other values"
        if their_stride != our_stride:
            return "equal, other strides"
    return "equal"


def is_equal(theirs: torch.Tensor, mine: torch.Tensor) -> bool:
    """Return whether every element is the same, a NaN being one."""
    dense = [each.to_dense().resolve_conj().resolve_neg().contiguous().reshape(-1) for each in (theirs, mine)]
    return torch.equal(*(each.view(torch.uint8) for each in dense)) or torch.allclose(*dense, 0, 0, equal_nan=True)


def survey_operators() -> None:
    """Print how many operators and samples agree, and each that does not."""
    from torch.testing._internal.common_methods_invocations import op_db

    samples, operators = collections.Counter[str](), collections.Counter[str]()
    for operator in op_db:
        dtype = torch.float32 if operator.supports_dtype(torch.float32, "cuda") else torch.int64
        found = collections.Counter[str]()
        try:
            given = [sample for sample, _ in zip(operator.sample_inputs("cpu", dtype), range(SAMPLES), strict=False)]
        except Exception as error:  # upstream's list needs packages that may not be there
            print(f"{operator.full_name}: no samples, {error}")
            continue
        for sample in given:
            results = [call_operator(operator, sample, device) for device in DEVICES]
            word = compare_results(*results)
            if word == "other values" and compare_results(results[0], call_operator(operator, sample, "cuda")) == word:
                word = "unset, on cuda as well"  # empty, and what an operator leaves as it was
            if word == "on another device" or word.startswith("other") or word.endswith("alone"):
                print(f"{operator.full_name}: {word} {[each for each in results if isinstance(each, str)]}", flush=True)
            found[word] += 1
        samples += found
        bad = [word for word in found if not word.startswith(("equal", "unset")) and word != "refused by both"]
        equal = found.keys() - {"refused by both"}
        operators["differ" if bad else "equal" if equal else "refused by both"] += 1
    print(f"operators: {dict(operators)}; samples: {dict(samples)}")


def measure_calls(works: tuple[Callable[[], object], ...], calls: int) -> list[float]:
    """Return microseconds per call of each, the best of forty rounds.

    They run in turn, so that all see the same machine.
    """
    times: list[list[float]] = [[] for _ in works]
    for _ in range(40):
        for each, work in zip(times, works, strict=True):
            began = time.perf_counter()
            for _ in range(calls):
                work()
            each.append((time.perf_counter() - began) / calls)
    return [min(each) * 1e6 for each in times]


def list_works(device: str) -> dict[str, tuple[Callable[[], object], int]]:
    """Return name -> call and repetitions of what is timed on a device."""
    x, many = torch.ones(8, 8, device=device), [torch.ones(8, device=device) for _ in range(100)]
    weight, out = torch.ones(8, 8, device=device, requires_grad=True), torch.empty_like(x)
    return {
        "x.view(64)": (lambda: x.view(64), 500),
        "torch.empty(8, 8)": (lambda: torch.empty(8, 8, device=device), 500),
        "x.add_(1)": (lambda: x.add_(1), 500),
        "x + x": (lambda: x + x, 500),
        "torch.add(x, x, out=out)": (lambda: torch.add(x, x, out=out), 500),
        "x @ x": (lambda: x @ x, 500),
        "x.topk(2)": (lambda: x.topk(2), 20),
        "x * w, with autograd": (lambda: x * weight, 500),
        "_foreach_add of 100 tensors": (lambda: torch._foreach_add(many, 1), 2),
        "torch.rand(8)": (lambda: torch.rand(8, device=device), 200),
    }


def print_costs() -> None:
    """Print microseconds per call on both devices.

    Behind ``simcuda run --no-shadows`` they are of the host's side alone.
    """
    print(f"{'microseconds per call':34}{'cuda':>8}{'puone':>8}{'more':>8}")
    for (name, (theirs, calls)), (ours, _) in zip(
        list_works("cuda").items(), list_works("puone").values(), strict=True
    ):
        cuda, puone = measure_calls((theirs, ours), calls)
        print(f"{name:34}{cuda:8.2f}{puone:8.2f}{puone - cuda:8.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--costs", action="store_true")
    warnings.simplefilter("ignore")
    print_costs() if parser.parse_args().costs else survey_operators()
