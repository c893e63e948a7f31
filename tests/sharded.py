"""Shards, functions of them, and the values and gradients that one process gives: what tests of workers share."""

import numpy as np

import autodiff as ad

KEYS = range(5)


def load(key):
    rng = np.random.default_rng(key)
    return rng.normal(size=(5 + key, 3)), rng.choice([-1.0, 1.0], size=5 + key)


def load_even(key):
    rng = np.random.default_rng(key)
    return rng.normal(size=(5, 3)), rng.choice([-1.0, 1.0], size=5)


def loss(p, x, y):
    return ad.sum(ad.log1p(ad.exp(-y * (x @ p["w"] + p["b"])))), len(y)


def moments(p, x, y):
    return {"m": x.T @ ad.tanh(x @ p["w"]), "n": (len(y), ad.sum(y) * p["b"])}


@ad.jit
def compiled_loss(p, x, y):
    TRACES.append(x.shape)
    return loss(p, x, y)


@ad.jit
def compiled_moments(p, x, y):
    return moments(p, x, y)


TRACES = []


def quotient(total):
    def mean(p):
        a, n = total(p)
        return a / n

    return mean


def in_one_process(f):
    def total(*parameters):
        results = [f(*parameters, *load(key)) for key in KEYS]
        return ad.tree.map(lambda *xs: sum(xs[1:], xs[0]), *results)

    return total


P = {"w": np.array([0.1, -0.2, 0.3]), "b": 0.5}
V = {"w": np.array([1.0, 0.5, -0.3]), "b": -1.0}


def same(a, b):
    for x, y in zip(ad.tree.leaves(a), ad.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)


def everything(mean, vector):
    """All that is asked of a function of P that gives a number, and of one that gives a tree."""
    at = {"w": P["w"], "b": P["b"]}

    def of_w(w):
        return mean({"w": w, "b": 0.5})

    def backward():
        w = ad.tensor(P["w"], requires_grad=True)
        of_w(w).backward()
        return w.grad.numpy()

    return {
        "value": lambda: mean(at),
        "value_and_grad": lambda: ad.value_and_grad(mean)(at),
        "backward": backward,
        "jit": lambda: ad.jit(ad.value_and_grad(mean))(at),
        "hvp": lambda: ad.hvp(mean, (at,), (V,)),
        "jit hvp": lambda: ad.jit(lambda p: ad.hvp(mean, (p,), (V,)))(at),
        "jvp": lambda: ad.jvp(mean, (at,), (V,)),
        "hessian": lambda: ad.hessian(of_w)(P["w"]),
        "reverse over reverse": lambda: ad.grad(lambda w: ad.sum(ad.grad(of_w)(w) ** 2))(P["w"]),
        "third": lambda: ad.grad(lambda w: ad.hvp(of_w, (w,), (V["w"],))[0])(P["w"]),
        "vmap": lambda: ad.vmap(ad.grad(of_w))(np.eye(3)[:2]),
        "tree": lambda: vector(at),
        "jacobian": lambda: ad.jacobian(lambda w: vector({"w": w, "b": 0.5})["m"])(P["w"]),
        "vjp": lambda: ad.grad(lambda p: ad.sum(vector(p)["m"] ** 2) * vector(p)["n"][1])(at),
        "second of a tree": lambda: ad.hvp(lambda p: ad.sum(vector(p)["m"] ** 3), (at,), (V,)),
        "jit of a tree": lambda: ad.jit(ad.grad(lambda p: ad.sum(vector(p)["m"] ** 2)))(at),
        "checkpoint": lambda: ad.grad(lambda w: ad.checkpoint(of_w)(w))(P["w"]),
        "scan": lambda: ad.jit(lambda w: ad.fori_loop(0, 3, lambda i, w: w - ad.grad(of_w)(w), w))(P["w"]),
    }
