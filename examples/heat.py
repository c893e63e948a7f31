"""A solver of a partial differential equation with a host rule: seeing inside of a plate from its temperatures.

A square plate is heated from below and kept cold on the rim:  -div(k grad u) = q.  SciPy's sparse solver gives the
temperature u for a given conductivity k; a rule makes that solver differentiable.  Its derivative is one more
solution of the same system (the adjoint method), however many unknowns k has.  Around it everything is compiled.

From noisy temperatures the conductivity in every cell is found by SciPy's L-BFGS: the plate hides a good conductor
and a bad one.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

import autodiff as ad

N = 24  # nodes along a side; edges between neighbours, in both directions
NODE = np.arange(N * N).reshape(N, N)
EDGES = np.concatenate(
    [np.stack([NODE[:-1].ravel(), NODE[1:].ravel()]), np.stack([NODE[:, :-1].ravel(), NODE[:, 1:].ravel()])], axis=1
)
RIM = np.zeros((N, N))
RIM[0] = RIM[-1] = RIM[:, 0] = RIM[:, -1] = 10.0  # the heat that flows off into the cold, per degree
SOURCE = np.full(N * N, 1.0)


def matrix(flow):
    """The sparse system A(flow): each edge carries flow times the difference of temperatures."""
    a, b = EDGES
    rows, columns = np.concatenate([a, b, a, b, NODE.ravel()]), np.concatenate([a, b, b, a, NODE.ravel()])
    values = np.concatenate([flow, flow, -flow, -flow, RIM.ravel()])
    return coo_array((values, (rows, columns)), shape=(N * N, N * N)).tocsc()


@ad.function
def temperature(flow, source):
    """The solution u of A(flow) u = source.   f[edges], f[n] -> f[n]"""


@temperature.forward(ad.Vector, ad.Vector, host=True)
def _(ctx, flow, source):
    factors = splu(matrix(flow))
    u = factors.solve(source)
    ctx.save_for_backward(factors=factors, u=u)  # the factors serve once more in the backward pass
    return u


@temperature.backward(ad.Vector, ad.Vector, host=True)
def _(ctx, grad_output):
    s, (a, b) = ctx.saved_variables, EDGES
    adjoint = s.factors.solve(grad_output)  # the matrix is symmetric
    return {"flow": -(adjoint[a] - adjoint[b]) * (s.u[a] - s.u[b]), "source": adjoint}


def flow_of(log_k):
    """The conductivity of each edge: the mean conductivity of its ends.   f[N,N] -> f[edges]"""
    k = ad.exp(log_k)
    return ad.concatenate([ad.ravel(k[:-1] + k[1:]), ad.ravel(k[:, :-1] + k[:, 1:])]) / 2


def loss(log_k, measured, noise):
    """Misfit of the temperatures, and a liking for smooth fields with few edges.   f[N*N], f[N*N], f[] -> f[]"""
    log_k = log_k.reshape(N, N)
    misfit = (temperature(flow_of(log_k), SOURCE) - measured) / noise
    steps = ad.concatenate([ad.ravel(ad.diff(log_k, axis=0)), ad.ravel(ad.diff(log_k, axis=1))])
    return 0.5 * ad.sum(misfit**2) + 2.0 * ad.sum(ad.sqrt(steps**2 + 0.05**2))


def main():
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:1 : N * 1j, 0:1 : N * 1j]
    truth = np.zeros((N, N))
    truth[(x - 0.3) ** 2 + (y - 0.6) ** 2 < 0.15**2] = 1.2  # conducts well
    truth[(abs(x - 0.7) < 0.12) & (abs(y - 0.35) < 0.2)] = -1.2  # conducts badly
    clean = temperature(flow_of(truth), SOURCE).numpy()
    noise = 0.002 * clean.max()
    measured = clean + noise * rng.normal(size=clean.size)

    point = 0.1 * rng.normal(size=N * N)
    ad.check_gradients(lambda p: loss(p, measured, noise), point, order=1)  # the rule, against differences

    both = ad.jit(ad.value_and_grad(loss))
    result = minimize(both, np.zeros(N * N), args=(measured, noise), jac=True, method="L-BFGS-B",
                      options={"maxiter": 300, "maxfun": 400})  # fmt: skip
    found = result.x.reshape(N, N)
    likeness = np.corrcoef(truth.ravel(), found.ravel())[0, 1]
    print(f"{N * N} unknowns, {result.nfev} solutions and as many adjoint ones: loss {result.fun:.1f}")
    print(f"correlation of the found conductivity with the true one: {likeness:.3f}")
    assert likeness > 0.85
    return {"measured": measured.reshape(N, N), "truth": truth, "found": found}


def draw(figure, results):
    """The measured temperatures, the true field, and the found one."""
    panels = figure.subplots(1, 3, gridspec_kw={"wspace": 0.12})
    titles = {"measured": "measured temperature", "truth": "true log-conductivity", "found": "log-conductivity found"}
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        limits = {} if name == "measured" else {"vmin": -1.4, "vmax": 1.4}
        image = axes.imshow(results[name], cmap="inferno" if name == "measured" else "PuOr", origin="lower", **limits)
        figure.colorbar(image, ax=axes, shrink=0.6)
        axes.set(title=title, xticks=[], yticks=[])


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
