"""Install a layer of a root: packages, PyPI's files, other suites' programs.

The scripts that run in the root are ``inside/*.sh``; each says what its arguments are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from pathlib import Path

from msgspec import Struct

from decouple.base.process import run_logged
from decouple.base.steps import mark_step
from decouple.build.root_description import (
    Bootstrap,
    DebianPackages,
    ForeignPrograms,
    Layer,
    PypiPiece,
    Toolkit,
    UnpackedPackages,
)
from decouple.build.sandbox import BindMount, Sandbox, make_clean_environment

_INSIDE = Path(__file__).parent / "inside"


class LayerInstaller(Struct, frozen=True):
    """Install layers in one root.

    ``make_sandbox`` makes a sandbox of the root with mounts, ``fetched`` maps the names of PyPI's files to where they
    are. The processes hold the lock ``held``.
    """

    make_sandbox: Callable[[Sequence[BindMount]], Sandbox]
    bootstrap: Bootstrap
    fetched: Future[dict[str, Path]]
    log: Path
    held: int

    def install_layer(self, layer: Layer, shared: Collection[str] = ()) -> None:
        """Install ``layer``.

        In the prefixes that are ``shared`` another layer has files of PyPI, too.
        """
        if layer.packages:
            mark_step(f"install layer {layer.name}")
            self._run_script("install_packages.sh", layer.packages, f"apt-get install (layer {layer.name})")
        if layer.pip:
            self._install_tools(layer)
        for programs in layer.foreign:
            self._unpack_programs(programs)
        for toolkit in layer.toolkit:
            self._lay_out_toolkit(toolkit)
        for pinned in layer.debs:
            self._unpack_pinned(pinned)
        for packages in layer.beside:
            self._unpack_packages(packages)
        filled = set(shared)  # several files may share a prefix
        for piece in layer.pypi:
            self._unpack_piece(piece, empty_first=piece.prefix not in filled)
            filled.add(piece.prefix)

    def _install_tools(self, layer: Layer) -> None:
        files = [self.fetched.result()[tool.file] for tool in layer.pip]
        mark_step(f"install tools of layer {layer.name}")
        binds = [BindMount(file, f"/run/pip/{file.name}") for file in files]
        words = ["python3", "-I", "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--ignore-installed"]
        self._run([*words, *(bind.inside for bind in binds)], f"pip install (layer {layer.name})", *binds)

    def _unpack_programs(self, programs: ForeignPrograms) -> None:
        mark_step(f"unpack {programs.prefix}")
        self._unpack_suite(programs.prefix, programs.suite, ("main",), "with all", programs.packages)
        what = f"link {programs.prefix}"
        self._run_script("link_programs.sh", (programs.prefix, *programs.programs), what, network=False)
        self._run_script("link_compilers.sh", (programs.prefix, *programs.compilers), what, network=False)
        for path, target in programs.links:
            self._run(["ln", "-sfn", target, path], f"link {path}")

    def _lay_out_toolkit(self, toolkit: Toolkit) -> None:
        files = [self.fetched.result()[wheel.file] for wheel in toolkit.wheels]
        mark_step(f"unpack {toolkit.prefix}")
        packages = f"{toolkit.prefix}.packages"
        self._unpack_suite(packages, toolkit.suite, toolkit.components, "alone", toolkit.packages)
        binds = [BindMount(file, f"/run/pip/{file.name}") for file in files]
        asked = {"prefix": toolkit.prefix, "packages": packages, "wheels": [bind.inside for bind in binds]}
        words = json.dumps({**asked, "take": toolkit.take, "whole": toolkit.whole})
        self._run(["python3", "-I", "-c", _read_script("toolkit.py"), words], f"lay out {toolkit.prefix}", *binds)

    def _unpack_pinned(self, pinned: DebianPackages) -> None:
        mark_step(f"unpack {pinned.prefix}")
        code = _read_script("host_part.py") if pinned.host_part else ""
        words = (word for file in pinned.files for word in file)
        given = (pinned.prefix, self.bootstrap.mirror, code, json.dumps(dict(pinned.older)), *words)
        what = f"unpack {pinned.prefix}: a version that left the archive is named in the log"
        self._run_script("unpack_pinned.sh", given, what)

    def _unpack_packages(self, packages: UnpackedPackages) -> None:
        mark_step(f"unpack {packages.prefix}")
        self._run_script("unpack_packages.sh", (packages.prefix, *packages.packages), f"unpack {packages.prefix}")

    def _unpack_piece(self, piece: PypiPiece, *, empty_first: bool) -> None:
        file = self.fetched.result()[piece.file]
        mark_step(f"unpack {piece.prefix}")
        bind = BindMount(file, f"/run/{piece.file}")
        given = (piece.prefix, bind.inside, "empty" if empty_first else "keep")
        links = (word for link in piece.links for word in link)
        self._run_script("unpack_piece.sh", (*given, *links), f"unpack {piece.prefix}", bind, network=False)

    def _unpack_suite(
        self, prefix: str, suite: str, components: Sequence[str], how: str, packages: Sequence[str]
    ) -> None:
        keyring = BindMount(Path(self.bootstrap.keyring), "/run/keyring.gpg")
        given = (prefix, suite, self.bootstrap.mirror, keyring.inside, " ".join(components), how, *packages)
        self._run_script("unpack_suite.sh", given, f"unpack {prefix}", keyring)

    def _run_script(
        self, name: str, arguments: Sequence[str], what: str, *binds: BindMount, network: bool = True
    ) -> None:
        self._run(["sh", "-c", _read_script(name), name, *arguments], what, *binds, network=network)

    def _run(self, argv: Sequence[str], what: str, *binds: BindMount, network: bool = False) -> None:
        resolver = BindMount(Path("/etc/resolv.conf"), "/etc/resolv.conf")
        words = [*make_clean_environment({}, network=network), *argv]
        command = self.make_sandbox([resolver, *binds]).make_command(words, network=network)
        run_logged(command, log=self.log, what=what, held=(self.held,))


def _read_script(name: str) -> str:
    return (_INSIDE / name).read_text(encoding="utf-8")
