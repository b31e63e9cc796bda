"""`verify` of one stage alone says which half nobody looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.base.files import compute_sha256
from decouple.base.paths import find_project
from decouple.build import inputs
from decouple.flows import verify
from decouple.flows.listener import Listener


@pytest.fixture
def core_alone(tmp_path: Path) -> Path:
    """A project in which stage 1 was built."""
    (tmp_path / "series").mkdir()
    (tmp_path / "series/2.6.toml").symlink_to(find_project() / "series/2.6.toml")
    places = verify.VerifyRequest(tmp_path, "2.6").places
    places.dist.mkdir(parents=True)
    wheel = places.dist / "torch-2.6.0-cp313-cp313-linux_x86_64.whl"
    wheel.write_text("what was built")
    stamp = inputs.Stamp("0" * 64, wheel.name, compute_sha256(wheel), 1.0, 1)
    for folder in {places.core_state, places.state}:
        inputs.write_stamp(folder / "stage1.json", stamp)
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
