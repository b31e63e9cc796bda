"""placeholder until ranges land"""

from __future__ import annotations

from decouple.base.errors import DecoupleError
from decouple.release.manifest import Manifest, WheelSource
from decouple.upstream.fetched import Fetched
from decouple.upstream.providers.context import Context


def fetch(manifest: Manifest, source: WheelSource, context: Context) -> Fetched:
    raise DecoupleError("wheel: not there yet")
