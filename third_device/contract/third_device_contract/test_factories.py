"""Item 51: every way to make a tensor ends in a tensor or in one line."""

from __future__ import annotations

import collections
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

STACK = 2 << 20
"""Bytes of stack that a walk has: operators that call each other without end reach its end soon."""

PATIENCE = 20
"""How many times a walk may end its process before it is given up."""


def _short_stack() -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))


@pytest.mark.contract_item(51)
@pytest.mark.timeout(1800)
def test_every_factory_answers_or_refuses(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Compare ATen's factories, and tensors of all dtypes and layouts, with the CPU."""
    judged: dict[int, tuple[str, str, str]] = {}
    ended: list[str] = []
    first = 0
    while len(ended) < PATIENCE:
        command = [sys.executable, "-m", "third_device_contract.factories", name, str(first)]
        with (tmp_path / "errors").open("w") as errors:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=tmp_path, preexec_fn=_short_stack
            )
        last: list[object] = []
        for line in done.stdout.splitlines():
            last = json.loads(line)
            if len(last) == 4:
                judged[int(str(last[0]))] = (str(last[1]), str(last[2]), str(last[3]))
        if done.returncode == 0:
            break
        assert last, (tmp_path / "errors").read_text()[-3000:]
        ended.append(f"{last[1]}: the process ended with {done.returncode}")
        first = int(str(last[0])) + 1
    counts = collections.Counter(verdict for _, verdict, _ in judged.values())
    told = (
        f"{len(judged)} tried: {counts['right']} right, {counts['refused']} refused, "
        f"{counts['neither']} that the CPU refuses, too"
    )
    record_property("note", told)
    wrong = [f"{case}: {why}" for case, verdict, why in judged.values() if verdict == "wrong"]
    assert not ended, "\n".join(ended)
    assert not wrong, f"{told}, {len(wrong)} wrong\n" + "\n".join(wrong[:40])
    assert counts["right"] > 1000, told


@pytest.mark.contract_item(51)
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_sparse_tensors_are_made_on_a_device_that_is_not_current(name: str, layout: torch.layout, two: None) -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    device = torch.device(name, 1)
    there = dense.to(device).to_sparse(layout=layout)
    made = {
        "made": there,
        "moved": dense.to_sparse(layout=layout).to(device),
        "cloned": there.clone(),
        "computed": there * 2,
        "like it": torch.empty_like(there),
        "empty": torch.empty(2, 2, layout=layout, device=device),
    }
    for how, each in made.items():
        values = each._values() if layout == torch.sparse_coo else each.values()
        assert each.layout == layout and each.device == values.device == device, how
    assert torch.equal(made["cloned"].to_dense().cpu(), dense)
    assert torch.equal(made["computed"].to_dense().cpu(), dense * 2)
    back = there.to(f"{name}:0")
    assert back.device.index == 0 and torch.equal(back.to_dense().cpu(), dense)
    assert torch.empty_like(there, device="cpu").device.type == "cpu"
