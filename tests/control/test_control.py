"""Control flow in the graph: the same values and derivatives as the Python loops and branches it stands for."""

from collections import namedtuple

import numpy as np
import pytest
from work_done import work

import autodiff as ad

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 4)) * 0.3
X = RNG.normal(size=(7, 2, 4))
V = RNG.normal(size=(4, 4))


def recurrent(W, X, reverse=False):
    h, ys = ad.scan(lambda h, x: (ad.tanh(h @ W + x), h.sum()), np.zeros((2, 4)), X, reverse=reverse)
    return (h * h).sum() + (ys * ys * ad.arange(1.0, 8.0)).sum()


def unrolled(W, X, reverse=False):
    h = ad.asarray(np.zeros((2, 4)))
    total = 0.0
    for t in reversed(range(7)) if reverse else range(7):
        total = total + h.sum() ** 2 * (t + 1.0)
        h = ad.tanh(h @ W + X[t])
    return (h * h).sum() + total


def powers(x):
    """x doubled until it is above 100; how often depends on x."""

    def step(v):
        return v[0] * (1.5 + v[0] * 0.01), v[1] + 1

    return ad.while_loop(lambda v: v[0].max() < 100.0, step, (x, 0))[0].sum()


def powers_by_hand(x):
    while x.max() < 100.0:
        x = x * (1.5 + x * 0.01)
    return x.sum()


def chosen(x, w):
    return ad.cond(x.sum() > 0, lambda x: (x * w).sum(), lambda x: (x * x * x).sum(), x)


def chosen_by_hand(x, w):
    return (x * w).sum() if x.sum() > 0 else (x * x * x).sum()


def again(x, w):
    return ad.sin(ad.checkpoint(lambda y: ad.exp(y * x * 0.1) * w)(x)).sum()


def again_by_hand(x, w):
    return ad.sin(ad.exp(x * x * 0.1) * w).sum()


def factorial(x):
    return ad.fori_loop(1, 6, lambda i, v: v * i * x, ad.sin(x)).sum()


def factorial_by_hand(x):
    v = ad.sin(x)
    for i in range(1, 6):
        v = v * i * x
    return v.sum()


A, B = np.array([0.7, 1.3]), np.array([2.0, 3.0])
PROGRAMS = {
    "scan": (recurrent, unrolled, (W, X)),
    "scan backwards": (
        lambda W, X: recurrent(W, X, reverse=True),
        lambda W, X: unrolled(W, X, reverse=True),
        (W, X),
    ),
    "fori_loop": (factorial, factorial_by_hand, (A,)),
    "while_loop": (powers, powers_by_hand, (A,)),
    "cond, true": (chosen, chosen_by_hand, (A, B)),
    "cond, false": (chosen, chosen_by_hand, (-A, B)),
    "checkpoint": (again, again_by_hand, (A, B)),
}
each = pytest.mark.parametrize("name", PROGRAMS)


def close(a, b):
    for x, y in zip(ad.tree.leaves(a), ad.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-11)


def all_arguments(args):
    return tuple(range(len(args)))


@each
def test_values_and_gradients_are_those_of_python(name):
    program, reference, args = PROGRAMS[name]
    expected = ad.value_and_grad(reference, all_arguments(args))(*args)
    for _ in range(3):  # recorded; known; checked
        close(ad.value_and_grad(program, all_arguments(args))(*args), expected)


@each
def test_under_jit_they_are_the_same(name):
    program, reference, args = PROGRAMS[name]
    expected = ad.value_and_grad(reference, all_arguments(args))(*args)
    compiled = ad.jit(ad.value_and_grad(program, all_arguments(args)))
    through = ad.value_and_grad(ad.jit(program), all_arguments(args))
    for _ in range(2):
        close(compiled(*args), expected)
        close(through(*args), expected)


@each
def test_backward_gives_the_gradient_and_a_known_shape_runs_no_rule(name):
    program, reference, args = PROGRAMS[name]
    expected = ad.grad(reference, all_arguments(args))(*args)
    leaves = [ad.tensor(a, requires_grad=True) for a in args]
    for i in range(5):
        for t in leaves:
            t.grad = None
        program(*leaves).backward()
        close([np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in leaves], list(expected))
        if i == 1:
            known = work().rules, ad.cache_info().compiles
    assert (work().rules, ad.cache_info().compiles) == known


@each
def test_forward_mode_is_the_adjoint_of_reverse(name):
    program, reference, args = PROGRAMS[name]
    tangents = tuple(RNG.normal(size=a.shape) for a in args)
    _, dy = ad.jvp(program, args, tangents)
    gradients = ad.grad(reference, all_arguments(args))(*args)
    close(dy, sum(np.vdot(g, t) for g, t in zip(gradients, tangents, strict=True)))


@each
def test_second_derivatives_are_those_of_python(name):
    program, reference, args = PROGRAMS[name]
    v = RNG.normal(size=args[0].shape)

    def along(f):
        return ad.grad(lambda *a: (ad.grad(f)(*a) * v).sum(), all_arguments(args))(*args)

    close(along(program), along(reference))


@pytest.mark.smoke
def test_a_thousand_steps_compile_what_ten_do():
    w = ad.tensor(W)
    counts = []
    for steps in (10, 1000):
        ad.clear_cache()
        before = work().modules
        X = ad.tensor(np.zeros((steps, 2, 4)))
        recurrent_sum(w, X).item()
        counts.append(work().modules - before)
    assert counts[0] == counts[1]


def recurrent_sum(w, X):
    return ad.scan(lambda h, x: (ad.tanh(h @ w + x), None), ad.zeros((2, 4)), X)[0].sum()


Carry = namedtuple("Carry", "value count")


def test_carries_are_of_any_nesting_and_dtype():
    def step(c, x):
        return Carry({"s": c.value["s"] + x["a"] * x["b"][0]}, c.count + 1), {"seen": c.count, "nothing": None}

    xs = {"a": np.arange(4.0), "b": [np.arange(4)]}
    for f in (ad.scan, ad.jit(lambda *a: ad.scan(step, *a[1:]))):
        last, ys = f(step, Carry({"s": 0.0}, 0), xs) if f is ad.scan else f(None, Carry({"s": 0.0}, 0), xs)
        assert type(last) is Carry and float(last.value["s"]) == 14.0 and int(last.count) == 4
        assert np.asarray(ys["seen"]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_the_index_of_a_loop_is_a_number_to_what_it_meets(dtype):
    def body(i, x):
        return x * (i + 1) - 2 * i

    x = np.array([1, 2], dtype)
    wanted = x
    for i in range(1, 4):
        wanted = body(i, wanted)
    for eager in (False, True):
        ad.config.eager = eager
        try:
            found = ad.fori_loop(1, 4, body, x)
        finally:
            ad.config.eager = False
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
    if dtype != np.int32:
        assert ad.grad(lambda x: ad.fori_loop(1, 4, body, x).sum())(x).tolist() == [24, 24]


def test_numbers_made_of_a_number_that_is_carried_have_the_dtype_of_what_they_meet():
    xs = np.array([1.0, 2.0], np.float32)
    for _ in range(3):  # the same, however often operations were met
        last, path = ad.scan(lambda c, x: (0.5 * c + x, 2.0 * c), 1, xs)
        assert last.dtype == path.dtype == np.float32 and (last, path.tolist()) == (2.75, [2, 3])


def test_a_number_as_first_carry_takes_the_dtype_of_what_it_meets():
    last, _ = ad.scan(lambda c, x: (c + x, None), 0.0, np.ones(3, np.float32))
    assert last.dtype == np.float32 and last.item() == 3.0


@pytest.mark.parametrize("loop", ["fori_loop", "scan", "while_loop"])
@pytest.mark.parametrize("eager", [False, True])
def test_a_number_that_is_carried_is_weak_also_beside_one_whose_dtype_changes(loop, eager, monkeypatch):
    def step(value):
        x, factor, total, count = value
        return x * factor, factor, total * 1.5, count + 1

    monkeypatch.setattr(ad.config, "eager", eager)
    first = (ad.ones(2, dtype=ad.float32), 0.5, 1, 0)
    last = {
        "fori_loop": lambda: ad.fori_loop(0, 3, lambda i, value: step(value), first),
        "scan": lambda: ad.scan(lambda value, _: (step(value), None), first, length=3)[0],
        "while_loop": lambda: ad.while_loop(lambda value: value[3] < 3, step, first),
    }[loop]()
    assert [(x.dtype.name, x.tolist()) for x in last] == [
        ("float32", [0.125, 0.125]), ("float64", 0.5), ("float64", 3.375), ("int64", 3)
    ]  # fmt: skip
    assert ad.while_loop(lambda value: value[3] < 0, step, first)[0].dtype == np.float32


@pytest.mark.parametrize("eager", [False, True])
def test_a_number_that_is_passed_on_is_weak_in_the_body_alone(eager, monkeypatch):
    monkeypatch.setattr(ad.config, "eager", eager)
    x = ad.ones(2, dtype=ad.float32)
    found = [
        ad.fori_loop(0, 2, lambda i, value: (value[0] * value[1], value[1]), (x, 0.5)),
        ad.scan(lambda value, _: ((value[0] * value[1], value[1]), None), (x, 0.5), length=2)[0],
        ad.while_loop(lambda value: value[0].sum() > 1, lambda value: (value[0] * value[1], value[1]), (x, 0.5)),
        ad.while_loop(lambda value: value[0].sum() < 0, lambda value: (value[0] * value[1], value[1]), (x, 0.5)),
        ad.cond(x.sum() > 0, lambda x, factor: (x * factor, factor), lambda x, factor: (x, factor), x, 0.5),
    ]
    assert [(y.dtype.name, (x * factor).dtype.name) for y, factor in found] == [("float32", "float64")] * 5


def test_a_while_loop_that_begins_with_a_number_has_the_dtype_of_what_that_meets():
    step = ad.asarray(np.float32(0.25))
    assert ad.while_loop(lambda c: c < 2, lambda c: c + step, 0).dtype == np.float32
    f = ad.jit(lambda k: ad.while_loop(lambda c: c < 10, lambda c: c * 1.5 * k, 1))
    assert f(1) == 1.5**6
    grown = ad.grad(lambda k: ad.while_loop(lambda c: c < 10, lambda c: c * 1.5 * k, 1))(np.float32(1))
    assert grown.dtype == np.float32 and abs(grown - 6 * 1.5**6) < 1e-4


LOOPS = {
    "fori_loop": lambda step, first: ad.fori_loop(0, 3, lambda _, value: step(value), first),
    "scan": lambda step, first: ad.scan(lambda value, _: (step(value), None), first, length=3)[0],
    "while_loop": lambda step, first: ad.while_loop(
        lambda value: value[-1] < 3, lambda value: (*step(value[:-1]), value[-1] + 1), (*first, 0))[:-1],
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_carried_number_that_a_step_computes_from_a_tensor_has_a_fixed_dtype(loop):
    """It stayed a Python number, so that a product with it was computed in i32, and wrapped."""
    x, wide = ad.tensor([1, 2], dtype=ad.int32), ad.tensor(100_000)
    with pytest.raises(ad.DTypeError, match=r"\[0\] is i32\[2\] before a step and i64\[2\] after it"):
        loop(lambda value: (value[0] * value[1], value[1] * wide), (x, 1))
    last, number = loop(lambda value: (value[0] * value[1], value[1] * wide), (ad.astype(x, ad.int64), 1))
    assert (last.tolist(), number.item()) == ([10**15, 2 * 10**15], 10**15)


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_carried_number_that_a_step_computes_from_numbers_stays_a_number(loop):
    x = ad.ones(2, dtype=ad.float32)
    for step, first, last in [
        (lambda value: (value[0] * value[1], ad.minimum(value[1] * 2, 0.5)), 0.25, ([0.0625, 0.0625], 0.5)),
        (lambda value: (value[0] * value[1], value[1] + 0.5), 1, ([3.0, 3.0], 2.5)),
    ]:
        y, number = loop(step, (x, first))
        assert (y.dtype, y.tolist(), number.item()) == (np.float32, *last)
    f = ad.jit(lambda n: loop(lambda value: (value[0] * value[1], value[1] + 0.5), (x, n))[0])
    assert f(1).dtype == np.float32 and f(1).tolist() == f(True).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_numbers_that_change_places_keep_their_digits(loop):
    first, second = loop(lambda value: (value[1], value[0]), (0, 1.5))
    assert (first.item(), second.item()) == (1.5, 0.0)
    with pytest.raises(OverflowError, match="1099511627776 does not fit i32"):
        loop(lambda value: (value[0] + ad.ones((), dtype=ad.int32),), (2**40,))
    with pytest.raises(ad.DTypeError, match=r"f64.* before a step and bool.* after it"):
        loop(lambda value: (value[0] < 1,), (0.5,))


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("first", [True, np.True_])
def test_a_bool_that_a_loop_inverts_alternates(first, eager, monkeypatch):
    monkeypatch.setattr(ad.config, "eager", eager)
    assert ad.grad(lambda x: ad.scan(lambda c, x: (~c, ad.where(c, x, 0.0)), first, x)[1].sum())(
        np.arange(4.0)
    ).tolist() == [1, 0, 1, 0]
    assert ad.fori_loop(0, 3, lambda i, c: ~c, first).tolist() is False
    last = ad.while_loop(lambda s: ~s[1], lambda s: (s[0] + 1, s[0] > 2), (0, type(first)(False)))
    assert [x.tolist() for x in last] == [4, True]
    assert ad.fori_loop(0, 5, lambda i, x: x + ad.where(~(i > 2), 1.0, 0.0), 0.0).item() == 3


@pytest.mark.smoke
def test_loops_nest_and_hold_branches_and_custom_functions():
    @ad.function
    def tripled(x): ...

    @tripled.forward(ad.Tensor)
    def _(ctx, x):
        return x * 2.0

    @tripled.backward(ad.Tensor)
    def _(ctx, g):
        return {"x": g * 3.0}  # not the derivative: the rule is seen to be used

    def inner(c, x):
        y = ad.cond(c > 1.0, lambda c: tripled(c) * x, lambda c: c + x, c)
        return y, None

    def program(x):
        return ad.fori_loop(0, 2, lambda i, c: ad.scan(inner, c, x)[0], x[0] * 0.5)

    def by_hand(x):
        c = x[0] * 0.5
        for _ in range(2):
            for k in range(3):
                c = tripled(c) * x[k] if c > 1.0 else c + x[k]
        return c

    x = np.array([0.4, 0.7, 0.9])
    close(ad.value_and_grad(program)(x), ad.value_and_grad(by_hand)(x))


def test_no_steps_give_the_first_carry_and_nothing():
    w = ad.tensor(W, requires_grad=True)
    h, ys = ad.scan(lambda h, x: (h @ w, h), ad.tensor(X[0]), np.zeros((0, 3)))
    assert ys.shape == (0, 2, 4)
    np.testing.assert_array_equal(h.detach().numpy(), X[0])
    h.sum().backward()
    assert (w.grad.numpy() == 0).all()


@pytest.mark.parametrize("loop", ["fori_loop", "scan", "while_loop"])
def test_an_overflow_in_a_state_that_is_not_used_does_not_reach_the_gradient(loop):
    def last(p):
        def step(c):
            return c[0] ** 2 * p + c[1], c[1] * 0.5 + p

        first = p, ad.asarray(2.0)
        if loop == "fori_loop":
            return ad.fori_loop(0, 12, lambda i, c: step(c), first)
        if loop == "scan":
            return ad.scan(lambda c, _: (step(c), None), first, length=12)[0]
        return ad.while_loop(lambda v: v[1] < 12, lambda v: (step(v[0]), v[1] + 1), (first, ad.asarray(0)))[0]

    def of_other(p):
        return last(p)[1] ** 2

    assert np.isinf(last(ad.tensor(3.0))[0].item())
    slope = 2 - 0.5**11  # of the other state
    np.testing.assert_allclose(ad.grad(of_other)(3.0), 2 * of_other(ad.tensor(3.0)) ** 0.5 * slope)
    for second in (ad.hvp(of_other, (3.0,), (1.0,)), ad.grad(ad.grad(of_other))(3.0)):
        np.testing.assert_allclose(second, 2 * slope**2)


def test_a_loop_without_results_is_nothing_also_when_gradients_are_recorded():
    x = ad.tensor(A, requires_grad=True)
    assert ad.scan(lambda c, x: (c, None), None, x) == (None, None)


def test_eager_mode_runs_python():
    seen = []

    def step(h, x):
        seen.append(float(h.sum()))
        return h + x, h

    ad.config.eager = True
    try:
        last, ys = ad.scan(step, np.zeros(2), np.ones((3, 2)))
    finally:
        ad.config.eager = False
    assert seen == [0.0, 2.0, 4.0] and last.numpy().tolist() == [3.0, 3.0] and ys.shape == (3, 2)


def test_a_python_bool_decides_at_once():
    assert ad.cond(True, lambda x: x + 1.0, lambda x: x[0], ad.tensor(1.0)).item() == 2.0


def test_only_the_chosen_branch_is_run():
    taken = ad.jit(lambda x, i: ad.cond(i < 3, lambda x: x[i], lambda x: x[0], x))
    assert taken(np.arange(3.0), 2) == 2.0
    assert taken(np.arange(3.0), 7) == 0.0  # x[7] would be an IndexError


@pytest.mark.parametrize(
    "program,error,message",
    [
        (lambda: ad.scan(lambda c, x: (c[:1], x), np.ones(2), np.ones(3)), ad.ShapeError, r"carry is f64\[2\] before"),
        (lambda: ad.scan(lambda c, x: (c > 0, x), np.ones(2), np.ones(3)), ad.DTypeError, r"carry is f64\[2\]"),
        (lambda: ad.scan(lambda c, x: ((c, c), x), np.ones(2), np.ones(3)), ad.ShapeError, "the carry changes"),
        (lambda: ad.scan(lambda c, x: c, np.ones(2), np.ones(3)), ad.ShapeError, r"returns \(carry, y\), not one"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, (np.ones(3), np.ones(4))), ad.ShapeError, "lengths 3, 4"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0), ad.ShapeError, "neither xs nor a length"),
        (lambda: ad.scan(lambda c, x: (c, x), 0.0, 1.0), ad.ShapeError, "0-d leaf"),
        (lambda: ad.while_loop(lambda c: c, lambda c: c, 1.0), ad.DTypeError, r"gives f64\[\], not bool"),
        (lambda: ad.while_loop(lambda c: c < 1, lambda c: c[None], ad.tensor(1.0)), ad.ShapeError, r"f64\[1\] after"),
        (lambda: ad.fori_loop(0, 3, lambda i, x: x * np.float64(0.5), np.ones(2, np.float32)), ad.DTypeError,
         r"^fori_loop: value is f32\[2\] before a step and f64\[2\] after(?s:.)*ad.float32\)"),
        (lambda: ad.fori_loop(0, 3, lambda i, x: (x, x), 1.0), ad.ShapeError, "^fori_loop: the value changes from"),
        (lambda: ad.while_loop(lambda c: c < 1, lambda c: c > 0, ad.tensor(1.0)), ad.DTypeError, "let the step give"),
        (lambda: ad.cond(ad.tensor(1.0), lambda: 1.0, lambda: 1.0), ad.DTypeError, "bool"),
        (lambda: ad.cond(ad.tensor(True), lambda: 1.0, lambda: (1.0,)), ad.ShapeError, "one branch gives"),
        (lambda: ad.cond(ad.tensor(True), lambda: 1.0, lambda: 1), ad.DTypeError, "result is f64"),
        (lambda: ad.scan(lambda c, x: (None, x), 0.0, np.ones(3)), ad.ShapeError, r"from \* to None"),
        (lambda: ad.scan(lambda c, x: (c, c), 0.0, length=-2), ad.ShapeError, "a number of steps, not -2"),
        (lambda: ad.scan(lambda c, x: (c, c), 0.0, length=2.5), ad.DispatchError, "length is an int, not 2.5"),
        (lambda: ad.fori_loop(0, 2.5, lambda i, c: c, 0.0), ad.DispatchError, "upper bound is an int, not 2.5"),
        (lambda: ad.fori_loop(ad.tensor(0.5), 2, lambda i, c: c, 0.0), ad.DispatchError, r"lower bound .*f64\[\]"),
        (lambda: ad.jit(lambda n: ad.fori_loop(0, n, lambda i, c: c, 0.0))(2), ad.ConcretizationError, "while_loop"),
        (lambda: ad.scan(3, 0.0, np.ones(3)), ad.DispatchError, "scan: takes a function, got 3"),
        (lambda: ad.fori_loop(0, 2, 3, 0.0), ad.DispatchError, "fori_loop: takes a function, got 3"),
        (lambda: ad.while_loop(lambda c: c > 0, 1.0, 0.0), ad.DispatchError, "while_loop: takes a function"),
        (lambda: ad.cond(True, 1.0, 2.0), ad.DispatchError, "cond: takes a function, got 1.0"),
        (lambda: ad.checkpoint(3), ad.DispatchError, "checkpoint: takes a function, got 3"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_users_line(program, error, message):
    with pytest.raises(error, match=message) as caught:
        program()
    assert "test_control.py" in str(caught.value)
    assert ad.scan(lambda c, x: (c + x, c), 0.0, np.ones(2))[0].item() == 2.0


def test_asking_for_a_value_in_a_body_is_refused():
    with pytest.raises(ad.ConcretizationError):
        ad.scan(lambda c, x: (c if float(x) > 0 else -c, None), ad.tensor(1.0), np.ones(2))
    assert (ad.tensor(1.0) * 2.0).item() == 2.0


def test_a_custom_function_in_a_checkpoint_tracks_exactly_if_its_arguments_do():
    @ad.function
    def square(x): ...

    @square.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x * x

    @square.backward(ad.Tensor)
    def _(ctx, g):
        return 3 * g * ctx.saved_variables.x

    again = ad.checkpoint(lambda x, y: square(x) * y)
    x, y = ad.tensor([2.0], requires_grad=True), ad.tensor([5.0])
    assert not again(y, y).requires_grad
    np.testing.assert_array_equal(ad.checkpoint(square)(y).numpy(), [25.0])
    with ad.no_grad():
        assert not again(x, y).requires_grad
    again(x, y).backward(np.ones(1))
    np.testing.assert_array_equal(x.grad, [30.0])
    gradient = ad.grad(lambda y: again(x.detach(), y).sum())
    np.testing.assert_array_equal(gradient(np.array([5.0])), [4.0])


@pytest.mark.parametrize("is_eager", [False, True])
@pytest.mark.parametrize("call", [
    lambda: ad.scan(lambda c, x: (c, "text"), 1.0, np.ones(3)),
    lambda: ad.fori_loop(0, 3, lambda i, c: (c[0], "text"), (1.0, 2.0)),
    lambda: ad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, "text"), (0, 2.0)),
    lambda: ad.cond(ad.tensor(1.0) > 0, lambda: "text", lambda: 2.0),
], ids=["scan", "fori_loop", "while_loop", "cond"])  # fmt: skip
def test_a_result_that_is_no_tensor_is_called_a_result(call, is_eager, monkeypatch):
    monkeypatch.setattr(ad.config, "eager", is_eager)
    with pytest.raises(ad.DispatchError, match=r"^a result is a str, not a tensor"):
        call()


def test_branches_of_two_dtypes_or_shapes_are_told_how_to_agree():
    x = ad.tensor([1.0, 2.0])
    with pytest.raises(ad.DTypeError, match=r"f64\[2\] in one(?s:.)*let both branches give ad.astype\(..., ad.float64"):
        ad.cond(x.sum() > 0, lambda x: x, lambda x: ad.astype(x, ad.float32), x)
    with pytest.raises(ad.ShapeError, match=r"f64\[\] in the other(?s:.)*let both branches give one shape"):
        ad.cond(x.sum() > 0, lambda x: x, lambda x: x.sum(), x)
