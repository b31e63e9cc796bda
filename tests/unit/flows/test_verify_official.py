"""torch_cuda on the official wheel's CPU half: which wheel is meant, and what cannot be compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.interpreter import parse_python
from decouple.build import inputs
from decouple.cli import main
from decouple.flows import kernels, verify_official
from decouple.flows.official_python import find_official_torch
from decouple.flows.verify_official import VerifyOfficialRequest, verify_official_wheel
from decouple.upstream.manifests import load_release
from tests.support.pythons import make_python
from tests.unit.flows.built import link_manifest

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
    link_manifest(tmp_path)
    with pytest.raises(UsageError, match="nothing built yet") as caught:
        verify_official_wheel(VerifyOfficialRequest(tmp_path, "2.6", "portable", cuda=cuda))
    assert caught.value.next_step == f"decouple build 2.6 --stage 2 {command}"


def test_upstreams_half_does_not_take_another_cuda() -> None:
    """Seen with 11.8: upstream's libtorch_python asks for `_cslt_sparse_mm_impl`, which is CUDA 12's."""
    with pytest.raises(UsageError, match=r"CUDA 12\.4"):
        verify_official_wheel(VerifyOfficialRequest(PROJECT, "2.6", "portable", cuda="11.8"))


@pytest.mark.parametrize("torch", ["2.15.0+cu132", "2.6.1", "2.60.0"])
def test_the_torch_of_another_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str) -> None:
    """It compared two releases: hundreds of names that one has and the other not, none of them for the split."""
    link_manifest(tmp_path)
    monkeypatch.setattr(verify_official, "warn_of_older_wheels", lambda *_: None)
    asked = VerifyOfficialRequest(tmp_path, "2.6", "portable", python=make_python(tmp_path / "other", torch))
    stamp = inputs.Stamp("0" * 64, "torch_cuda-2.6.0-cp313-cp313-linux_x86_64.whl", "0" * 64, 1.0, 1)
    inputs.write_stamp(asked.places.state / "stage2.json", stamp)
    with pytest.raises(UsageError, match=rf"other/python: has torch {re.escape(torch)}, not 2\.6\.0 \(pip") as caught:
        verify_official_wheel(asked)
    assert str(caught.value.next_step).startswith("pip install torch==2.6.0 ")
    assert not asked.places.verify.exists()


def test_a_half_of_another_torch_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It printed "torch 2.6 without kernels"."""
    python = make_python(tmp_path / "other", "2.15.0+cu132")
    assert main(["repack", "core-half", "2.6", str(tmp_path / "half"), "--python", str(python)]) == 2
    assert "other/python: has torch 2.15.0+cu132, not 2.6.0" in capsys.readouterr().err
    assert not (tmp_path / "half").exists()


def test_a_python_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    for python, said in ((tmp_path / "none", "no Python there"), (Path("/bin/false"), "no torch 2.6.0: exit status 1")):
        with pytest.raises(UsageError, match=f"{python}: {said}"):
            find_official_torch(python, "2.6.0", "--core official")


def test_a_python_is_named_as_on_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify --python python3` looked for ./python3, `wheels --into ./python3` installed into that of the PATH."""
    make_python(tmp_path / "there", "2.6.0")
    monkeypatch.setenv("PATH", str(tmp_path / "there"), prepend=":")
    assert find_official_torch(Path("python"), "2.6.0", "--core official")[0] == tmp_path / "there/python"
    monkeypatch.chdir(tmp_path / "there")
    assert [parse_python(word) for word in ("./python", "python")] == [Path.cwd() / "python", Path("python")]


def test_machine_code_that_is_kept_for_no_architecture_of_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was said after all else was compared, as "no machine code for any architecture, only sm_80"."""
    release, wheel = load_release(PROJECT, "2.6"), Path("my wheels/torch_cuda.whl")
    monkeypatch.setattr(kernels, "_read_archs", lambda _: ["sm_80", "sm_90"])
    assert kernels.list_kept_archs(release, wheel) == ["sm_90"]
    monkeypatch.setattr(kernels, "_read_archs", lambda _: ["sm_80"])
    with pytest.raises(DecoupleError, match="not kept here for sm_80") as caught:
        kernels.list_kept_archs(release, wheel)
    assert "kernels compare 'my wheels/torch_cuda.whl' official:2.6 --arch sm_80" in str(caught.value.next_step)


def test_another_cuda_is_compiled_in_the_portable_root_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "2.6", "--core", "official", "--cuda", "11.8"]) == 2
    assert "add --env portable" in capsys.readouterr().err
