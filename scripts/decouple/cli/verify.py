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
    from decouple.verify.checks import Check
    from decouple.verify.facts import Expected
    from decouple.verify.parity import Parity
    from decouple.verify.venvs import Tried, Workplace


def register(subparsers: Any) -> None:
    """Add the commands of the verify room."""
    verify = subparsers.add_parser(
        "verify", help="ELF audit, imports and parity of the wheels in dist/<release>/; or one wheel's provenance"
    )
    verify.add_argument("release", metavar="RELEASE|WHEEL", help="a release, or a wheel's file: as `index verify`")
    verify.add_argument("--key", type=Path, help="with a wheel: the public key that must have signed it")
    verify.add_argument("--rebuild", action="store_true", help="with a wheel: apply the series again, compare the tree")
    verify.add_argument("--env", choices=["auto", "host", "rootfs"], default="auto")
    verify.add_argument("--core", choices=["built", "stock"], default="built", help="the core that torch_cuda goes on")
    verify.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    verify.add_argument(
        "--kernels",
        metavar="official|monolith|FILE",
        help="compare the machine code of every kernel with the official wheel's, the root's monolith's, or a dump's",
    )
    verify.add_argument("--no-parity", action="store_true", help="leave the comparison with the monolith out")
    verify.add_argument("--no-extensions", action="store_true", help="compile no third-party CUDA extension")
    verify.add_argument("--no-tests", action="store_true", help="run none of upstream's CPU tests on the core")
    verify.add_argument("--all", action="store_true", help="print every missing and extra name, not the first ten")
    verify.set_defaults(run=_verify)

    audit = subparsers.add_parser("audit", help="the ELF audit of any wheels or folders")
    audit.add_argument("--core", type=Path, metavar="WHEEL_OR_DIR")
    audit.add_argument("--backend", type=Path, metavar="WHEEL_OR_DIR")
    audit.add_argument(
        "--extension",
        type=Path,
        metavar="WHEEL_OR_DIR",
        action="append",
        default=[],
        help="of someone else, made for the official torch: are its symbols in the others? (may be repeated)",
    )
    audit.set_defaults(run=_audit)

    table = subparsers.add_parser(
        "status-table", help="put the tables of ci/status/*.json into README.md and docs/status.md"
    )
    table.add_argument("--check", action="store_true", help="only say whether they are up to date")
    table.set_defaults(run=_table)


def _audit(arguments: argparse.Namespace) -> int:
    reports = _audits(arguments.core, arguments.backend, arguments.extension)
    return _print_audit(reports)


def _audits(core: Path | None, backend: Path | None, extensions: Sequence[Path] = ()) -> list[Report]:
    import contextlib

    from decouple.verify import audit, elsewhere

    if core is None and backend is None:
        raise UsageError("nothing to look at", next_step="name --core, --backend or both")
    with contextlib.ExitStack() as stack:
        cores = audit.libraries(stack.enter_context(audit.opened(core))) if core else []
        backends = audit.libraries(stack.enter_context(audit.opened(backend))) if backend else []
        reports = []
        if core:
            reports += [audit.audit_core(cores), audit.audit_layout(cores), audit.audit_resolved(cores)]
        if backend:
            reports += [audit.audit_backend(backends), audit.audit_layout(backends)]
        if core and backend:
            reports += [audit.audit_pair(cores, backends), audit.audit_resolved(backends, cores)]
        for extension in extensions:
            found = audit.libraries(stack.enter_context(audit.opened(extension)))
            reports.append(elsewhere.audit_elsewhere(extension.name, found, [*cores, *backends]))
    return reports


def _print_audit(reports: Sequence[Report]) -> int:
    for report in reports:
        verdict = "FAILED" if report.faults else "ok"
        print(f"{verdict:<6} {report.what}: {report.files} files, {report.symbols} symbols")
        for fault in report.faults:
            print(f"       {fault}")
    return CHECK_FAILED if any(report.faults for report in reports) else OK


def _verify(arguments: argparse.Namespace) -> int:
    if arguments.release.endswith(".whl"):
        from decouple.cli import wheel_check

        arguments.wheels = [Path(arguments.release)]
        return wheel_check.run(arguments)
    if arguments.key or arguments.rebuild:
        raise UsageError("--key and --rebuild are for a wheel's file", next_step="decouple verify dist/2.6/torch-….whl")
    from decouple.base.paths import cache_dir, find_project
    from decouple.build import inputs
    from decouple.build.environment import Places, RootEnvironment
    from decouple.cli import kernels
    from decouple.cli.build import environment_for
    from decouple.release import status
    from decouple.verify import audit, checks, parity

    places = Places.of(find_project(), arguments.release, cache_dir(), arguments.tree)
    stamps = [inputs.read_stamp(places.state / f"stage{stage}.json") for stage in (1, 2)]
    core = places.dist / stamps[0].wheel if stamps[0] and arguments.core == "built" else None
    backend = places.dist / stamps[1].wheel if stamps[1] else None
    if core is None and backend is None:
        raise UsageError(f"{places.dist}: nothing built yet", next_step=f"nox -s build-{arguments.release}")
    places.make()
    tested = core is not None and not arguments.no_tests and arguments.env != "host"
    layers = ["core", *(["cuda"] if backend else []), *(["stock"] if arguments.core == "stock" or tested else [])]
    compared = backend is not None and not arguments.no_parity
    single = compared or arguments.kernels == "monolith"
    environment = environment_for(arguments, places, [*layers, *(["monolith"] if single else [])])
    place = _workplace(environment)
    reports = _audits(core, backend)
    good = _print_audit(reports) == OK
    found = checks.core_alone(place, core) if core else []
    if core and tested:
        found.append(_upstream_tests(environment, core))
    same: list[Parity] = []
    result: dict[str, Any] = {}
    if backend:
        both = _install_both(environment, arguments.core, core, backend)
        ours = parity.dump(both.prefix, both.folder, both.inside)
        result["facts"] = ours["facts"]
        found += checks.together(both, ours, _expected(environment, backend))
        if compared:
            same = parity.compare(ours, checks.monolith(place))
            if isinstance(environment, RootEnvironment):
                with audit.opened(backend) as folder:
                    whole = audit.libraries(environment.root.tree / checks.MONOLITH.lstrip("/") / "lib")
                    same += checks.symbols(audit.libraries(folder), whole)
        if not arguments.no_extensions:
            found += _extensions(environment, arguments.core, both, backend)
    good &= _print_checks(found)
    good &= _print_parity(same, None if arguments.all else 10)
    if backend and arguments.kernels:
        code = kernels.of_backend(environment, backend, arguments.kernels)
        kernels.print_comparison(code, None if arguments.all else 10)
        good &= code.ok
        result["kernels"] = code.to_dict()
    result |= {
        "core": arguments.core,
        "audit": [
            {"what": one.what, "files": one.files, "faults": [str(fault) for fault in one.faults]} for one in reports
        ],
        "checks": [one.to_dict() for one in found],
        "parity": [one.to_dict() for one in same],
    }
    status.update(status.path_of(places.project, arguments.release), "verify", result)
    print("verdict:", "ok" if good else "FAILED")
    return OK if good else CHECK_FAILED


def _workplace(environment: Environment) -> Workplace:
    from decouple.verify.venvs import Workplace

    places = environment.places
    return Workplace(environment, places.verify, environment.names()["verify"], places.logs / "verify.log")


def _install_both(environment: Environment, kind: str, core: Path | None, backend: Path) -> Tried:
    """A virtual environment with both wheels, or with the backend on a stock core unpacked beside."""
    from decouple.build import settings
    from decouple.verify import venvs

    table = settings.choose("core", kind)
    libraries = table["environment"]["LD_LIBRARY_PATH"] if environment.kind == "rootfs" else ""
    wheels = [core, backend] if core else [backend]
    return venvs.install(
        _workplace(environment), f"both-{kind}", wheels, packages=table["packages"], libraries=libraries
    )


def _expected(environment: Environment, backend: Path) -> tuple[Expected, ...]:
    """What a user must read off the wheel ``backend`` in this environment."""
    from decouple.build.environment import RootEnvironment
    from decouple.build.wheels import read_manifest
    from decouple.release.manifest import load_release
    from decouple.verify import facts

    places = environment.places
    installed = environment.root.versions() if isinstance(environment, RootEnvironment) else {}
    toolchain = load_release(places.project, places.release).toolchain
    return facts.expected(toolchain, read_manifest(backend).arch_list, environment.kind, installed)


def _upstream_tests(environment: Environment, core: Path) -> Check:
    """Upstream's CPU tests with the core wheel alone, against the same on the unmodified build of the root."""
    from decouple.build import settings
    from decouple.cli import output
    from decouple.verify import upstream_tests, venvs

    place, progress, table = _workplace(environment), output.progress(), settings.choose("core", "stock")
    stock = venvs.install(
        place,
        "stock",
        [],
        packages=table["packages"],
        libraries=table["environment"]["LD_LIBRARY_PATH"],
    )
    tests, suites = f"{environment.names()['tree']}/test", upstream_tests.load()
    seen = []
    for tried in (venvs.install(place, "core", [core]), stock):
        progress.start(f"upstream's CPU tests on {tried.name}")
        seen.append(upstream_tests.outcomes(tried, tests, suites))
        progress.finish()
    return upstream_tests.compare(*seen)


def _extensions(environment: Environment, kind: str, both: Tried, backend: Path) -> list[Check]:
    """Third-party CUDA extensions, compiled against both wheels for the architectures that the backend has."""
    from decouple.base.paths import cache_dir
    from decouple.build import settings
    from decouple.build.wheels import read_manifest
    from decouple.cli import output
    from decouple.upstream.download import Downloader
    from decouple.verify import extensions

    archs = ";".join(read_manifest(backend).arch_list)
    variables = {**extensions.compilers(environment.kind), "TORCH_CUDA_ARCH_LIST": archs}
    if environment.kind == "rootfs":
        variables["LD_LIBRARY_PATH"] = settings.choose("core", kind)["environment"]["LD_LIBRARY_PATH"]
    place, progress, found = _workplace(environment), output.progress(), []
    for one in extensions.load():
        if isinstance(one.source, Path):
            source = environment.places.project / one.source
        else:
            source, _ = Downloader(cache_dir(), progress=progress).get(one.source)
        progress.start(f"CUDAExtension {one.name}")
        found.append(extensions.compile_and_try(place, both, one, source, variables))
        progress.finish()
    return found


def _print_checks(found: Sequence[Check]) -> bool:
    for one in found:
        print(f"{'ok' if one.ok else 'FAILED':<6} {one.name}: {one.seen}")
    return all(one.ok for one in found)


def _print_parity(found: Sequence[Parity], limit: int | None) -> bool:
    good = True
    for one in found:
        good &= one.ok
        print(
            f"{'ok' if one.ok else 'FAILED':<6} {one.category}: {one.percent:.2f} % of {one.total}, "
            f"{len(one.missing)} missing, {len(one.extra)} extra, {len(one.different)} different"
        )
        for label, names in (("missing", one.missing), ("extra", one.extra), ("differs", one.different)):
            for name in names[:limit]:
                print(f"       {label}: {name}" + (f" ({one.reasons[name]})" if name in one.reasons else ""))
            if limit is not None and len(names) > limit:
                print(f"       and {len(names) - limit} more (--all)")
    return good


def smoke(arguments: argparse.Namespace, places: Places) -> int:
    """What ``decouple smoke`` checks after the build: audit, machine code, and that it loads on a stock core."""
    from decouple.build import inputs
    from decouple.cli import kernels
    from decouple.cli.build import environment_for
    from decouple.verify import checks, parity

    stamp = inputs.read_stamp(places.state / "stage2.json")
    if stamp is None:
        raise UsageError("stage 2 is not built", next_step="decouple smoke RELEASE builds its runtime part")
    environment = environment_for(arguments, places, ["core", "cuda", "stock"])
    backend = places.dist / stamp.wheel
    good = _print_audit(_audits(None, backend)) == OK
    both = _install_both(environment, "stock", None, backend)
    ours = parity.dump(both.prefix, both.folder, both.inside)
    found = checks.together(both, ours, _expected(environment, backend))
    good &= _print_checks(found)
    code = kernels.of_backend(environment, backend, "official", part=True)
    kernels.print_comparison(code, 10)
    good &= code.ok
    print("verdict:", "ok" if good else "FAILED")
    return OK if good else CHECK_FAILED


def _table(arguments: argparse.Namespace) -> int:
    from decouple.base.paths import find_project
    from decouple.release import status

    project = find_project()
    files = sorted(path for path in (project / "ci" / "status").glob("*.json") if path.stem[:1].isdigit())
    found = {path.stem: status.read(path) for path in files}
    pages = {project / "README.md": status.table(found), project / "docs" / "status.md": status.matrix(found)}
    code = OK
    for page, text in pages.items():
        if arguments.check:
            same = not status.insert_table(page, text, write=False)
            print(f"{page.name}:", "up to date" if same else "not what ci/status says; decouple status-table")
            code = code if same else CHECK_FAILED
        else:
            changed = status.insert_table(page, text)
            print(f"{page.name}:", "table written" if changed else "already up to date")
    return code
