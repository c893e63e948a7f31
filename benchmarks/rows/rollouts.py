"""Episodes with a state: a cell of 16 units runs for 5 to 200 steps; the program evaluates its output at every step or
never, and ends with one backward through all steps.  A call is ten episodes of random lengths."""

import numpy as np
from playing import pop_gradients, ten_episodes
from targets import within

TITLE = "ten episodes of 5 to 200 steps of a cell of 16 units"
CASES = ["asked at each step f64", "never asked f64"]
TARGETS = [within(2, "numpy")]
COPIES = True


def inputs(case):
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 16)) / 4, rng.normal(size=16) / 4, case.startswith("asked")


def ours(w, v, asks):
    import autodiff as ad

    w, v = (ad.tensor(p, requires_grad=True) for p in (w, v))

    def play(length, rng):
        h, loss, scale = np.ones(16), 0.0, 1.0
        for _ in range(length):
            h = ad.tanh(w @ h + rng.normal(size=16) * scale)
            y = v @ h
            if asks:
                scale = 1.0 if y.item() > 0 else 0.5
            loss = loss + y * y
        loss.backward()
        return pop_gradients([w, v])

    return ten_episodes(play, 200)


def torch(w, v, asks):
    import torch as t

    w, v = (t.tensor(p, requires_grad=True) for p in (w, v))

    def play(length, rng):
        h, loss, scale = t.ones(16, dtype=t.float64), 0.0, 1.0
        for _ in range(length):
            h = t.tanh(w @ h + t.from_numpy(rng.normal(size=16) * scale))
            y = v @ h
            if asks:
                scale = 1.0 if y.item() > 0 else 0.5
            loss = loss + y * y
        loss.backward()
        return pop_gradients([w, v])

    return ten_episodes(play, 200)


def numpy(w, v, asks):
    def play(length, rng):
        h, scale, steps = np.ones(16), 1.0, []
        for _ in range(length):
            before, h = h, np.tanh(w @ h + rng.normal(size=16) * scale)
            y = v @ h
            if asks:
                scale = 1.0 if y > 0 else 0.5
            steps.append((before, h, y))
        w_bar, v_bar, h_bar = np.zeros_like(w), np.zeros_like(v), np.zeros(16)
        for before, h, y in reversed(steps):
            y_bar = 2 * y
            v_bar += y_bar * h
            a_bar = (h_bar + y_bar * v) * (1 - h * h)
            w_bar += np.outer(a_bar, before)
            h_bar = w.T @ a_bar
        return [w_bar, v_bar]

    return ten_episodes(play, 200)
