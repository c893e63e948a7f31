"""Episodes of random length, as in reinforcement learning: at each of 5 to 80 steps the program evaluates one value,
which decides the next step; an episode ends with one backward.  A call is ten episodes of random lengths."""

import math

import numpy as np
from playing import pop_gradients, ten_episodes
from targets import within

TITLE = "ten episodes of 5 to 80 steps, one ask per step"
CASES = ["n = 64 f64"]
TARGETS = [within(2, "numpy")]
COPIES = True


def inputs(case):
    return (np.random.default_rng(0).normal(size=64) / 8,)


def _next(state, sign):
    return np.roll(state, 1) * 0.95 + 0.1 * sign


def ours(start):
    import autodiff as ad

    w = ad.tensor(start, requires_grad=True)

    def play(length, rng):
        state, total = np.linspace(-1.0, 1.0, 64), 0.0
        for _ in range(length):
            z = w @ ad.tensor(state)
            sign = 1.0 if rng.random() < 1 / (1 + math.exp(-float(z))) else -1.0
            total = total + ad.log1p(ad.exp(-sign * z))
            state = _next(state, sign)
        total.backward()
        return pop_gradients([w])

    return ten_episodes(play, 80)


def torch(start):
    import torch as t

    w = t.tensor(start, requires_grad=True)

    def play(length, rng):
        state, total = np.linspace(-1.0, 1.0, 64), 0.0
        for _ in range(length):
            z = w @ t.from_numpy(state)
            sign = 1.0 if rng.random() < 1 / (1 + math.exp(-float(z))) else -1.0
            total = total + t.log1p(t.exp(-sign * z))
            state = _next(state, sign)
        total.backward()
        return pop_gradients([w])

    return ten_episodes(play, 80)


def numpy(start):
    def play(length, rng):
        state, gradient = np.linspace(-1.0, 1.0, 64), np.zeros(64)
        for _ in range(length):
            z = start @ state
            sign = 1.0 if rng.random() < 1 / (1 + math.exp(-float(z))) else -1.0
            gradient -= sign / (1 + math.exp(sign * z)) * state
            state = _next(state, sign)
        return [gradient]

    return ten_episodes(play, 80)
