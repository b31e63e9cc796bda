"""Train on the simulated HIP device and on the CPU, by the kernels that the runtime slice of torch_hip has.

Those add, fill, copy and draw. So the model is a vector that learns a mean: with half the squared error as its loss the
gradient of ``bias - sample`` is that difference itself, and SGD's step is an addition.
"""

import torch


def train(device: str) -> torch.Tensor:
    """Return the vector after twenty steps."""
    bias = torch.nn.Parameter(torch.zeros(16, device=device))
    optimizer = torch.optim.SGD([bias], lr=0.25, foreach=False)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        sample = torch.randn(16, generator=generator).to(device)
        optimizer.zero_grad()
        difference = bias - sample
        difference.backward(difference.detach())
        optimizer.step()
    return bias.detach()


ours, theirs = train("cuda"), train("cpu")
assert ours.is_cuda and torch.cuda.memory_allocated() > 0
assert torch.equal(ours.cpu(), theirs), (ours.cpu() - theirs).abs().max()
print(f"ok training on {torch.cuda.get_device_properties(0).gcnArchName}, HIP {torch.version.hip}")
