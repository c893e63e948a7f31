"""Parameters of a differential equation from real data, by three of SciPy's optimisers.

Data: pelts of hare and lynx traded by the Hudson's Bay Company, 1900 to 1920, in thousands (C. Elton and
M. Nicholson, "The ten-year cycle in numbers of the lynx in Canada", J. Animal Ecology 11, 1942).
Model: Lotka and Volterra, u' = (a - b v) u, v' = (-c + d u) v, integrated by Runge and Kutta's fourth order.

Shown: NumPy in and out, no conversions; the whole integration and its gradient are one compiled graph; Hessian
times vector for Newton-CG.
"""

import numpy as np
from scipy.optimize import minimize

import autodiff as ad

HARE = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1, 40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6,
        16.2, 24.7]  # fmt: skip
LYNX = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1,
        8.6]  # fmt: skip
LOG_PELTS = np.log([HARE, LYNX]).T

#: Steps of the integration for one year.
STEPS = 2


def slope(log_state, rates):
    """d/dt of log u and log v: a - b v, -c + d u.   f[2], f[4] -> f[2]"""
    growth, sign = rates[0:2], np.array([-1.0, 1.0])
    return growth + sign * rates[2:4] * ad.flip(ad.exp(log_state))


def runge_kutta(log_state, rates, h):
    """One step.   f[2], f[4] -> f[2]"""
    k1 = slope(log_state, rates)
    k2 = slope(log_state + 0.5 * h * k1, rates)
    k3 = slope(log_state + 0.5 * h * k2, rates)
    k4 = slope(log_state + h * k3, rates)
    return log_state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def course(parameters):
    """log u and log v, year by year.   f[6] -> f[21,2]"""
    log_state, rates = parameters[0:2], ad.exp(parameters[2:6]) * np.array([1.0, -1.0, 1.0, 1.0])
    states = [log_state]
    for _ in range(len(LOG_PELTS) - 1):
        for _ in range(STEPS):
            log_state = runge_kutta(log_state, rates, 1.0 / STEPS)
        states.append(log_state)
    return ad.stack(states)


def loss(parameters):
    """Mean squared error of the logarithms.   f[6] -> f[]"""
    return ad.mean((course(parameters) - LOG_PELTS) ** 2)


def main():
    start = np.log([30.0, 5.0, 0.5, 0.9, 0.03, 0.03])  # u(0), v(0), a, c, b, d
    before = ad.cache_info()
    both = ad.jit(ad.value_and_grad(loss))
    product = ad.jit(lambda p, v: ad.hvp(loss, (p,), (v,)))
    found = {}
    for method, options in (("L-BFGS-B", {}), ("BFGS", {}), ("Newton-CG", {"hessp": product})):
        result = minimize(both, start, jac=True, method=method, **options)
        found[method] = result.fun
        a, c, b, d = np.exp(result.x[2:])
        print(f"{method:9}: error {result.fun:.5f} after {result.nfev:3d} evaluations;"
              f" a = {a:.3f}, b = {b:.4f}, c = {c:.3f}, d = {d:.4f}")
    compiles = ad.cache_info().compiles - before.compiles
    print("graphs compiled:", compiles, "(value and gradient, Hessian times vector)")
    assert max(found.values()) < 0.1 and np.ptp(list(found.values())) < 1e-4
    assert compiles == 2

    step, direction = 1e-6, np.ones(6)
    difference = (both(start + step * direction)[1] - both(start - step * direction)[1]) / (2 * step)
    assert np.allclose(product(start, direction), difference, rtol=1e-4, atol=1e-4)
    return {"start": start, "fitted": result.x}


def draw(figure, found):
    """The pelts of both animals, and the course of the fitted model."""
    axes = figure.subplots()
    year = np.arange(1900, 1921)
    fitted, guess = np.exp(course(found["fitted"])), np.exp(course(found["start"]))
    for i, (name, color) in enumerate((("hare", "C0"), ("lynx", "C1"))):
        axes.plot(year, np.exp(LOG_PELTS[:, i]), "o", color=color, ms=4, label=f"{name}, counted")
        axes.plot(year, fitted[:, i], color=color, label=f"{name}, fitted")
        axes.plot(year, guess[:, i], color=color, lw=0.8, ls=":")
    axes.set(title="thousands of pelts (dotted: the first guess)", xticks=year[::5], ylim=(0, 100))
    axes.legend(ncols=4, loc="upper center")


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
