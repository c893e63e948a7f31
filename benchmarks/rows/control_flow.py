"""Loops and branches of many kinds, value and gradients: of one number or many, branches inside loops, nested loops."""

from types import SimpleNamespace

import numpy as np
from targets import faster

TITLE = "loops in the graph, value and gradient"
TARGETS = [faster(1.2, "jax")]
STEPS = 1000


# ---------------------------------------------------------------- programs; `flow` holds a library's loops and branches


def newton(lib, flow, a):
    return flow.fori(STEPS, lambda i, x: 0.5 * (x + a / x), a)


def logistic_map(lib, flow, r):
    return flow.fori(STEPS, lambda i, x: r * x * (1 - x), r * 0 + 0.3)


def relaxed(lib, flow, a):
    return lib.sum(flow.fori(STEPS, lambda i, x: x * 0.99 + a * 0.01, a * 0.5))


def branching(lib, flow, w, xs):
    def step(c, x):
        c = flow.cond(lib.sum(x) > 0, lambda c: lib.tanh(c * w + x), lambda c: c * 0.5 - x, c)
        return c, lib.sum(c)

    last, ys = flow.scan(step, w, xs)
    return lib.sum(last * last) + lib.sum(ys)


def nested(lib, flow, w, xs):
    def inner(c, x):
        c = lib.tanh(c * w + x)
        return c, c

    def outer(c, x):
        c, _ = flow.scan(inner, c, x)
        return c, lib.sum(c)

    return lib.sum(flow.scan(outer, w, xs)[1])


def orbit(lib, flow, p, start):
    """The Lotka-Volterra equations, integrated by a Runge-Kutta method."""

    def slope(y):
        return p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1]

    def after(y, k, h):
        return tuple(a + h * b for a, b in zip(y, k, strict=True))

    def step(y, x):
        k1 = slope(y)
        k2 = slope(after(y, k1, 0.005))
        k3 = slope(after(y, k2, 0.005))
        k4 = slope(after(y, k3, 0.01))
        mean = tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
        y = after(y, mean, 0.01)
        return y, y[0] * x

    last, ys = flow.scan(step, (p[0] * 0 + 1.0, p[0] * 0 + 1.0), start)
    return last[1] + lib.sum(ys)


def cell(lib, flow, w, u, xs):
    last, _ = flow.scan(lambda h, x: (lib.tanh(h @ w + x @ u), h[0, 0]), xs[0] @ u * 0, xs)
    return lib.sum(last * last)


def gated(lib, flow, w, u, xs):
    """An LSTM cell run over a sequence."""
    n = w.shape[0]

    def step(state, x):
        h, c = state
        gates = h @ w + x @ u
        i, f, o, g = (gates[:, k * n : (k + 1) * n] for k in range(4))
        c = c / (1 + lib.exp(-f)) + lib.tanh(g) / (1 + lib.exp(-i))
        h = lib.tanh(c) / (1 + lib.exp(-o))
        return (h, c), lib.sum(h)

    zero = (xs[0] @ u)[:, :n] * 0
    (h, _), ys = flow.scan(step, (zero, zero), xs)
    return lib.sum(h * h) + lib.sum(ys)


def forward(lib, flow, moves, scores):
    """The forward algorithm of a conditional random field: log-sums over all paths to each label."""

    def step(c, x):
        top = c[0]
        c = lib.log(lib.sum(lib.exp(c[:, None] - top + moves), 0)) + top + x
        return c, c[0]

    last, _ = flow.scan(step, scores[0] * 0, scores)
    return lib.log(lib.sum(lib.exp(last - last[0]), 0)) + last[0]


def filtered(lib, flow, a, xs):
    """A recursive (IIR) filter of many signals."""

    def step(c, x):
        y = x - a[0] * c[0] - a[1] * c[1]
        return (y, c[0]), y

    _, ys = flow.scan(step, (xs[0] * 0, xs[0] * 0), xs)
    return lib.sum(ys * ys)


def _numbers(*shapes, dtype="f8", scale=1.0):
    rng = np.random.default_rng(0)
    return tuple((rng.normal(size=s) * scale).astype(dtype) for s in shapes)


#: For each case: the program, its arrays, and the number of arrays, from the first, that are differentiated.
_CASES = {
    "Newton, one number": (newton, (np.array(2.0),), 1),
    "logistic map, one number": (logistic_map, (np.array(2.9),), 1),
    "x * 0.99 + a, 10,000 numbers": (relaxed, _numbers(10_000), 1),
    "a branch in each step, 10 numbers": (branching, _numbers(10, (STEPS, 10)), 2),
    "30 loops of 30 steps, 8 numbers": (nested, _numbers(8, (30, 30, 8)), 2),
    "Runge-Kutta, 2 numbers": (orbit, (np.array([1.1, 0.4, 0.4, 0.1]), np.linspace(0.0, 1.0, STEPS)), 1),
    "forward algorithm, 5 labels, 200 steps": (forward, _numbers((5, 5), (200, 5)), 2),
    "recursive filter of 64 signals": (filtered, (np.array([0.3, -0.2]), *_numbers((STEPS, 64))), 2),
    "cell of 4 units, batch 1, f32": (cell, _numbers((4, 4), (4, 4), (STEPS, 1, 4), dtype="f4", scale=0.5), 2),
    "cell of 256 units, batch 16, 200 steps, f32": (
        cell, _numbers((256, 256), (256, 256), (200, 16, 256), dtype="f4", scale=0.05), 2
    ),
    "LSTM of 64 units, batch 16, 300 steps, f32": (
        gated, _numbers((64, 256), (64, 256), (300, 16, 64), dtype="f4", scale=0.1), 2
    ),
}  # fmt: skip
CASES = list(_CASES)


def inputs(case):
    return (case, *_CASES[case][1])


def _program(case, flow):
    program, _, count = _CASES[case]
    return lambda lib, *arrays: program(lib, flow, *arrays), range(count)


def ours(case, *arrays):
    import peers

    import autodiff as ad

    flow = SimpleNamespace(scan=ad.scan, cond=ad.cond, fori=lambda n, f, x: ad.fori_loop(0, n, f, x))
    return peers.ours(*_program(case, flow), arrays)


def jax(case, *arrays):
    import jax as j
    import peers

    flow = SimpleNamespace(scan=j.lax.scan, cond=j.lax.cond, fori=lambda n, f, x: j.lax.fori_loop(0, n, f, x))
    return peers.jax(*_program(case, flow), arrays)


def reference(case, *arrays):
    """The program in wider numbers, with loops in Python."""
    import autograd.numpy as lib
    from precision import by_autograd

    def scan(f, carry, xs):
        ys = []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, lib.stack(ys)

    def fori(n, f, x):
        for i in range(n):
            x = f(i, x)
        return x

    flow = SimpleNamespace(scan=scan, fori=fori, cond=lambda chosen, yes, no, x: yes(x) if chosen else no(x))
    return by_autograd(*_program(case, flow), arrays)
