"""Graphs that differ in extents alone share kernels; and the numbers that stand for any."""

import copy
import pickle
import re

import numpy as np
import pytest
from fusible import random_graph
from programs import coarsest

from codegen import compiler
from codegen.families import Families
from codegen.ir import Aval, Graph, evaluate, parse
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable
from codegen.symbols import (
    NotSymbolic,
    conditions_function,
    is_sure,
    numbers_function,
    symbol,
    symbolic_max,
    typical,
    watched,
)  # fmt: skip

#: Graphs of everything that fusion does with rows, columns, products and moves; n stands for the extent that varies.
FAMILIES = {
    "a chain and its sum": """f(x: f64[n]) {
        a: f64[n] = exp(x)  b: f64[n] = mul(a, x)  s: f64[] = sum(b, axis=(0,))  return b, s }""",
    "rows": """f(x: f32[n,5]) {
        top: f32[n] = max(x, axis=(1,))  t: f32[n,1] = reshape(top, shape=(n, 1))
        u: f32[n,5] = broadcast_to(t, shape=(n, 5))  d: f32[n,5] = sub(x, u)  e: f32[n,5] = exp(d)
        s: f32[n] = sum(e, axis=(1,))  return e, s }""",
    "long rows": """f(x: f64[7,n]) {
        top: f64[7] = max(x, axis=(1,))  t: f64[7,1] = reshape(top, shape=(7, 1))
        u: f64[7,n] = broadcast_to(t, shape=(7, n))  d: f64[7,n] = sub(x, u)  e: f64[7,n] = exp(d)
        s: f64[7] = sum(e, axis=(1,))  return e, s }""",
    "columns": """f(x: f64[n,37]) {
        a: f64[n,37] = tanh(x)  s: f64[37] = sum(a, axis=(0,))  m: i64[37] = argmax(x, axis=(0,))  return s, m }""",
    "a product on either side": """f(x: f64[n,3], w: f64[3,17], y: f64[n,2]) {
        h: f64[n,17] = matmul(x, w)  t: f64[17,n] = transpose(h, axes=(1, 0))  g: f64[17,2] = matmul(t, y)
        return h, g }""",
    "the mean": """f(x: f32[n,2]) {
        s: f32[] = sum(x, axis=(0, 1))  c: f32[] = constant(value=N2.0, dtype='f32')
        m: f32[] = div(s, c)  return m }""",
    "one after the other": """f(x: f64[n,2]) {
        r: f64[N2] = reshape(x, shape=(N2,))  y: f64[N2] = flip(r, axes=(0,))
        a: f64[N2] = cumsum(y, axis=0, reverse=False)
        b: f64[n,2] = reshape(a, shape=(n, 2))  return b, y }""",
}


def member(text, n):
    """The graph of a family at one extent."""
    text = text.replace("N2", str(2 * n))
    return parse(re.sub(r"(?<=[\[(, ])n(?=[,\])])", str(n), text))


class Compiler:
    """Families and kernels of its own, and what LLVM did for them."""

    def __init__(self):
        self.kernels = KernelTable(64)
        self.families = Families(self.kernels)
        self.found = 0

    def run(self, graph, arrays):
        found = self.families.find(graph)
        self.found += found is not None
        return (found or Executable(compiler.make_program(graph), self.kernels)).call(*arrays)


def arrays_of(graph, rng):
    return [
        rng.normal(size=i.aval.shape).astype(i.aval.dtype) if i.aval.dtype.kind == "f"
        else rng.integers(0, 2, size=i.aval.shape).astype(i.aval.dtype)
        for i in graph.inputs
    ]  # fmt: skip


def agrees(compiled, graph, rng):
    arrays = arrays_of(graph, rng)
    try:
        with np.errstate(all="ignore"):
            expected = evaluate(graph, *arrays)
    except IndexError:
        return  # an index that no compiled code needs to look at
    got = compiled.run(graph, arrays)
    for ours, theirs in zip(got, expected, strict=True):
        eps = coarsest(graph) if theirs.dtype.kind == "f" else 0
        scale = max(1.0, float(np.max(np.abs(theirs), initial=0.0))) if eps else 1.0
        np.testing.assert_allclose(ours, theirs, rtol=1000 * eps, atol=1000 * eps * scale)


SIZES = (40, 64, 2, 3, 5, 31, 33, 37, 100, 129, 500, 963, 964, 4096, 4097, 9000)


@pytest.mark.parametrize("name", FAMILIES)
def test_from_the_second_size_on_there_is_no_planning_and_no_llvm(name, rng):
    compiled = Compiler()
    for n in SIZES:
        agrees(compiled, member(FAMILIES[name], n), rng)
    assert compiled.kernels.compiled_modules <= 2
    assert compiled.found == len(SIZES) - 1


@pytest.mark.parametrize("n", [0, 1])
def test_sizes_that_are_special_are_planned_for_themselves(n, rng):
    compiled = Compiler()
    for size in (40, 50, n, 60):
        agrees(compiled, member(FAMILIES["columns"], size), rng) if size else compiled.run(
            member(FAMILIES["a chain and its sum"], 0), [np.empty(0)]
        )
    assert compiled.found == 2


def test_two_extents_may_vary_each_by_itself(rng):
    compiled = Compiler()
    text = "f(x: f64[{a},{b}]) {{ e: f64[{a},{b}] = exp(x)  s: f64[{b}] = sum(e, axis=(0,))  return e, s }}"
    for a, b in ((40, 9), (50, 11), (50, 9), (7, 300), (300, 7), (12, 12), (4000, 33)):
        agrees(compiled, parse(text.format(a=a, b=b)), rng)
    assert compiled.kernels.compiled_modules <= 2


def test_many_short_rows_are_compiled_for_their_length_and_the_family_is_as_it_was(rng):
    compiled = Compiler()
    text = "f(x: f64[{a},{b}]) {{ s: f64[{a}] = sum(x, axis=(1,))  return s }}"
    for (a, b), is_general in {
        (5000, 4): False, (6000, 3): False, (5500, 40): True, (4000, 50): True, (2000, 8): False, (20, 8): True,
    }.items():  # fmt: skip
        before = compiled.found
        agrees(compiled, parse(text.format(a=a, b=b)), rng)
        assert compiled.found == before + is_general


def test_many_rows_of_one_short_length_share_kernels(rng):
    compiled = Compiler()
    text = "f(x: f64[{a},4]) {{ s: f64[{a}] = sum(x, axis=(1,))  return s }}"
    for a in (5000, 6000, 7000, 8000):
        agrees(compiled, parse(text.format(a=a)), rng)
    assert compiled.found == 3 and compiled.kernels.compiled_modules <= 2


def test_what_does_not_follow_from_the_extent_is_planned_for_itself(rng):
    """A length that once followed from the whole."""
    text = (
        "f(x: f64[{n}]) {{ s: i64[] = constant(value={a}, dtype='i64')"
        "  y: f64[{m}] = embed(x, s, axes=(0,), steps=(1,), shape=({m},))  z: f64[{m}] = exp(y)  return z }}"
    )
    compiled = Compiler()
    for n, a, b in ((40, 1, 2), (50, 1, 2), (60, 1, 2), (60, 1, 30), (60, 5, 2), (70, 1, 2)):
        agrees(compiled, parse(text.format(n=n, m=n + a + b, a=a)), rng)
    assert compiled.found == 3


def test_a_number_that_varies_where_the_whole_does_not_is_planned_for_itself(rng):
    """Two extents whose product is the same each time, and a width that follows from neither."""
    text = (
        "f(x: f64[{n},{m}]) {{ r: f64[12] = reshape(x, shape=(12,))  s: i64[] = constant(value=0, dtype='i64')"
        "  y: f64[{k}] = embed(r, s, axes=(0,), steps=(1,), shape=({k},))  z: f64[{k}] = exp(y)  return z }}"
    )
    compiled = Compiler()
    for n, w in ((3, 6), (4, 7), (2, 6), (6, 8)):
        agrees(compiled, parse(text.format(n=n, m=12 // n, k=12 + w)), rng)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_of_any_size_agree_with_the_evaluator(seed, rng):
    """Every extent 3 or 4 of a random graph is made another one, where the graph can be made so."""
    graph = random_graph(seed)
    compiled = Compiler()
    agrees(compiled, graph, rng)
    for n in (7, 9, 6, 40, 45):
        other = grown(graph, n)
        if other is not None:
            agrees(compiled, other, rng)


def grown(graph, n):
    """The graph whose first inputs' leading extent is n, every aval inferred anew; None where an operation refuses."""
    from codegen.ir import CONSTANT, apply, input_node

    old = graph.inputs[0].aval.shape
    if not old or old[0] < 2:
        return None
    new = {}
    for i in graph.inputs:
        shape = tuple([n if extent == old[0] else extent for extent in i.aval.shape])
        new[i] = input_node(Aval(shape, i.aval.dtype))
    try:
        for node in graph.nodes:
            keywords = {k: replaced(v, old[0], n) for k, v in node.keywords.items()}
            if node.op is CONSTANT:
                keywords = node.keywords
            new[node] = apply(node.op, *[new[i] for i in node.inputs], **keywords)
    except (ValueError, TypeError, AssertionError, IndexError):
        return None
    return Graph([new[i] for i in graph.inputs], [new[x] for x in graph.nodes], [new[o] for o in graph.outputs])


def replaced(value, old, n):
    if isinstance(value, tuple):
        return tuple([replaced(v, old, n) for v in value])
    return n if type(value) is int and value == old else value


# ---------------------------------------------------------------- symbols


def test_a_symbol_computes_as_its_example_and_as_a_formula():
    n = symbol("n", 10007)
    results = [17 * n - 3, -(-(2 * n) // 4096), n * n // n, (6 * n + 4) // 2, (n + 5) % 64, n * (n - 1) // 2, n - n]
    values = numbers_function(results, ["n"])
    assert values(10007) == tuple(map(int, results))
    for k in (2, 3, 64, 4096):
        assert values(k) == (17 * k - 3, -(-(2 * k) // 4096), k, 3 * k + 2, (k + 5) % 64, k * (k - 1) // 2, 0)
    assert results[-1] == 0 and type(results[-1]) is int


def test_what_holds_for_any_symbol_is_no_condition_and_the_rest_is():
    n = symbol("n", 10007)
    with watched() as conditions:
        assert n > 1 and 17 * n > 17 and n - 1 < n and not n <= 0 and -(-n // 64) >= 1 and bool(n)
        assert not conditions
        assert n > 100 and not n < 50
    holds = conditions_function(conditions, ["n"])
    assert holds(101) and holds(10_000)
    assert not holds(100) and not holds(49)


def test_a_choice_by_cost_keeps_no_condition_and_a_proof_is_for_all():
    n = symbol("n", 10007)
    with watched() as conditions:
        assert typical(n) > 4096
        assert is_sure(1, n) and is_sure(n - 1, n) and not is_sure(100, n) and not is_sure(n, 20_000)
    assert not conditions


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_symbol_is_as_certain_as_it_is(copied):
    n = symbol("n0", 100)
    for number in (n, n // 3, -(-n // 4), symbolic_max(n // 3, 7)):
        found = copied(number)
        assert (int(found), found.terms) == (int(number), number.terms)
        assert is_sure(7, found) == is_sure(7, number)


def test_a_symbol_is_no_plain_number():
    n = symbol("n", 10007)
    assert n != 10007 and n == symbol("n", 10007) and n + 1 != 2 * n
    assert {n: "any"}.get(10007) is None
    for wants_the_number in (lambda: n.bit_length(), lambda: n & 3, lambda: 1 << n, lambda: n / 2):
        with pytest.raises(NotSymbolic, match="n"):
            wants_the_number()
