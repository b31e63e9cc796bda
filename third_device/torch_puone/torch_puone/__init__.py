"""PyTorch on puone: ``import torch`` loads it and gives ``torch.puone``."""


def _autoload() -> None:
    """Activate this backend.

    ``import torch`` calls it through the entry point group ``torch.backends``. Defined before torch is imported:
    whoever imports this package first sets off ``import torch``, which calls back here while this file is still being
    executed.
    """
    from torch_puone._layer import activate

    activate("torch_puone")


import torch  # noqa: E402, F401 - it may call _autoload

_autoload()
