"""A program for the simulated device: a profile has its activities, each with the call and the operator it is of."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import KinetoStepTracker
from torch.profiler import ProfilerActivity, profile, record_function, supported_activities


def work() -> None:
    """Copies to the device, kernels of two operators and of a backward pass, a fill, a copy back."""
    x = torch.ones(64, 64).cuda().requires_grad_()
    with record_function("the model"):
        y = (x + x).relu()
    y.sum().backward()
    torch.zeros(8, device="cuda").cpu()
    torch.cuda.synchronize()


def trace() -> dict[str, Any]:
    """What ``export_chrome_trace`` writes of it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with profile(activities=kinds, record_shapes=True, profile_memory=True, with_stack=True) as made:
            work()
        made.export_chrome_trace(str(file))
        rows = {row.key: row.device_time_total for row in made.key_averages()}
        assert rows["aten::add"] > 0, rows
        # Of a module that is imported meanwhile, upstream's Python tracer writes a name out of freed memory.
        read: dict[str, Any] = json.loads(file.read_text(errors="replace"), strict=False)
        return read


def shape(events: list[dict[str, Any]]) -> list[str]:
    """Every device activity: its kind and name, the runtime's call, and the operator that made the call."""
    calls = {one["args"]["correlation"]: one for one in events if one.get("cat") == "cuda_runtime"}
    operators = {one["args"]["External id"]: one["name"] for one in events if one.get("cat") == "cpu_op"}
    found = []
    for one in events:
        if one.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        call = calls[one["args"]["correlation"]]
        assert call["ts"] <= one["ts"], (call, one)
        operator = operators[one["args"]["External id"]]
        found.append(f"{one['cat']} {one['name']} <- {call['name']} <- {operator}")
    return found


def main() -> None:
    """Print them, then "ok activities"; the first argument may name a file for the whole trace."""
    assert ProfilerActivity.CUDA in supported_activities(), supported_activities()
    work()  # what is made at first use is in no profile
    KinetoStepTracker.increment_step("before the first profile")  # asks for the profiler, and must not wake it
    made = trace()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(made))
    events = made["traceEvents"]
    found = shape(events)
    print("\n".join(found))
    kinds = {line.split()[0] for line in found}
    assert kinds >= {"kernel", "gpu_memcpy"}, kinds
    assert any(line.startswith("kernel") and line.endswith("<- aten::add") for line in found), found
    assert any("Memcpy HtoD" in line and "<- aten::copy_" in line for line in found), found
    operators = [one["name"] for one in events if one.get("cat") == "cpu_op"]
    assert operators.count("aten::clamp_min") == 1, operators  # the one that gives the values is not the program's
    assert any(one.get("cat") == "ac2g" for one in events)  # arrows from the call to the device
    assert any(one.get("cat") == "gpu_user_annotation" and one["name"] == "the model" for one in events)
    assert made["deviceProperties"][0]["name"], made["deviceProperties"]
    assert shape(trace()["traceEvents"]) == found  # another profile of the same program
    print("ok activities")


main()
