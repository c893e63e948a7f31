"""Many examples at once: write a function of one, map it over all.

A small network is trained with differential privacy: the gradient of *each* example is clipped before they are
added up, so the gradient of every example is needed, not their sum.  Then the same function serves an ensemble:
several networks, each with weights of its own.  And a Jacobian for every example: what its score is sensitive to.
"""

import time

import numpy as np

import autodiff as ad

rng = np.random.default_rng(0)
POINTS, HIDDEN = 256, 16
angle = rng.uniform(0, 3 * np.pi, POINTS)
turn = rng.integers(0, 2, POINTS)  # which of two spirals a point lies on
points = (angle / 9)[:, None] * np.stack([np.cos(angle + np.pi * turn), np.sin(angle + np.pi * turn)], axis=1)
labels = turn.astype(float)


def start(rng):
    """Weights of a network."""
    return {
        "in": rng.normal(size=(2, HIDDEN)) * 2,
        "bias": rng.uniform(-2, 2, HIDDEN),
        "out": rng.normal(size=HIDDEN) / 4,
    }


def score(weights, point):
    """The log-odds that one point lies on spiral 1.   f[2] → f[]"""
    return ad.tanh(point @ weights["in"] + weights["bias"]) @ weights["out"]


def loss(weights, point, label):
    """Cross-entropy of one point."""
    odds = score(weights, point)
    return ad.softplus(odds) - label * odds


def total(weights):
    """The mean loss of one network."""
    return ad.vmap(loss, (None, 0, 0))(weights, points, labels).mean()


# ---- the gradient of each example, clipped


def clipped(weights, point, label):
    """The gradient of one example, at most 1 long."""
    gradient = ad.grad(loss)(weights, point, label)
    length = ad.sqrt(sum((g * g).sum() for g in ad.tree.leaves(gradient)))
    return ad.tree.map(lambda g: g / ad.maximum(length, 1.0), gradient)


@ad.jit
def step(weights, points, labels, noise):
    """One step of private descent: clipped gradients, added up, with noise."""
    gradients = ad.vmap(clipped, in_axes=(None, 0, 0))(weights, points, labels)
    return ad.tree.map(lambda w, g, n: w - 0.2 * (g.mean(axis=0) + n), weights, gradients, noise)


# ---- an ensemble: the weights differ, the points do not

everyone = ad.vmap(ad.vmap(score, in_axes=(None, 0)), in_axes=(0, None))


@ad.jit
def train(ensemble):
    """A step of descent for every network, each by its own gradient."""
    return ad.tree.map(lambda w, g: w - 0.5 * g, ensemble, ad.vmap(ad.grad(total))(ensemble))


def main():
    weights = start(rng)
    before = total(weights)
    for _ in range(200):
        noise = {name: 1e-3 * rng.normal(size=w.shape) for name, w in weights.items()}
        weights = step(weights, points, labels, noise)
    after = total(weights)
    print(f"private descent: loss {before:.3f} -> {after:.3f}")

    # The same by a loop over the examples.
    one = ad.jit(clipped)
    begun = time.perf_counter()
    by_loop = [one(weights, p, y) for p, y in zip(points, labels, strict=True)]
    loop_s = time.perf_counter() - begun
    mapped = ad.jit(ad.vmap(clipped, (None, 0, 0)))
    mapped(weights, points, labels)
    begun = time.perf_counter()
    at_once = mapped(weights, points, labels)
    vmap_s = time.perf_counter() - begun
    print(f"{POINTS} gradients: a loop {1e3 * loop_s:.1f} ms, vmap {1e3 * vmap_s:.2f} ms")

    ensemble = ad.tree.map(lambda *ws: np.stack(ws), *[start(rng) for _ in range(5)])
    print(f"an ensemble of 5 on {POINTS} points:", everyone(ensemble, points).shape)
    for _ in range(5000):
        ensemble = train(ensemble)
    odds = everyone(ensemble, points)
    single = ((odds > 0) == turn).mean(axis=1)
    together = ((odds.mean(axis=0) > 0) == turn).mean()
    print(f"accuracy: each {single.round(2)}, together {together:.2f}")

    # ---- the sensitivity of each output to each input

    sensitivity = ad.vmap(ad.jacobian(lambda p: ad.stack([score(weights, p), ad.sigmoid(score(weights, p))])))(points)
    print("sensitivity of 2 outputs to 2 inputs, for each point:", sensitivity.shape)

    for name in weights:
        np.testing.assert_allclose(at_once[name], np.stack([g[name] for g in by_loop]), rtol=1e-9, atol=1e-12)
    h = 1e-6
    moved = points + h * np.array([1.0, 0.0])
    difference = [(score(weights, p) - score(weights, q)) / h for p, q in zip(moved, points, strict=True)]
    np.testing.assert_allclose(sensitivity[:, 0, 0], np.array(difference).reshape(-1), atol=1e-4)
    assert after < before and sensitivity.shape == (POINTS, 2, 2) and single.min() > 0.5
    return ensemble


def draw(figure, ensemble):
    """The decision of each network, and of the mean of all."""
    side = np.linspace(-1.1, 1.1, 81)
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    odds = np.asarray(everyone(ensemble, grid.reshape(-1, 2))).reshape(-1, 81, 81)
    names = [f"network {i}" for i in range(1, 6)] + ["all together"]
    for axes, values, name in zip(figure.subplots(1, 6), [*odds, odds.mean(axis=0)], names, strict=True):
        axes.contourf(side, side, values, [-1e9, 0, 1e9], colors=["#fbe3c8", "#cfdcee"])
        axes.scatter(*points.T, s=2, c=np.where(turn, "C0", "C1"))
        axes.set(title=name, xticks=[], yticks=[], aspect="equal")


if __name__ == "__main__":
    from _plot import run

    run(main, draw, size=(9.0, 1.9))
