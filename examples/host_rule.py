"""A routine of somebody else's, in forward and backward, inside of an otherwise compiled and cached graph.

SciPy's log Γ and its derivatives ψ, ψ' need real arrays, so they are declared with `host=True`: what stands before
and after them is native code, and only they run in Python each time.  What a host rule returns has no
derivative; ψ is therefore an `ad.function` of its own, and the second derivative is right.

The maximum-likelihood shape and scale of a gamma distribution, by Newton's method in a trust region.
"""

import numpy as np
from scipy import special, stats
from scipy.optimize import minimize

import autodiff as ad


@ad.function
def log_gamma(x):
    """log Γ(x).   f[...] -> f[...]"""


@log_gamma.forward(ad.Tensor, host=True)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return special.gammaln(x)


@log_gamma.backward(ad.Tensor)
def _(ctx, grad_output):
    return grad_output * psi(ctx.saved_variables.x)


@ad.function
def psi(x):
    """The derivative of log Γ.   f[...] -> f[...]"""


@psi.forward(ad.Tensor, host=True)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return special.digamma(x)


@psi.backward(ad.Tensor, host=True)
def _(ctx, grad_output):
    return grad_output * special.polygamma(1, ctx.saved_variables.x)


def loss(parameters, x):
    """Mean of -log p(x), of a gamma distribution with the logarithms of shape and scale.   f[2], f[n] -> f[]"""
    log_shape, log_scale = parameters[0], parameters[1]
    shape = ad.exp(log_shape)
    return log_gamma(shape) + shape * log_scale - ad.mean((shape - 1) * ad.log(x) - x / ad.exp(log_scale))


def main():
    rng = np.random.default_rng(0)
    x = rng.gamma(3.0, 2.0, size=1000)

    point = np.array([1.0, 0.5])
    gradient, hessian = ad.grad(loss), ad.hessian(loss)
    step = 1e-5
    for i, unit in enumerate(np.eye(2)):
        first = (loss(point + step * unit, x) - loss(point - step * unit, x)) / (2 * step)
        second = (gradient(point + step * unit, x) - gradient(point - step * unit, x)) / (2 * step)
        assert np.isclose(gradient(point, x)[i], float(first), rtol=1e-6)
        assert np.allclose(hessian(point, x)[i], second, rtol=1e-6)

    before = ad.cache_info().compiles
    both = ad.jit(ad.value_and_grad(loss))
    result = minimize(both, np.zeros(2), args=(x,), jac=True, hess=hessian, method="trust-exact", tol=1e-9)
    shape, scale = np.exp(result.x)
    print(f"shape {shape:.4f}, scale {scale:.4f} after {result.nit} steps of Newton's method, loss {result.fun:.6f}")
    print(f"graphs compiled: {ad.cache_info().compiles - before}, evaluations: {result.nfev}")
    theirs, _, their_scale = stats.gamma.fit(x, floc=0)
    assert np.allclose([shape, scale], [theirs, their_scale], rtol=1e-4)
    return {"x": x, "fitted": result.x}


def draw(figure, found):
    """The likelihood by both parameters, and the fitted density over the data."""
    left, right = figure.subplots(1, 2)
    a, b = np.meshgrid(np.linspace(0.6, 1.6, 41), np.linspace(0.2, 1.2, 41))
    each = ad.vmap(loss, in_axes=(0, None))(np.stack([a.ravel(), b.ravel()], axis=1), found["x"]).reshape(a.shape)
    left.contour(np.exp(a), np.exp(b), each, each.min() + np.array([0.002, 0.01, 0.03, 0.1, 0.2]), cmap="viridis_r")
    left.plot(*np.exp(found["fitted"]), "+", color="C3", ms=10)
    left.set(title="-log likelihood, and its minimum", xlabel="shape", ylabel="scale")
    x = np.linspace(0.01, 25, 400)
    right.hist(found["x"], bins=50, density=True, color="C4", alpha=0.5)
    right.plot(x, stats.gamma.pdf(x, np.exp(found["fitted"][0]), scale=np.exp(found["fitted"][1])))
    right.set(title="the fitted density")


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
