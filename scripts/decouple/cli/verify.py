"""``decouple verify | audit | status-table``: is what was built what was promised?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decouple.base.errors import CHECK_FAILED, OK, UsageError

if TYPE_CHECKING:
    from decouple.build.environment import Environment, Places
    from decouple.verify.audit import Report
    from decouple.verify.parity import Parity
    from decouple.verify.venvs import Tried


def register(subparsers: Any) -> None:
    """Add the commands of the verify room."""
    verify = subparsers.add_parser("verify", help="ELF audit, imports and parity of the wheels in dist/<release>/")
    verify.add_argument("release")
    verify.add_argument("--env", choices=["auto", "host", "rootfs"], default="auto")
    verify.add_argument("--core", choices=["built", "stock"], default="built", help="the core that torch_cuda goes on")
    verify.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    verify.add_argument("--no-parity", action="store_true", help="leave the comparison with the monolith out")
    verify.add_argument("--all", action="store_true", help="print every missing and extra name, not the first ten")
    verify.set_defaults(run=_verify)

    audit = subparsers.add_parser("audit", help="the ELF audit of any wheels or folders")
    audit.add_argument("--core", type=Path, metavar="WHEEL_OR_DIR")
    audit.add_argument("--backend", type=Path, metavar="WHEEL_OR_DIR")
    audit.set_defaults(run=_audit)

    table = subparsers.add_parser("status-table", help="put the table of ci/status/*.json into README.md")
    table.add_argument("--check", action="store_true", help="only say whether README.md is up to date")
    table.set_defaults(run=_table)


def _audit(arguments: argparse.Namespace) -> int:
    reports = _audits(arguments.core, arguments.backend)
    return _print_audit(reports)


def _audits(core: Path | None, backend: Path | None) -> list[Report]:
    import contextlib

    from decouple.verify import audit

    if core is None and backend is None:
        raise UsageError("nothing to look at", next_step="name --core, --backend or both")
    with contextlib.ExitStack() as stack:
        cores = audit.libraries(stack.enter_context(audit.opened(core))) if core else []
        backends = audit.libraries(stack.enter_context(audit.opened(backend))) if backend else []
        reports = []
        if core:
            reports.append(audit.audit_core(cores))
        if backend:
            reports.append(audit.audit_backend(backends))
        if core and backend:
            reports += [audit.audit_pair(cores, backends), audit.audit_resolved(cores, backends)]
    return reports


def _print_audit(reports: Sequence[Report]) -> int:
    for report in reports:
        verdict = "FAILED" if report.faults else "ok"
        print(f"{verdict:<6} {report.what}: {report.files} files, {report.symbols} symbols")
        for fault in report.faults:
            print(f"       {fault}")
    return CHECK_FAILED if any(report.faults for report in reports) else OK


def _verify(arguments: argparse.Namespace) -> int:
    from decouple.base.paths import cache_dir, find_project
    from decouple.build import inputs
    from decouple.build.environment import Places
    from decouple.cli.build import environment_for
    from decouple.verify import status

    places = Places.of(find_project(), arguments.release, cache_dir(), arguments.tree)
    places.make()
    layers = ["core", "cuda", *(["stock"] if arguments.core == "stock" else [])]
    environment = environment_for(arguments, places, layers + ([] if arguments.no_parity else ["monolith"]))
    stamps = [inputs.read_stamp(places.state / f"stage{stage}.json") for stage in (1, 2)]
    core = places.dist / stamps[0].wheel if stamps[0] and arguments.core == "built" else None
    backend = places.dist / stamps[1].wheel if stamps[1] else None
    if core is None and backend is None:
        raise UsageError(f"{places.dist}: nothing built yet", next_step=f"nox -s build-{arguments.release}")
    result: dict[str, Any] = {"core": arguments.core}
    failed = False
    reports = _audits(core, backend)
    failed |= _print_audit(reports) != OK
    result["audit"] = [
        {"what": one.what, "files": one.files, "faults": [str(fault) for fault in one.faults]} for one in reports
    ]
    if core:
        failed |= not _core_alone(environment, core, places, result)
    if backend:
        both = _installed(environment, arguments.core, core, backend, places)
        failed |= not _together(environment, both, places, result, arguments)
    status.update(status.path_of(places.project, arguments.release), "verify", result)
    print("verdict:", "FAILED" if failed else "ok")
    return CHECK_FAILED if failed else OK


def _core_alone(environment: Environment, core: Path, places: Places, result: dict[str, Any]) -> bool:
    from decouple.verify import imports, parity, venvs

    alone = venvs.install(environment, "core", [core], log=places.logs / "verify.log")
    opened = imports.libraries_opened(alone.prefix, "import torch; assert not torch.cuda.is_available()")
    cuda = opened.cuda()
    print(
        f"{'FAILED' if cuda else 'ok':<6} core alone: {len(opened.opened)} libraries opened, of CUDA {cuda or 'none'}"
    )
    facts = parity.dump(alone.prefix, alone.folder, alone.inside)["facts"]
    clean = facts["cuda.is_available()"] is False and facts["version.cuda"] is None
    print(f"{'ok' if clean else 'FAILED':<6} core alone: is_available {facts['cuda.is_available()']}")
    result["core_alone"] = {"libraries": len(opened.opened), "cuda_libraries": cuda, "facts": facts}
    return not cuda and clean


def _installed(environment: Environment, kind: str, core: Path | None, backend: Path, places: Places) -> Tried:
    from decouple.build import settings
    from decouple.verify import venvs

    log = places.logs / "verify.log"
    table = settings.choose("core", kind)
    libraries = table["environment"]["LD_LIBRARY_PATH"] if environment.kind == "rootfs" else ""
    packages = f"{table['prefix']}/lib/python3/dist-packages" if kind == "stock" else ""
    wheels = [core, backend] if core else [backend]
    return venvs.install(environment, f"both-{kind}", wheels, log=log, packages=packages, libraries=libraries)


def _together(
    environment: Environment, both: Tried, places: Places, result: dict[str, Any], arguments: argparse.Namespace
) -> bool:
    from decouple.release.manifest import load_release
    from decouple.verify import parity

    ours = parity.dump(both.prefix, both.folder, both.inside)
    result["facts"] = ours["facts"]
    cuda = load_release(places.project, places.release).toolchain.cuda
    wanted = {"version.cuda": cuda, "backends.cuda.is_built()": True, "torch.cuda._CUDAC": True}
    good = True
    for name, answer in ours["facts"].items():
        right = name not in wanted or answer == wanted[name]
        good &= right
        print(f"{'ok' if right else 'FAILED':<6} {name}: {answer}")
    no_driver = str(ours["facts"]["torch.ones(1).cuda()"])
    right = "NVIDIA" in no_driver or "No CUDA GPUs" in no_driver or "cuda" in no_driver
    print(f"{'ok' if right else 'FAILED':<6} a call that needs a device: {no_driver}")
    if not arguments.no_parity:
        theirs = parity.dump(_monolith(environment), both.folder, both.inside)
        found = parity.compare(ours, theirs)
        result["parity"] = [one.to_dict() for one in found]
        good &= _print_parity(found, None if arguments.all else 10)
    return good and right


def _monolith(environment: Environment) -> list[str]:
    libraries = "/opt/monolith/usr/lib/x86_64-linux-gnu:/opt/cudnn/lib"
    variables = {"PYTHONPATH": "/opt/monolith/usr/lib/python3/dist-packages", "LD_LIBRARY_PATH": libraries}
    return environment.argv(["python3"], variables, "/")


def _print_parity(found: Sequence[Parity], limit: int | None) -> bool:
    good = True
    for one in found:
        right = not one.missing and not one.different
        good &= right
        print(
            f"{'ok' if right else 'FAILED':<6} {one.category}: {one.percent:.2f} % of {one.total}, "
            f"{len(one.missing)} missing, {len(one.extra)} extra, {len(one.different)} different"
        )
        for label, names in (("missing", one.missing), ("extra", one.extra), ("differs", one.different)):
            for name in names[:limit]:
                print(f"       {label}: {name}")
            if limit is not None and len(names) > limit:
                print(f"       and {len(names) - limit} more (--all)")
    return good


def smoke(arguments: argparse.Namespace) -> int:
    """What ``decouple smoke`` checks after the build: the audit of that part, and that it loads on a stock core."""
    from decouple.base.paths import cache_dir, find_project
    from decouple.build import inputs
    from decouple.build.environment import Places
    from decouple.cli.build import environment_for
    from decouple.verify import parity, status

    places = Places.of(find_project(), arguments.release, cache_dir(), arguments.tree)
    stamp = inputs.read_stamp(places.state / "stage2.json")
    if stamp is None:
        raise UsageError("stage 2 is not built")
    environment = environment_for(arguments, places, ["core", "cuda", "stock"])
    backend = places.dist / stamp.wheel
    reports = _audits(None, backend)
    failed = _print_audit(reports) != OK
    both = _installed(environment, "stock", None, backend, places)
    facts = parity.dump(both.prefix, both.folder, both.inside)["facts"]
    loads = facts["torch.cuda._CUDAC"] is True and facts["backends.cuda.is_built()"] is True
    for name, answer in facts.items():
        print(f"       {name}: {answer}")
    print(f"{'ok' if loads else 'FAILED':<6} _CUDAC imports on a stock core")
    failed |= not loads
    document = {"facts": facts, "seconds": stamp.seconds, "objects": stamp.objects, "ok": not failed}
    status.update(status.path_of(places.project, arguments.release), "smoke", document)
    print("verdict:", "FAILED" if failed else "ok")
    return CHECK_FAILED if failed else OK


def _table(arguments: argparse.Namespace) -> int:
    from decouple.base.paths import find_project
    from decouple.verify import status

    project = find_project()
    files = sorted(path for path in (project / "ci" / "status").glob("*.json") if path.stem[:1].isdigit())
    text = status.table({path.stem: status.read(path) for path in files})
    if arguments.check:
        current = (project / "README.md").read_text(encoding="utf-8")
        same = f"{status.BEGIN}\n{text}{status.END}" in current
        print("README.md:", "up to date" if same else "the table is not what ci/status says; decouple status-table")
        return OK if same else CHECK_FAILED
    changed = status.insert_table(project / "README.md", text)
    print("README.md:", "table written" if changed else "already up to date")
    return OK
