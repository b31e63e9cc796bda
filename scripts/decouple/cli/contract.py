"""``decouple contract | contract-table``: the contract of backends on the wheels that were built; its proofs."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import shutil
from pathlib import Path


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = subparsers.add_parser(
        "contract",
        help="build torch_sim (or --device) against the core in dist/<release>/ or a stock one, and run the contract",
        description="Install the core wheel of dist/<release>/ into a virtual environment where it was built (or take "
        "the distribution's own build of that release: --core stock), compile the backend against it, and run the "
        "contract tests.",
    )
    command.add_argument("release", metavar="RELEASE")
    command.add_argument("--device", default="sim", metavar="NAME", help="third_device/torch_NAME (default: sim)")
    command.add_argument("--core", choices=["built", "stock"], default="built", help="the PyTorch (default: built)")
    command.add_argument("--beside-cuda", action="store_true", help="with the torch_cuda wheel installed, too")
    command.add_argument("--upstream", action="store_true", help="upstream's own suites of the applied tree, too")
    command.add_argument("--env", choices=["auto", "host", "rootfs"], default="auto", help="where the wheels run")
    command.add_argument("--jobs", type=int, help="compilers at once (default: what cores and memory allow)")
    command.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    command.add_argument("--pytest", default="", metavar="ARGUMENTS", help='for pytest, e.g. --pytest="-k beside"')
    command.set_defaults(run=run)

    table = subparsers.add_parser(
        "contract-table", help="put what proves each item of the contract into docs/contract.md"
    )
    table.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    table.set_defaults(run=_table)


def _table(arguments: argparse.Namespace) -> int:
    from decouple.base.errors import CHECK_FAILED, OK
    from decouple.base.paths import find_project
    from decouple.device import items

    project = find_project()
    found = items.read(project)
    differed = items.insert(project / items.PAGE, items.table(found), write=not arguments.check)
    if differed and arguments.check:
        print(f"{items.PAGE} is out of date: run `decouple contract-table`")
        return CHECK_FAILED
    print(f"{items.PAGE}: {len(found)} items, {len({test for item in found for test in item.tests})} tests")
    return OK


def run(arguments: argparse.Namespace) -> int:
    """Install, build, check; 1 when a test fails, 2 when a wheel is missing."""
    from decouple.base.errors import CHECK_FAILED, OK, UsageError
    from decouple.base.paths import cache_dir, find_project
    from decouple.build import settings
    from decouple.build.environment import Places
    from decouple.cli import output
    from decouple.cli.build import environment_for
    from decouple.device import contract
    from decouple.release import status
    from decouple.verify import venvs

    places = Places.of(find_project(), arguments.release, cache_dir(), arguments.tree)
    third_device = places.project / "third_device"
    backend = f"torch_{arguments.device}"
    if not (third_device / backend).is_dir():
        raise UsageError(
            f"{third_device / backend}: no such folder", next_step=f"decouple new-device {arguments.device}"
        )
    stock = arguments.core == "stock"
    if stock and arguments.beside_cuda:
        raise UsageError(
            "--core stock --beside-cuda: torch_cuda in dist/ belongs to the core there", next_step="drop one"
        )
    core = None if stock else contract.only_wheel(places.dist, "torch")
    cuda = contract.only_wheel(places.dist, "torch_cuda") if arguments.beside_cuda else None
    places.make()
    layers = ["core", *(["stock"] if stock else []), *(["cuda"] if cuda else [])]
    environment = environment_for(arguments, places, layers)
    table = settings.choose("core", arguments.core)
    libraries, packages, prefix = "", "", ""
    if environment.kind == "rootfs":  # a host finds its own
        libraries, packages = table["environment"]["LD_LIBRARY_PATH"], table["packages"]
        prefix = table["prefix"] if stock else ""
    inside = environment.names()["verify"]
    place = venvs.Workplace(environment, places.verify, inside, places.logs / "contract.log")
    progress = output.progress()
    # one environment to compile in: the backend is built against the core, whatever lies beside it when it runs
    if core:
        built = venvs.install(place, "contract-core", [core])
    else:
        built = venvs.install(place, "contract-stock", [], packages=packages, libraries=libraries)
    site = contract.Site(
        environment,
        built.folder,
        built.inside,
        libraries if stock else "",
        environment.names()["ccache"],
        place.log,
        prefix,
    )
    tried, used = built, site
    if core and cuda:
        tried = venvs.install(place, "contract-both", [core, cuda], libraries=libraries)
        used = dataclasses.replace(site, folder=tried.folder, inside=tried.inside, libraries=libraries)
    folders = []
    for project in (backend, contract.CONTRACT):
        progress.start(f"{project} for {core.name if core else 'the stock PyTorch'}")
        folders.append(contract.install(site, third_device, project, jobs=arguments.jobs))
        progress.finish()
    more = shlex.split(arguments.pytest)
    if arguments.upstream:
        more.append(f"--upstream-tests={environment.names()['tree']}/test")
    report = tried.folder / "report"
    shutil.rmtree(report, ignore_errors=True)  # an earlier run's would be taken for this one's
    told = ["--contract-report", f"{tried.inside}/report"]
    code = contract.check(used, arguments.device, folders, [*told, *more])
    print(f"report: {report}")
    if arguments.device == "sim" and not arguments.pytest:  # the whole contract, on the backend of this project
        kept = status.path_of(places.project, arguments.release)
        found = {tried.name.removeprefix("contract-"): contract.summary(report / "contract.json")}
        status.update(kept, "contract", {**status.read(kept).get("contract", {}), **found})
    return CHECK_FAILED if code else OK
