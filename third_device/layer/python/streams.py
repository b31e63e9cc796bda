"""``torch.<name>.streams``: streams and events, named as in ``torch.cuda``."""

from __future__ import annotations

from .device import Event, Stream

__all__ = ["Event", "Stream"]
