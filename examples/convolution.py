"""A convolutional network on handwritten digits, with dropout and Adam.

Data: scikit-learn's bundled digits, 1,797 images of 8 x 8 pixels (E. Alpaydin and C. Kaynak, 1998).

A convolution is nine slices of the image, one for each place of its window, times the weights.  Dropout draws its mask
from a key inside the compiled step, so each step has another one.  Adam is written out: its moments are trees of the
same shape as the weights, and `ad.tree.map` works on all of them.
"""

import numpy as np
from sklearn.datasets import load_digits

import autodiff as ad
from autodiff import random

BATCH = 100


def load(rng):
    """Training and held-out images (f32[n,8,8,1]) and labels (i64[n]), shuffled."""
    images, digits = load_digits(return_X_y=True)
    order = rng.permutation(len(digits))
    x = (images[order] / 16.0).astype(np.float32).reshape(-1, 8, 8, 1)
    label = digits[order]
    return x[:1400], label[:1400], x[1400:], label[1400:]


def initial(rng):
    """Weights by layer: two convolutions, and a dense layer."""
    sizes = {"first": (9 * 1, 12), "second": (9 * 12, 24), "out": (4 * 24, 10)}
    return {
        name: {"w": (rng.normal(size=s) * np.sqrt(2 / s[0])).astype(np.float32), "b": np.zeros(s[1], np.float32)}
        for name, s in sizes.items()
    }


def convolve(x, layer):
    """A 3 x 3 convolution that keeps the size.   f[n,h,w,c], {w: f[9c,d], b: f[d]} -> f[n,h,w,d]"""
    _, h, w, _ = x.shape
    x = ad.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = [x[:, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return ad.concatenate(windows, axis=3) @ layer["w"] + layer["b"]


def pool(x):
    """The largest of each 2 x 2 pixels.   f[n,h,w,c] -> f[n,h/2,w/2,c]"""
    n, h, w, c = x.shape
    return ad.max(x.reshape(n, h // 2, 2, w // 2, 2, c), axis=(2, 4))


def scores(weights, x, keep=None):
    """Scores of ten digits; in training a mask `keep` drops features.   {...}, f[n,8,8,1] -> f[n,10]"""
    x = pool(ad.relu(convolve(x, weights["first"])))
    x = pool(ad.relu(convolve(x, weights["second"]))).reshape(x.shape[0], -1)
    if keep is not None:
        x = ad.where(keep, x / 0.7, 0.0)
    return x @ weights["out"]["w"] + weights["out"]["b"]


def loss(weights, x, label, key):
    """Cross-entropy of one mini-batch, with dropout drawn from a key."""
    keep = random.bernoulli(key, 0.7, (x.shape[0], 4 * 24))
    log_p = ad.log_softmax(scores(weights, x, keep), axis=1)
    return -ad.mean(ad.take_along_axis(log_p, label[:, None], axis=1))


@ad.jit
def step(state, x, label, rate):
    """One step of Adam: (state, loss).  The state: weights, two moments, the number of steps, a key."""
    weights, mean, square, t, key = state
    key, now = random.split(key)
    value, gradient = ad.value_and_grad(loss)(weights, x, label, now)
    t = t + 1.0
    mean = ad.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = ad.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
    rate = ad.astype(rate * ad.sqrt(1 - 0.999**t) / (1 - 0.9**t), ad.float32)
    weights = ad.tree.map(lambda w, m, s: w - rate * m / (ad.sqrt(s) + 1e-8), weights, mean, square)
    return (weights, mean, square, t, key), value


def main(long=False):
    rng = np.random.default_rng(0)
    x, label, x_held, label_held = load(rng)
    weights = initial(rng)
    zeros = ad.tree.map(np.zeros_like, weights)
    state = (weights, zeros, zeros, 0.0, random.key(0).numpy())
    predict = ad.jit(scores)

    losses, before = [], ad.cache_info().compiles
    epochs = 60 if long else 12
    for epoch in range(1, epochs + 1):
        order = rng.permutation(len(x))
        for i in range(0, len(x), BATCH):
            batch = order[i : i + BATCH]
            state, value = step(state, x[batch], label[batch], 0.005 / (1 + 0.1 * epoch))
            losses.append(float(value))
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d}: loss {np.mean(losses[-14:]):.4f}")
    guess = np.asarray(predict(state[0], x_held)).argmax(axis=1)
    accuracy = np.mean(guess == label_held)
    print(f"held-out accuracy {100 * accuracy:.1f} %, graphs compiled: {ad.cache_info().compiles - before}")
    assert accuracy > 0.95
    wrong = np.flatnonzero(guess != label_held)
    return {"losses": losses, "filters": state[0]["first"]["w"], "accuracy": accuracy,
            "wrong": [(x_held[i, :, :, 0], guess[i], label_held[i]) for i in wrong]}  # fmt: skip


def draw(figure, found):
    """The loss, the filters of the first layer, and images that were taken for another digit."""
    left, middle, right = figure.subfigures(1, 3, width_ratios=[1.3, 1, 1.3])
    axes = left.subplots()
    axes.semilogy(found["losses"], lw=1)
    axes.set(title="loss of each step", xlabel="step")
    middle.suptitle("filters of the first layer", fontsize=10)
    for axes, one in zip(middle.subplots(4, 3).flat, found["filters"].T, strict=True):
        axes.imshow(one.reshape(3, 3), cmap="PuOr", vmin=-1.2, vmax=1.2)
        axes.set_axis_off()
    right.suptitle(f"misread: {100 * (1 - found['accuracy']):.1f} % of 397", fontsize=10)
    for axes, (image, guess, true) in zip(right.subplots(2, 3).flat, found["wrong"], strict=False):
        axes.imshow(image, cmap="gray_r")
        axes.set_title(f"{true} as {guess}", fontsize=8, loc="center")
        axes.set_axis_off()


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
