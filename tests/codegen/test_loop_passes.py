"""Passes over loops and branches: small kernels joined, choices computed on one side, dead states dropped."""

import numpy as np
import pytest

import autodiff as ad
from codegen.compiler import compile_graph, make_program
from codegen.ir import evaluate, parse
from codegen.program import Branch, Kernel, Loop, While

assert ad.scan  # declares the operations


def steps(text):
    graph = parse(text)
    return graph, make_program(graph).steps


def agree(graph, *inputs):
    for a, b in zip(compile_graph(graph).call(*inputs), evaluate(graph, *inputs), strict=True):
        np.testing.assert_array_equal(a, b)


CHOICE = """
f(c: bool[], x: f64[{n}]) {{
  a: f64[{n}] = cond(c, x, dtype="f64", yes=double(x: f64[{n}]) {{
    a: f64[{n}] = add(x, x)
    return a
  }}, no=inverse(x: f64[{n}]) {{
    a: f64[{n}] = {no}
    return a
  }})
  b: f64[{n}] = unpack(a, number=0, start=0, shape=({n},))
  return b
}}
"""


@pytest.mark.parametrize(("n", "no"), [(4, "neg(x)"), (400, "neg(x)"), (4, "cumsum(x, axis=0, reverse=False)")])
def test_a_choice_is_a_branch(n, no):
    graph, (step,) = steps(CHOICE.format(n=n, no=no))
    assert isinstance(step.work, Branch)
    x = np.linspace(-1.0, 2.0, n)
    for chosen in (True, False):
        agree(graph, np.asarray(chosen), x)


def test_a_choice_that_is_wanted_as_a_vector_stays_one():
    part = "  b: f64[4] = unpack(a, number=0, start=0, shape=(4,))\n  return b\n"
    graph, (step,) = steps(CHOICE.format(n=4, no="neg(x)").replace(part, "  return a\n"))
    assert isinstance(step.work, Branch)
    agree(graph, np.asarray(False), np.arange(4.0))


TWO_SCANS = """
f(c: f64[3], s: f64[2], u: f64[2], v: f64[2]) {{
  a: {vector} = scan(c, s, u, dtype="f64", body=body0(c: f64[3], s: f64[], u: f64[]) {{
    a: f64[3] = sin(c)
    b: f64[3] = mul(a, s)
    return b{also}
  }}, carried=1, scanned=2, length=2, is_reversed=False)
  b: f64[3] = unpack(a, number=0, start=0, shape=(3,))
  d: f64[3] = neg(b)
  e: {vector} = scan(c, s, v, dtype="f64", body=body0, carried=1, scanned=2, length=2, is_reversed=False)
  f: f64[3] = unpack(e, number=0, start=0, shape=(3,))
  g: f64[3] = mul(f, d)
  return g, {last}
}}
"""


@pytest.mark.parametrize(("vector", "also", "last"), [("f64[3]", "", "f"), ("f64[9]", ", b", "e")])
def test_scans_that_differ_in_what_they_do_not_read_give_their_results_each(vector, also, last):
    graph, found = steps(TWO_SCANS.format(vector=vector, also=also, last=last))
    assert sum([isinstance(step.work, Loop) for step in found]) == 2
    agree(graph, np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25]), np.ones(2), np.zeros(2))


def test_small_kernels_of_a_body_are_one():
    graph, (*_, loop) = steps("""
    f(n: i64[], x: f64[]) {
      z: i64[] = constant(value=0, dtype="i64")
      a: f64[1] = while(x, z, n, dtype="f64", condition=c(x: f64[], i: i64[], n: i64[]) {
        a: bool[] = less(i, n)
        return a
      }, step=s(x: f64[], i: i64[], n: i64[]) {
        a: f64[] = mul(x, x)
        o: i64[] = constant(value=1, dtype="i64")
        b: i64[] = add(i, o)
        return a, b
      }, back=None)
      b: f64[] = unpack(a, number=0, start=0, shape=())
      return b
    }""")
    assert isinstance(loop.work, While)
    assert [type(s.work) for s in loop.work.step.steps] == [Kernel]
    assert len(loop.work.step.steps[0].work.function.writes) == 3  # both states, and whether it goes on
    agree(graph, np.asarray(3), np.asarray(1.5))


def test_kernels_that_exchange_values_are_joined_in_order():
    """Two states that change places: each is read by one kernel and written by the other."""
    f = ad.jit(lambda n: ad.scan(lambda c, _: ((c[1] * 2.0, c[0] + 1.0), c[0] - c[1]), (1.0, 2.0), length=5))
    a, b, seen = 1.0, 2.0, []
    for _ in range(5):
        seen.append(a - b)
        a, b = b * 2.0, a + 1.0
    (x, y), ys = f(0)
    assert (x, y, ys.tolist()) == (a, b, seen)


def test_states_that_nothing_wanted_depends_on_are_not_computed():
    def program(x):
        def step(c, e):
            a, b, d, n = c
            return (a + e, b * a, d * b, n + 1), a * 2.0

        return ad.scan(step, (0.0, 1.0, 1.0, 0), x)

    x = np.arange(1.0, 5.0)
    for wanted, live in ((lambda r: r[1], 1), (lambda r: r[0][1], 2), (lambda r: r[0][2], 3), (lambda r: r[0][3], 1)):
        graph = parse(str(ad.inspect(lambda x, w=wanted: w(program(x)), "f64[4]").graph))
        (loop,) = [s.work for s in make_program(graph).steps if isinstance(s.work, Loop)]
        assert loop.carried == live
        (a, b, d, n), ys = program(x)
        expected = wanted(((a, b, d, n), ys))
        np.testing.assert_allclose(ad.jit(lambda x, w=wanted: w(program(x)))(x), expected.numpy())


def test_sums_of_a_gradient_that_nobody_wants_are_not_computed_in_a_branch():
    def loss(x, w):
        def inner(v):
            return ad.while_loop(lambda v: v.sum() < 10.0, lambda v: v * w, v)

        return ad.cond(x[0] > 0, inner, lambda v: v, x).sum()

    graph = parse(str(ad.inspect(loss, np.ones(50), np.full(50, 1.5), backward=True).graph))
    branches = [s.work for s in make_program(graph).steps if isinstance(s.work, Branch)]
    backs = [s.work.back for b in branches for s in b.yes.body.steps if isinstance(s.work, While) and s.work.back]
    assert [back.carried for back in backs] == [1]


SHIFTED = """
f(x: f64[40], k: i64[]) {{
  one: i64[] = constant(value=3, dtype="i64")
  back: i64[] = neg({by})
  a: f64[40] = scan(x, back, dtype="f64", carried=1, scanned=0, length=5, is_reversed=True, body=s(
      x: f64[40], by: i64[]) {{
    a: f64[40] = rotate(x, by, axis=0)
    b: f64[40] = mul(a, x)
    return b
  }})
  b: f64[40] = unpack(a, number=0, start=0, shape=(40,))
  return b
}}
"""


@pytest.mark.parametrize("by,is_known", [("one", True), ("k", False)])
def test_steps_know_the_places_that_all_of_them_read(by, is_known):
    graph, (*_, loop) = steps(SHIFTED.format(by=by))
    assert isinstance(loop.work, Loop)
    names = [o.name for step in loop.work.body.steps for o in operations(step.work.function.body)]
    assert ("arith.select" not in names) == is_known
    agree(graph, np.linspace(0.5, 1.5, 40), np.asarray(7))


def operations(block):
    """All of a block, those inside of loops too."""
    for operation in block.operations:
        yield operation
        for region in operation.regions:
            yield from operations(region)


def test_the_gradient_of_a_loop_that_rolls_is_that_of_its_steps(rng):
    def program(loop):
        return lambda u: ad.sum(loop(lambda u: u + 0.1 * (
            ad.roll(u, 1, axis=0) + ad.roll(u, -2, axis=1) + ad.roll(u, 3, axis=1) * u), u) ** 2)

    def written_out(step, u):
        for _ in range(4):
            u = step(u)
        return u

    def in_the_graph(step, u):
        return ad.fori_loop(0, 4, lambda i, u: step(u), u)

    u = rng.standard_normal((9, 13))
    (value, slope), (expected, right) = [ad.jit(ad.value_and_grad(program(p)))(u) for p in (in_the_graph, written_out)]
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(slope, right, rtol=1e-12, atol=1e-13)
