"""A differentiated value that becomes a Python number or an array: never silent under any transformation.

The law: each way in which a value leaves the library either warns at the user's line (a number) or is an error (an
array), under each transformation; what only looks at the value does neither.
"""

import array
import math
import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest

import autodiff as ad


def _assigned(x):
    a = np.zeros(2)
    a[0] = x
    return a.sum()


def _filled(x):
    a = np.zeros(2)
    a.fill(x)
    return a.sum()


#: Ways to a Python number, or into an array by way of one: the gradient through it is lost.
NUMBERS = {
    "float": float,
    "int": int,
    "complex": lambda x: abs(complex(x)),
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "math": math.sin,
    "floor": math.floor,
    "fsum": lambda x: math.fsum([x, 1.0]),
    "np.float64": np.float64,
    "assigned": _assigned,
    "filled": _filled,
    "array.array": lambda x: array.array("d", [x])[0],
    "struct": lambda x: struct.unpack("d", struct.pack("d", x))[0],
    "element": lambda x: float(ad.stack([x, x])[0]),
    "computed": lambda x: float(ad.sin(x) * 2.0),
}
#: Ways to an array: refused.
ARRAYS = {
    "asarray": np.asarray,
    "numpy": lambda x: x.numpy(),
    "np.array": lambda x: np.array([x, 2.0]),
    "full": lambda x: np.full(2, x),
    "np.float32": np.float32,
}
#: Looks at a value, and ways to say that it is meant.
FINE = {
    "print": lambda x: print(x, f"{x} {x:.3f}", repr(x), format(x, "g"), str(x)),
    "compared": lambda x: [x > 2.0, x < 2.0, x == 3.0, bool(x > 0), not x, max(x, 1.0), x in [3.0]],
    "branch": lambda x: 1.0 if x else 2.0,
    "stopped": lambda x: [float(ad.stop_gradient(x)), math.sin(x.detach()), np.asarray(ad.stop_gradient(x))],
    "index": lambda x: range(3)[ad.astype(x > 0, np.int64)],
    "discrete": lambda x: float(x > 0),
}
TRANSFORMS = {
    "grad": lambda f: ad.grad(f)(3.0),
    "value_and_grad": lambda f: ad.value_and_grad(f)(3.0),
    "vjp": lambda f: ad.vjp(f, 3.0)[1](1.0),
    "jvp": lambda f: ad.jvp(f, (3.0,), (1.0,)),
    "jacobian": lambda f: ad.jacobian(f)(3.0),
    "forward jacobian": lambda f: ad.jacobian(f, mode="forward")(3.0),
    "hessian": lambda f: ad.hessian(f)(3.0),
    "hvp": lambda f: ad.hvp(f, (3.0,), (1.0,)),
    "grad of grad": lambda f: ad.grad(ad.grad(f))(3.0),
    "of a tensor": lambda f: ad.grad(f)(ad.tensor(3.0)),
    "captured by jit": lambda f: ad.grad(lambda w: ad.jit(lambda x: f(w) * x)(2.0))(3.0),
    "captured by vmap": lambda f: ad.grad(lambda w: ad.vmap(lambda x: f(w) * x)(np.ones(2)).sum())(3.0),
    "captured by a loop": lambda f: ad.grad(lambda w: ad.fori_loop(0, 2, lambda i, c: c * f(w), w))(3.0),
    "captured by checkpoint": lambda f: ad.grad(lambda w: ad.checkpoint(lambda x: f(w) * x)(2.0))(3.0),
}

each_transform = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


@each_transform
@pytest.mark.parametrize("leave", NUMBERS.values(), ids=NUMBERS)
def test_a_value_that_becomes_a_number_is_warned_of(transform, leave):
    with pytest.warns(ad.LostGradientWarning, match=r"a f64\[\] that is being differentiated became a"):
        transform(lambda x: leave(x) * x)


@each_transform
@pytest.mark.parametrize("leave", ARRAYS.values(), ids=ARRAYS)
def test_a_value_that_becomes_an_array_is_refused(transform, leave):
    with pytest.raises(ad.GradientError, match=r"of a f64\[\] that requires grad would lose its gradient"):
        transform(lambda x: ad.sum(leave(x)) * x)


@each_transform
@pytest.mark.parametrize("look", FINE.values(), ids=FINE)
def test_looking_at_a_value_loses_nothing(transform, look):
    def f(x):
        look(x)
        return x * x

    transform(f)  # a warning would be an error


def test_the_warning_names_the_users_line_and_comes_once_per_line():
    def f(x):
        return float(x) * x

    line = f.__code__.co_firstlineno + 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            ad.grad(f)(3.0)
        ad.grad(lambda x: float(x) * x)(3.0)
    assert [(w.filename, w.lineno) for w in told] == [(__file__, line), (__file__, line + 7)]


def test_no_grad_says_that_it_is_meant():
    def f(x):
        with ad.no_grad():
            c = float(x)
        return c * x

    assert ad.grad(f)(3.0) == 3.0


def test_a_value_recorded_in_the_open_may_be_read():
    t = ad.tensor(3.0, requires_grad=True)
    for _ in range(3):
        loss = t * t
        assert (float(loss), loss.item(), int(loss), loss.tolist()) == (9.0, 9.0, 9, 9.0)
        loss.backward()


ANOTHER = """
import autodiff as ad
f = ad.function(lambda x: x)
t = ad.tensor(3.0, requires_grad=True)
for _ in range(50):
    float(t * t), (t * t).item()     # machine code has learnt to answer
for _ in range(3):
    ad.grad(lambda x: float(x * x) * x)(3.0)
    ad.grad(lambda x: (x * x).item() * x)(3.0)
"""


def test_the_warning_comes_where_machine_code_answers_too(sharing):
    command = [sys.executable, "-W", "always", "-c", ANOTHER]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=sharing)
    assert ran.stderr.count("LostGradientWarning") == 6


@ad.function
def cosine(x): ...


@cosine.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x, c=math.cos(x))
    return math.cos(x) + 0.0 * x


@cosine.backward(ad.Tensor)
def _(ctx, grad_output):
    return -grad_output * math.sin(ctx.saved_variables.x)


def test_a_rule_that_reads_its_values_is_no_loss():
    assert ad.grad(cosine)(3.0) == pytest.approx(-math.sin(3.0))
    with pytest.raises(ad.GradientError, match="asked values"):
        ad.grad(ad.grad(cosine))(3.0)


def test_a_comparison_by_pytest_loses_nothing():  # that a doctest does: the example of GradientError
    t = ad.tensor([1.0, 2.0], requires_grad=True)
    assert t == pytest.approx(np.array([1.0, 2.0]))
    assert t != pytest.approx(np.array([1.0, 3.0]))
