"""Newton's method without a Hessian: conjugate gradients on Hessian-vector products.

Data: scikit-learn's bundled breast-cancer measurements, 569 x 30 (W. Street, W. Wolberg, O. Mangasarian, 1993).
Regularised logistic regression.  `ad.hvp` costs a few gradients, whatever the number of parameters, and is compiled
once; the error falls quadratically at the end.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

import autodiff as ad

WEIGHT_DECAY = 1e-3


def loss(w, x, y):
    """Mean logistic loss of labels y = -1 or 1, and a little of |w|².   f[k], f[n,k], f[n] -> f[]"""
    return ad.mean(ad.softplus(-y * (x @ w))) + 0.5 * WEIGHT_DECAY * ad.sum(w * w)


def conjugate_gradients(product, b, tolerance):
    """Solve A x = b for a positive definite A, given by v -> A v."""
    x, r = np.zeros_like(b), b.copy()
    p, rr = r, r @ r
    for _ in range(10 * b.size):
        if np.sqrt(rr) <= tolerance:
            break
        ap = product(p)
        step = rr / (p @ ap)
        x, r = x + step * p, r - step * ap
        rr, before = r @ r, rr
        p = r + rr / before * p
    return x


def main():
    measured, is_benign = load_breast_cancer(return_X_y=True)
    x = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    x = np.column_stack([x, np.ones(len(x))])
    y = 2.0 * is_benign - 1.0

    value_and_gradient = ad.jit(ad.value_and_grad(loss))
    hessian_times = ad.jit(lambda w, v, x, y: ad.hvp(lambda w: loss(w, x, y), (w,), (v,)))

    w = np.zeros(x.shape[1])
    before = ad.cache_info().compiles
    norms = []
    for _ in range(20):
        value, g = value_and_gradient(w, x, y)
        norms.append(float(np.linalg.norm(g)))
        print(f"step {len(norms) - 1}: loss {value:.10f}, |gradient| {norms[-1]:.1e}")
        if norms[-1] < 1e-12:
            break
        tolerance = min(0.1, norms[-1]) * norms[-1]  # tighter towards the end: quadratic convergence
        w = w - conjugate_gradients(lambda v, w=w: hessian_times(w, v, x, y), g, tolerance)
    compiles = ad.cache_info().compiles - before
    print(f"graphs compiled: {compiles};  accuracy {np.mean(np.sign(x @ w) == y):.3f}")
    assert norms[-1] < 1e-12 and len(norms) < 15
    assert compiles == 2
    return {"norms": norms, "projected": x @ w, "y": y}


def draw(figure, found):
    """The gradient by step, and the scores of both groups."""
    left, right = figure.subplots(1, 2)
    left.semilogy(found["norms"], "o-", ms=4)
    left.set(title="length of the gradient", xlabel="step of Newton's method")
    for label, name in ((1.0, "benign"), (-1.0, "malignant")):
        right.hist(found["projected"][found["y"] == label], bins=np.linspace(-20, 20, 61), alpha=0.7, label=name)
    right.set(title="log-odds that it is benign", xlabel="x @ w")
    right.legend()


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
