"""The same program becomes cheaper by wrapping an input: dense and structured, time and memory.

    loss(d, x, y) = sum((d @ x - y)²)

`ad.Diagonal` holds n numbers and stands for an n-by-n matrix; its methods of `@` cost n·m instead of n·n·m,
backwards too, and its gradient is a `Diagonal`.  Below is a type that the library has never heard of: a matrix
of low rank joins with a few methods, and without a rule.
"""

import re
import time

import numpy as np

import autodiff as ad


def loss(d, x, y):
    """The same code for a dense matrix and for a structured one."""
    return ((d @ x - y) ** 2).sum()


# ---------------------------------------------------------------- a type of one's own


class LowRank(ad.AbstractTensor):
    """u @ v.   f[n,r], f[r,n] stand for f[n,n]"""

    def __init__(self, u, v):
        self.u, self.v = u, v


ad.tree.register(LowRank, lambda a: ([a.u, a.v], None), lambda _, parts: LowRank(*parts))


@ad.dense.method(LowRank)
def _(x):
    return x.u @ x.v


@ad.matmul.method(LowRank, ad.Tensor)
def _(x1, x2):
    return x1.u @ (x1.v @ x2)


# ---------------------------------------------------------------- measuring


def milliseconds(f, *args):
    """(result, best time of five calls)."""
    result = f(*args)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        f(*args)
        best = min(best, time.perf_counter() - start)
    return result, 1e3 * best


def megabytes(f, *args):
    """What a program reads, writes and keeps in between: `ad.inspect` counts it, without running anything."""
    counts = re.findall(r"(\d+) bytes", str(ad.inspect(f, *args).stats))
    return sum(map(int, counts)) / 2**20


def compare(name, structured, x, y):
    """Print time and memory of value and gradient, structured and dense.  Gives both gradients and the gain."""
    both = ad.value_and_grad(loss)
    step, dense = ad.jit(both), np.asarray(structured)
    (_, g), fast = milliseconds(step, structured, x, y)
    (_, dense_g), slow = milliseconds(step, dense, x, y)
    little, much = megabytes(both, structured, x, y), megabytes(both, dense, x, y)
    print(f"{name:<10} {fast:8.2f} ms {little:6.1f} MB     dense {slow:8.2f} ms {much:6.1f} MB    {slow / fast:6.0f} x")
    return g, dense_g, slow / fast


def main():
    rng = np.random.default_rng(0)
    n, m, r = 2000, 200, 4
    x, y = rng.normal(size=(n, m)), rng.normal(size=(n, m))

    print(f"value and gradient of sum((a @ x - y)²), n = {n}, m = {m}")
    g, dense, gain = compare("Diagonal", ad.Diagonal(rng.normal(size=n)), x, y)
    assert type(g) is ad.Diagonal, "the gradient of a Diagonal is a Diagonal"
    assert np.allclose(g.diagonal, np.diag(dense)), "and it is the diagonal of the dense gradient"
    assert gain > 10, "scaling rows costs far less than a product"

    a = LowRank(rng.normal(size=(n, r)), rng.normal(size=(r, n)))
    g, dense, _ = compare("LowRank", a, x, y)
    assert type(g) is LowRank, "a type of one's own keeps its structure as well"
    assert np.allclose(g.u, dense @ a.v.T), "its gradient is the dense one, projected"

    print("\nthe methods:")
    for cls in (ad.Diagonal, LowRank):
        print(f"  {ad.which(ad.matmul, cls, ad.Tensor[ad.float64, 2])}")

    # Where no method takes a type, ad.dense writes it out, and the gradient is projected back.
    total = ad.grad(lambda a: ad.sum(ad.exp(a)))(ad.Diagonal([0.0, 1.0]))
    assert np.allclose(total.diagonal, np.exp([0.0, 1.0]))


if __name__ == "__main__":
    main()
