"""A wheel that the last build did not make, under the name of one that it made: no command takes it for our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.build.environment import Places
from decouple.flows import test_cuda
from decouple.flows.parity import ParityRequest, compare_parity
from decouple.flows.portable_wheels import PortableWheels
from decouple.flows.verify import VerifyRequest, verify_wheels
from decouple.flows.verify_official import VerifyOfficialRequest, verify_official_wheel
from decouple.flows.work_environment import WorkRequest
from tests.unit.flows.built import link_manifest, put_built

Asked = tuple[Places, Callable[[], object]]


def ask_verify(project: Path) -> Asked:
    asked = VerifyRequest(project, "2.6")
    return asked.places, lambda: verify_wheels(asked)


def ask_parity(project: Path) -> Asked:
    asked = ParityRequest(project, "2.6")
    return asked.places, lambda: compare_parity(asked)


def ask_portable(project: Path) -> Asked:
    asked = PortableWheels(project, "2.6", python="3.13")
    return asked.places, lambda: [asked.find_wheel(stage) for stage in (1, 2)]


def ask_official(project: Path) -> Asked:
    asked = VerifyOfficialRequest(project, "2.6", "portable")
    return asked.places, lambda: verify_official_wheel(asked)


def ask_suites(project: Path) -> Asked:
    work = WorkRequest(project, "2.6")
    torch = test_cuda.TorchChoice("built", "built", "simulated", project, project)
    return test_cuda.IN_ROOT["built"].places(work), lambda: test_cuda.open_target(torch, work).__enter__()


@pytest.fixture(autouse=True)
def manifest(tmp_path: Path) -> None:
    link_manifest(tmp_path)


@pytest.mark.parametrize("ask", [ask_verify, ask_parity, ask_portable, ask_official, ask_suites])
def test_a_wheel_that_the_last_build_did_not_make_is_refused(tmp_path: Path, ask: Callable[[Path], Asked]) -> None:
    """`decouple wheels` replaced it; what was measured would be recorded of the build."""
    places, run = ask(tmp_path)
    put_built(places, "torch-2.6.0-py3-none-any.whl", name := "torch_cuda-2.6.0-py3-none-any.whl")
    (places.dist / name).write_text("what an index has")
    with pytest.raises(DecoupleError, match=r"torch_cuda-2\.6\.0-.*other bytes") as caught:
        run()
    assert f"build-{places.release}" in caught.value.next_step or "decouple build 2.6" in caught.value.next_step


@pytest.mark.parametrize("ask", [ask_verify, ask_parity, ask_suites])
def test_a_core_of_a_later_portable_build_is_not_tried_in_debians_root(
    tmp_path: Path, ask: Callable[[Path], Asked]
) -> None:
    """Both builds keep one record of stage 1; the root's pip said that the wheel is "not supported"."""
    places, run = ask(tmp_path)
    put_built(
        places, "torch-2.6.0-cp39-cp39-manylinux_2_31_x86_64.whl", "torch_cuda-2.6.0-cp313-cp313-linux_x86_64.whl"
    )
    with pytest.raises(UsageError, match=r"torch-2\.6\.0-cp39-.*with --env portable") as said:
        run()
    assert said.value.next_step == "nox -s build-2.6"
