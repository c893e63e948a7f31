"""Loops that are done in parts, and the programs that they become."""

import numpy as np

import autodiff as ad

RNG = np.random.default_rng(5)
STEPS, BATCH, N, M = 6, 8, 24, 20
W, U = RNG.normal(size=(N, N)) * 0.2, RNG.normal(size=(M, N)) * 0.2
B = RNG.normal(size=N)
XS = RNG.normal(size=(STEPS, BATCH, M))
H = RNG.normal(size=(BATCH, N))


def cell(p, h, x):
    return ad.tanh(h @ p["w"] + (x @ p["u"] + p["b"])), h[0]


def scaled(p, h, x):
    return h * ad.exp(-p["b"] * p["b"]) + (x @ p["u"]) @ p["w"], None


def two_products(p, h, x):
    return ad.tanh((h @ p["w"]) @ p["w"] - x @ p["u"]), ad.sum(h, axis=1)


PARAMETERS = {"w": W, "u": U, "b": B}


def by_scan(step, reverse=False):
    def loss(p, h, xs):
        last, ys = ad.scan(lambda h, x: step(p, h, x), h, xs, reverse=reverse)
        return ad.sum(last * last) + (0.0 if ys is None else ad.sum(ad.sin(ys)))

    return loss


def by_hand(step, reverse=False):
    def loss(p, h, xs):
        total = 0.0
        for t in reversed(range(len(xs))) if reverse else range(len(xs)):
            h, y = step(p, h, xs[t])
            total = total + (0.0 if y is None else ad.sum(ad.sin(y)))
        return ad.sum(h * h) + total

    return loss


def leaves_close(found, wanted, rtol=1e-11):
    for a, b in zip(ad.tree.leaves(found), ad.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max(initial=0.0)))
