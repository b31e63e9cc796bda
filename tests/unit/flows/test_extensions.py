"""What the command asks for before it compiles anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.flows import extensions as flow
from decouple.flows.extensions import ExtensionsRequest, try_extensions
from decouple.verify.checks import CheckResult
from decouple.verify.extensions import Extension


def test_without_a_toolkit_the_option_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    request = ExtensionsRequest(tmp_path, "2.6", python=tmp_path / "python", toolkit=tmp_path)
    with pytest.raises(UsageError, match="no bin/nvcc in it") as refused:
        try_extensions(request)
    assert "--toolkit" in str(refused.value.next_step)
    with pytest.raises(UsageError, match="no CUDA toolkit is named"):  # it was ".: no bin/nvcc in it"
        try_extensions(ExtensionsRequest(tmp_path, "2.6", python=tmp_path / "python"))


def test_a_result_is_there_before_the_next_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes minutes: who stops after the second has what the first gave."""
    begun: list[str] = []

    def compiled(_place: object, _on: object, one: Extension, *_: object) -> CheckResult:
        begun.append(one.name)
        return CheckResult(one.name, True, "compiled")

    monkeypatch.setattr(flow, "compile_extension", compiled)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").touch()
    names = ("decouple_saxpy", "app")
    results = try_extensions(
        ExtensionsRequest(tmp_path, "2.6", python=Path(sys.executable), toolkit=tmp_path, names=names)
    )
    assert next(results).name == "decouple_saxpy"
    assert begun == ["decouple_saxpy"]
