"""The portable environment: a root with an old userland, and the third-party code that its builds bundle.

>>> from decouple.flows.portable import cxx11_abi
>>> cxx11_abi("2.6.0"), cxx11_abi("2.7.0a0")
(False, True)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from decouple.base.paths import cache_dir
from decouple.build import description, host, preflight, rootfs, settings
from decouple.build.description import Description
from decouple.build.environment import Places, RootEnvironment
from decouple.build.rootfs import Root
from decouple.build.sandbox import Bind
from decouple.flows.listener import Listener
from decouple.upstream import components
from decouple.upstream.components import ThirdParty
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release

KIND = "portable"


class Bundle(Struct, frozen=True):
    """What stands below third_party in a build: the folder (None: the tree's own) and what the build is told of it."""

    third_party: ThirdParty | None
    variables: Mapping[str, str]

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """One per component, for the manifest of the wheel."""
        return self.third_party.rows if self.third_party else ()


def bundle(places: Places, given: Path | None, listener: Listener, only: Collection[str] = ()) -> Bundle:
    """The third-party code for the tree of ``places``: ``given``, else the source's own, else the listed components
    (of these ``only`` some, when it names folders).

    Where the list names a component that nobody has, its switch of upstream's build is off; a folder of the user's own
    (or a source with submodules) has all. Raises DecoupleError, UsageError.
    """
    version = load_release(places.project, places.release).version
    variables = {"_GLIBCXX_USE_CXX11_ABI": "1" if cxx11_abi(version) else "0"}
    if given is None and not host.without_submodules(places.tree):
        return Bundle(None, variables)
    if given is not None:
        found = components.given(given)
        listed = components.load(places.project, places.release)
        missing = [one for one in listed.absent if one.folder not in found.folders()]
    else:
        listed = components.load(places.project, places.release)
        if only:
            wanted = tuple(one for one in listed.components if one.folder in only)
            listed = replace(listed, components=wanted, absent=())
        found = components.ensure(
            listed, Downloader(cache_dir(), progress=listener.progress), progress=listener.progress
        )
        missing = list(listed.absent)
    for one in missing:
        variables[one.switch] = "OFF"
        listener.say(f"third-party: no {one.folder}, {one.switch}=OFF: {one.why}")
    listener.say(f"third-party: {len(found.rows)} components in {found.path}")
    return Bundle(found, {**variables, "DECOUPLE_THIRD_PARTY": found.digest})


def cxx11_abi(version: str) -> bool:
    """Whether the official wheels of PyTorch ``version`` ("2.6.0"; "2.7.0a0" is counted as 2.7) have the C++11 ABI of
    libstdc++."""
    return Version(version).release >= Version(settings.facts().portable.cxx11_abi_from).release


def open_portable(places: Places, layers: list[str], bundled: Bundle, listener: Listener) -> RootEnvironment:
    """The root, made as needed, with the bundle's components shown in the tree. Raises DecoupleError."""
    root = made_root(description.load(description.PORTABLE), "portable", layers, listener)
    return RootEnvironment(places, root, _shown(places, bundled.third_party), KIND)


def made_root(described: Description, called: str, layers: list[str], listener: Listener) -> Root:
    """The root of ``described`` with ``layers``, made as needed, and what is to be known of it said. Raises
    DecoupleError."""
    log = cache_dir() / "logs" / "rootfs.log"
    preflight.check(cache_dir(), described, layers)
    root = rootfs.ensure(cache_dir(), described, layers, log=log, progress=listener.progress)
    listener.say(f"environment: {called} root {root.folder} with {', '.join(layers)}")
    for line in rootfs.moved(root):
        listener.say(f"  note: {line}")
    return root


def _shown(places: Places, third_party: ThirdParty | None) -> tuple[Bind, ...]:
    """Each component seen in the tree's third_party; the tree gets an empty folder, of which git takes no notice."""
    if third_party is None:
        return ()
    made = []
    for name in third_party.folders():
        (places.tree / "third_party" / name).mkdir(exist_ok=True)
        made.append(Bind(third_party.path / name, f"/decouple/{places.release}/src/third_party/{name}"))
    return tuple(made)
