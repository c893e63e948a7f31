"""A training loop as people write it: mini-batches, momentum, a schedule, clipped gradients.  Compiled once.

Data: scikit-learn's bundled breast-cancer measurements, 569 x 30 (W. Street, W. Wolberg, O. Mangasarian, 1993).
Everything is recorded anew in each step, hooks included; another learning rate and another batch compile nothing.
"""

import math

import numpy as np
from sklearn.datasets import load_breast_cancer

import autodiff as ad

BATCH = 32
EPOCHS = 40
CLIP = 0.5


def load(rng):
    """Training and held-out measurements, standardised (f64[n,30]), and diagnoses (f64[n], 0 or 1)."""
    measured, is_benign = load_breast_cancer(return_X_y=True)
    order = rng.permutation(len(is_benign))
    x = (measured[order] - measured.mean(axis=0)) / measured.std(axis=0)
    y = is_benign[order].astype(np.float64)
    return x[:448], y[:448], x[448:], y[448:]


def initial(rng):
    """Leaves, by name."""
    arrays = {
        "w1": rng.normal(size=(30, 16)) / math.sqrt(30),
        "b1": np.zeros(16),
        "w2": rng.normal(size=16) / 4,
        "b2": np.zeros(()),
    }
    return {name: ad.tensor(a, requires_grad=True) for name, a in arrays.items()}


def score(p, x):
    """Positive for benign.   {...}, f[n,30] -> f[n]"""
    return ad.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def loss(p, x, y):
    """Logistic loss, mean over the batch."""
    s = score(p, x)
    return ad.mean(ad.softplus(s) - y * s)


def clipped(g):
    """The gradient, scaled down to the norm CLIP if it is longer."""
    return g * ad.minimum(1.0, CLIP / ad.sqrt(ad.sum(g * g) + 1e-12))


def rate_at(step, steps):
    """Half a cosine from 0.2 to 0."""
    return 0.1 * (1 + math.cos(math.pi * step / steps))


def main():
    rng = np.random.default_rng(0)
    x, y, x_held, y_held = load(rng)
    parameters = initial(rng)
    velocity = {name: ad.tensor(np.zeros(p.shape)) for name, p in parameters.items()}
    hooks = [p.register_hook(clipped) for p in parameters.values()]
    images, labels = ad.tensor(x), ad.tensor(y)

    def step(i, rate):
        value = loss(parameters, images[i : i + BATCH], labels[i : i + BATCH])
        value.backward()
        with ad.no_grad():
            for name, p in parameters.items():
                v = velocity[name]
                v *= 0.9
                v += p.grad
                p -= rate * v
                p.grad = None
        return value.detach()

    batches = len(x) // BATCH
    steps, done = EPOCHS * batches, 0
    compiles = [ad.cache_info().compiles]  # after each step
    course = []  # mean loss and rate, epoch by epoch
    for epoch in range(1, EPOCHS + 1):
        total = ad.tensor(0.0)
        for i in range(0, len(x), BATCH):
            total += step(i, rate_at(done, steps))
            compiles.append(ad.cache_info().compiles)
            done += 1
        mean = total.item() / batches
        course.append((mean, rate_at(done, steps)))
        if epoch % 10 == 0:
            print(f"epoch {epoch:2d}  rate {rate_at(done, steps):.3f}  loss {mean:.4f}")
    with ad.no_grad():
        accuracy = float(np.mean((score(parameters, x_held).numpy() > 0) == (y_held > 0.5)))
    print(f"held-out accuracy {100 * accuracy:.1f} %")
    first = compiles[10 * batches] - compiles[0]  # a program is compiled when it repeats, also one of each epoch
    later = compiles[-1] - compiles[0] - first
    print(f"{done} steps; graphs compiled in the first ten epochs: {first}, later: {later}")
    for hook in hooks:
        hook.remove()
    assert accuracy > 0.95, accuracy
    assert later == 0
    return {"course": course, "compiles": compiles}


def draw(figure, found):
    """The loss by epoch, and the number of compiled graphs by step."""
    left, right = figure.subplots(1, 2)
    left.semilogy(*zip(*enumerate((mean for mean, _ in found["course"]), 1), strict=True))
    left.set(title="mean loss of each epoch", xlabel="epoch")
    right.plot(np.array(found["compiles"]) - found["compiles"][0], color="C1")
    right.set(title="graphs compiled so far", xlabel="step", ylim=(0, None))


if __name__ == "__main__":
    from _plot import run

    run(main, draw, size=(7.2, 2.6))
