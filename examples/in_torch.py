"""Fit a damped oscillator with PyTorch's optimiser: the simulation is a program of this library, compiled as one loop.

    python examples/in_torch.py

A network of PyTorch's gives stiffness and damping for a temperature; the motion goes into PyTorch's loss.
"""

import importlib.util
import sys

import numpy as np

import autodiff as ad

if importlib.util.find_spec("torch") is None:
    print("PyTorch is not installed: pip install 'autodiff-native[torch]'")
    sys.exit()

import torch

STEPS, DT = 200, 0.05


def motion(stiffness, damping):
    """The places of a mass that is let go at 1, at each step.   f[], f[] -> f[STEPS]"""

    def step(state, _):
        x, v = state
        v = v - DT * (stiffness * x + damping * v)
        x = x + DT * v
        return (x, v), x

    return ad.scan(step, (1.0 + 0.0 * stiffness, 0.0 * damping), length=STEPS)[1]


def truth(temperature):
    """Stiffness and damping of the material that was measured."""
    return 2.0 - 0.5 * temperature, 0.2 + 0.1 * temperature**2


def main():
    torch.manual_seed(0)
    simulate = ad.interop.torch.wrap(motion)
    temperatures = torch.linspace(-1.0, 1.0, 9, dtype=torch.float64)
    measured = torch.stack([torch.from_numpy(ad.jit(motion)(*map(np.float64, truth(t.item())))) for t in temperatures])

    network = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    many = torch.vmap(simulate)  # all temperatures at once, by ad.vmap
    loss = torch.tensor(0.0)
    for iteration in range(401):
        optimizer.zero_grad()
        stiffness, damping = torch.nn.functional.softplus(network(temperatures[:, None])).T
        loss = ((many(stiffness, damping) - measured) ** 2).mean()
        loss.backward()
        optimizer.step()
        if iteration % 100 == 0:
            print(f"iteration {iteration:3}: loss {loss.item():.2e}")

    found = torch.nn.functional.softplus(network(torch.zeros(1, 1, dtype=torch.float64)))[0].detach().numpy()
    print(f"at temperature 0: stiffness {found[0]:.3f} (2.000), damping {found[1]:.3f} (0.200)")
    point = torch.tensor([2.0, 0.2], dtype=torch.float64)
    misfit = torch.func.grad(lambda p: ((simulate(p[0], p[1]) - measured[4]) ** 2).mean())
    curvature = torch.func.jacrev(misfit)(point)
    print("second derivatives by torch.func:", curvature.numpy().round(4).tolist())

    assert loss.item() < 1e-3 and np.abs(found - [2.0, 0.2]).max() < 0.05
    assert torch.linalg.eigvalsh(curvature)[0] > 0


if __name__ == "__main__":
    main()
