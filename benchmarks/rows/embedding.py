"""Matrix factorisation, 5,000 ratings of 500 things by 1,000 people, 16 factors: the program gathers rows, and its
gradient scatters them."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "matrix factorisation, 5,000 ratings, 16 factors"
CASES = ["f32", "f64"]
ARGNUMS = (0, 1, 2)
TARGETS = [faster(1.5, "jax"), faster(2, "torch"), faster(1, "numpy")]


def inputs(case):
    rng = np.random.default_rng(0)
    dtype = {"f32": np.float32, "f64": np.float64}[case]
    people, things = rng.normal(size=(1000, 16)) / 4, rng.normal(size=(500, 16)) / 4
    bias, ratings = rng.normal(size=1000) / 10, rng.normal(size=5000)
    who, what = rng.integers(0, 1000, 5000), rng.integers(0, 500, 5000)
    return (*[a.astype(dtype) for a in (people, things, bias, ratings)], who, what)


def program(lib, people, things, bias, ratings, who, what):
    found = (people[who] * things[what]).sum(1) + bias[who]
    return lib.mean((found - ratings) ** 2) + 0.01 * (lib.sum(people**2) + lib.sum(things**2))


def numpy(people, things, bias, ratings, who, what):
    def run():
        p, t = people[who], things[what]
        d = (p * t).sum(1) + bias[who] - ratings
        g = d * d.dtype.type(2 / d.size)
        people_bar, things_bar = people * people.dtype.type(0.02), things * things.dtype.type(0.02)
        bias_bar = np.zeros_like(bias)
        np.add.at(people_bar, who, g[:, None] * t)
        np.add.at(things_bar, what, g[:, None] * p)
        np.add.at(bias_bar, who, g)
        value = np.mean(d * d) + d.dtype.type(0.01) * (np.sum(people**2) + np.sum(things**2))
        return value, [people_bar, things_bar, bias_bar]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays[:4]), *arrays[4:])
