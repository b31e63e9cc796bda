"""List the wheels of torch in the Python that runs this, and their series.

Any torch's Python imports it, in a process of its own: it needs Python 3.9 and the standard library.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, distributions

EDITED = "+edits"
"""Follows the digest of the series of a wheel whose tree had edits that are in no patch."""


def list_wheels() -> dict[str, Distribution]:
    """Map each installed project of torch to its distribution.

    They are torch and those that add to it, such as torch-cuda; torchvision is another project. Of two that are called
    the same the first on the path counts, as Python imports that.
    """
    found: dict[str, Distribution] = {}
    for wheel in distributions():
        name = re.sub("[-_.]+", "-", wheel.metadata["Name"] or "").lower()
        if name == "torch" or name.startswith("torch-"):
            found.setdefault(name, wheel)
    return found


def list_series() -> list[str]:
    """List of which series these wheels are, as `name_series` says it."""
    manifests = [wheel.read_text("decouple.json") for wheel in list_wheels().values()]
    documents = [json.loads(text) for text in manifests if text]
    return sorted({name_series(made["series"]["digest"], made.get("tree", "")) for made in documents})


def name_series(digest: str, tree: str) -> str:
    """Return the digest of a wheel's series, with `EDITED` where it is no proof of it.

    ``tree`` is what the build manifest says: a "+" follows the id of a tree that had edits when it was built.
    """
    return f"{digest}{EDITED}" if "+" in tree else digest
