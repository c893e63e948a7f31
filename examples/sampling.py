"""Random numbers inside compiled code: gradients through samples.

First the price of an option by simulation, with its sensitivities: each path is a loop that draws its steps from keys,
so no array of paths exists.  Then a posterior distribution is fitted by following the gradient of a few samples at a
time.  Both have exact answers to compare with.
"""

import math

import numpy as np

import autodiff as ad

random = ad.random

# ---- a price, and how it moves with the price of the share and with volatility

STRIKE, YEARS, RATE, STEPS, PATHS = 105.0, 1.0, 0.02, 50, 40_000


def price(share, volatility, key):
    """The mean worth today of max(share - STRIKE, 0) in a year, over simulated paths."""
    dt = YEARS / STEPS
    drift = (RATE - volatility**2 / 2) * dt

    def move(i, log_share):
        noise = random.normal(random.fold_in(key, i), (PATHS,))
        return log_share + drift + volatility * math.sqrt(dt) * noise

    end = ad.exp(ad.fori_loop(0, STEPS, move, ad.log(share) * ad.ones(PATHS)))
    return math.exp(-RATE * YEARS) * ad.relu(end - STRIKE).mean()


def formula(share, volatility):
    """The same by Black and Scholes."""
    spread = volatility * math.sqrt(YEARS)
    d = (ad.log(share / STRIKE) + (RATE + volatility**2 / 2) * YEARS) / spread
    return share * normal_cdf(d) - STRIKE * math.exp(-RATE * YEARS) * normal_cdf(d - spread)


def normal_cdf(x):
    """The share of normal numbers below x."""
    return 0.5 * (1 + ad.erf(x / math.sqrt(2)))


# ---- a posterior of two weights, by the gradient of samples

data_key, noise_key, first_key = random.split(random.key(1), 3).numpy()
x = random.normal(data_key, (30, 2)).numpy()
y = x @ [0.5, -1.0] + random.normal(noise_key, (30,)).numpy()


def bound(guess, key):
    """The loss of a guess against the posterior, but for a constant, by 16 samples."""
    spread = ad.exp(guess["log_std"])
    z = random.normal(key, (16, 2))
    second = guess["tilt"] * z[:, 0] + z[:, 1]
    w = guess["mean"] + spread * ad.stack([z[:, 0], second], axis=1)
    log_joint = -0.5 * ((y - w @ x.T) ** 2).sum(axis=1) - 0.5 * (w**2).sum(axis=1)
    return -log_joint.mean() - guess["log_std"].sum()


@ad.jit
def step(guess, rate, key):
    """One step down, by samples of its own."""
    key, now = random.split(key)
    return ad.tree.map(lambda p, g: p - rate * g, guess, ad.grad(bound)(guess, now)), key


def main():
    simulated = ad.jit(ad.value_and_grad(price, argnums=(0, 1)))
    keys = random.split(random.key(0), 8).numpy()
    runs = [simulated(100.0, 0.2, key) for key in keys]
    found = np.mean([[float(value), *map(float, slopes)] for value, slopes in runs], axis=0)
    value, slopes = ad.value_and_grad(formula, argnums=(0, 1))(100.0, 0.2)
    exact = np.array([value, *slopes])
    print("price, delta, vega simulated:", found.round(3), " exact:", exact.round(3))

    guess, key = {"mean": np.zeros(2), "log_std": np.zeros(2), "tilt": np.zeros(())}, first_key
    for i in range(2000):
        guess, key = step(guess, 0.02 / (1 + i / 100), key)

    precision = x.T @ x + np.eye(2)
    mean = np.linalg.solve(precision, x.T @ y)
    std = np.sqrt(np.diag(np.linalg.inv(precision)))
    fitted = np.exp(guess["log_std"]) * [1.0, math.hypot(guess["tilt"], 1.0)]
    print("posterior means:", guess["mean"].round(3), " exact:", mean.round(3))
    print("posterior deviations:", fitted.round(3), " exact:", std.round(3))

    assert np.allclose(found, exact, rtol=0.01)
    assert np.allclose(guess["mean"], mean, atol=0.02) and np.allclose(fitted, std, rtol=0.1)
    assert ad.cache_info().compiles < 40
    return {"guess": guess, "mean": mean, "covariance": np.linalg.inv(precision)}


def draw(figure, found):
    """The exact posterior, and samples of the fitted one; prices by share and volatility."""
    left, right = figure.subplots(1, 2)
    circle = np.array([[math.cos(t), math.sin(t)] for t in np.linspace(0, 2 * math.pi, 200)])
    ellipse = circle @ np.linalg.cholesky(found["covariance"]).T
    for k in (1, 2, 3):
        left.plot(*(found["mean"] + k * ellipse).T, color="black", lw=0.8)
    z = random.normal(random.key(5), (600, 2)).numpy()
    spread, tilt = np.exp(found["guess"]["log_std"]), found["guess"]["tilt"]
    samples = found["guess"]["mean"] + spread * np.stack([z[:, 0], tilt * z[:, 0] + z[:, 1]], axis=1)
    left.plot(*samples.T, ".", ms=2.5, zorder=0)
    left.set(title="samples of the fit; exact deviations", aspect="equal")
    share = np.linspace(70.0, 140.0, 36)
    for volatility in (0.1, 0.2, 0.4):
        worth = ad.vmap(formula, in_axes=(0, None))(share, volatility)
        simulation = ad.jit(ad.vmap(price, in_axes=(0, None, None)))(share[::5], volatility, random.key(0))
        color = right.plot(share, worth, label=f"volatility {volatility}")[0].get_color()
        right.plot(share[::5], simulation, "o", ms=3.5, color=color)
    right.set(title="the option: formula and simulation", xlabel="price of the share")
    right.legend()


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
