"""Mistakes that people make in their first hour get an error that names the way out."""

import inspect
import re

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, -1.0])


F = lambda x: ad.sum(x * x)  # noqa: E731  users write it so


def _rebound_under_no_grad():
    w = ad.tensor(X, requires_grad=True)
    F(w).backward()
    with ad.no_grad():
        w = w - 0.1 * w.grad
    w.grad = None


T = ad.tensor(np.arange(6.0).reshape(2, 3))
KEY = ad.random.key(0)


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        (lambda: ad.max(ad.tensor(X), 0.0), "ad.maximum(a, b) compares elements"),
        (lambda: ad.tensor({1.0, 2.0}), "tensor: argument 'data' is a set, not a tensor"),
        (lambda: ad.tensor(x for x in X), "tensor: argument 'data' is a generator, not a tensor"),
        (lambda: ad.tensor(None), "tensor: argument 'data' is None, not a tensor"),
        (lambda: ad.tensor([1.0, None]), "tensor: argument 'data' has dtype object"),
        (lambda: f"{ad.tensor(X):.2f}", "format() takes one element, not f64[2]"),
        (lambda: ad.tensor(X).max(0.5), "ad.maximum(a, b) compares elements"),
        (lambda: ad.min(ad.tensor(X), np.zeros(2)), "ad.minimum(a, b) compares elements"),
        (lambda: ad.jit(lambda v: ad.sum(np.array([v[0], v[1]])))(X), "ad.stack([a, b]) is np.array([a, b])"),
        (lambda: ad.grad(lambda v: ad.sum(np.array([v[0], v[1]])))(X), "ad.stack one of a list of tensors"),
        (lambda: _rebound_under_no_grad(), "`w = w - ...` makes another tensor"),
        (lambda: ad.einsum(T, "ij->ji"), "subscripts stand first: ad.einsum('ij->ji', x)"),
        (lambda: ad.transpose(T, 1), "transpose: takes axes in a list or tuple, not an int"),
        (lambda: ad.fft.fft2(T, 4), "fft.fft2: takes lengths in a list or tuple, not an int"),
        (lambda: ad.fft.fftn(T, None, 1), "fft.fftn: takes axes in a list or tuple, not an int"),
        (lambda: ad.stack(3), "stack: takes arrays in a list or tuple, not an int"),
        (lambda: ad.hstack(None), "hstack: takes arrays in a list or tuple, not None"),
        (lambda: ad.linalg.multi_dot(3.0), "multi_dot: takes arrays in a list or tuple, not a float"),
        (lambda: ad.grad(3.0)(1.0), "of a function: ad.grad(f)(x)"),
        (lambda: ad.grad(), "ad.grad(f)(x) for a function"),
        (lambda: ad.hessian(3), "hessian: takes a function, got 3 (int)"),
        (lambda: ad.jit(3), "jit: takes a function, got 3 (int)"),
        (lambda: ad.vmap(3), "vmap: takes a function, got 3 (int)"),
        (lambda: ad.value_and_grad("x"), "value_and_grad: takes a function, got 'x' (str)"),
    ],
)
def test_a_first_mistake_is_answered_with_what_was_meant(call, way_out):
    with pytest.raises(Exception, match=re.escape(way_out)) as caught:
        call()
    assert "test_first_mistakes.py" in str(caught.value)


#: Calls that give the elements of a list one by one, and the call that is meant.
WITHOUT_BRACKETS = {
    "ad.zeros(2, 3)": "ad.zeros((2, 3))",
    "ad.ones(2, 3, 4)": "ad.ones((2, 3, 4))",
    "ad.zeros(2, 3, 4, 5)": "ad.zeros((2, 3, 4, 5))",
    "ad.empty(2, 3)": "ad.empty((2, 3))",
    "ad.full(2, 3, 4.0)": "ad.full((2, 3), 4.0)",
    "ad.full(2, 3, 4, 5.0)": "ad.full((2, 3, 4), 5.0)",
    "ad.tensor(1, 2, 3)": "ad.tensor((1, 2, 3))",
    "ad.random.normal(key, 2, 3)": "ad.random.normal(key, (2, 3))",
    "ad.random.randint(key, 2, 3, 0, 10)": "ad.random.randint(key, (2, 3), 0, 10)",
    "ad.reshape(x, 3, 2)": "ad.reshape(x, (3, 2))",
    "ad.broadcast_to(x, 2, 3)": "ad.broadcast_to(x, (2, 3))",
    "x.broadcast_to(2, 3)": "ad.broadcast_to(x, (2, 3))",
    "ad.broadcast_to(x[0], 2, 3)": "ad.broadcast_to(x, (2, 3))",
    "ad.tile(x, 2, 3)": "ad.tile(x, (2, 3))",
    "ad.transpose(x, 0, 1)": "ad.transpose(x, (0, 1))",
    "ad.permute_dims(x, 1, 0)": "ad.transpose(x, (1, 0))",
    "ad.sum(x, 0, 1)": "ad.sum(x, (0, 1))",
    "x.mean(0, 1)": "ad.mean(x, (0, 1))",
    "ad.max(x, 0, 1)": "ad.max(x, (0, 1))",
    "ad.logsumexp(x, 0, 1)": "ad.logsumexp(x, (0, 1))",
    "ad.expand_dims(x, 0, 1)": "ad.expand_dims(x, (0, 1))",
    "ad.flip(x, 0, 1)": "ad.flip(x, (0, 1))",
    "ad.fft.fft2(x, 4, 4)": "ad.fft.fft2(x, (4, 4))",
    "ad.fft.fftshift(x, 0, 1)": "ad.fft.fftshift(x, (0, 1))",
    "ad.stack(x, x)": "ad.stack([a, b])",
    "ad.stack(x, x, axis=1)": "ad.stack([a, b], axis=1)",
    "ad.stack([1.0], [2.0])": "ad.stack([a, b])",
    "ad.concatenate(x, x[0])": "ad.concatenate([a, b])",
    "ad.vstack(x, x, x)": "ad.vstack([a, b, c])",
    "ad.hstack(x, x)": "ad.hstack([a, b])",
    "ad.column_stack(np.ones(2), x)": "ad.column_stack([a, b])",
    "ad.linalg.multi_dot(x, x.T)": "ad.linalg.multi_dot([a, b])",
}


@pytest.mark.parametrize("call", WITHOUT_BRACKETS)
@pytest.mark.parametrize("route", ["plainly", "grad", "jit"])
def test_elements_that_are_given_one_by_one_are_told_their_brackets(call, route):
    known = {"ad": ad, "np": np, "key": KEY}
    run = {"plainly": lambda f: f(T), "grad": lambda f: ad.grad(f)(T.numpy()), "jit": lambda f: ad.jit(f)(T)}[route]
    with pytest.raises(TypeError, match=re.escape(WITHOUT_BRACKETS[call]) + "$") as caught:
        run(lambda x: eval(call, {**known, "x": x}))
    assert "called at" in str(caught.value)


@pytest.mark.parametrize("space", [ad, ad.linalg, ad.fft, ad.random], ids=lambda space: space.__name__)
def test_a_message_with_brackets_is_a_call_that_runs(space):
    """Over all public functions: numbers in the places behind the first arguments that they need."""
    given = {"x": T, "a": T, "y": T, "key": KEY, "shape": 2, "arrays": T, "tensors": T, "fill_value": 1}
    known = {"ad": ad, "x": T, "key": KEY, "shift": 1, "a": T, "b": T, "c": T}
    told = 0
    for name in space.__all__:
        function = getattr(space, name)
        if isinstance(function, type) or not callable(function) or getattr(function, "__module__", "") is None:
            continue
        parameters = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        if not parameters or not all([p in given for p in parameters]):
            continue
        try:
            function(*[given[p] for p in parameters], 1, 0)
        except Exception as error:
            offered = re.search(r"(?:tuple|list): (ad\..*)$", str(error))
            if offered:
                eval(offered.group(1), known)
                told += 1
    assert told > {ad: 25, ad.linalg: -1, ad.fft: 1, ad.random: 4}[space]


def test_one_axis_alone_is_not_told_to_be_a_tuple():
    for call in (lambda: ad.argmax(T, 0, 1), lambda: ad.cumsum(T, 0, 1), lambda: ad.sort(T, 0, 1)):
        with pytest.raises(TypeError) as caught:
            call()
        assert "tuple" not in str(caught.value)


@pytest.mark.parametrize("given", [[1.0, 2.0], (1.0, 2.0), [[1.0, 2.0], [3.0, 4.0]]], ids=str)
@pytest.mark.parametrize(
    "route",
    [
        lambda x: ad.grad(F)(x), lambda x: ad.value_and_grad(F)(x), lambda x: ad.jit(F)(x), lambda x: ad.vjp(F, x),
        lambda x: ad.jvp(F, (x,), (x,)), lambda x: ad.jacobian(F)(x), lambda x: ad.hessian(F)(x),
        lambda x: ad.hvp(F, (x,), (x,)), lambda x: ad.jit(ad.grad(F))(x), lambda x: ad.check_gradients(F, x),
        lambda x: ad.inspect(F, x), lambda x: ad.vmap(F)(tree_of_vectors(x)),
        lambda x: ad.scan(lambda c, _: (c * c, None), x, length=2), lambda x: ad.grad(lambda x: x.sum())(x),
    ],
)  # fmt: skip
def test_a_list_of_numbers_where_the_function_takes_an_array_is_told_so(given, route):
    """A list is a tree, and stays a list: what Python says of `[...] * [...]` tells nobody what to do."""
    with pytest.raises((TypeError, AttributeError)) as caught:
        route(given)
    (note,) = caught.value.__notes__
    assert f"argument 0 is a {type(given).__name__}" in note and f"np.array({type(given).__name__})" in note
    assert ad.grad(F)(np.array(given)).shape == np.shape(given)


def tree_of_vectors(x):
    return ad.tree.map(lambda e: np.full(2, e), x)


def test_no_list_is_blamed_for_an_error_that_is_not_of_one():
    with pytest.raises(TypeError) as caught:
        ad.grad(lambda x: x[0] + None)([1.0, 2.0])
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("make", [ad.grad, ad.value_and_grad, ad.jacobian, ad.hessian, ad.jit, ad.vmap])
@pytest.mark.parametrize("argument", [X, 2.0, "x", [X, X], ad.tensor(X)], ids=lambda x: type(x).__name__)
def test_arguments_given_with_the_function_are_told_where_they_go(make, argument):
    with pytest.raises(ad.DispatchError, match=rf"ad\.{make.__name__}\(f\)\(x\)") as caught:
        make(F, argument)
    assert "test_first_mistakes.py" in str(caught.value)


ROUTES = {
    "plainly": lambda f: f(ad.tensor(X)),
    "backward": lambda f: ad.sum(f(ad.tensor(X, requires_grad=True))).backward(),
    "grad": lambda f: ad.grad(lambda x: ad.sum(f(x)))(X),
    "jit": lambda f: ad.jit(f)(X),
    "vmap": lambda f: ad.vmap(f)(X),
    "jvp": lambda f: ad.jvp(f, (X,), (X,)),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("host", [False, True])
def test_a_forward_without_a_return_is_refused_at_the_call(route, host):
    @ad.function
    def double(x): ...

    @double.forward(ad.Tensor, host=host)
    def _(ctx, x):
        y = x * 2.0  # noqa: F841  and it is never returned

    with pytest.raises(ad.GradientError, match=r"double: its forward \(test_first.*, called at test_first.*\breturn\b"):
        ROUTES[route](double)


def test_a_forward_may_say_that_it_returns_nothing():
    @ad.function
    def look(x): ...

    seen = []

    @look.forward(ad.Tensor)
    def _(ctx, x):
        seen.append(x.shape)
        return None

    assert look(ad.tensor(X)) is None and seen == [(2,)]


class Length(ad.AbstractTensor):
    """A type without a dense form; its dtype is written as people write it."""

    shape, dtype = (), ad.float64

    def __init__(self, metres):
        self.metres = metres


ad.tree.register(Length, lambda x: ((x.metres,), None), lambda rest, children: Length(children[0]))


def _squared(factor):
    @ad.function
    def squared(x): ...

    @squared.forward(Length)
    def _(ctx, x):
        ctx.save_for_backward(metres=x.metres)
        return x.metres * x.metres

    @squared.backward(Length)
    def _(ctx, grad_output):
        return Length(factor * ctx.saved_variables.metres * grad_output)

    return squared


def test_rules_of_a_type_without_a_dense_form_are_checked():
    assert ad.grad(_squared(2.0))(Length(2.0)).metres == 4.0
    ad.check_gradients(_squared(2.0), Length(2.0))
    ad.check_gradients(lambda x: x.metres**3, Length(ad.tensor(2.0)))
    with pytest.raises(ad.GradientError, match="the derivative is wrong at first order, in reverse mode"):
        ad.check_gradients(_squared(2.5), Length(2.0))


def test_a_dtype_given_as_numpys_class_is_one():
    @ad.dense.method(Length)
    def _(x):
        return ad.asarray(x.metres)

    @ad.function
    def tripled(x): ...

    @tripled.forward(Length)
    def _(ctx, x):
        return x.metres * 3.0

    @tripled.backward(Length)
    def _(ctx, grad_output):
        return grad_output * 3.0

    assert ad.grad(tripled)(Length(2.0)).metres == 3.0
