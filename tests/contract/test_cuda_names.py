"""The table of docs/backends.md that compares ``torch.cuda`` with ``torch.sim``: made by a script from the two."""

from __future__ import annotations

import os
from pathlib import Path

import backend_env
import pytest

from cuda_names import PAGE, SECTION, ask_interpreter, format_table
from decouple.base.files import replace_sections


def test_the_page_says_what_the_modules_are(interpreter: Path, torch_sim: Path) -> None:
    environment = dict(os.environ, PYTHONPATH=str(torch_sim))
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    version, told = ask_interpreter(interpreter, environment)
    if not version.startswith(backend_env.TORCH):
        pytest.skip(f"the page is about {backend_env.TORCH}, this is {version}")
    assert "" not in told.values(), (
        "a name that torch.sim lacks has no reason (third_device/layer/python/missing_names.py)"
    )
    stale = replace_sections(backend_env.ROOT / PAGE, {SECTION: format_table(version, told)}, write=False)
    assert not stale, "run `python scripts/cuda_names.py --torch PYTHON`"


def test_a_name_without_a_reason_is_seen() -> None:
    text = format_table("2.13.0+cpu", {"Stream": None, "cudart": "it is CUDA's", "novelty": ""})
    assert "3 public names" in text and "has 1" in text
    assert "| `cudart` | it is CUDA's |" in text and "| `novelty` | no reason is given |" in text
