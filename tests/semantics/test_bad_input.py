"""SEMANTICS 9: every misuse is a typed error that names the culprit and the user's line, and leaves all usable."""

from __future__ import annotations

import operator
import pickle
import re

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, 2.0, 3.0])


class Holder:
    """No container."""


def parameter():
    return ad.tensor(X, requires_grad=True)


def ruleless():
    """A custom function that only matrices have a backward for."""

    @ad.function
    def scale(a, by): ...

    scale.forward(ad.Tensor, ad.Number)(lambda ctx, a, by: a * by)
    scale.backward(ad.Matrix, ad.Number)(lambda ctx, g: {"a": g})
    return scale


def undecided():
    @ad.function
    def blend(a, b): ...

    blend.method(ad.Vector, ad.Tensor)(lambda a, b: a)
    blend.method(ad.Tensor, ad.Vector)(lambda a, b: b)
    return blend


def of_matrices():
    @ad.function
    def only(a): ...

    only.method(ad.Matrix)(lambda a: a)
    return only


def square(x):
    return (x * x).sum()


def dot(x, y):
    return (x * y).sum()


def backward_twice():
    loss = square(parameter())
    loss.backward()
    loss.backward()


def left_outside():
    found = []
    ad.jit(lambda x: (found.append(x * 2.0), x)[1])(1.0)
    return found[0]


def branch(x):
    return x if x.sum() > 0 else -x


CASES = {
    # shapes
    "matmul": (ad.ShapeError, lambda: ad.tensor(np.ones((3, 4))) @ ad.tensor(np.ones((5, 4)))),
    "add": (ad.ShapeError, lambda: ad.tensor(np.ones(3)) + ad.tensor(np.ones(4))),
    "reshape": (ad.ShapeError, lambda: ad.tensor(X).reshape(2, 2)),
    "axis": (ad.ShapeError, lambda: ad.tensor(X).sum(axis=2)),
    "concatenate": (ad.ShapeError, lambda: ad.concatenate([ad.ones((2, 3)), ad.ones((2, 4))])),
    "truth of several": (ad.ShapeError, lambda: bool(ad.tensor(X) > 0)),
    "item of several": (ad.ShapeError, lambda: ad.tensor(X).item()),
    "too many indices": (IndexError, lambda: ad.tensor(X)[0, 0]),
    "an index outside": (IndexError, lambda: ad.tensor(X)[5]),
    "a float as index": (IndexError, lambda: ad.tensor(X)[1.5]),
    # dtypes and types
    "a string": (ad.DispatchError, lambda: ad.exp("a")),
    "None": (ad.DispatchError, lambda: ad.exp(None)),
    "float16 data": (ad.DTypeError, lambda: ad.tensor(X, dtype="float16")),
    "text data": (ad.DTypeError, lambda: ad.tensor("abc")),
    "ragged data": (ad.DispatchError, lambda: ad.tensor([[1.0], [1.0, 2.0]])),
    "an integer leaf": (ad.DTypeError, lambda: ad.tensor([1, 2], requires_grad=True)),
    "an array of text in jit": (ad.DTypeError, lambda: ad.jit(square)(np.array(["a"]))),
    "a masked array": (ad.DTypeError, lambda: ad.tensor(np.ma.array(X, mask=X > 1))),
    "a masked operand": (ad.DTypeError, lambda: ad.tensor(X) + np.ma.array(X, mask=X > 1)),
    "a masked array in jit": (ad.DTypeError, lambda: ad.jit(square)(np.ma.array(X, mask=X > 1))),
    "a masked array in grad": (ad.DTypeError, lambda: ad.grad(square)(np.ma.array(X, mask=X > 1))),
    "a masked constant in grad": (ad.DTypeError, lambda: ad.grad(dot)(X, np.ma.array(X, mask=X > 1))),
    "a float16 argument of jit": (ad.DTypeError, lambda: ad.jit(square)(X.astype(np.float16))),
    # gradients of functions
    "an integer argument": (ad.DTypeError, lambda: ad.grad(square)(np.arange(3))),
    "an integer number": (ad.DTypeError, lambda: ad.grad(square)(3)),
    "a bool argument": (ad.DTypeError, lambda: ad.grad(square)(True)),
    "a float16 argument": (ad.DTypeError, lambda: ad.grad(square)(X.astype(np.float16))),
    "an object argument": (ad.DTypeError, lambda: ad.grad(square)(np.array([object()]))),
    "a text argument": (ad.DTypeError, lambda: ad.value_and_grad(square)("text")),
    "argnums beyond": (ad.DispatchError, lambda: ad.grad(square, argnums=3)(X)),
    "argnums no number": (ad.DispatchError, lambda: ad.grad(square, argnums="x")(X)),
    "argnums twice": (ad.DispatchError, lambda: ad.grad(square, argnums=(0, -1))(X)),
    "no scalar": (ad.GradientError, lambda: ad.grad(lambda x: x * x)(X)),
    "no aux": (ad.GradientError, lambda: ad.grad(square, has_aux=True)(X)),
    "no number": (ad.GradientError, lambda: ad.grad(lambda x: None)(X)),
    "a complex number": (ad.GradientError, lambda: ad.grad(lambda x: ad.sum(ad.exp(1j * x)))(X)),
    "two results": (ad.GradientError, lambda: ad.value_and_grad(lambda x: (square(x), x))(X)),
    "arrays to join without a list": (ad.ShapeError, lambda: ad.concatenate(ad.tensor(X), ad.tensor(X))),
    "a cotangent too few": (ad.GradientError, lambda: ad.vjp(lambda x: (x, x), X)[1]((X,))),
    "a tangent of another shape": (ad.ShapeError, lambda: ad.jvp(square, (X,), (X[:2],))),
    "a tangent of another type": (ad.DispatchError, lambda: ad.jvp(square, (X,), ("a",))),
    # backward
    "backward of a number": (ad.GradientError, lambda: ad.backward(3.0)),
    "backward of nothing": (ad.GradientError, lambda: ad.backward(None)),
    "backward of an array": (ad.GradientError, lambda: ad.backward([X])),
    "backward of a constant": (ad.GradientError, lambda: square(ad.tensor(X)).backward()),
    "backward without a seed": (ad.GradientError, lambda: (parameter() * 2.0).backward()),
    "a seed of another shape": (ad.ShapeError, lambda: (parameter() * 2.0).backward(X[:2])),
    "a seed of another dtype": (ad.DTypeError, lambda: (parameter() * 2.0).backward(X.astype(np.float32))),
    "a second backward": (ad.GradientError, lambda: backward_twice()),
    "a seed of another type": (ad.DispatchError, lambda: parameter().backward("abc")),
    "inputs that are no leaves": (ad.GradientError, lambda: square(parameter()).backward(inputs=[X])),
    "grad without inputs": (ad.GradientError, lambda: ad.grad(square(parameter()))),
    "grad of text": (ad.GradientError, lambda: ad.grad(square(parameter()), "x")),
    "grad of a constant input": (ad.GradientError, lambda: ad.grad(square(parameter()), ad.tensor(X))),
    "a gradient of another shape": (ad.ShapeError, lambda: setattr(parameter(), "grad", X[:2])),
    "a gradient of another type": (ad.DispatchError, lambda: setattr(parameter(), "grad", "a")),
    "a hook that is none": (ad.DispatchError, lambda: parameter().register_hook(None)),
    "numpy of a tracking tensor": (ad.GradientError, lambda: parameter().numpy()),
    "a NumPy function that loses a gradient": (ad.GradientError, lambda: np.linalg.eig(parameter())),
    "a pickle with history": (ad.GradientError, lambda: pickle.dumps(parameter() * 2.0)),
    "a container that cannot be taken apart": (ad.DispatchError, lambda: ad.tree.register(Holder, None, None)),
    # dispatch
    "no rule": (ad.GradientError, lambda: ruleless()(parameter(), 2.0).sum().backward()),
    "no method": (ad.DispatchError, lambda: of_matrices()(ad.tensor(X))),
    "ambiguous methods": (ad.AmbiguityError, lambda: undecided()(ad.tensor(X), ad.tensor(X))),
    "too many arguments": (ad.DispatchError, lambda: of_matrices()(ad.tensor(X), 1)),
    "an unknown keyword": (TypeError, lambda: of_matrices()(b=ad.tensor(X))),
    # what is no function
    "function of a number": (ad.DispatchError, lambda: ad.function(3)),
    "function of a class": (ad.DispatchError, lambda: ad.function(int)),
    "jit of a number": (ad.DispatchError, lambda: ad.jit(3)),
    "value_and_grad of a number": (ad.DispatchError, lambda: ad.value_and_grad(3)),
    "jvp of a number": (ad.DispatchError, lambda: ad.jvp(3, (X,), (X,))),
    "vjp of a number": (ad.DispatchError, lambda: ad.vjp(3, X)),
    "jacobian of a number": (ad.DispatchError, lambda: ad.jacobian(3)),
    "inspect of a number": (ad.DispatchError, lambda: ad.inspect(3, "f64[2]")),
    "check_gradients of a number": (ad.DispatchError, lambda: ad.check_gradients(3, X)),
    "methods of a plain function": (ad.DispatchError, lambda: ad.methods(square)),
    "no_grad of a function": (ad.DispatchError, lambda: ad.no_grad(square)),
    "a tensor added to an array in place": (ad.GradientError, lambda: operator.iadd(X.copy(), parameter())),
    "hvp along a direction of another shape": (ad.ShapeError, lambda: ad.hvp(square, X, X[:2])),
    "a random number without a key": (TypeError, lambda: ad.random.normal(3)),
    "a loop that changes its nesting": (ad.ShapeError, lambda: ad.fori_loop(0, 3, lambda i, x: (x, x), 1.0)),
    # jit
    "a static parameter beyond": (ad.DispatchError, lambda: ad.jit(square, static_argnums=2)),
    "a static parameter of no such name": (ad.DispatchError, lambda: ad.jit(square, static_argnames="y")),
    "a branch in jit": (ad.ConcretizationError, lambda: ad.jit(branch)(X)),
    "float in jit": (ad.ConcretizationError, lambda: ad.jit(lambda x: float(x.sum()))(X)),
    "range in jit": (ad.ConcretizationError, lambda: ad.jit(lambda n: [i for i in range(n)])(3)),
    "an array of NumPy's read in jit": (ad.ConcretizationError, lambda: ad.jit(lambda i: X[i])(1)),
    "a shape in jit": (TypeError, lambda: ad.jit(lambda x, n: x.reshape(n, 1))(X, 3)),
    "an axis in jit": (TypeError, lambda: ad.jit(lambda x, axis: x.sum(axis=axis))(X, 0)),
    "what a trace left outside": (ad.ConcretizationError, lambda: float(left_outside())),
    "a value that does not fit rows": (
        ad.ShapeError, lambda: ad.tensor(np.ones((2, 3))).__setitem__([0, 1], np.ones(5))
    ),
    "NumPy in jit": (ad.Error, lambda: ad.jit(lambda x: np.linalg.eig(x))(np.eye(3))),
    "inspection of an unknown dtype": (ad.Error, lambda: ad.inspect(square, "q64[3]")),
    "inspection by an argument beyond": (
        ad.DispatchError, lambda: ad.inspect(square, "f64[3]", backward=True, argnums=1)
    ),
    "inspection of half an aval": (ad.Error, lambda: ad.inspect(square, "f64[3")),
    # when the program runs
    "an index found outside": (IndexError, lambda: ad.tensor(X)[ad.tensor([0, 1]) * 4].numpy()),
    "an index found outside in backward": (
        IndexError, lambda: parameter()[ad.tensor([0, 5]) * 2].sum().backward()
    ),
    "an index found outside in jit": (IndexError, lambda: ad.jit(lambda x, i: x[i])(X, np.array([7]))),
}  # fmt: skip


def usable():
    """The library still does its work, recorded and compiled."""
    w = parameter()
    square(w).backward()
    np.testing.assert_array_equal(w.grad, 2 * X)
    np.testing.assert_array_equal(ad.jit(ad.grad(square))(X), 2 * X)
    assert ad.is_grad_enabled()


@pytest.mark.parametrize("name", CASES)
def test_misuse_is_a_typed_error_at_the_users_line_every_time(name):
    error, misuse = CASES[name]
    for _ in range(2):
        with pytest.raises(error) as caught:
            misuse()
        assert "test_bad_input.py" in str(caught.value)
        usable()


def test_the_messages_say_what_where_and_how_to_mend(golden):
    messages = []
    for name, (_, misuse) in CASES.items():
        with pytest.raises(Exception) as caught:
            misuse()
        text = re.sub(r"(test_bad_input\.py):\d+", r"\1", str(caught.value))
        text = re.sub(r"(?<=no array: ).*", "(what NumPy says)", text)
        messages.append(f"{name}\n{text}\n")
    golden("\n".join(messages))


# ---------------------------------------------------------------- nothing half done


def test_an_index_outside_commits_nothing():
    w, other = parameter(), parameter()
    index = ad.tensor([0, 4])
    y = w[index * 2]
    loss = y.sum() + other.sum()
    for _ in range(2):
        with pytest.raises(IndexError):
            loss.backward()
        assert w.grad is None and other.grad is None
    with pytest.raises(IndexError):
        loss.item()
    usable()


def test_the_same_program_runs_after_an_index_outside():
    w = parameter()
    for i in [0, 2, 7, 1, 9, 2]:
        w.grad = None
        loss = (w[ad.tensor([i]) + 0] * 2.0).sum()
        if i > 2:
            with pytest.raises(IndexError):
                loss.backward()
            assert w.grad is None
        else:
            loss.backward()
            np.testing.assert_array_equal(w.grad, 2.0 * np.eye(3)[i])


def test_jit_runs_again_after_an_index_outside():
    f = ad.jit(lambda x, i: x[i] * 2.0)
    for i in [0, 7, 1, -4, 2]:
        if -3 <= i < 3:
            assert f(X, np.array([i])) == 2 * X[i]
        else:
            with pytest.raises(IndexError, match="<lambda>"):
                f(X, np.array([i]))


def test_native_code_does_not_trap():
    a, zero = ad.tensor([7, -7, np.iinfo(np.int64).min]), ad.tensor([0, 0, -1])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(a // zero, np.floor_divide(a.numpy(), zero.numpy()))
        np.testing.assert_array_equal(a % zero, np.remainder(a.numpy(), zero.numpy()))
    big = ad.tensor([np.iinfo(np.int64).max])
    assert (big + 1).item() == np.iinfo(np.int64).min
    ad.astype(ad.tensor([1e300, np.nan, -np.inf]), ad.int32).numpy()


def test_an_error_in_a_traced_function_leaves_jit_usable():
    calls = []

    @ad.jit
    def f(x):
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        return x * 2.0

    with pytest.raises(ZeroDivisionError):
        f(X)
    for _ in range(3):
        np.testing.assert_array_equal(f(X), 2 * X)
    assert len(calls) == 2


def test_an_error_in_a_differentiated_function_leaves_the_modes_as_they_were():
    def fails(x):
        raise LookupError("mine")

    for transform in (ad.grad(fails), lambda x: ad.jvp(fails, (x,), (x,)), lambda x: ad.vjp(fails, x)):
        with ad.no_grad(), pytest.raises(LookupError, match="mine"):
            transform(X)
        assert isinstance(ad.grad(square)(X), np.ndarray), "plain code gets arrays again"
        usable()


def test_an_error_in_a_forward_method_keeps_its_type_and_names_the_function():
    @ad.function
    def f(a): ...

    @f.forward
    def _(ctx, a: ad.Tensor):
        raise KeyError("inside")

    f.backward(ad.Tensor)(lambda ctx, g: g)
    with pytest.raises(KeyError) as caught:
        f(parameter())
    assert "in the forward method of f (test_bad_input.py:" in "\n".join(caught.value.__notes__)
    usable()
