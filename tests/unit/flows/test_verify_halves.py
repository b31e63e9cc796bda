"""`verify` of one stage alone says which half nobody looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.flows import verify
from decouple.flows.listener import Listener
from tests.unit.flows.built import link_manifest, put_built


@pytest.fixture
def core_alone(tmp_path: Path) -> Path:
    """A project in which stage 1 was built."""
    link_manifest(tmp_path)
    put_built(verify.VerifyRequest(tmp_path, "2.6").places, "torch-2.6.0-cp313-cp313-linux_x86_64.whl")
    return tmp_path


def test_machine_code_of_a_torch_cuda_that_is_not_there(core_alone: Path) -> None:
    """It was compared with nothing, and the verdict was ok."""
    with pytest.raises(UsageError, match="no torch_cuda is built") as told:
        verify.verify_wheels(verify.VerifyRequest(core_alone, "2.6", kernels="official"))
    assert told.value.next_step == "nox -s build-2.6"


def test_the_half_that_is_not_built_is_named(core_alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(verify, "warn_of_older_wheels", lambda *_: None)
    monkeypatch.setattr(verify, "_verify_built", lambda *_: "verified")
    verify.verify_wheels(verify.VerifyRequest(core_alone, "2.6"), Listener(warn=warnings.append))
    assert warnings == ["no torch_cuda is built, so none is checked; `nox -s build-2.6` builds it"]
