"""A call chooses the same method whether it is traced or not: for arrays, numbers and tensors of the user's, on every
route.

Two things are tensors in a trace, and are so on purpose: a number that is differentiated, and the carry of a loop,
which is what the last step gave.
"""

import collections.abc

import numpy as np
import pytest

import autodiff as ad

ARGUMENTS = {
    "a vector": np.arange(3.0) + 1.0,
    "a matrix": np.ones((2, 2)),
    "an array without axes": np.array(2.0),
    "integers": np.arange(3),
    "a float": 2.0,
    "an int": 3,
    "a NumPy scalar": np.float64(2.0),
    "a NumPy float32": np.float32(2.0),
    "a tensor": ad.tensor([1.0, 2.0]),
    "a tensor matrix": ad.tensor(np.ones((2, 2))),
}


def chooser(*types, result=lambda x: x * 1.0):
    """A function with a method for each type, and the list of the types chosen."""
    chosen = []

    @ad.function
    def f(x): ...

    def register(cls):
        @f.method(cls)
        def _(x):
            chosen.append(cls)
            return result(x)

    for cls in types:
        register(cls)
    return f, chosen


def total(f):
    return lambda x: ad.sum(ad.astype(ad.asarray(f(x)), ad.float64))


#: Routes on which the argument is not differentiated, or may be any.
PLAIN = {
    "jit": lambda f: ad.jit(f),
    "jit(jit)": lambda f: ad.jit(ad.jit(f)),
    "by keyword": lambda f: lambda x: ad.grad(lambda c, x: c * total(f)(x))(1.0, x=x),
    "beside": lambda f: lambda x: ad.grad(lambda c, x: c * total(f)(x))(1.0, x),
    "jit(beside)": lambda f: ad.jit(lambda x: ad.grad(lambda c, x: c * total(f)(x))(1.0, x)),
    "vmap, shared": lambda f: lambda x: ad.vmap(lambda c, x: c * f(x), in_axes=(0, None))(np.ones(2), x),
    "checkpoint": lambda f: ad.checkpoint(f),
    "jit(checkpoint)": lambda f: ad.jit(ad.checkpoint(f)),
    "cond, decided": lambda f: lambda x: ad.cond(True, f, f, x),
    "cond": lambda f: lambda x: ad.cond(ad.tensor(1.0) > 0, f, f, x),
    "jit(cond)": lambda f: ad.jit(lambda x: ad.cond(ad.sum(ad.asarray(x)) > 0, f, f, x)),
    "scan, closed over": lambda f: lambda x: ad.scan(lambda c, _: (c, f(x)), 1.0, length=2),
    "jit(scan, closed over)": lambda f: ad.jit(lambda x: ad.scan(lambda c, _: (c, f(x)), 1.0, length=2)),
    "inspect": lambda f: lambda x: ad.inspect(lambda x: ad.asarray(f(x)), x),
}
#: Routes that differentiate the argument, or map over it.
MOVING = {
    "grad": lambda f: ad.grad(total(f)),
    "value_and_grad": lambda f: ad.value_and_grad(total(f)),
    "vjp": lambda f: lambda x: ad.vjp(f, x),
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (x * 1.0,)),
    "jacobian": lambda f: ad.jacobian(f),
    "jacobian, forward": lambda f: ad.jacobian(f, mode="forward"),
    "hessian": lambda f: ad.hessian(total(f)),
    "hvp": lambda f: lambda x: ad.hvp(total(f), (x,), (x * 1.0,)),
    "jit(grad)": lambda f: ad.jit(ad.grad(total(f))),
    "grad(jit)": lambda f: ad.grad(total(ad.jit(f))),
    "grad(grad)": lambda f: ad.grad(lambda x: ad.sum(ad.grad(total(f))(x))),
    "grad(checkpoint)": lambda f: ad.grad(total(ad.checkpoint(f))),
    "grad(cond)": lambda f: ad.grad(lambda x: ad.cond(ad.sum(x) > 0, total(f), total(f), x)),
    "vmap": lambda f: lambda x: ad.vmap(f)(x[None]),
    "vmap(grad)": lambda f: lambda x: ad.vmap(ad.grad(total(f)))(x[None]),
    "scan over it": lambda f: lambda x: ad.scan(lambda c, y: (c, f(y)), 1.0, x[None]),
}
TYPES = (np.ndarray, ad.Tensor, ad.Matrix, ad.Number, float)


def of(types):
    """Of the classes chosen by several calls the one that there should be."""
    assert len(set(types)) == 1, types
    return types[0]


@pytest.mark.parametrize("eager", [False, True], ids=["", "eager"])
@pytest.mark.parametrize("given", ARGUMENTS)
@pytest.mark.parametrize("route", [*PLAIN, *MOVING])
def test_the_same_method_is_chosen_on_every_route(route, given, eager):
    x = ARGUMENTS[given]
    if route in MOVING and not (isinstance(x, (np.ndarray, ad.Tensor)) and x.dtype.kind == "f"):
        return
    f, chosen = chooser(*TYPES)
    f(x)
    expected = of(chosen)
    chosen.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ad.config, "eager", eager)
        (PLAIN | MOVING)[route](f)(x)
    assert of(chosen) is expected


@pytest.mark.parametrize("route", ["grad", "jacobian", "jit(grad)"])
def test_a_number_that_is_differentiated_is_a_tensor(route):
    f, chosen = chooser(*TYPES)
    MOVING[route](f)(2.0)
    assert of(chosen) is ad.Tensor


def test_a_carry_is_a_tensor():
    for loop in (lambda f, x: ad.scan(lambda c, _: (f(c), None), x, length=2), lambda f, x: ad.fori_loop(
            0, 2, lambda i, c: f(c), x)):  # fmt: skip
        f, chosen = chooser(*TYPES)
        loop(f, np.ones(3))
        assert of(chosen) is ad.Tensor


def test_a_jit_function_tells_arrays_from_tensors_where_methods_do():
    f, chosen = chooser(ad.Tensor, np.ndarray)
    x, t = np.ones(3), ad.tensor(np.ones(3))
    compiled = ad.jit(lambda a, b: f(a) + 2.0 * f(b))
    for a, b in ((t, x), (x, t), (x, x), (t, t), (x, t), (t, x), (t, t)):
        compiled(a, b)
    assert chosen == [ad.Tensor, np.ndarray, np.ndarray, ad.Tensor, np.ndarray, np.ndarray, ad.Tensor, ad.Tensor]
    exp = ad.jit(lambda x: ad.exp(x))
    exp(x)
    with ad.max_compiles(0):
        exp(t)  # the traces are alike: one program is for both


def test_a_method_for_arrays_that_comes_later_is_seen_by_what_is_compiled():
    f, _ = chooser(ad.Tensor)
    x, t = np.ones(3), ad.tensor(np.ones(3))
    compiled = ad.jit(f)
    for given in (x, x, t, t):
        compiled(given)
    late = f.method(np.ndarray)(lambda x: x * 3.0)
    assert compiled(x).tolist() == [3.0, 3.0, 3.0] and compiled(t).numpy().tolist() == [1.0, 1.0, 1.0]
    assert compiled(x).tolist() == [3.0, 3.0, 3.0]
    late.delete()
    assert compiled(x).tolist() == [1.0, 1.0, 1.0]


def test_a_method_for_tensors_passes_a_tensor_on():
    inner, seen = chooser(ad.Tensor, np.ndarray)
    for outer in (chooser(ad.Tensor, result=inner)[0], with_rule(inner)):
        routes = [(PLAIN | MOVING)[name] for name in ("jit", "grad", "vmap", "checkpoint", "jit(grad)")]
        for route in (lambda f: f, *routes):
            seen.clear()
            route(outer)(np.ones(3))
            assert of(seen) is ad.Tensor


def with_rule(inner):
    @ad.function
    def outer(x): ...

    @outer.forward(ad.Tensor)
    def _(ctx, x):
        return inner(x)

    @outer.backward(ad.Tensor)
    def _(ctx, g):
        return g

    return outer


def test_an_update_in_place_reaches_the_argument():
    f, chosen = chooser(ad.Tensor, np.ndarray)

    @ad.function
    def grow(x): ...

    @grow.method(ad.Tensor)
    def _(x):
        x += 1.0

    def program(x):
        x *= 2.0
        grow(x)
        return ad.sum(f(x) * x)

    x = np.array([1.0, 2.0])
    assert ad.grad(program)(x).tolist() == (4 * (2 * x + 1)).tolist()
    assert of(chosen) is np.ndarray
    assert ad.jit(program)(x) == np.sum((2 * x + 1) ** 2)


def test_a_pair_for_an_array_refuses_to_lose_its_gradient():
    @ad.function
    def f(x, a): ...

    @f.forward(ad.Tensor, np.ndarray)
    def _(ctx, x, a):
        ctx.save_for_backward(a=a)
        return x * a

    @f.backward(ad.Tensor, np.ndarray)
    def _(ctx, g):
        return {"x": g * ctx.saved_variables.a}

    x, a = ad.tensor([1.0, 2.0]), np.array([3.0, 4.0])
    for of_x in (ad.grad(lambda x, a: ad.sum(f(x, a))), ad.jit(ad.grad(lambda x, a: ad.sum(f(x, a))))):
        assert of_x(x, a).numpy().tolist() == [3.0, 4.0]
    with pytest.raises(ad.GradientError, match="no gradient for 'a', which needs one"):
        ad.grad(lambda a: ad.sum(f(x, a)))(a)


def test_which_and_messages_are_the_same_in_a_trace():
    f, _ = chooser(ad.Matrix, np.ndarray)
    told = []

    def ask(x):
        told.append(str(ad.which(f, x)))
        told.append(str(ad.which(plain, x)).partition("converted")[2])
        with pytest.raises(ad.DispatchError) as caught:
            narrow(x)
        told.append([line for line in str(caught.value).splitlines() if "called at" not in line])
        return f.invoke((np.ndarray,), x)

    plain, _ = chooser(ad.Tensor)
    narrow, _ = chooser(ad.Matrix, str)
    x = np.ones(3)
    for route in (lambda f: f, ad.jit, lambda f: ad.grad(lambda x: ad.sum(f(x)))):
        route(ask)(x)
    assert told[0:3] == told[3:6] == told[6:9]
    assert told[1] == ": x: ndarray to Tensor[float64, 1]"


def test_an_abstract_class_that_arrays_belong_to_names_them():
    for cls in (collections.abc.Iterable, collections.abc.Sized):
        f, chosen = chooser(ad.Number, cls)
        for route in (lambda f: f, ad.jit, MOVING["grad"]):
            route(f)(np.ones(3))
        assert chosen == [cls] * 3


def test_a_number_argument_is_a_number_to_a_loop_inside():
    x = np.ones(2, np.float32)

    def program(n):
        return ad.fori_loop(0, 2, lambda i, c: (c[0], c[0] * c[1]), (n, x))[1]

    assert program(2.0).dtype == ad.jit(program)(2.0).dtype == np.float32
