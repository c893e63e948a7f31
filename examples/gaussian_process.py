"""A Gaussian process that learns the rhythm of the Sun, by SciPy's L-BFGS.

Data: the yearly number of sunspots, 1850 to 1987 (Royal Observatory of Belgium).  The years until 1960 are known to the
process, the later ones it predicts.  Its five parameters, the period among them, are where the likelihood of the data
is largest.  The gradient of the likelihood goes through a Cholesky factor; SciPy's minimiser calls the compiled
function as it would call one of NumPy.
"""

import numpy as np
from scipy.optimize import minimize

import autodiff as ad

SPOTS = np.array([
    66.6, 64.5, 54.1, 39, 20.6, 6.7, 4.3, 22.7, 54.8, 93.8, 95.8, 77.2, 59.1, 44, 47, 30.5, 16.3, 7.3, 37.6, 74, 139,
    111.2, 101.6, 66.2, 44.7, 17, 11.3, 12.4, 3.4, 6, 32.3, 54.3, 59.7, 63.7, 63.5, 52.2, 25.4, 13.1, 6.8, 6.3, 7.1,
    35.6, 73, 85.1, 78, 64, 41.8, 26.2, 26.7, 12.1, 9.5, 2.7, 5, 24.4, 42, 63.5, 53.8, 62, 48.5, 43.9, 18.6, 5.7, 3.6,
    1.4, 9.6, 47.4, 57.1, 103.9, 80.6, 63.6, 37.6, 26.1, 14.2, 5.8, 16.7, 44.3, 63.9, 69, 77.8, 64.9, 35.7, 21.2, 11.1,
    5.7, 8.7, 36.1, 79.7, 114.4, 109.6, 88.8, 67.8, 47.5, 30.6, 16.3, 9.6, 33.2, 92.6, 151.6, 136.3, 134.7, 83.9, 69.4,
    31.5, 13.9, 4.4, 38, 141.7, 190.2, 184.8, 159, 112.3, 53.9, 37.5, 27.9, 10.2, 15.1, 47, 93.8, 105.9, 105.5, 104.5,
    66.6, 68.9, 38, 34.5, 15.5, 12.6, 27.5, 92.5, 155.4, 154.7, 140.5, 115.9, 66.6, 45.9, 17.9, 13.4, 29.2,
])  # fmt: skip
YEAR = 1850.0 + np.arange(SPOTS.size)
KNOWN = YEAR <= 1960
MEAN = np.sqrt(SPOTS[KNOWN]).mean()
Y = np.sqrt(SPOTS) - MEAN  # the root is nearer to a normal distribution

NAMES = ("height", "period", "memory", "width", "noise")
START = np.log([3.0, 10.0, 30.0, 1.0, 1.0])  # of parameters that are positive we know the logarithms


def covariance(parameters, a, b):
    """Of the values at years a and b: a rhythm that is forgotten in time.   f[5], f[n], f[m] -> f[n,m]"""
    height, period, memory, width, _ = ad.exp(parameters)
    apart = a[:, None] - b[None, :]
    return height**2 * ad.exp(-2 * (ad.sin(ad.pi * apart / period) / width) ** 2 - 0.5 * (apart / memory) ** 2)


def factor(parameters, year):
    """The Cholesky factor of the covariance of measured values, which have noise.   f[5], f[n] -> f[n,n]"""
    noise = ad.exp(parameters[4])
    return ad.linalg.cholesky(covariance(parameters, year, year) + noise**2 * ad.eye(year.size))


def loss(parameters, year, y):
    """-log p(y | parameters) for each value, but for a constant.   f[5], f[n], f[n] -> f[]"""
    low = factor(parameters, year)
    whitened = ad.linalg.solve_triangular(low, y, lower=True)
    return (0.5 * ad.sum(whitened**2) + ad.sum(ad.log(ad.diagonal(low)))) / y.size


@ad.jit
def predict(parameters, year, y, asked):
    """Mean and deviation of the values at the years `asked`.   f[5], f[n], f[n], f[m] -> f[m], f[m]"""
    low = factor(parameters, year)
    seen = ad.linalg.solve_triangular(low, covariance(parameters, year, asked), lower=True)
    mean = seen.T @ ad.linalg.solve_triangular(low, y, lower=True)
    return mean, ad.exp(parameters[0]) * ad.sqrt(1 - ad.sum(seen**2, axis=0) / ad.exp(2 * parameters[0]))


def main():
    year, y = YEAR[KNOWN], Y[KNOWN]
    before = ad.cache_info().compiles
    both = ad.jit(ad.value_and_grad(loss))
    result = minimize(both, START, args=(year, y), jac=True, method="L-BFGS-B")
    compiles = ad.cache_info().compiles - before
    found = dict(zip(NAMES, np.exp(result.x), strict=True))
    print(f"loss {both(START, year, y)[0]:.4f} -> {result.fun:.4f} after {result.nfev} evaluations")
    print(", ".join(f"{name} {value:.2f}" for name, value in found.items()))
    print("graphs compiled:", compiles)
    assert result.success and 10.5 < found["period"] < 11.5 and compiles == 1

    ahead = np.linspace(1850.0, 1988.0, 553)
    mean, deviation = predict(result.x, year, y, ahead)
    later = YEAR[~KNOWN]
    guess, spread = predict(result.x, year, y, later)
    error = guess - Y[~KNOWN]
    inside = np.mean(np.abs(error) < 2 * np.hypot(spread, found["noise"]))
    print(f"1961 to 1987: {100 * inside:.0f} % of the years lie within two deviations")
    assert inside > 0.75
    return {"ahead": ahead, "mean": mean, "deviation": deviation, "period": found["period"]}


def draw(figure, found):
    """The process through the known years and beyond."""
    axes = figure.subplots()
    ahead, mean, deviation = found["ahead"], found["mean"], found["deviation"]
    low, high = (np.maximum(mean + MEAN + k * deviation, 0.0) ** 2 for k in (-2, 2))
    axes.fill_between(ahead, low, high, alpha=0.25, lw=0, label="two deviations")
    axes.plot(ahead, np.maximum(mean + MEAN, 0.0) ** 2, lw=1.5, label="mean of the process")
    axes.plot(YEAR[KNOWN], SPOTS[KNOWN], ".", color="black", ms=4, label="known to it")
    axes.plot(YEAR[~KNOWN], SPOTS[~KNOWN], "o", color="C3", ms=3.5, mfc="white", label="not known to it")
    axes.set(title=f"sunspots: the period is found to be {found['period']:.1f} years", xlim=(1850, 1988), ylim=(0, 320))
    axes.legend(ncols=4, loc="upper left")


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
