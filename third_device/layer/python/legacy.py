"""Legacy classes of tensors, such as ``torch.<name>.FloatTensor``.

Programs name them from before dtypes and devices.
"""

from __future__ import annotations

from typing import Any

import torch

from .._build_info import NAME


class LegacyTensorType(type):
    """One dtype on this device, as a class: isinstance works, a call makes one."""

    dtype: torch.dtype
    _host: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        there = isinstance(instance, torch.Tensor) and instance.device.type == NAME
        return there and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        """Make a tensor of the current device: of sizes, or of the values of a sequence.

        Of a tensor of this type it is another one on the same memory.
        """
        given: Any = args[0] if len(args) == 1 else None
        made: torch.Tensor
        if isinstance(given, cls):
            made = given.view_as(given)
        else:
            made = cls._host(*args).to(NAME if device is None else device)
        return made

    def __repr__(cls) -> str:
        return f"<class 'torch.{NAME}.{cls.__name__}'>"


_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}

TYPES = {
    name: LegacyTensorType(name, (), {"dtype": dtype, "_host": getattr(torch, name), "__module__": f"torch.{NAME}"})
    for name, dtype in _DTYPES.items()
}
"""Name -> class, with the names that ``torch.cuda`` has."""
