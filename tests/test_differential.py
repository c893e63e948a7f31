"""Random programs of users, run in every way there is: all ways agree.

    eager       each operation by its NumPy reference        recorded    lazily, then native code
    jit         traced once, then native code                cached      any of them once more: the same bits

Gradients come from .backward(), ad.grad, both under jit, forward mode, and from differences of the value.
A failing example is printed as a program that can be run.
"""

import numpy as np
import pytest
from differential.random_programs import eager, programs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import autodiff as ad

F64, F32 = np.float64, np.float32
#: Reproducible in every run; `--slow` adds other examples.
QUICK = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}


def argnums(program):
    return tuple(range(program.count))


def value(t):
    return np.asarray(t.detach() if isinstance(t, ad.Tensor) else t)


def values(ts):
    return [value(t) for t in ts]


def assert_close(found, wanted, what, digits=9):
    """Equal but for rounding, measured by the largest number of all: single gradients may cancel."""
    found, wanted = values(found), values(wanted)
    size = max([1.0, *(np.max(np.abs(w), initial=0) for w in wanted)])
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, (what, a.shape, b.shape, a.dtype, b.dtype)
        np.testing.assert_allclose(a, b, rtol=0, atol=10.0**-digits * size, err_msg=what)


def assert_same_bits(found, wanted, what):
    for a, b in zip(values(found), values(wanted), strict=True):
        assert a.tobytes() == b.tobytes(), f"{what}: {a} is not {b}"


def by_backward(f, program):
    """The value, and .grad of every float argument: as a training step gets them."""
    leaves = [ad.tensor(x, requires_grad=True) for x in program.floats]
    loss = f(*leaves, *program.arguments[program.count :])
    if loss.requires_grad:
        loss.backward()
    zeros = [ad.tensor(np.zeros(x.shape, x.dtype)) for x in program.floats]
    return [loss.detach(), *(z if x.grad is None else x.grad for x, z in zip(leaves, zeros, strict=True))]


def flat(value_and_gradients):
    y, gradients = value_and_gradients
    return [y, *gradients]


def check_first_order(program):
    f = program.function()
    gradient = ad.value_and_grad(f, argnums(program))
    with eager():
        wanted = flat(gradient(*program.arguments))
        assert_close([f(*map(ad.tensor, program.arguments))], wanted[:1], "eager value", program.digits)
    assume(all(np.isfinite(w).all() and np.max(np.abs(w), initial=0) < 1e4 for w in wanted))

    traced, traced_gradient = ad.jit(f), ad.jit(gradient)
    ways = {
        "recorded value": lambda: [f(*map(ad.tensor, program.arguments))],
        "jit value": lambda: [traced(*program.arguments)],
        "backward": lambda: by_backward(f, program),
        "grad": lambda: flat(gradient(*program.arguments)),
        "jit(grad)": lambda: flat(traced_gradient(*program.arguments)),
        "grad(jit)": lambda: flat(ad.value_and_grad(traced, argnums(program))(*program.arguments)),
    }
    for what, way in ways.items():
        # After many shapes used once a new one is evaluated, and compiled when it is seen again.
        for time in ("first", "second"):
            found = values(way())
            assert_close(found, wanted[: len(found)], f"{what}, {time} time", program.digits)
        for again in ("from the cache", "by the check"):
            assert_same_bits(way(), found, f"{what} {again}")
    return f, wanted


def direction(program, seed):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, x.shape).astype(x.dtype) for x in program.floats]


def inner(xs, ys):
    return sum(float(np.sum(value(x).astype(F64) * value(y))) for x, y in zip(xs, ys, strict=True))


def difference(g, program, along, h=1e-4):
    """d/dt g(x + t along) at 0, by a quotient whose error is of fourth order."""

    def at(t):
        moved = [x + t * d for x, d in zip(program.floats, along, strict=True)]
        return value(g(*moved, *program.arguments[program.count :]))

    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


@settings(max_examples=25, **QUICK)
@given(programs((F64,)))
def test_all_ways_to_run_a_program_agree_in_f64(program):
    f, (_, *gradients) = check_first_order(program)
    along = direction(program, 1)
    with eager():
        slope = difference(lambda *xs: f(*map(ad.tensor, xs)), program, along)
    by_rule = inner(gradients, along)
    size = max(1.0, abs(by_rule), *(np.max(np.abs(g), initial=0) for g in gradients))
    np.testing.assert_allclose(by_rule, slope, rtol=0, atol=2e-6 * size, err_msg="differences")
    rest = program.arguments[program.count :]
    _, pushed = ad.jvp(lambda *xs: f(*xs, *rest), program.floats, along)
    np.testing.assert_allclose(pushed, by_rule, rtol=0, atol=1e-9 * size, err_msg="forward mode")


@settings(max_examples=20, **QUICK)
@given(programs((F64,)))
def test_with_the_patience_that_users_have_what_is_evaluated_is_what_is_compiled(program):
    f = program.function()
    gradient = ad.value_and_grad(f, argnums(program))
    with eager():
        wanted = flat(gradient(*program.arguments))
    assume(all(np.isfinite(w).all() and np.max(np.abs(w), initial=0) < 1e4 for w in wanted))
    before, ad.config.patience = ad.config.patience, 8
    try:  # every program is another shape: the first times it is evaluated, then compiled
        for time in range(4):
            assert_close(by_backward(f, program), wanted, f"backward, time {time}", program.digits)
            assert_close(flat(gradient(*program.arguments)), wanted, f"grad, time {time}", program.digits)
    finally:
        ad.config.patience = before


@settings(max_examples=12, **QUICK)
@given(programs((F32,)))
def test_all_ways_to_run_a_program_agree_in_f32(program):
    check_first_order(program)


@settings(max_examples=12, **QUICK)
@given(programs((F64,), size=6))
def test_second_derivatives_are_symmetric_and_the_limit_of_differences(program):
    check_second_order(program)


def check_second_order(program):
    f = program.function()
    u, v = direction(program, 1), direction(program, 2)
    rest = program.arguments[program.count :]
    gradient = ad.grad(f, argnums(program))

    def slope(along):
        """x -> <gradient of f at x, along>."""
        return lambda *xs: sum((ad.sum(g * a) for g, a in zip(gradient(*xs), along, strict=True)), ad.tensor(0.0))

    along_u, along_v = (ad.grad(slope(a), argnums(program)) for a in (u, v))
    with eager():
        wanted = along_u(*program.arguments)
    assume(all(np.isfinite(w).all() and np.max(np.abs(w), initial=0) < 1e4 for w in wanted))
    size = max([1.0, *(np.max(np.abs(w), initial=0) for w in wanted)])
    found = along_u(*program.arguments)
    assert_close(found, wanted, "grad of grad")
    assert_close(ad.jit(along_u)(*program.arguments), wanted, "jit(grad of grad)")
    uv, vu = inner(found, v), inner(along_v(*program.arguments), u)
    np.testing.assert_allclose(uv, vu, rtol=0, atol=1e-9 * size, err_msg="symmetry")
    _, pushed = ad.jvp(lambda *xs: gradient(*xs, *rest), program.floats, u)
    assert_close(pushed, wanted, "jvp of grad")
    with eager():
        quotient = difference(lambda *xs: np.asarray(inner(gradient(*xs), u)), program, v)
    np.testing.assert_allclose(uv, quotient, rtol=0, atol=1e-5 * size, err_msg="differences")


#: What a user may do between two lines without changing what they compute.
INTERRUPTIONS = (
    "ad.sum({v}).item()",
    "{v}.detach().numpy()",
    "str({v})",
    "{v}.sum() if {v}.size and {v}.ravel()[0] > 0 else None",
    "ad.grad(ad.sum({v} * {v}), {v}) if {v}.requires_grad else None",
    "{v} = {v} * 1.0 if {v}.requires_grad else {v}",
)


@settings(max_examples=12, **QUICK)
@given(programs((F64,)), st.sampled_from(INTERRUPTIONS))
def test_asking_on_the_way_changes_nothing(program, statement):
    check_interrupted(program, statement)


def check_interrupted(program, statement):
    wanted = values(by_backward(program.function(), program))
    assume(all(np.isfinite(w).all() and np.max(np.abs(w), initial=0) < 1e4 for w in wanted))
    f = program.interrupted(statement)
    for time in ("first", "second"):
        found = values(by_backward(f, program))
        assert_close(found, wanted, f"{statement}, {time} time")
    for _ in range(2):
        assert_same_bits(by_backward(f, program), found, statement)
    assert_close(by_two_backwards(f, program), [wanted[0], *(2 * g for g in wanted[1:])], f"{statement} and again")


def by_two_backwards(f, program):
    """As `by_backward`, through one graph twice."""
    leaves = [ad.tensor(x, requires_grad=True) for x in program.floats]
    loss = f(*leaves, *program.arguments[program.count :])
    if loss.requires_grad:
        loss.backward(retain_graph=True)
        loss.backward()
    zeros = [ad.tensor(np.zeros(x.shape, x.dtype)) for x in program.floats]
    return [loss.detach(), *(z if x.grad is None else x.grad for x, z in zip(leaves, zeros, strict=True))]


def by_torch(program, torch, names):
    """Value and gradients by PyTorch, of the lines that it can run; and the program of these lines."""
    leaves = [torch.tensor(x, requires_grad=True) for x in program.floats]
    values = dict(zip(program.names, [*leaves, torch.tensor(program.arguments[-1])], strict=True))
    program = program.spoken(names, values)
    loss = program.function({"np": np, **names})(*values.values())
    loss.backward()
    gradients = [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]
    return program, [x.detach().numpy() for x in (loss, *gradients)]


@pytest.mark.slow
@settings(max_examples=200, **QUICK)
@given(programs((F64,)))
def test_gradients_are_those_of_pytorch(program):
    torch = pytest.importorskip("torch")
    from differential.torch_names import NAMES

    program, wanted = by_torch(program, torch, NAMES)
    # A branch not taken whose derivative is infinite makes nan there, and exactly 0 here.
    assume(all(np.isfinite(w).all() and np.max(np.abs(w), initial=0) < 1e4 for w in wanted))
    gradient = ad.value_and_grad(program.function(), argnums(program))
    assert_close(flat(gradient(*program.arguments)), wanted, "PyTorch")


@pytest.mark.slow
@settings(max_examples=300, **{**QUICK, "derandomize": False})
@given(programs((F64, F32), size=16))
def test_all_ways_to_run_a_long_program_agree(program):
    check_first_order(program)


@pytest.mark.slow
@settings(max_examples=150, **{**QUICK, "derandomize": False})
@given(programs((F64,), size=9))
def test_second_derivatives_of_a_long_program_agree(program):
    check_second_order(program)
