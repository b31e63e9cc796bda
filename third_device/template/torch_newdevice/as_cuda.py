"""Run a CUDA program on newdevice: ``python -m torch_newdevice.as_cuda SCRIPT``."""

from torch_newdevice._layer.as_cuda import main

if __name__ == "__main__":
    main()
