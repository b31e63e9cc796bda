"""Compare torch_cuda on the official CPU half with the untouched wheel.

torch_cuda is over that wheel's kernels, or compiled.

>>> from decouple.flows.verify_official import VerifyOfficialRequest, verify_official_wheel
>>> verify_official_wheel(VerifyOfficialRequest(project, "2.6", python=python))
Traceback (most recent call last):
decouple.base.errors.UsageError: ...: nothing built yet (decouple build 2.6 --stage 2 --kernels official)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from decouple.base import zips
from decouple.base.errors import UsageError
from decouple.base.files import compute_sha256, write_atomically
from decouple.base.mounts import remove_tree
from decouple.build import inputs
from decouple.build.environment import HostEnvironment, Places
from decouple.build.wheel_finishing import find_series, read_manifest
from decouple.flows import kernels
from decouple.flows.build_request import BuildRequest
from decouple.flows.listener import QUIET, Listener
from decouple.flows.official_python import find_official_torch
from decouple.flows.tree_overlay import warn_of_older_wheels
from decouple.flows.verify import VerifyResult, audit_wheels, choose_kernels, make_section
from decouple.flows.work_environment import WorkRequest, hold_trials
from decouple.prebuilt import core_half
from decouple.release import status
from decouple.upstream.manifests import load_release
from decouple.verify import checks, core_half_differences, facts, parity
from decouple.verify.audit import ElfAudit
from decouple.verify.checks import CheckResult
from decouple.verify.venvs import TorchEnvironment


class VerifyOfficialRequest(WorkRequest, frozen=True):
    """Choose the wheel last built in ``env``; ``python`` has the full official torch."""

    python: Path | None = None
    cuda: str = ""
    """The CUDA that it was compiled with for that half; empty: it is over the official kernels."""
    kernels: bool = False
    """Compare the machine code too."""

    @property
    def build(self) -> BuildRequest:
        """What made the wheel."""
        if not self.cuda:
            return BuildRequest(self.project, self.release, self.env, self.tree, kernels="official")
        return BuildRequest(self.project, self.release, self.env, self.tree, stage=2, core="official", cuda=self.cuda)

    @property
    def places(self) -> Places:
        """Where that wheel's stamp is, and where it is tried."""
        places = self.build.places
        if not self.cuda:
            return places
        return replace(places.with_cuda(self.env, self.cuda), verify=places.verify / self.cuda)


def verify_official_wheel(
    request: VerifyOfficialRequest,
    listener: Listener = QUIET,
    heard: Callable[[Sequence[ElfAudit]], None] = lambda _: None,
) -> VerifyResult:
    """Check audit, facts and parity, recorded in ``ci/status``.

    Raises UsageError without a wheel, or without a Python that has the official torch of that release.
    """
    manifest = load_release(request.project, request.release)
    if request.cuda not in ("", manifest.toolchain.cuda):
        raise UsageError(
            f"--core official --cuda {request.cuda}: upstream's libtorch_python was compiled with CUDA "
            f"{manifest.toolchain.cuda} and asks torch_cuda for functions that another has not (cuSPARSELt's)",
            next_step=f"decouple build {request.release} --env portable --stage 1, then verify without --core",
        )
    places = request.places
    stamp = inputs.read_stamp(places.state / "stage2.json")
    how = f"--env {request.env} --core official --cuda {request.cuda}" if request.cuda else "--kernels official"
    again = f"decouple build {request.release} --stage 2 {how}"
    if stamp is None:
        raise UsageError(f"{places.dist}: nothing built yet", next_step=again)
    wheel = inputs.locate_wheel(stamp, places.dist, again)
    if request.kernels:  # before minutes of what else is compared
        kernels.list_kept_archs(manifest, wheel)
    warn_of_older_wheels(request, places, [wheel], again, listener)
    official, _ = find_official_torch(request.python, manifest.version, "--core official")
    with hold_trials(places, "verify"):
        python = _prepare_half(places, official, wheel)
        site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
        reports, found = core_half_differences.judge_reports(audit_wheels(site / "torch/lib", wheel))
        heard(reports)
        looked = status.hash_wheels([wheel])
        listener.progress.start("parity with the untouched wheel")
        ours = parity.dump_torch([str(python)], python.parent.parent)
        same = parity.compare_parity(ours, parity.dump_torch([str(official)], python.parent.parent))
        listener.progress.finish()
        wanted = facts.list_expected_facts(manifest.toolchain, read_manifest(wheel).arch_list, "host", {}, "official")
        folder = python.parent.parent
        found += checks.check_both_wheels(TorchEnvironment("half", (str(python),), folder, str(folder)), ours, wanted)
        if not request.cuda:
            found.append(_check_unmodified(wheel))
        code = None
        if request.kernels:
            code = kernels.compare_backend(
                HostEnvironment(places), wheel, "official", kept=True, progress=listener.progress
            )
        result = VerifyResult(tuple(reports), tuple(found), tuple(same), code, looked)
    _record_result(request, wheel, result, again, listener)
    return result


def _record_result(
    request: VerifyOfficialRequest, wheel: Path, result: VerifyResult, again: str, listener: Listener = QUIET
) -> None:
    """Record a section of its own.

    What holds of upstream's kernels says nothing of those that we compile, and what holds on upstream's half nothing of
    our core. A comparison of machine code that was not asked for stays, where it is of the same wheel.
    """
    series = find_series([wheel], again, listener.warn)
    if series is None:
        return
    path = status.locate_status(request.project, request.release)
    known, label = status.read_status(path), f"cu{request.cuda}-official-half"
    before = known.portable.get(label) if request.cuda else known.over_official
    code = choose_kernels(result.kernels, before, wheel.name, result.wheels)
    found = status.WheelSection(wheel.name, series, make_section("official", result), code)
    if request.cuda:
        status.update_status(path, portable={label: found})
    else:
        status.update_status(path, over_official=found)


def _prepare_half(places: Places, python: Path, wheel: Path) -> Path:
    """Make the environment with half and wheel, anew when either is another."""
    folder, mark = places.verify / "half", places.verify / "half.content"
    content = hashlib.sha256(f"{python.absolute()} {compute_sha256(wheel)}".encode()).hexdigest()
    if not (mark.exists() and mark.read_text() == content):
        mark.unlink(missing_ok=True)  # first: a kill from here on leaves no mark of what is half deleted
        remove_tree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        core_half.make_environment(python, folder, wheel)
        write_atomically(mark, content)
    return folder / "bin" / "python"


def _check_unmodified(wheel: Path) -> CheckResult:
    """Check others' libraries by the SHA-256 that ``kernels.json`` names for them."""
    with zips.open_zip(wheel) as archive:
        document = json.loads(archive.read("torch_cuda/kernels.json"))
        wrong = []
        for name, row in document["libraries"].items():
            digest = hashlib.sha256()
            with archive.open(f"torch_cuda/lib/{name}") as library:
                while chunk := library.read(1 << 20):
                    digest.update(chunk)
            if digest.hexdigest() != row["sha256_with_run_path"]:
                wrong.append(name)
    seen = (
        f"{', '.join(wrong)} changed"
        if wrong
        else f"{len(document['libraries'])} libraries of {document['wheel']['name']}"
    )
    return CheckResult("upstream's libraries but for the run path", not wrong, seen)
