"""The portable wheels against the official torch: which wheels, which Python, and what another CUDA must say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs

from decouple.base.errors import UsageError
from decouple.base.files import compute_sha256
from decouple.build import inputs
from decouple.flows import verify_portable
from decouple.flows.build_request import BuildRequest
from decouple.flows.verify import check_same_core
from decouple.flows.verify_portable import VerifyPortableRequest, verify_portable_wheels
from decouple.upstream.manifests import load_release
from decouple.verify import facts
from tests.support.pythons import make_python
from tests.unit.flows.built import link_manifest

PROJECT = Path(__file__).parents[3]


def request(tmp_path: Path, torch: str | None = "2.6.0+cu124", cuda: str = "") -> VerifyPortableRequest:
    python = make_python(tmp_path / "environment", torch) if torch else None
    return VerifyPortableRequest(tmp_path / "project", "2.6", python=python, cuda=cuda)


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> None:
    link_manifest(tmp_path / "project")


def test_without_an_official_torch_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="official torch") as caught:
        verify_portable_wheels(request(tmp_path, torch=None))
    assert "torch==2.6.0" in str(caught.value.next_step)


def test_the_torch_of_another_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has torch 2\.7\.1\+cu126, not 2\.6\.0 \(pip"):
        verify_portable_wheels(request(tmp_path, torch="2.7.1+cu126"))


def test_wheels_that_were_not_built_are_named_with_their_command(tmp_path: Path) -> None:
    version = "{}.{}".format(*sys.version_info[:2])
    with pytest.raises(UsageError, match=f"Python {version}") as caught:
        verify_portable_wheels(request(tmp_path))
    assert f"decouple build 2.6 --env portable --python {version}" in str(caught.value.next_step)


@pytest.mark.parametrize("own", [False, True])
def test_wheels_that_are_older_than_the_checkout_are_named_with_their_command(
    tmp_path: Path, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --python it would build for the root's own; without --cuda for the release's."""
    asked, version = request(tmp_path, cuda="11.8"), "{}.{}".format(*sys.version_info[:2])
    tag = f"cp{version.replace('.', '')}"
    built = BuildRequest(asked.project, "2.6", "portable", python="" if own else version).places.with_cuda(
        "portable", "11.8"
    )
    for stage, folder in ((1, built.core_state), (2, built.state)):
        name = f"torch{stage}-2.6.0-{tag}-{tag}-linux_x86_64.whl"
        built.dist.mkdir(parents=True, exist_ok=True)
        (built.dist / name).write_bytes(b"")
        stamp = inputs.Stamp("0" * 64, name, compute_sha256(built.dist / name), 1.0, 1)
        inputs.write_stamp(folder / f"stage{stage}.json", stamp)

    def stop(*given: object) -> None:
        raise UsageError(str(given[3]), next_step="none")

    monkeypatch.setattr(verify_portable, "warn_of_older_wheels", stop)
    python = "" if own else f" --python {version}"
    with pytest.raises(UsageError, match=rf"^decouple build 2\.6 --env portable{python} --cuda 11\.8"):
        verify_portable_wheels(asked)


def test_a_cuda_that_the_release_is_not_compiled_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--cuda 12\.9"):
        verify_portable_wheels(request(tmp_path, cuda="12.9"))


def test_another_cuda_must_say_what_its_layer_was_made_of() -> None:
    official = load_release(PROJECT, "2.6").toolchain
    made = verify_portable.make_toolchain("2.6", official, "11.8")
    wanted = {one.asks: one.value for one in facts.list_expected_facts(made, ["9.0"], "host", {})}
    assert wanted["version.cuda"] == "11.8"
    assert wanted["_C._cuda_getCompiledVersion()"] == 11080
    assert wanted["backends.cudnn.version()"] == 90100
    assert wanted["cuda.nccl.version()"] == [2, 21, 5]


def test_torch_cuda_is_held_against_the_core_that_it_was_compiled_against(tmp_path: Path) -> None:
    """Not against the one that was unpacked last: stage 2 with another CUDA had put a newer one there."""
    core, how = tmp_path / "torch-2.6.0.whl", "decouple build 2.6 --env portable --cuda 11.8"
    core.write_bytes(b"a core")
    stamp = inputs.Stamp("0" * 64, "torch_cuda.whl", "0" * 64, 1.0, 1, core=compute_sha256(core))
    assert check_same_core(core, stamp, how).passed
    core.write_bytes(b"of other flags, and of the same series")
    found = check_same_core(core, stamp, how)
    assert not found.passed and found.observed.startswith(f"compiled against {stamp.core}, and torch-2.6.0.whl is ")
    before = check_same_core(core, structs.replace(stamp, core=""), how)
    assert before.passed and not before.done, "a build of before it was noted is no fault, and no check that passed"
    assert before.observed == f"not known: built before that was noted; `{how}` notes it"
