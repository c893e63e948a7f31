"""Branches and while loops in native code: no Python inside, and what Python driving the same bodies gives."""

import mlir_tools
import numpy as np
import pytest
from hosted import noted_function

import autodiff as ad
from autodiff.tape.plan import Plan
from codegen import compiler
from codegen.ir import evaluate
from codegen.program import Branch, Loop, While
from codegen.runtime.launcher import PackedCall

RNG = np.random.default_rng(5)
W = RNG.normal(size=(4, 4)) * 0.4
X = RNG.normal(size=(6, 4))


def either(x):
    """Branches of several results and dtypes, each with hidden inputs of its own."""
    w = ad.tensor(W)
    return ad.cond(
        x.sum() > 0,
        lambda x, n: (ad.tanh(x @ w), {"count": n + 1, "bit": x > 0}, x),
        lambda x, n: (x * 2.0, {"count": n * 3, "bit": x < 1}, x),
        x,
        ad.asarray(4),
    )


def halved(x):
    """A while loop of several states and dtypes, with a condition that reads from outside."""
    limit = ad.tensor(0.5)
    return ad.while_loop(
        lambda v: (abs(v[0]).max() > limit) & (v[1] < 20),
        lambda v: (v[0] @ ad.tensor(W), v[1] + 1, v[0] > 0),
        (x, 0, x > 0),
    )


def never(x):
    return ad.while_loop(lambda v: v.sum() > 1e9, lambda v: v * 2.0, x)


def newton(a):
    """The square root of each element, as far as it takes."""
    return ad.while_loop(lambda y: abs(y * y - a).max() > 1e-12, lambda y: 0.5 * (y + a / y), ad.ones_like(a))


def stepped(x):
    """A branch in a loop."""
    return ad.scan(lambda c, e: (ad.cond(e.sum() > 0, lambda c: c * 0.5 + e, lambda c: ad.sin(c), c), c.sum()), x[0], x)


def sought(x):
    """A while loop in a branch in a loop, and a loop in that."""

    def inner(c, e):
        def shrink(v):
            return ad.scan(lambda a, b: (a * 0.9 - 0.01 * b, None), v, ad.stack([v, e]))[0]

        return ad.while_loop(lambda v: (v * v).sum() > 0.7, shrink, c + e)

    def step(c, e):
        return ad.cond(e[0] > 0, lambda c: inner(c, e), lambda c: c - e, c), None

    return ad.scan(step, x[0], x)[0]


PROGRAMS = {
    "a branch": (either, X[0]),
    "the other branch": (either, -np.abs(X[0])),
    "a while loop": (halved, X),
    "a while loop of no steps": (never, X),
    "a search": (newton, np.array([2.0, 9.0, 0.25])),
    "a branch in a loop": (stepped, X),
    "all in each other": (sought, X),
}
each = pytest.mark.parametrize("name", PROGRAMS)


def caught(f, x):
    """The graph that `f(x)` compiles, with its executable, the program, and the inputs that it got."""
    inputs = []

    def run(plan, order):
        if plan.executable is not None and not inputs:
            values = [(order[g] if type(g) is int else g).value for g in plan.gather]
            inputs.extend([np.asarray(v, a.dtype) for v, a in zip(values, plan.executable.inputs, strict=True)])
        return original(plan, order)

    ad.clear_cache()
    with pytest.MonkeyPatch.context() as patch, compiler.recorded() as graphs:
        original = Plan.run
        patch.setattr(Plan, "run", run)
        results = f(x)
        np.asarray(ad.tree.leaves(results)[0])
    return graphs[0], compiler.compile_graph(graphs[0]), compiler.make_program(graphs[0]), inputs


def gradient_of(f):
    return ad.value_and_grad(lambda x: sum([ad.sin(t).sum() for t in ad.tree.leaves(f(x)) if t.dtype == np.float64]))


@each
@pytest.mark.parametrize("derivative", [False, True], ids=["value", "gradient"])
def test_native_control_flow_equals_what_python_drives(name, derivative):
    f, x = PROGRAMS[name]
    graph, executable, program, inputs = caught(gradient_of(f) if derivative else lambda x: f(ad.tensor(x)), x)
    assert any(isinstance(s.work, Branch | While | Loop) for s in program.steps)
    assert executable.plan
    expected = evaluate(graph, *inputs)
    for found in (executable.call(*inputs), PackedCall(executable.plan)(*inputs)):
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            # The operations around a loop's gradient are NumPy's there, and add up in another order.
            np.testing.assert_allclose(a, b, rtol=1e-12 if derivative else 0, atol=1e-14 if derivative else 0)


@each
@pytest.mark.parametrize("derivative", [False, True], ids=["value", "gradient"])
def test_bodies_of_control_flow_are_accepted_by_mlir_and_give_the_same(name, derivative):
    f, x = PROGRAMS[name]
    _, executable, program, inputs = caught(gradient_of(f) if derivative else lambda x: f(ad.tensor(x)), x)
    for a, b in zip(mlir_tools.run_program(program, inputs), executable.call(*inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def by_hand(f):
    """The program with Python's own loops and branches."""

    def run(x):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ad.config, "eager", True)
            return f(ad.tensor(x))

    return run


@each
def test_values_are_those_of_python(name):
    f, x = PROGRAMS[name]
    for a, b in zip(ad.tree.leaves(ad.jit(f)(x)), ad.tree.leaves(by_hand(f)(x)), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-13)


def test_a_while_loop_has_derivatives_of_any_order():
    def power(x):
        return ad.while_loop(lambda v: v[0] < 100.0, lambda v: (v[0] * v[1], v[1]), (x * x, x))[0]

    f, x, factor = power, 2.0, 1.0
    for order in range(4):  # 2 ** 7 is the first power above 100
        assert float(ad.jit(f)(x)) == factor * x ** (7 - order)
        f, factor = ad.grad(f), factor * (7 - order)


def test_a_branch_that_is_not_taken_is_not_run_in_native_code():
    taken = ad.jit(lambda x, places: ad.scan(
        lambda c, i: (ad.cond(i < 3, lambda c: c + x[i], lambda c: c, c), None), 0.0, places)[0])
    assert taken(np.arange(1.0, 4.0), np.array([0, 7, 2])) == 4.0


def test_an_index_out_of_range_in_a_branch_or_a_while_loop_is_an_error_and_the_next_call_is_right():
    f = ad.jit(lambda x, n: ad.while_loop(lambda v: v[1] < n, lambda v: (v[0] + x[v[1]], v[1] + 1), (0.0, 0))[0])
    g = ad.jit(lambda x, i: ad.cond(i > 0, lambda: x[i], lambda: x[0]))
    x = np.arange(1.0, 4.0)
    for _ in range(2):
        assert f(x, 3) == 6.0 and g(x, 2) == 3.0
        with pytest.raises(IndexError, match="out of range"):
            f(x, 4)
        with pytest.raises(IndexError, match="out of range"):
            g(x, 9)


def test_states_of_thousands_of_steps_are_kept_for_the_gradient():
    def decay(rate, steps):
        return ad.while_loop(lambda v: v[1] < steps, lambda v: (v[0] * rate, v[1] + 1), (1.0, 0))[0]

    f = ad.jit(ad.grad(decay))
    for steps in (0, 1, 15, 16, 17, 5000):
        np.testing.assert_allclose(f(0.9999, steps), steps * 0.9999 ** max(steps - 1, 0), rtol=1e-10)


def test_what_nobody_wants_of_a_branch_is_not_computed():
    def first(x):
        return ad.cond(x[0] > 0, lambda x: (x * 2.0, ad.exp(x)), lambda x: (x, ad.sin(x)), x)[0]

    _, _, program, _ = caught(lambda x: first(ad.tensor(x)), np.ones(100))
    (branch,) = [s.work for s in program.steps if isinstance(s.work, Branch)]
    assert len(branch.yes.outputs) == len(branch.no.outputs) == 1


def test_a_branch_with_python_inside_runs_it_only_if_it_is_chosen():
    noted, calls = noted_function()

    def search(x):
        def step(v):
            return ad.cond(v > 10.0, noted, lambda v: v * 3.0, v)

        return ad.while_loop(lambda v: v < 50.0, step, x)

    compiled, gradient = ad.jit(search), ad.jit(ad.grad(search))
    compiled(1.0), gradient(1.0)
    calls.clear()
    assert compiled(1.0) == 54.0 and len(calls) == 1  # 1, 3, 9, 27, 54
    assert gradient(1.0) == 54.0


def test_a_program_with_branches_and_while_loops_prints_with_the_programs_of_their_bodies(golden):
    graph, _, _, _ = caught(gradient_of(sought), X)
    stages = compiler.stages(graph)
    golden(stages.fused)
    assert "branches" in stages.stats and "define" in stages.llvm
