"""The four costs of the spine: recording, a known graph, a native call, the kernel; beside PyTorch and NumPy.

    python benchmarks/spine.py

Prints a table of medians; "n x" means that the peer takes n times as long as we do.  PyTorch is left out
when it is not installed.  One core is best left idle: nothing else should run.
"""

from __future__ import annotations

import platform
from collections.abc import Callable

import numpy as np
from measure import Row, interleaved, table

import autodiff as ad

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

N_OPS = 50


def chain(x, w, v):
    """Fifty elementwise operations on three inputs, summed."""
    y = x
    for i in range(N_OPS // 5):
        y = y * w + v
        y = y - x * 0.5
        y = y * (0.1 * (i + 1))
    return y


def recording() -> Row:
    """Recording one operation: a product of two arrays, never evaluated."""
    a, b = ad.tensor(np.ones(100), requires_grad=True), ad.tensor(np.ones(100))
    programs: dict[str, Callable[[], object]] = {"ours": lambda: a * b}
    if torch is not None:
        ta, tb = torch.ones(100, dtype=torch.float64, requires_grad=True), torch.ones(100, dtype=torch.float64)
        programs["torch"] = lambda: ta * tb
    return _row("record (torch: compute) a * b, n = 100", programs)


def recorded_loop() -> Row:
    """An iteration of a recorded loop: 50 operations, sum, backward, gradients reset."""
    data = [np.linspace(0.1, 1.0, 100) * k for k in (1, 2, 3)]
    leaves = [ad.tensor(d, requires_grad=True) for d in data]

    def ours():
        chain(*leaves).sum().backward()
        for t in leaves:
            t.grad = None

    programs: dict[str, Callable[[], object]] = {"ours": ours}
    if torch is not None:
        torch_leaves = [torch.tensor(d, requires_grad=True) for d in data]

        def theirs():
            chain(*torch_leaves).sum().backward()
            for t in torch_leaves:
                t.grad = None

        programs["torch"] = theirs
        ours()
        theirs()
        chain(*leaves).sum().backward()
        chain(*torch_leaves).sum().backward()
        for a, b in zip(leaves, torch_leaves, strict=True):
            np.testing.assert_allclose(np.asarray(a.grad), b.grad.numpy(), rtol=1e-10)
    return _row("50 recorded operations + backward, n = 100", programs)


def native_call() -> Row:
    """A jit call with three small arrays."""
    x, y, z = np.ones(8), np.full(8, 2.0), np.full(8, 3.0)
    f = ad.jit(lambda x, y, z: x * y + z)
    return _row("jit call, three arrays of 8", {"ours": lambda: f(x, y, z), "numpy": lambda: x * y + z})


def elementwise(n: int) -> Row:
    """Value and gradient of sum(exp(-x²)·sin(x) + log1p(x²)·tanh(x))."""
    x = np.linspace(-3.0, 3.0, n)

    def f(x):
        return ad.sum(ad.exp(-x * x) * ad.sin(x) + ad.log1p(x * x) * ad.tanh(x))

    ours = ad.jit(ad.value_and_grad(f))

    def by_hand():
        q, s = np.exp(-x * x), np.sin(x)
        t, p = np.tanh(x), np.log1p(x * x)
        g = q * np.cos(x) - 2 * x * q * s + p * (1 - t * t) + 2 * x / (1 + x * x) * t
        return np.sum(q * s + p * t), g

    value, gradient = ours(x)
    expected = by_hand()
    np.testing.assert_allclose(value, expected[0], rtol=1e-9, atol=1e-9 * n)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-12)
    programs: dict[str, Callable[[], object]] = {"ours": lambda: ours(x), "numpy": by_hand}
    if torch is not None:
        tx = torch.tensor(x, requires_grad=True)

        def theirs():
            tx.grad = None
            (torch.exp(-tx * tx) * torch.sin(tx) + torch.log1p(tx * tx) * torch.tanh(tx)).sum().backward()

        programs["torch"] = theirs
    return _row(f"elementwise chain, value and gradient, n = {n:,}", programs)


def _row(work: str, programs: dict[str, Callable[[], object]]) -> Row:
    times = interleaved(programs)
    return Row(work, times.pop("ours"), times)


def main() -> None:
    rows = [recording(), recorded_loop(), native_call(), elementwise(1000), elementwise(100_000)]
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    if torch is not None:
        versions += f", PyTorch {torch.__version__} ({torch.get_num_threads()} threads)"
    print(f"{versions}, {platform.machine()}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
