"""Reading a value changes no gradient, of no operation, of first and second order.

What was read is stored; what is computed again later, perhaps by other code, may differ from it in the last bit.  The
law makes the worst of that: every stored float is moved by a bit.  A rule that compares the two finds it out.
"""

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape.ask import evaluate
from autodiff.tape.walk import history, needed

from .cases import Case, all_cases, law, rng_of


def _one_of_each_call():
    found = {}
    for c in all_cases():
        if c.wrt and c.size and all(c.avals[i].dtype == np.float64 for i in c.wrt):
            found.setdefault(c.call, c)
    return list(found.values())


CASES = _one_of_each_call()


def read(nodes, rng):
    """Ask for values as a user would, and move each number that is stored by a bit; what decides stays as it is."""
    nodes = [n for n in nodes if n.value is None and n.call is None]
    pending = [n for n in needed(nodes) if n.value is None]
    evaluate(nodes)
    for node in pending:  # those that were asked for, and those that were stored along
        x = node.value
        if type(x) is np.ndarray and x.dtype == np.float64 and not node.kind.op.discrete:
            moved = np.nextafter(x, x + rng.choice([-1.0, 1.0], x.shape))
            node.value = np.where(np.isin(x, (-1.0, 0.0, 1.0)) | ~np.isfinite(x), x, moved)


def derivatives(case, reads):
    """First and second derivatives of a weighted sum of y + y², some values being read in between."""
    rng = rng_of(case)
    arguments = [ad.tensor(x, requires_grad=i in case.wrt) for i, x in enumerate(case.point(rng))]
    leaves = [arguments[i] for i in case.wrt]
    inner = list(arguments)
    for i in case.wrt:
        inner[i] = (arguments[i] * 1.1 + 0.3 - 0.3) / 1.1  # rounded differently by fma
    y = case.f(*inner)
    if "result" in reads:
        read([y.node], rng)
    if "inside" in reads:
        read([n for n in history([y.node]) if n.inputs], rng)
    weights = np.random.default_rng(1)
    total = ad.sum((y + y * y) * weights.uniform(0.5, 1.0, y.shape))
    first = ad.grad(total, leaves, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None]
    if "gradient" in reads:
        read([g.node for g in first], rng)
    found = [g.detach().numpy() for g in first]
    if case.order > 1 and first:
        again = sum([ad.sum(g * weights.uniform(0.5, 1.0, g.shape)) for g in first])
        found += [g.numpy() for g in ad.grad(again, leaves, allow_unused=True) if g is not None]
    return found


def check(case, *reads):
    expected = derivatives(case, ())
    for a, b in zip(derivatives(case, reads), expected, strict=True):
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7 * scale, err_msg=str(reads))


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 1)


@pytest.mark.usefixtures("interpreted")
@law(CASES)
def test_reading_changes_no_derivative(case: Case):
    check(case, "result", "inside", "gradient")


@pytest.mark.slow
@pytest.mark.usefixtures("interpreted")
@law(CASES)
def test_reading_one_value_changes_no_derivative(case: Case):
    for reads in ("result", "inside", "gradient"):
        check(case, reads)


@pytest.mark.parametrize("patience", [0, 1])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_a_running_extreme_that_was_read_has_its_gradient(name, patience, monkeypatch):
    monkeypatch.setattr(ad.config, "patience", patience)
    x = np.random.default_rng(0).normal(size=(33, 3))
    f = getattr(ad, name)
    expected = ad.grad(lambda x: ad.sum(f(x * 1.1 + 0.3, axis=0) ** 2))(x)
    for _ in range(3):
        t = ad.tensor(x, requires_grad=True)
        total = ad.sum(f(t * 1.1 + 0.3, axis=0) ** 2)
        float(total.detach())
        total.backward()
        np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("patience", [0, 1])
@pytest.mark.parametrize("name", ["max", "min", "nanmax", "nanmin"])
def test_an_extreme_whose_gradient_was_read_has_its_second_derivative(name, patience, monkeypatch):
    monkeypatch.setattr(ad.config, "patience", patience)
    x = np.random.default_rng(0).normal(size=200)
    s = 1 / (1 + np.exp(-x))
    for _ in range(3):
        t = ad.tensor(x, requires_grad=True)
        g = ad.grad(ad.sum(getattr(ad, name)(ad.sigmoid(t)[None], axis=0)), t, create_graph=True)
        g.detach().numpy()
        ad.sum(g).backward()
        np.testing.assert_allclose(t.grad.numpy(), s * (1 - s) * (1 - 2 * s), rtol=1e-6)


@pytest.mark.parametrize("name", ["max", "min"])
def test_a_complex_extreme_is_right_whatever_was_read(name):
    rng = np.random.default_rng(0)
    z = rng.normal(size=200) + 1j * rng.normal(size=200)
    expected = getattr(np, name)(np.exp(z))
    for _ in range(3):
        t = ad.tensor(z, requires_grad=True)
        y = getattr(ad, name)(ad.exp(t))
        g = ad.grad(ad.real(y) ** 2, t, create_graph=True)
        g.detach().numpy()
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12)
        assert np.count_nonzero(g.detach().numpy()) == 1
