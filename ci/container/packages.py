"""Print what layers of a root's description install.

Call: ``packages FILE LAYER…`` or ``requirements FILE LAYER…``.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main(what: str, file: str, *names: str) -> None:
    """Print a package, or a pinned requirement with its hash, per line."""
    layers = [layer for layer in tomllib.loads(Path(file).read_text())["layer"] if layer["name"] in names]
    for layer in layers:
        if what == "packages":
            print("\n".join(layer["packages"]))
        for piece in layer.get("pypi", ()) if what == "requirements" else ():
            print(f"{piece['project']}=={piece['version']} --hash=sha256:{piece['sha256']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
