"""Bayesian logistic regression by Hamiltonian Monte Carlo: would the seals of the Challenger have held?

Data: the temperature of 23 flights of the Space Shuttle, and whether a sealing ring was damaged (S. Dalal, E. Fowlkes,
B. Hoadley, "Risk analysis of the Space Shuttle", J. Am. Stat. Assoc. 84, 1989).  The 24th start was at 31 °F.

Hamiltonian Monte Carlo draws parameters as often as they are probable.  Each draw is the end of a short flight in the
landscape of -log p, which needs its gradient.  One chain is a `scan` over draws with a `fori_loop` of leapfrog steps
and an `ad.grad` in it; `ad.vmap` runs several chains at once; `ad.jit` makes one program of the whole.  With two
parameters the exact answer is an integral on a grid: the draws are compared with it.
"""

import numpy as np

import autodiff as ad
from autodiff import random

FAHRENHEIT = np.array([66, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58.0])
DAMAGED = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1.0])
CENTRE, SPREAD = FAHRENHEIT.mean(), FAHRENHEIT.std()

CHAINS, STEPS, STEP = 4, 12, 0.3


def score(w, fahrenheit):
    """The log-odds of damage.   f[2], f[n] -> f[n]"""
    return w[0] + w[1] * (fahrenheit - CENTRE) / SPREAD


def energy(w):
    """-log p(w | data), but for a constant; before the data w is normal, with deviation 3.   f[2] -> f[]"""
    s = score(w, FAHRENHEIT)
    return ad.sum(ad.softplus(s) - DAMAGED * s) + ad.sum(w**2) / (2 * 3.0**2)


def draw_next(w, key):
    """One draw: a flight with a random start, accepted or refused.   f[2], key -> (f[2], (f[2], accepted))"""
    key_push, key_accept = random.split(key)
    push = random.normal(key_push, (2,))

    def leapfrog(_, state):
        w, p = state
        p = p - 0.5 * STEP * ad.grad(energy)(w)
        w = w + STEP * p
        return w, p - 0.5 * STEP * ad.grad(energy)(w)

    w_end, p_end = ad.fori_loop(0, STEPS, leapfrog, (w, push))
    gain = energy(w) + 0.5 * ad.sum(push**2) - energy(w_end) - 0.5 * ad.sum(p_end**2)
    accepted = ad.log(random.uniform(key_accept)) < gain
    w = ad.where(accepted, w_end, w)
    return w, (w, accepted)


def chain(start, keys):
    """All draws of one chain.   f[2], keys[n] -> (f[n,2], accepted[n])"""
    return ad.scan(draw_next, start, keys)[1]


def exact_means(fahrenheit, size=400):
    """Means of w and of the probability of damage at some temperatures, by an integral on a grid."""
    a, b = np.meshgrid(np.linspace(-6, 5, size), np.linspace(-8, 4, size), indexing="ij")
    grid = np.stack([a.ravel(), b.ravel()], axis=1)
    weight = np.exp(-ad.vmap(energy)(grid))
    weight /= weight.sum()
    probability = ad.sigmoid(ad.vmap(score, (0, None))(grid, fahrenheit)).numpy()
    return weight @ grid, weight @ probability


def main(long=False):
    draws = 20_000 if long else 2_000
    keys = random.split(random.key(1), CHAINS * draws).reshape(CHAINS, draws, 2)
    starts = random.normal(random.key(0), (CHAINS, 2))
    w, accepted = (np.asarray(a) for a in ad.jit(ad.vmap(chain))(starts, keys))
    w = w[:, 200:]  # the first draws still remember the start

    within, between = w.var(axis=1).mean(axis=0), w.mean(axis=1).var(axis=0, ddof=1)
    r_hat = np.sqrt(1 + between / within)
    print(f"{CHAINS} chains of {draws} draws, {100 * accepted.mean():.0f} % accepted, R-hat {r_hat.round(4)}")

    fahrenheit = np.linspace(28.0, 85.0, 58)
    probability = ad.sigmoid(ad.vmap(score, (0, None))(w.reshape(-1, 2), fahrenheit)).numpy()
    exact_w, exact_probability = exact_means(fahrenheit)
    print("posterior means:", w.mean(axis=(0, 1)).round(3), " by an integral:", exact_w.round(3))
    print(f"probability of damage at 31 °F: {probability[:, 3].mean():.3f}  by an integral: {exact_probability[3]:.3f}")
    assert r_hat.max() < 1.02 and accepted.mean() > 0.8
    assert np.allclose(w.mean(axis=(0, 1)), exact_w, atol=0.06)
    assert np.allclose(probability.mean(axis=0), exact_probability, atol=0.02)
    return {"w": w, "fahrenheit": fahrenheit, "probability": probability}


def draw(figure, found):
    """Draws of the two parameters, and the probability of damage by temperature."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.6])
    for chain_of_w in found["w"]:
        left.plot(*chain_of_w[:400].T, ".", ms=2)
    left.set(title="draws of 4 chains", xlabel="log-odds at 70 °F", ylabel="change per 7 °F")
    low, middle, high = np.quantile(found["probability"], [0.05, 0.5, 0.95], axis=0)
    right.fill_between(found["fahrenheit"], low, high, alpha=0.25, lw=0, label="90 % of the draws")
    right.plot(found["fahrenheit"], middle, label="median")
    right.plot(FAHRENHEIT, DAMAGED, "|", color="black", ms=9, label="23 flights")
    right.axvline(31, color="C3", lw=1)
    right.annotate("the 24th", (31, 0.02), (4, 0), textcoords="offset points", color="C3")
    right.set(title="probability of a damaged seal", xlabel="°F")
    right.legend(loc="lower left", bbox_to_anchor=(0.1, 0.1))


if __name__ == "__main__":
    from _plot import run

    run(main, draw)
