"""A repeated training step is answered by its check: no walk over the graph, one native call."""

import numpy as np

import autodiff as ad
from autodiff.tape.check import checks
from autodiff.tape.plan import COUNTS


@ad.function
def scaled_norm(x, w):
    """Sum of (x @ w)², whose rule reads an intermediate and an input.   f[n,k], f[k,m] -> f[]"""


@scaled_norm.forward(ad.Matrix, ad.Matrix)
def _(ctx, x, w):
    y = x @ w
    z = ad.exp(y - y.max(axis=1, keepdims=True))
    ctx.save_for_backward(x=x, z=z)
    return (z * z).sum()


@scaled_norm.backward(ad.Matrix, ad.Matrix)
def _(ctx, grad_output):
    s = ctx.saved_variables
    return {"x": None, "w": grad_output * (s.x.T @ s.z)}


def answered(monkeypatch):
    """What the checks of backward found, in order, from now on."""
    found = []
    look = checks.find

    def find(key, roots, live):
        known = look(key, roots, live)
        found.append((key[0], known is not None))
        return known

    monkeypatch.setattr(type(checks), "find", lambda self, *given: find(*given))
    return found


def test_a_step_with_a_custom_loss_and_a_running_total_is_one_check_and_one_run(monkeypatch):
    rng = np.random.default_rng(0)
    data, w = ad.tensor(rng.normal(size=(12, 3))), ad.tensor(rng.normal(size=(3, 2)), requires_grad=True)
    total = ad.tensor(0.0)

    def step(i):
        nonlocal total
        value = scaled_norm(data[i : i + 4], w)
        value.backward()
        with ad.no_grad():
            w.__isub__(0.01 * w.grad)
            w.grad = None
        total += value.detach()

    for i in range(4):
        step(i)
    found = answered(monkeypatch)
    runs = COUNTS.runs
    for i in range(4, 8):
        step(i)
    assert found == [("backward", True)] * 4
    assert COUNTS.runs - runs == 4


def test_a_running_total_is_computed_along_with_the_next_step():
    x = ad.tensor(np.ones(3), requires_grad=True)
    total = ad.tensor(0.0)
    for _ in range(5):
        loss = (x * x).sum()
        loss.backward()
        total += loss.detach()
    runs = COUNTS.runs
    loss = (x * x).sum()
    loss.backward()
    assert COUNTS.runs - runs == 1
    assert total.item() == 15.0
    assert COUNTS.runs - runs == 1
