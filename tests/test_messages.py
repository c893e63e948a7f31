"""Messages say what, where and how to mend, and name what the user wrote: the leaf, the index, the function."""

import itertools
import re

import numpy as np
import pytest

import autodiff as ad

ONES = np.ones(3)
COMPLEX = np.array([1.0 + 2.0j])


def _escaped(run):
    """A value of a traced body, after its trace."""
    seen = []
    run(lambda c, *rest: seen.append(c * 2.0))
    return seen[0]


def _in_scan(see):
    ad.scan(lambda c, x: (see(c), (c + x, x))[1], 0.0, ad.tensor(ONES, requires_grad=True))


def _in_fori(see):
    ad.fori_loop(0, 2, lambda i, c: (see(c), c)[1], ad.tensor(1.0, requires_grad=True))


def _in_while(see):
    ad.while_loop(lambda c: c < 0, lambda c: (see(c), c + 1)[1], ad.tensor(1.0, requires_grad=True))


def _in_vmap(see):
    ad.vmap(lambda c: (see(c), c)[1])(ad.tensor(ONES, requires_grad=True))


def _in_checkpoint(see):
    ad.checkpoint(lambda c: (see(c), c)[1])(ad.tensor(ONES, requires_grad=True))


def _in_jit(see):
    ad.jit(lambda c: (see(c), c)[1])(ad.tensor(ONES, requires_grad=True))


@pytest.mark.parametrize(
    "asked", [lambda t: t.numpy(), np.asarray, lambda t: t.tolist(), lambda t: float((t + 1.0).sum())]
)
@pytest.mark.parametrize("run", [_in_scan, _in_fori, _in_while, _in_vmap, _in_checkpoint, _in_jit])
def test_a_value_that_left_its_trace_is_told_to_have_left_it(run, asked):
    escaped = _escaped(run)
    with pytest.raises(ad.ConcretizationError, match="after its trace, so it never has one"):
        asked(escaped)


@pytest.mark.parametrize("name", ["arcsin", "exp2", "log1p", "floor", "hypot", "relu", "clip", "logsumexp"])
def test_nobody_is_told_to_drop_an_imaginary_part(name):
    f = getattr(ad, name)
    with pytest.raises(ad.DTypeError) as error:
        f(COMPLEX, COMPLEX) if name == "hypot" else f(COMPLEX)
    assert str(error.value).startswith(f"{name}: takes float")
    assert "ad.real(x), ad.imag(x) and ad.abs(x)" in str(error.value) and "astype" not in str(error.value)


def _set(x, i):
    x[i] = 1.0
    return x


def _scanned(x, i):
    return ad.scan(lambda c, k: (c, x[k]), 0.0, i)


@pytest.mark.parametrize(
    ("f", "args", "said"),
    [
        (lambda x, i: x[i], (ONES, 5), "take: index 5 is out of bounds for axis 0 with size 3"),
        (lambda x, i: x[i] * 2, (ONES[None], np.array([0, 7])), "take: index 7 is out of bounds for axis 0"),
        (_set, (ONES, 4), "scatter_set: index 4 is out of bounds for axis 0 with size 3"),
        (_scanned, (ONES, np.array([0, 9])), "take: index 9 is out of bounds for axis 0 with size 3"),
    ],
    ids=["take", "array", "set", "scan"],
)  # fmt: skip
def test_an_index_out_of_range_in_compiled_code_is_named_with_its_extent_and_operation(f, args, said):
    compiled = ad.jit(f)
    for _ in range(3):  # traced, then known
        with pytest.raises(IndexError, match=said):
            compiled(*args)


def _steps(x, shift):
    """Many steps, of which each gathers: a recording that is run in parts where lengths vary."""
    h, i, shift = x, ad.tensor(np.arange(3)), ad.asarray(shift)
    for _ in range(int(_steps.length)):
        h = ad.sin(h) * 1.1 + x[i + shift]
    return ad.sum(h)


#: The ways to read x[i + shift] for i of 0, 1, 2: one for each route to a value.
INDEXED = {
    "gather": lambda x, shift: ad.sum(x[ad.tensor(np.arange(3)) + shift] * x),
    "along": lambda x, shift: ad.sum(ad.take_along_axis(x * x, ad.tensor(np.arange(3)) + shift)),
    "update": lambda x, shift: ad.sum(ad.add_at(x, ad.tensor(np.arange(3)) + shift, x) ** 2),
    "scan": lambda x, shift: ad.scan(lambda c, k: (c + x[k + shift], c), 0.0, np.arange(3))[0],
    "scan of cond": lambda x, shift: ad.scan(
        lambda c, k: (ad.cond(k > 0, lambda: c + x[k + shift], lambda: c), c), 0.0, np.arange(3))[0],
    "fori": lambda x, shift: ad.fori_loop(0, 3, lambda k, c: c + x[k + shift], 0.0),
    "while": lambda x, shift: ad.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + x[s[0] + shift]),
                                              (0, 0.0))[1],
    "cond": lambda x, shift: ad.cond(x[0] > 0, lambda: ad.sum(x[2 + shift]), lambda: 0.0),
    "checkpoint": lambda x, shift: ad.checkpoint(lambda x: ad.sum(x[ad.tensor(np.arange(3)) + shift]))(x),
    "vmap": lambda x, shift: ad.sum(ad.vmap(lambda k: x[k + shift] * x[0])(ad.asarray(np.arange(3)))),
    "steps": _steps,
}  # fmt: skip


def _recorded(f):
    return lambda x, shift: float(f(ad.tensor(x), ad.tensor(shift)))


def _backward(f):
    return lambda x, shift: f(ad.tensor(x, requires_grad=True), ad.tensor(shift)).backward()


def _eager(f):
    def run(x, shift):
        ad.config.eager = True
        try:
            return _recorded(f)(x, shift)
        finally:
            ad.config.eager = False

    return run


#: The ways to run such a function.
INDEX_ROUTES = {
    "recorded": _recorded, "backward": _backward, "eager": _eager,
    "jit": ad.jit, "jit of grad": lambda f: ad.jit(ad.grad(f)), "grad of jit": lambda f: ad.grad(ad.jit(f)),
    "grad": ad.grad, "jvp": lambda f: lambda x, shift: ad.jvp(lambda x: f(x, shift), (x,), (x,)),
    "vmap": lambda f: lambda x, shift: ad.vmap(f, in_axes=(0, None))(np.stack([x, x]), shift),
}  # fmt: skip


@pytest.mark.parametrize("patience", [0, 8])
@pytest.mark.parametrize("route", INDEX_ROUTES)
@pytest.mark.parametrize("program", INDEXED)
def test_an_index_out_of_range_names_itself_on_every_route(program, route, patience, monkeypatch):
    monkeypatch.setattr(ad.config, "patience", patience)
    run, lengths = INDEX_ROUTES[route](INDEXED[program]), itertools.count(2)
    if program == "steps" and route not in ("recorded", "backward"):
        lengths = itertools.repeat(2)
    elif program == "steps" and patience:  # without patience each length is compiled whole
        lengths = itertools.chain([120, 131, 117, 140, 125, 118, 133, 119], itertools.count(141))
    for shift in (0,) * 10 + (1,) * 4:  # met, known, answered natively; then each of these fails
        _steps.length = next(lengths)
        if not shift:
            run(ONES, shift)
            continue
        with pytest.raises(IndexError, match=r"index 3 is out(side)? of") as error:
            run(ONES, shift)
        said = str(error.value)
        assert re.search(r"extent 3|extent is 3|with size 3", said) and "at test_messages.py" in said, said
        assert re.search(r"(take|take_along|scatter_add|x\[\.\.\.\]|\w+): index", said), said


def test_an_index_error_of_the_users_own_stays_as_it_is():
    @ad.function
    def picked(x): ...

    @picked.forward(ad.Tensor, host=True)
    def _(ctx, x):
        return x + [1.0, 2.0][5]

    def looped(x):
        return ad.scan(lambda c, _: (picked(c), c), x, None, length=2)[0]

    for f in (picked, ad.jit(picked), looped, ad.jit(looped)):
        with pytest.raises(IndexError, match="list index out of range") as error:
            np.asarray(f(ad.tensor(ONES)))
        assert type(error.value) is IndexError and "out of range:" not in str(error.value)


def test_a_computed_index_of_a_recording_is_named_too():
    i = ad.tensor(np.array([1, 2])) * 4
    with pytest.raises(IndexError, match="take: index 8 is out of bounds for axis 0 with size 6"):
        np.asarray(ad.tensor(np.ones(6))[i])


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f, x: ad.grad(f)(x),
        lambda f, x: ad.value_and_grad(f)(x),
        lambda f, x: ad.vjp(f, x),
        lambda f, x: ad.jacobian(f)(x),
        lambda f, x: ad.hessian(f)(x),
        lambda f, x: ad.jvp(f, (x,), (x,)),
    ],
    ids=["grad", "value_and_grad", "vjp", "jacobian", "hessian", "jvp"],
)
def test_the_leaf_that_has_no_gradient_is_named(transformed):
    with pytest.raises(ad.DTypeError, match=r"\['more'\]\[1\] of .*is int64: only float arrays have gradients"):
        transformed(lambda x: ad.sum(x["w"]), {"w": ONES, "more": [1.0, 3]})


@pytest.mark.parametrize("f", [lambda a, b: a**b, lambda a, b: ad.fori_loop(0, 2, lambda i, c: c**b, a)])
def test_integers_to_negative_powers_are_refused_in_compiled_code_as_outside(f):
    with pytest.raises(ValueError, match=r"power: integers to negative powers[\s\S]*asked at test_messages.py"):
        ad.jit(f)(np.array([2, 3]), np.array([1, -1]))


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (0, 2, 3), (0, 0)])
def test_the_rank_of_no_matrices_is_no_ranks_and_of_empty_ones_0(shape):
    found = ad.linalg.matrix_rank(np.ones(shape))
    assert found.shape == shape[:-2] and not np.any(found)


@pytest.mark.parametrize("f", [ad.max, ad.min, ad.logsumexp])
@pytest.mark.parametrize("shape", [(0, 1, 3), (1, 0, 3)])
def test_extremes_of_no_rows_that_were_reshaped_are_none(f, shape):
    assert ad.jit(lambda x: f(ad.reshape(x, shape), axis=-1))(np.ones((0, 3))).shape == shape[:-1]


def test_a_tensor_of_another_library_that_tracks_is_told_of_the_way_in():
    torch = pytest.importorskip("torch")
    with pytest.raises(ad.DispatchError, match=r"torch.Tensor, which gives no array[^\0]*ad.interop.torch.wrap\(f\)"):
        ad.sum(torch.ones(3, requires_grad=True))


def test_einsum_of_nothing_says_what_it_takes():
    with pytest.raises(TypeError, match="takes a string of labels and arrays"):
        ad.einsum()


def test_a_function_that_returns_no_tensor_is_named():
    with pytest.raises(ad.DispatchError, match=r"^a result of nothing is None, not a tensor"):
        ad.vjp(nothing, ONES)
    with pytest.raises(ad.GradientError, match="nothing must return a float scalar, not None"):
        ad.grad(nothing)(ONES)
    x = ad.tensor(ONES, requires_grad=True)
    x.register_hook(lambda g: "text")
    with pytest.raises(ad.DispatchError, match=r"^the result of the hook .* is a str, not a tensor"):
        ad.sum(x).backward()


def nothing(x):
    pass


@pytest.mark.parametrize("call, told", [
    (lambda: ad.arange(int), "arange: an end, or the step, is a number, not <class 'int'>"),
    (lambda: ad.arange(np.ones(3, np.float16)), "arange: an end, or the step, is a number, not an ndarray"),
    (lambda: ad.interp(ONES, ONES, ONES, period=int), "interp: period is a number, not <class"),
    (lambda: ad.std(ONES, ddof="1"), "std: ddof is a number, not '1'"),
    (lambda: ad.unwrap(ONES, discont="1"), "unwrap: discont is a number, not '1'"),
    (lambda: ad.jit(lambda c: ad.std(ONES, ddof=c))(1.0), "the value of a traced argument was asked for"),
])  # fmt: skip
def test_a_number_is_asked_for_by_name(call, told):
    with pytest.raises(TypeError, match=re.escape(told)) as error:
        call()
    assert "test_messages.py" in str(error.value)


def test_more_decimals_than_a_float_has_give_nan_as_numpys():
    for decimals in (400, -400):
        assert np.isnan(ad.round(ONES, decimals)).all()
