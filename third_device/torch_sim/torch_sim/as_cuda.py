"""Run a CUDA program on sim: ``python -m torch_sim.as_cuda SCRIPT``."""

from torch_sim._layer.as_cuda import main

if __name__ == "__main__":
    main()
