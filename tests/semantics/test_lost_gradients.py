"""A function that closes over a tensor gives results without a history for arrays: a warning where that is recorded."""

import subprocess
import sys

import numpy as np
import pytest
from closing_over import parameter, product, summed

import autodiff as ad

X = np.array([1.0, 2.0, 3.0])
LOST = r"the gradient of an operand was lost: (jit|vmap) of \w+ closes over a tensor f64\[3?\] that requires grad"


def mapped(w):
    def f(x):
        return w.sum() * x

    return ad.vmap(f)


def value_and_slope(w):
    def f(x):
        return ad.value_and_grad(lambda x: (w * x * x).sum())(x)[1]

    return ad.jit(f)


@pytest.mark.parametrize("of", [product, mapped, value_and_slope])
def test_an_array_that_lost_a_gradient_is_warned_of_where_it_is_recorded(of):
    w = parameter()
    f = of(w)
    with pytest.warns(ad.LostGradientWarning, match=LOST) as told:
        loss = ((f(X) + w) ** 2).sum()
    assert told[0].filename == __file__
    loss.backward()


NUMBER = """
import numpy as np, autodiff as ad
w = ad.tensor(np.ones(3), requires_grad=True)
f = ad.jit(lambda x: (w * x).sum())
f(np.ones(3)) + w
"""


def test_a_number_that_lost_a_gradient_is_warned_of_where_python_records_it():
    """A process of its own has recorded none like it before."""
    ran = subprocess.run([sys.executable, "-c", NUMBER], capture_output=True, text=True, check=True)
    assert "LostGradientWarning: the gradient of an operand was lost: jit of" in ran.stderr


@pytest.mark.parametrize("of", [summed, product, mapped, value_and_slope])
def test_a_tensor_among_the_arguments_loses_none(of):
    w = parameter()
    f = of(w)
    for x in (X, ad.asarray(X), X, ad.asarray(X)):
        y = f(x)
        if isinstance(y, ad.Tensor):
            (y.sum() + w.sum()).backward()
    assert w.grad is not None


def test_what_only_plain_code_uses_is_not_warned_of():
    w = parameter()
    for f in (summed(w), product(w), mapped(w)):
        for _ in range(3):
            y = f(X)
            assert isinstance(y, np.ndarray | np.float64) and np.all(np.sqrt(y) >= 1.0)
            f(y * X)
            with ad.no_grad():
                y + w
            (ad.tensor(y) + w).sum().backward()  # a constant, as is said


def test_a_call_without_gradients_gives_constants():
    w = parameter()
    f = summed(w)
    with ad.no_grad():
        y = f(X)
    z = summed(w.detach())(X)
    (y + z + w).sum().backward()
    np.testing.assert_array_equal(w.grad, np.ones(3))


def test_what_requires_no_grad_in_the_end_is_no_loss():
    w = parameter()
    y = ad.jit(lambda x: ad.stop_gradient(w) * x)(X)
    z = ad.vmap(ad.grad(ad.grad(lambda x: x**3)))(X)
    k = ad.jit(lambda x: (w * x > 0).sum())(X)
    (w * y * z * k).sum().backward()


