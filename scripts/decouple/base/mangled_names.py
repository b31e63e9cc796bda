"""Know PyTorch's own C++ symbols by their mangled names.

The Itanium C++ ABI spells each part of a name after its length. The lengths are counted here: a namespace written with
a wrong one matches nothing, and a check of its symbols passes because it looks at none.
"""

from __future__ import annotations

import re

NAMESPACES = ("at", "c10", "c10d", "caffe2", "sdp", "torch")
"""Whose symbols libraries of PyTorch offer to each other and to extensions."""
SPELT_NAMESPACES = "|".join(f"{len(name)}{name}" for name in NAMESPACES)
"""Regular expression of one of them as a part of a mangled name."""
OWN_SYMBOL = re.compile(rf"_Z[A-Z]*[rVK]*(?:{SPELT_NAMESPACES})")
"""The beginning of a symbol in one of them: a function, or a class's tables (``_ZTV``…)."""
