"""Make the portable root (old userland) and the components that builds bundle.

>>> from decouple.flows.portable_environment import has_cxx11_abi
>>> has_cxx11_abi("2.6.0"), has_cxx11_abi("2.7.0a0")
(False, True)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from decouple.base.paths import find_cache
from decouple.build import host, preflight, root_description, rootfs, settings
from decouple.build.environment import Places, RootEnvironment
from decouple.build.root_description import Description
from decouple.build.rootfs import Root
from decouple.build.sandbox import BindMount
from decouple.flows.listener import Listener
from decouple.upstream import components
from decouple.upstream.components import ThirdParty
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release

KIND = "portable"


class Bundle(Struct, frozen=True):
    """Hold the folder below third_party (None: the tree's), and what a build is told."""

    third_party: ThirdParty | None
    variables: Mapping[str, str]

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """One per component, for the manifest of the wheel."""
        return self.third_party.rows if self.third_party else ()


def bundle_third_party(places: Places, folder: Path | None, listener: Listener, only: Collection[str] = ()) -> Bundle:
    """Find the third-party code for the tree of ``places``.

    It is ``folder``, else the source's own, else the listed components (of these ``only`` some, when it names folders).

    Where the list names a component that nobody has, its switch of upstream's build is off; a folder of the user's own
    (or a source with submodules) has all. Raises DecoupleError, UsageError.
    """
    version = load_release(places.project, places.release).version
    variables = {"_GLIBCXX_USE_CXX11_ABI": "1" if has_cxx11_abi(version) else "0"}
    if folder is None and not host.find_empty_submodules(places.tree):
        return Bundle(None, variables)
    if folder is not None:
        third_party = components.open_folder(folder)
        listed = components.load_components(places.project, places.release)
        missing = [component for component in listed.absent if component.folder not in third_party.list_folders()]
    else:
        listed = components.load_components(places.project, places.release)
        if only:
            wanted = tuple(component for component in listed.components if component.folder in only)
            listed = replace(listed, components=wanted, absent=())
        third_party = components.ensure_components(
            listed, Downloader(find_cache(), progress=listener.progress), progress=listener.progress
        )
        missing = list(listed.absent)
    for component in missing:
        variables[component.switch] = "OFF"
        listener.say(f"third-party: no {component.folder}, {component.switch}=OFF: {component.why}")
    listener.say(f"third-party: {len(third_party.rows)} components in {third_party.path}")
    return Bundle(third_party, {**variables, "DECOUPLE_THIRD_PARTY": third_party.digest})


def has_cxx11_abi(version: str) -> bool:
    """Return whether the official wheels of ``version`` have the C++11 ABI.

    The ABI is that of libstdc++. PyTorch's ``version`` is written "2.6.0"; "2.7.0a0" is counted as 2.7.
    """
    return Version(version).release >= Version(settings.read_facts().portable.cxx11_abi_from).release


def open_portable(places: Places, layers: list[str], bundled: Bundle, listener: Listener) -> RootEnvironment:
    """Open the root, made as needed, with the bundle's components shown in the tree.

    Raises DecoupleError.
    """
    root = make_root(root_description.load_description(root_description.PORTABLE), "portable", layers, listener)
    return RootEnvironment(places, root, _bind_components(places, bundled.third_party), KIND)


def make_root(described: Description, called: str, layers: list[str], listener: Listener) -> Root:
    """Make the root of ``described`` with ``layers`` as needed.

    Says what is to be known of it. Raises DecoupleError.
    """
    log = find_cache() / "logs" / "rootfs.log"
    preflight.check_root(find_cache(), described, layers)
    root = rootfs.ensure_root(find_cache(), described, layers, log=log, progress=listener.progress)
    listener.say(f"environment: {called} root {root.folder} with {', '.join(layers)}")
    for line in rootfs.find_changed_versions(root):
        listener.say(f"  note: {line}")
    return root


def _bind_components(places: Places, third_party: ThirdParty | None) -> tuple[BindMount, ...]:
    """Show each component in the tree's third_party.

    The tree gets an empty folder, of which git takes no notice.
    """
    if third_party is None:
        return ()
    made = []
    for name in third_party.list_folders():
        (places.tree / "third_party" / name).mkdir(exist_ok=True)
        made.append(BindMount(third_party.path / name, f"/decouple/{places.release}/src/third_party/{name}"))
    return tuple(made)
