"""torch_cuda on the official wheel's CPU half: which wheel is meant, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.cli import main
from decouple.flows import kernels
from decouple.flows.verify_official import VerifyOfficialRequest, verify_official_wheel
from decouple.upstream.manifests import load_release

PROJECT = Path(__file__).parents[3]


def test_over_its_kernels_and_compiled_are_two_wheels_in_two_places() -> None:
    over = VerifyOfficialRequest(PROJECT, "2.6", "portable").places
    old, new = (VerifyOfficialRequest(PROJECT, "2.6", "portable", cuda=cuda).places for cuda in ("11.8", "12.4"))
    for one in ("state", "verify"):
        assert len({getattr(places, one) for places in (over, old, new)}) == 3, one


@pytest.mark.parametrize(
    ("cuda", "command"), [("", "--kernels official"), ("12.4", "--env portable --core official --cuda 12.4")]
)
def test_a_wheel_that_was_not_built_is_named_with_its_command(tmp_path: Path, cuda: str, command: str) -> None:
    (tmp_path / "series").mkdir()
    (tmp_path / "series/2.6.toml").symlink_to(PROJECT / "series/2.6.toml")
    with pytest.raises(UsageError, match="nothing built yet") as caught:
        verify_official_wheel(VerifyOfficialRequest(tmp_path, "2.6", "portable", cuda=cuda))
    assert caught.value.next_step == f"decouple build 2.6 --stage 2 {command}"


def test_upstreams_half_does_not_take_another_cuda() -> None:
    """Seen with 11.8: upstream's libtorch_python asks for `_cslt_sparse_mm_impl`, which is CUDA 12's."""
    with pytest.raises(UsageError, match=r"CUDA 12\.4"):
        verify_official_wheel(VerifyOfficialRequest(PROJECT, "2.6", "portable", cuda="11.8"))


def test_machine_code_that_is_kept_for_no_architecture_of_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was said after all else was compared, as "no machine code for any architecture, only sm_80"."""
    release, wheel = load_release(PROJECT, "2.6"), Path("torch_cuda.whl")
    monkeypatch.setattr(kernels, "_read_archs", lambda _: ["sm_80", "sm_90"])
    assert kernels.list_kept_archs(release, wheel) == ["sm_90"]
    monkeypatch.setattr(kernels, "_read_archs", lambda _: ["sm_80"])
    with pytest.raises(DecoupleError, match="not kept here for sm_80") as caught:
        kernels.list_kept_archs(release, wheel)
    assert "kernels compare torch_cuda.whl official:2.6 --arch sm_80" in str(caught.value.next_step)


def test_another_cuda_is_compiled_in_the_portable_root_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "2.6", "--core", "official", "--cuda", "11.8"]) == 2
    assert "add --env portable" in capsys.readouterr().err
