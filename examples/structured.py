"""The same program becomes cheaper by wrapping an input: dense and structured, time and memory.

    loss(d, x, y) = sum((d @ x - y)²)

`ad.Diagonal` holds n numbers and stands for an n-by-n matrix; its methods of `@` cost n·m instead of n·n·m,
backwards too, and its gradient is a `Diagonal`.  Below is a type that the library has never heard of: a matrix
of low rank joins with a few methods.  A rule for its product and a projection are optional: without them both are
found by differentiating the methods.
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


@ad.project.method(object, LowRank)
def _(g, like):
    """A gradient by all n·n elements becomes one by u and v."""
    return LowRank(g @ like.v.T, like.u.T @ g)


@ad.matmul.forward(LowRank, ad.Matrix)
def _(ctx, x1, x2):
    short = x1.v @ x2
    ctx.save_for_backward(x1=x1, x2=x2, short=short)
    return x1.u @ short


@ad.matmul.backward(LowRank, ad.Matrix)
def _(ctx, grad_output):
    """The gradient by x1 in its own type: no matrix of n·n elements is made."""
    s, needs = ctx.saved_variables, ctx.needs_input_grad
    back = s.x1.u.T @ grad_output
    return {
        "x1": LowRank(grad_output @ s.short.T, back @ s.x2.T) if needs.x1 else None,
        "x2": s.x1.v.T @ back if needs.x2 else None,
    }


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


def counted(f, *args):
    """Megabytes moved and millions of operations: `ad.inspect` counts them, without running anything."""
    found = dict(re.findall(r"(.+?)  +(\d+)", str(ad.inspect(f, *args).stats)))
    return [int(found[name]) / 1e6 for name in ("bytes moved", "scalar operations")]


def compare(name, structured, x, y):
    """Print what value and gradient cost, structured and dense.  Gives both gradients, the gain, and the counts."""
    both = ad.value_and_grad(loss)
    step, dense = ad.jit(both), np.asarray(structured)
    (_, g), fast = milliseconds(step, structured, x, y)
    (_, dense_g), slow = milliseconds(step, dense, x, y)
    little, much = counted(both, structured, x, y), counted(both, dense, x, y)
    for title, ms, (megabytes, operations) in ((name, fast, little), ("dense", slow, much)):
        print(f"{title:<10} {ms:8.2f} ms {megabytes:8.1f} MB moved {operations:8.1f} million operations")
    return g, dense_g, slow / fast, (little, much)


def main():
    rng = np.random.default_rng(0)
    n, m, r = 2000, 200, 4
    x, y = rng.normal(size=(n, m)), rng.normal(size=(n, m))

    print(f"value and gradient of sum((a @ x - y)²), n = {n}, m = {m}")
    g, dense, gain, diagonal = compare("Diagonal", ad.Diagonal(rng.normal(size=n)), x, y)
    assert type(g) is ad.Diagonal, "the gradient of a Diagonal is a Diagonal"
    assert np.allclose(g.diagonal, np.diag(dense)), "and it is the diagonal of the dense gradient"
    assert gain > 10, "scaling rows costs far less than a product"

    a = LowRank(rng.normal(size=(n, r)), rng.normal(size=(r, n)))
    g, dense, _, low_rank = compare("LowRank", a, x, y)
    assert type(g) is LowRank, "a type of one's own keeps its structure as well"
    projected = ad.project(dense, a)
    assert np.allclose(g.u, projected.u) and np.allclose(g.v, projected.v), "its gradient is the dense one, projected"

    print("\nthe methods:")
    for cls in (ad.Diagonal, LowRank):
        print(f"  {ad.which(ad.matmul, cls, ad.Tensor[ad.float64, 2])}")

    # If no method takes a type, ad.dense writes it out, and the gradient is projected back.
    total = ad.grad(lambda a: ad.sum(ad.exp(a)))(ad.Diagonal([0.0, 1.0]))
    assert np.allclose(total.diagonal, np.exp([0.0, 1.0]))
    small = LowRank(a.u[:5], a.v[:, :5])
    total = ad.grad(lambda a: ad.sum(ad.exp(a)))(small)
    assert np.allclose(total.u, np.exp(small.u @ small.v) @ small.v.T)
    return {"LowRank": low_rank, "Diagonal": diagonal}


def draw(figure, found):
    """Counts of value and gradient, structured and dense."""
    rows = {"dense": found["Diagonal"][1]} | {name: little for name, (little, _) in found.items()}
    for i, (axes, title) in enumerate(zip(figure.subplots(1, 2), ("MB moved", "million operations"), strict=True)):
        bars = axes.barh(list(rows), [row[i] for row in rows.values()], color=["C4", "C0", "C0"])
        axes.bar_label(bars, fmt="%.0f", padding=4)
        axes.set(title=title, xticks=[])
        axes.margins(x=0.15)


if __name__ == "__main__":
    from _plot import run

    run(main, draw, size=(7.2, 2.2))
