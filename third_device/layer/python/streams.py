"""``torch.<name>.streams``: streams and events, under the name that ``torch.cuda`` has for them."""

from __future__ import annotations

from .device import Event, Stream

__all__ = ["Event", "Stream"]
