"""Programs drawn at random, over data whose size never is what it was: as PyTorch has them, at every size."""

import numpy as np
import pytest
from spied import compile_any_size

import autodiff as ad
from codegen import sized_code
from codegen.runtime import cache, native

torch = pytest.importorskip("torch")

#: Each takes a library, rows and a number for each column, and gives rows of as many columns.
STEPS = {
    "tanh": lambda lib, x, w: lib.tanh(x),
    "bell": lambda lib, x, w: lib.exp(-x * x),
    "scaled": lambda lib, x, w: x * w + 0.5,
    "centred": lambda lib, x, w: x - x.mean(0),
    "less the row": lambda lib, x, w: (x.T - x.sum(1)).T,
    "projected": lambda lib, x, w: (x @ w)[:, None] * x,
    "gathered": lambda lib, x, w: lib.tanh(x @ x.T) @ x,
    "columns mixed": lambda lib, x, w: x @ (x.T @ x) / (x.shape[0] + 1),
    "bent": lambda lib, x, w: lib.where(x > 0, x, x * 0.25),
    "running": lambda lib, x, w: lib.cumsum(x, axis=0) / (x.shape[0] + 2),
    "rolled": lambda lib, x, w: lib.concat([x[1:], x[:1]]) * x,
    "differences": lambda lib, x, w: x[1:] - x[:-1],
    "second half": lambda lib, x, w: x[x.shape[0] // 2 :],
    "every other": lambda lib, x, w: x[::2] * w,
    "twice": lambda lib, x, w: lib.concat([x, lib.sin(x)]),
    "flat and back": lambda lib, x, w: lib.cumsum(x.reshape(-1), axis=0).reshape(x.shape) * 0.1,
}
ENDS = {"mean": lambda x: (x * x).mean(), "sum": lambda x: (x * x).sum(), "mean of sums": lambda x: x.sum(1).mean()}
SIZES = [*range(14), 30, 63, 64, 65, 100, 257, 300]


@pytest.fixture(autouse=True)
def runs(monkeypatch, patience):
    """Machine code for any size is made at once: how often it was run."""
    found = []
    call = sized_code.SizedCode.call

    def noted(self, values, arrays):
        found.append(values)
        return call(self, values, arrays)

    monkeypatch.setattr(sized_code.SizedCode, "call", noted)
    compile_any_size(monkeypatch)
    monkeypatch.setattr(cache, "AT_ONCE", 0)
    return found


def slopes(lib, steps, end, x, w):
    """A value, and its gradients."""
    make = torch.from_numpy if lib is torch else ad.tensor
    x, w = make(x.copy()).requires_grad_(), make(w.copy()).requires_grad_()
    y = x
    for step in steps:
        y = STEPS[step](lib, y, w)
    y = ENDS[end](y)
    y.backward()
    return [t.numpy() if t is not None else np.zeros(()) for t in (y.detach(), x.grad, w.grad)]


def agree(seed, count, columns):
    rng = np.random.default_rng(seed)
    steps, end = rng.choice([*STEPS], size=rng.integers(1, 5)), rng.choice([*ENDS])
    k, dtype = int(rng.integers(1, 6)), rng.choice(["f8", "f8", "f4"])
    w = rng.normal(size=k).astype(dtype)
    for n in [3, 4, 6, 7, *rng.choice(SIZES, size=count)]:
        k = int(rng.integers(2, 9)) if columns and not rng.integers(8) else k
        w = w if w.size == k else rng.normal(size=k).astype(dtype)
        x = rng.normal(size=(n, k)).astype(dtype)
        found, right = slopes(ad, steps, end, x, w), slopes(torch, steps, end, x, w)
        for ours, theirs in zip(found, right, strict=True):
            where = f"{seed}: {[*steps]}, {end}, {dtype}[{n},{k}]"
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, where
            tolerance = 1e-10 if dtype == "f8" else 3e-4
            scale = np.max(np.nan_to_num(np.abs(theirs), posinf=0.0), initial=1.0)
            np.testing.assert_allclose(ours, theirs, tolerance, tolerance * scale, err_msg=where)


@pytest.mark.parametrize("seed", range(12))
def test_programs_over_sizes_that_never_repeat_are_right(seed, runs):
    agree(seed, 20, columns=seed % 2)
    if seed in (2, 6):  # whose numbers all follow from that of rows: halves of rows, say, do not
        assert runs or not native.is_native()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 150))
def test_many_programs_over_sizes_that_never_repeat_are_right(seed):
    agree(seed, 40, columns=True)
