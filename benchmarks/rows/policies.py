"""Episodes of a policy of two layers: at each of 5 to 200 steps the program evaluates the probabilities of actions and
draws one; an episode ends with one backward.  A call is ten episodes of random lengths."""

import numpy as np
from playing import pop_gradients, ten_episodes
from targets import within

TITLE = "ten episodes of 5 to 200 steps of a two-layer policy, chances asked at each step"
CASES = ["4-16-2 f64", "32-64-8 f64"]
TARGETS = [within(2, "numpy")]
DISCOUNT = 0.99
COPIES = True


def inputs(case):
    rng = np.random.default_rng(0)
    states, hidden, actions = map(int, case.split()[0].split("-"))
    move = rng.normal(size=(states, states)) / np.sqrt(states) * 0.9
    w = rng.normal(size=(hidden, states)) / np.sqrt(states)
    v = rng.normal(size=(actions, hidden)) / np.sqrt(hidden)
    return w, np.zeros(hidden), v, np.zeros(actions), move


def _drawn(p, rng):
    return min(int(np.searchsorted(np.cumsum(p), rng.random())), len(p) - 1)


def _next(move, state, action):
    return move @ state + 0.1 * (action - 0.5)


def ours(w, b, v, c, move):
    import autodiff as ad

    parameters = [ad.tensor(p, requires_grad=True) for p in (w, b, v, c)]
    w, b, v, c = parameters

    def play(length, rng):
        state, loss = np.ones(len(move)), 0.0
        for t in range(length):
            z = v @ ad.tanh(w @ state + b) + c
            log_p = z - ad.logsumexp(z)
            action = _drawn(np.exp(log_p.detach().numpy()), rng)
            loss = loss - log_p[action] * DISCOUNT**t
            state = _next(move, state, action)
        loss.backward()
        return pop_gradients(parameters)

    return ten_episodes(play, 200)


def torch(w, b, v, c, move):
    import torch as t

    parameters = [t.tensor(p, requires_grad=True) for p in (w, b, v, c)]
    w, b, v, c = parameters

    def play(length, rng):
        state, loss = np.ones(len(move)), 0.0
        for step in range(length):
            log_p = t.log_softmax(v @ t.tanh(w @ t.from_numpy(state) + b) + c, 0)
            action = _drawn(np.exp(log_p.detach().numpy()), rng)
            loss = loss - log_p[action] * DISCOUNT**step
            state = _next(move, state, action)
        loss.backward()
        return pop_gradients(parameters)

    return ten_episodes(play, 200)


def numpy(w, b, v, c, move):
    def play(length, rng):
        state, steps = np.ones(len(move)), []
        for t in range(length):
            h = np.tanh(w @ state + b)
            z = v @ h + c
            e = np.exp(z - z.max())
            p = e / e.sum()
            action = _drawn(p, rng)
            steps.append((state, h, p, action, DISCOUNT**t))
            state = _next(move, state, action)
        w_bar, b_bar, v_bar, c_bar = map(np.zeros_like, (w, b, v, c))
        for state, h, p, action, weight in steps:
            z_bar = p * weight
            z_bar[action] -= weight
            v_bar += np.outer(z_bar, h)
            c_bar += z_bar
            a_bar = (v.T @ z_bar) * (1 - h * h)
            w_bar += np.outer(a_bar, state)
            b_bar += a_bar
        return [w_bar, b_bar, v_bar, c_bar]

    return ten_episodes(play, 200)
