"""Train the MNIST example's net on one simulated HIP device and on the CPU (RCCL is left out, so not on two)."""

import runpy
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader

EXAMPLE = runpy.run_path(str(Path(__file__).parents[3] / "scripts/simcuda/examples/mnist.py"))


def train(device: str) -> list[torch.Tensor]:
    """Return the weights after the example's epochs."""
    model = EXAMPLE["make_network"]().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(EXAMPLE["EPOCHS"]):
        for pictures, labels in DataLoader(EXAMPLE["make_images"](), EXAMPLE["BATCH"], pin_memory=device == "cuda"):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(pictures.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


ours, theirs, before = train("cuda"), train("cpu"), list(EXAMPLE["make_network"]().parameters())
assert all(weight.is_cuda for weight in ours)
most = max((mine.cpu() - other).abs().max().item() for mine, other in zip(ours, theirs, strict=True))
moved = max((other - weight).abs().max().item() for other, weight in zip(theirs, before, strict=True))
print(
    f"MNIST on {torch.cuda.get_device_properties(0).gcnArchName}: {most:.1e} from the CPU's after moving by {moved:.1e}"
)
sys.exit(most > 0 or moved < 1e-3)
