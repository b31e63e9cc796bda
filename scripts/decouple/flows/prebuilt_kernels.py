"""Build stage 2 over libraries with kernels that others compiled.

They are the official wheel's, Debian's, or those of a folder.

>>> from decouple.flows.build_request import BuildRequest
>>> BuildRequest(project, "2.6", kernels="official").against, BuildRequest(project, "2.6", kernels="/opt/torch").against
('official', 'stock')

``build_over_kernels(request)`` then makes torch_cuda for that half, or that CPU torch.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

from msgspec.structs import replace

from decouple.base.background import await_work, start_work
from decouple.base.errors import UsageError
from decouple.base.paths import find_cache
from decouple.build import inputs, settings, toolchain
from decouple.build.core_wheel import find_core_folder
from decouple.build.environment import Places, RootEnvironment
from decouple.build.estimate import read_available_memory, refuse_if_too_small
from decouple.build.stage import BuildJob, StageWheel
from decouple.build.stage2 import Bindings
from decouple.flows import portable_environment
from decouple.flows.build_request import (
    BuildRequest,
    estimate_root,
    estimate_stages,
    format_lines,
    refuse_unbuildable,
    settle_choices,
)
from decouple.flows.listener import QUIET, Listener
from decouple.flows.provenance import read_provenance
from decouple.flows.tree_overlay import lay_overlay_again
from decouple.flows.work_environment import open_environment, prepare_tree_and_root
from decouple.prebuilt import installed_torch, kernel_folder, official_symbols, pairing, symbols
from decouple.upstream.download import Downloader
from decouple.verify import checks


def build_over_kernels(request: BuildRequest, listener: Listener) -> StageWheel:
    """Build stage 2 without a kernel compiled, once symbols and ABI are checked."""
    refuse_unbuildable(request)
    pair = pairing.load_pair(request.release)
    choices, places = settle_choices(request), request.places
    if request.against == "built":
        _check_core(request, places)
    costs = estimate_stages(request)
    root = estimate_root(request)
    for line in format_lines(root, costs):
        listener.say(line)
    refuse_if_too_small(costs, folder=places.dist, memory=read_available_memory(), root=root)
    kind = portable_environment.KIND if request.env == portable_environment.KIND else "rootfs"
    layers = toolchain.list_bindings_layers(choices, kind)
    lay_overlay_again(request, places, listener)
    fetched = _start_fetch(request, pair)
    components = settings.read_facts().bindings.components
    prepare_tree_and_root(request, places, layers, listener, components)  # while the wheel comes
    halves = await_halves(fetched, pair, listener) if fetched else _take_kernels(request, pair, listener)
    origin = halves.read_origin()
    places = replace(places, kernels=halves.kernels)
    if request.against == "official":
        places = replace(places, core=halves.folder)
    places.create_folders()
    environment = open_environment(
        request,
        places,
        layers,
        listener,
        components,
    )
    core = find_core_folder(environment, read_provenance(places).version, choices)
    offered = (
        *official_symbols.read_folder_symbols(core, official_symbols.CORE),
        *(installed_torch.read_third_parties(core) if request.against == "stock" else ()),
    )
    taken = (
        *official_symbols.read_folder_symbols(halves.kernels, official_symbols.KERNELS),
        *installed_torch.read_third_parties(halves.kernels / "lib"),
    )
    symbols.refuse_mismatch(symbols.compare_symbols(taken, offered), origin["wheel"]["name"])
    choices = replace(choices, wheels=(origin["wheel"],), archs=tuple(origin["arch_list"]))
    known = read_provenance(places)
    if request.env == portable_environment.KIND:
        bundled = portable_environment.bundle_third_party(places, request.third_party, QUIET, components)
        known = replace(known, sources=(*known.sources, *bundled.rows))
    job = BuildJob(environment, known, choices, listener.progress, listener.say)
    outcome = Bindings(job).build_wheel()
    listener.say(outcome.format_line())
    return outcome


def _check_core(request: BuildRequest, places: Places) -> None:
    """Raise UsageError without a core wheel of ours, naming what makes one.

    It is called before anything is fetched.
    """
    stamp = inputs.read_stamp(places.core_state / "stage1.json")
    if stamp is None or not (places.dist / stamp.wheel).exists():
        env = f"--env {portable_environment.KIND}" if request.kind == kernel_folder.KIND else f"--env {request.env}"
        raise UsageError(
            f"{places.dist}: no core wheel of {request.release} for --core built",
            next_step=f"decouple build {request.release} {env} --stage 1 (hours), or leave --core out",
        )


def _start_fetch(request: BuildRequest, pair: pairing.Pair) -> Future[kernel_folder.Halves] | None:
    """Start fetching the official wheel's libraries, if asked, as the root is made."""
    return start_fetch(pair) if request.kind == kernel_folder.KIND else None


def start_fetch(pair: pairing.Pair) -> Future[kernel_folder.Halves]:
    """Start fetching the official wheel as two halves, unless it is there."""
    return start_work(lambda: kernel_folder.make_halves(pair, find_cache(), Downloader(find_cache())))


def _take_kernels(request: BuildRequest, pair: pairing.Pair, listener: Listener) -> kernel_folder.Halves:
    """Return the folder of libraries with kernels, taken from an installed build."""
    downloader = Downloader(find_cache(), progress=listener.progress)
    source = Path(request.kernels)
    if request.kernels == "monolith":
        environment = open_environment(request, request.places, ["core", "monolith"], listener)
        if not isinstance(environment, RootEnvironment):
            raise UsageError("--kernels monolith: it lies in the Debian root", next_step="add --env rootfs")
        source = environment.root.tree / checks.MONOLITH.lstrip("/")
    halves = installed_torch.make_halves(source, pair, find_cache(), downloader, listener.progress)
    listener.say(f"kernels: those of {source}")
    return halves


def await_halves(
    fetching: Future[kernel_folder.Halves], pair: pairing.Pair, listener: Listener
) -> kernel_folder.Halves:
    """Return the official wheel's halves when they are there.

    Raises what fetching them raised.
    """
    halves = await_work(fetching, pair.wheel.name, listener.progress)
    fetched = f"{halves.received / (1 << 20):.0f} MiB fetched" if halves.received else "as fetched before"
    listener.say(f"official wheel: {pair.wheel.name}, {fetched}")
    return halves
