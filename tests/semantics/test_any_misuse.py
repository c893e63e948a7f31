"""SEMANTICS 9 over all public functions: a call with something else in the place of one argument ends in an error with
the user's line, or is a call."""

import inspect

import numpy as np
import pytest

import autodiff as ad

SPACES = {"ad": ad, "linalg": ad.linalg, "fft": ad.fft, "random": ad.random, "special": ad.special}
#: Things that are no array, no axis, no shape, no function, no list of arrays: each is none of something.
THINGS = {
    "None": None, "text": "a", "a float": 3.5, "an object": object(), "an empty list": [], "a dict": {}, "-1": -1,
    "a pair": (1, 2), "a tensor": ad.tensor(np.arange(6.0).reshape(2, 3)),
}  # fmt: skip
#: Functions that take no arguments, or hand them on to a function of the user's.
LEFT_OUT = {"cache_info", "checkpoint", "clear_cache", "explain", "function", "jit", "max_compiles"}


def _functions():
    for space, module in SPACES.items():
        for name in module.__all__:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type) and name not in LEFT_OUT:
                yield pytest.param(function, id=f"{space}.{name}")


@pytest.mark.parametrize("function", [*_functions()])
@pytest.mark.filterwarnings("ignore")
def test_a_thing_in_the_place_of_an_argument_is_refused_with_the_users_line(function, tmp_path):
    parameters = inspect.signature(function).parameters.values()
    given = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    named = {p.name: tmp_path for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty}  # a folder
    needed = max(1, sum([p.default is p.empty for p in given]))
    first = {"key": ad.random.key(0)}
    right = [first.get(p.name, THINGS["a tensor"] if not i else ad.tensor([1.0, 2.0])) for i, p in enumerate(given)]
    for place, parameter in enumerate(given):
        if isinstance(parameter.default, bool):
            continue  # of a flag the truth counts
        behind = [p.default for p in given[needed:place]]
        for what, thing in THINGS.items():
            arguments = [*right[:needed], *behind, thing] if place >= needed else [*right[:place], thing]
            arguments += right[len(arguments) : needed]
            _called(function, arguments, named, f"{parameter.name} is {what}")
    for parameter in [p for p in parameters if p.kind == p.KEYWORD_ONLY and not isinstance(p.default, bool)]:
        for what, thing in THINGS.items():
            for first in (right[:1], [ad.tensor([1.0, 2.0])], [lambda x: x]):
                arguments = [*first, *right[1:needed]]
                _called(function, arguments, {**named, parameter.name: thing}, f"{parameter.name} is {what}")


def _called(function, arguments, named, described):
    try:
        function(*arguments, **named)
    except Exception as error:
        told = str(error) + "".join(getattr(error, "__notes__", ()))
        assert "test_any_misuse.py" in told, f"{described}: {type(error).__name__}: {error}"


def _declared():
    @ad.function
    def g(x, y=None): ...

    forward = g.forward(ad.Tensor)(lambda ctx, x, y=None: x * 2.0)
    forward.backward(lambda ctx, bar: bar * 2.0)
    return g


G = _declared()
X = np.ones(2)


def _tensor():
    return ad.tensor(X, requires_grad=True)


#: Everything that is no function of `ad`: methods, transformations, rules, what functions return, trees.
DONE_WITH_IT = {
    "a call": lambda x: G(x),
    "types of a method": lambda x: G.method(x)(lambda x, y=None: x),
    "types of a forward": lambda x: G.forward(x)(lambda ctx, x, y=None: x),
    "a forward": lambda x: G.forward(ad.Matrix)(x),
    "types of a backward": lambda x: G.backward(x)(lambda ctx, bar: bar),
    "a backward": lambda x: G.backward(ad.Tensor)(x),
    "invoke": lambda x: G.invoke(x, X),
    "an argument of invoke": lambda x: G.invoke((ad.Tensor,), x),
    "a seed": lambda x: ad.sum(_tensor() * 2.0).backward(x),
    "inputs of backward": lambda x: ad.sum(_tensor() * 2.0).backward(inputs=x),
    "a hook": lambda x: _tensor().register_hook(x),
    ".grad": lambda x: setattr(_tensor(), "grad", x),
    "an index to set": lambda x: ad.ones(2).__setitem__(x, 1.0),
    "a value to set": lambda x: ad.ones(2).__setitem__(0, x),
    "an index": lambda x: ad.ones(2)[x],
    "reshape": lambda x: ad.ones(2).reshape(x),
    "astype": lambda x: ad.ones(2).astype(x),
    "an axis of a method": lambda x: ad.ones(2).sum(axis=x),
    "transpose": lambda x: ad.ones(2).transpose(x),
    "grad": lambda x: ad.grad(x)(X),
    "argnums of grad": lambda x: ad.grad(ad.sum, x)(X),
    "mode of jacobian": lambda x: ad.jacobian(ad.sin, mode=x)(X),
    "a tangent": lambda x: ad.jvp(ad.sin, (X,), (x,)),
    "tangents": lambda x: ad.jvp(ad.sin, (X,), x),
    "a direction of hvp": lambda x: ad.hvp(ad.sum, X, x),
    "a cotangent": lambda x: ad.vjp(ad.sin, X)[1](x),
    "in_axes": lambda x: ad.vmap(ad.sin, x)(np.ones((2, 2))),
    "out_axes": lambda x: ad.vmap(ad.sin, 0, x)(np.ones((2, 2))),
    "static_argnums": lambda x: ad.jit(ad.sin, static_argnums=x)(X),
    "static_argnames": lambda x: ad.jit(ad.sin, static_argnames=x)(X),
    "init of scan": lambda x: ad.scan(lambda c, e: (c, e), x, X),
    "xs of scan": lambda x: ad.scan(lambda c, e: (c, e), 1.0, x),
    "a step of scan": lambda x: ad.scan(lambda c, e: x, 1.0, X),
    "length of scan": lambda x: ad.scan(lambda c, e: (c, e), 1.0, None, x),
    "upper of fori_loop": lambda x: ad.fori_loop(0, x, lambda i, c: c, 1.0),
    "a step of fori_loop": lambda x: ad.fori_loop(0, 3, lambda i, c: x, 1.0),
    "a branch of cond": lambda x: ad.cond(ad.tensor(True), lambda y: y, lambda y: x, 1.0),
    "what to choose by": lambda x: ad.cond(x, lambda y: y, lambda y: y, 1.0),
    "returned to grad": lambda x: ad.grad(lambda y: x)(X),
    "returned to vmap": lambda x: ad.vmap(lambda y: x)(np.ones((2, 2))),
    "returned to jit": lambda x: ad.jit(lambda y: x)(X),
    "returned to jacobian": lambda x: ad.jacobian(lambda y: x)(X),
    "returned to vjp": lambda x: ad.vjp(lambda y: x, X),
    "returned to jvp": lambda x: ad.jvp(lambda y: x, (X,), (X,)),
    "returned to hessian": lambda x: ad.hessian(lambda y: x)(X),
    "returned to check_gradients": lambda x: ad.check_gradients(lambda y: x, X),
    "returned to inspect": lambda x: ad.inspect(lambda y: x, "f64[2]"),
    "tree.map": lambda x: ad.tree.map(x, [1]),
    "a structure": lambda x: ad.tree.unflatten(x, [1]),
    "leaves": lambda x: ad.tree.unflatten(ad.tree.flatten([1, 2])[1], x),
    "register": lambda x: ad.tree.register(x, lambda y: y, lambda rest, parts: rest),
    "xs of grad": lambda x: ad.grad(ad.sum(_tensor() * 2.0), x),
    "grad_outputs": lambda x: (lambda t: ad.grad(t * 2.0, t, x))(_tensor()),
    "Diagonal": lambda x: ad.Diagonal(x),
    "Symmetric": lambda x: ad.Symmetric(x),
    "project": lambda x: ad.project(x, ad.ones(2)),
    "a dtype of Tensor": lambda x: ad.Tensor[x],
    "a rank of Tensor": lambda x: ad.Tensor[..., x],
}


@pytest.mark.parametrize("name", DONE_WITH_IT)
@pytest.mark.filterwarnings("ignore")
def test_a_thing_in_any_other_place_is_refused_with_the_users_line(name):
    for what, thing in THINGS.items():
        try:
            DONE_WITH_IT[name](thing)
        except Exception as error:
            told = str(error) + "".join(getattr(error, "__notes__", ()))
            assert "test_any_misuse.py" in told, f"{what}: {type(error).__name__}: {error}"


@pytest.mark.parametrize("given", [[], 0, None, "yes", [0], 2], ids=repr)
def test_of_a_flag_the_truth_counts(given):
    def made():
        x = ad.tensor([1.0, 2.0], requires_grad=True)
        return x, ad.sum(x * x)

    def kept(flag):
        return ad.tensor([1.0], requires_grad=flag).requires_grad, ad.tensor(X, requires_grad=flag).requires_grad

    def retained(flag, go):
        x, y = made()
        go(x, y, flag)
        try:
            y.backward()
        except ad.GradientError:
            return False
        return True

    routes = [
        kept,
        lambda flag: retained(flag, lambda x, y, flag: y.backward(retain_graph=flag)),
        lambda flag: retained(flag, lambda x, y, flag: ad.backward(y, np.ones(()), retain_graph=flag)),
        lambda flag: retained(flag, lambda x, y, flag: ad.grad(y, x, create_graph=flag)),
        lambda flag: retained(flag, lambda x, y, flag: ad.backward([y], create_graph=flag)),
    ]
    for route in routes:
        for _ in range(3):
            assert route(given) == route(bool(given))
