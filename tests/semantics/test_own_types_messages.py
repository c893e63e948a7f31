"""An operation that has no method for a user's type says which method to add, and that pastes and runs."""

import re

import numpy as np
import pytest

import autodiff as ad


def _class(name):
    """A class of a user's: a number of metres, as people write it."""

    def __init__(self, metres):
        self.metres = metres

    bases = (ad.AbstractTensor,) if "Abstract" in name else ()
    own = type("Length", bases, {"shape": (), "dtype": ad.float64, "__init__": __init__})
    if "registered" in name:
        ad.tree.register(own, lambda x: ((x.metres,), None), lambda rest, parts: own(*parts))
    return own


CALLS = {
    "Length * number": lambda x: x * 3.0,
    "number * Length": lambda x: 3 * x,
    "Length + Length": lambda x: x + x,
    "Length / array": lambda x: x / np.ones(2),
    "Length > number": lambda x: x > 1,
    "sin": ad.sin,
    "sum": ad.sum,
    "sum along an axis": lambda x: ad.sum(x, 0),
    "method": lambda x: x.mean(),
    "det": ad.linalg.det,
    "erf": ad.special.erf,
    "np.exp": np.exp,
    "maximum": lambda x: ad.maximum(x, ad.tensor([1.0])),
}


#: Calls in which Python, or NumPy, looks for an attribute of the class first.
NEEDS_OPERATORS = {"method", "np.exp", *[name for name in CALLS if "Length" in name]}

ROUTES = {
    "plainly": lambda f, x: f(x),
    "grad": lambda f, x: ad.grad(f)(x),
    "value_and_grad": lambda f, x: ad.value_and_grad(f)(x),
    "jit": lambda f, x: ad.jit(f)(x),
    "vjp": lambda f, x: ad.vjp(f, x),
    "closed over": lambda f, x: ad.grad(lambda y: f(x))(2.0),
}


@pytest.mark.parametrize(
    ("kind", "route", "name"),
    [
        (kind, route, name)
        for kind in ("AbstractTensor", "registered AbstractTensor", "plain", "registered")
        for route in ROUTES
        for name in CALLS
        if name not in NEEDS_OPERATORS or "Abstract" in kind
        if "registered" in kind or route in ("plainly", "closed over")  # else it is no argument
    ],
)
def test_the_suggested_method_is_the_one_that_the_call_runs(kind, route, name):
    Length = _class(kind)
    x = Length(2.0)
    with pytest.raises(ad.DispatchError) as caught:
        ROUTES[route](CALLS[name], x)
    message = str(caught.value)
    assert "test_own_types_messages.py" in message
    assert message.count("@ad.dense.method(Length)") == ("Abstract" in kind)
    suggested = re.search(r"for this operation:  @(.*)$", message, re.MULTILINE).group(1)
    known = {"ad": ad, "np": np, "Length": Length}

    def own(*args, **keywords):
        return ad.tensor(7.0)

    own.__signature__ = eval(suggested.partition(".method(")[0], known).declaration.signature
    method = eval(suggested, known)(own)
    try:
        assert float(CALLS[name](x)) == 7.0
        ROUTES[route](CALLS[name], x)
    finally:
        method.delete()  # else a later test would trace once more


REGISTERED_FOR = {
    "grad": lambda x: ad.grad(lambda z: z.metres**2)(x),
    "vjp": lambda x: ad.vjp(lambda z: z.metres**2, x),
    "vmap": lambda x: ad.vmap(lambda z: z.metres**2)(x),
    "check_gradients": lambda x: ad.check_gradients(lambda z: z.metres**2, x),
}


@pytest.mark.parametrize("route", REGISTERED_FOR)
@pytest.mark.parametrize("kind", ["AbstractTensor", "plain"])
def test_a_class_that_is_not_registered_is_told_so_with_a_call_that_runs(route, kind):
    Length = _class(kind)
    x = Length(np.array([2.0, 3.0]) if route == "vmap" else 2.0)
    with pytest.raises(ad.Error, match=r"ad\.tree\.register\(Length, ") as caught:
        REGISTERED_FOR[route](x)
    assert "test_own_types_messages.py" in str(caught.value)
    offered = re.search(r"(ad\.tree\.register\(.*\))$", str(caught.value), re.MULTILINE).group(1)
    eval(offered, {"ad": ad, "Length": Length})
    REGISTERED_FOR[route](x)


def test_of_a_class_made_otherwise_the_functions_are_named_alone():
    class Spaced:
        def __init__(self, start):
            self.first, self.second = start, start + 1

    with pytest.raises(ad.DTypeError, match=r"ad\.tree\.register\(Spaced, flatten, unflatten\)$"):
        ad.grad(lambda z: z.first)(Spaced(1.0))
    for argument in ("text", None, ad.tensor, [object()], np.array(["a"])):
        with pytest.raises(ad.Error) as caught:
            ad.check_gradients(lambda z: z, argument)
        assert "register" not in str(caught.value)


def test_a_list_of_an_own_type_is_told_of_dense_alone():
    Length = _class("AbstractTensor")
    with pytest.raises(
        ad.DispatchError, match=r"dense: no method for Length(.|\n)*add one:  @ad.dense.method\(Length\)$"
    ):
        ad.stack([Length(1.0), Length(2.0)])


@pytest.mark.parametrize(
    ("other", "types"),
    [
        (np.ones(2), "ad.Vector"), (ad.ones((2, 2)), "ad.Matrix"), (np.ones((1, 1, 1)), r"ad.Tensor\[..., 3\]"),
        (np.float32(1.0), "np.float32"), (2.0, "ad.Number"), (ad.tensor(1.0), "ad.Scalar"),
    ],
)  # fmt: skip
def test_a_suggested_method_takes_arrays_and_tensors_of_a_rank(other, types):
    with pytest.raises(ad.DispatchError, match=rf"@ad.add.method\(Length, {types}\)"):
        _class("AbstractTensor")(1.0) + other


def test_a_dense_form_that_is_not_returned_is_named():
    Length = _class("registered AbstractTensor")
    method = ad.dense.method(Length)(lambda x: None)
    try:
        with pytest.raises(ad.DispatchError, match=r"method for Length returned nothing\n  called at test_own"):
            ad.sum(Length(1.0))
    finally:
        method.delete()


@pytest.mark.parametrize(
    ("flatten", "unflatten", "says"),
    [
        (lambda rest, parts: None, lambda x: None, r"flatten is called with an instance, .* takes \(rest, parts\)"),
        (lambda x: None, lambda parts: None, r"unflatten is called with \(rest, children\), .* takes \(parts\)"),
        (lambda: None, lambda rest, parts: None, r"flatten is called with an instance, .* takes \(\)"),
    ],
)
def test_functions_that_take_no_such_arguments_are_refused_when_a_class_is_registered(flatten, unflatten, says):
    with pytest.raises(ad.DispatchError, match=rf"{says}\n  called at test_own(.|\n)*first flatten, then unflatten"):
        ad.tree.register(_class("plain"), flatten, unflatten)


@pytest.mark.parametrize("rest", [[1], {"unit": "m"}, np.ones(2)], ids=["list", "dict", "array"])
def test_a_rest_without_a_hash_is_named(rest):
    Length = _class("plain")
    ad.tree.register(Length, lambda x: ((x.metres,), rest), lambda rest, parts: Length(*parts))
    for route in (ad.grad, ad.jit, lambda f: lambda x: ad.tree.leaves(x)):
        with pytest.raises(ad.DispatchError, match=r"flatten of Length returned (.|\n)*no hash\n  called at test_own"):
            route(lambda x: x.metres)(Length(1.0))


def test_what_needs_no_parts_is_not_told_to_register():
    x = _class("AbstractTensor")(2.0)
    with pytest.raises(ad.DispatchError) as caught:
        np.asarray(x)
    assert "@ad.dense.method(Length)" in str(caught.value) and "tree.register" not in str(caught.value)
