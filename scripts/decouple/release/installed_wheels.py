"""List the wheels of torch in the Python that runs this, and their series.

Any torch's Python imports it, in a process of its own: it needs Python 3.9 and the standard library.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, distributions


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
    """List the digests of the series that these wheels were made of, as they say."""
    manifests = [wheel.read_text("decouple.json") for wheel in list_wheels().values()]
    return sorted({str(json.loads(text)["series"]["digest"]) for text in manifests if text})
