"""What the command asks for before it compiles anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.flows.extensions import Extensions, extensions


def test_without_a_toolkit_the_option_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    request = Extensions(tmp_path, "2.6", python=tmp_path / "python", toolkit=tmp_path)
    with pytest.raises(UsageError, match="no bin/nvcc in it") as refused:
        extensions(request)
    assert "--toolkit" in str(refused.value.next_step)
