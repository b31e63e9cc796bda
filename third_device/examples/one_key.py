"""Train a small network on ``cpu``, ``cuda`` and ``puone:0``.

It is one program on pictures of MNIST's shape, and says what it comes to.

python third_device/examples/one_key.py            # with a GPU
python -m simcuda run python third_device/examples/one_key.py
"""

import sys

import torch
from torch import nn

DEVICES = ("cpu", "cuda", "puone:0")
PICTURES, BATCH, EPOCHS = 128, 16, 2
TOLERANCE = 1e-5


def make_network() -> nn.Module:
    """Return the network, always with the same weights."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 144, 10),
    )


def train_model(device: str) -> tuple[list[float], list[torch.Tensor]]:
    """Return the loss of every epoch's last batch, and the weights at the end.

    The weights are on the CPU.
    """
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 10, (PICTURES,), generator=generator)
    pictures = torch.randn(PICTURES, 1, 28, 28, generator=generator)
    model = make_network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    losses = []
    for _ in range(EPOCHS):
        for first in range(0, PICTURES, BATCH):
            rows = slice(first, first + BATCH)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures[rows].to(device)), labels[rows].to(device))
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses, [value.detach().cpu() for value in model.state_dict().values()]


def main() -> int:
    """Print a line for each device; 1 unless the numbers agree."""
    results = {device: train_model(device) for device in DEVICES}
    print(f"{'device':8} {'loss after each epoch':24} largest difference of a weight from cpu, from cuda")
    worst = 0.0
    for device, (losses, weights) in results.items():
        off = []
        for other in ("cpu", "cuda"):
            pairs = zip(weights, results[other][1], strict=True)
            off.append(max((mine - theirs).abs().max().item() for mine, theirs in pairs))
        worst = max(worst, *off)
        print(f"{device:8} {' '.join(f'{loss:.7f}' for loss in losses):24} {off[0]:.2g}, {off[1]:.2g}")
    return 0 if worst < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
