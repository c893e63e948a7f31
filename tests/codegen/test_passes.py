"""The graph passes: they keep meaning, come to rest, and do what their names say."""

import os

import numpy as np
import pytest
from graphs import assert_same_bits, filled, graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.ir import CONSTANT, OPS, Aval, Graph, Node, Op, VerifyError, apply, evaluate, input_node, parse, verify
from codegen.passes import PASSES, optimize, pipeline, stages
from codegen.passes.rewrites import cse, dce, fold
from codegen.passes.simplify import REWRITES, implicit_broadcast, moved_number, simplify

every_pass = pytest.mark.parametrize(
    "run", [*[run for _, run in PASSES], optimize], ids=[*[name for name, _ in PASSES], "optimize"]
)


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """Every graph that `optimize` gets and gives is verified."""
    monkeypatch.setitem(os.environ, "AUTODIFF_VERIFY", "1")


# ---------------------------------------------------------------- laws


@every_pass
@settings(deadline=None)
@given(graph=graphs(), seed=st.integers(0, 1000))
def test_passes_keep_every_bit(run, graph, seed):
    rng = np.random.default_rng(seed)
    arrays = [filled(i.aval, rng) for i in graph.inputs]
    after = run(graph)
    for got, expected in zip(evaluate(after, *arrays), evaluate(graph, *arrays), strict=True):
        assert_same_bits(got, expected)


@every_pass
@settings(deadline=None)
@given(graph=graphs())
def test_passes_give_graphs_that_verify_and_find_nothing_to_do_again(run, graph):
    after = run(graph)
    verify(after)
    assert after.inputs == graph.inputs
    assert run(after) is after


@settings(deadline=None)
@given(graphs())
def test_optimized_graphs_are_at_rest_and_no_larger(graph):
    after = optimize(graph)
    assert all(run(after) is after for _, run in PASSES)
    assert len(after.nodes) <= len(graph.nodes)


# ---------------------------------------------------------------- rewrites

F64 = "f(x: f64[2,3], y: f64[3], z: f64[2,3], c: bool[2,3]) {"

#: rewrite -> what stands before and after it: inputs are x: f64[2,3], y: f64[3], z: f64[2,3], c: bool[2,3].
CASES = {
    "mul_one": [
        ("k = constant(value=1.0, dtype='f64') a = mul(x, k) b = mul(k, y) return a, b", "return x, y"),
        ("k = constant(value=1, dtype='f64') a = mul(x, k) return a", "return x"),
        ("k = constant(value=-1.0, dtype='f64') a = mul(k, x) return a", "a = neg(x) return a"),
    ],
    "power_one": [("k = constant(value=1.0, dtype='f64') a = power(x, k) return a", "return x")],
    "same": [
        ("a = cast(x, dtype='f64') return a", "return x"),
        ("a = reshape(x, shape=(2, 3)) return a", "return x"),
        ("a = broadcast_to(x, shape=(2, 3)) return a", "return x"),
    ],
    "transpose_of_ones": [
        ("a = transpose(x, axes=(0, 1)) return a", "return x"),
        (
            "r = reshape(x, shape=(1, 2, 1, 3)) a = transpose(r, axes=(1, 0, 3, 2)) return a",
            "r = reshape(x, shape=(1, 2, 1, 3)) a = reshape(r, shape=(2, 1, 3, 1)) return a",
        ),
    ],
    "reduced_whole": [
        ("r = reshape(x, shape=(3, 2)) a = sum(r, axis=(0, 1)) return a", "a = sum(x, axis=(0, 1)) return a"),
        ("r = reshape(x, shape=(6,)) a = max(r, axis=(0,)) return a", "a = max(x, axis=(0, 1)) return a"),
    ],
    "moved_number": [
        (
            "k = constant(value=2.0, dtype='f64') a = broadcast_to(k, shape=(2, 3)) b = transpose(a, axes=(1, 0))"
            " return b",
            "k = constant(value=2.0, dtype='f64') b = broadcast_to(k, shape=(3, 2)) return b",
        ),
        (
            "k = constant(value=2.0, dtype='f64') a = broadcast_to(k, shape=(2, 3)) b = reshape(a, shape=(6,))"
            " return b",
            "k = constant(value=2.0, dtype='f64') b = broadcast_to(k, shape=(6,)) return b",
        ),
    ],
    "implicit_broadcast": [
        ("b = broadcast_to(y, shape=(2, 3)) a = mul(x, b) return a", "a = mul(x, y) return a"),
        ("b = broadcast_to(y, shape=(2, 3)) a = sub(b, x) return a", "a = sub(y, x) return a"),
        ("b = reshape(y, shape=(1, 3)) a = mul(x, b) return a", "a = mul(x, y) return a"),
        (
            "k = constant(value=0.0, dtype='f64') b = broadcast_to(k, shape=(2, 3)) a = where(c, x, b) return a",
            "k = constant(value=0.0, dtype='f64') a = where(c, x, k) return a",
        ),
    ],
}

each_case = pytest.mark.parametrize(
    ("before", "after"), [case for cases in CASES.values() for case in cases], ids=lambda text: text[:60]
)


@each_case
def test_a_rewrite_gives_what_it_says(before, after):
    assert optimize(parse(f"{F64} {before} }}")).key == parse(f"{F64} {after} }}").key


@each_case
def test_a_rewrite_is_true_of_zeros_infinities_and_nans(before, after, rng):
    before, after = parse(f"{F64} {before} }}"), parse(f"{F64} {after} }}")
    for _ in range(5):
        arrays = [filled(i.aval, rng) for i in before.inputs]
        for got, expected in zip(evaluate(after, *arrays), evaluate(before, *arrays), strict=True):
            assert_same_bits(got, expected)


def test_every_rewrite_has_cases_in_which_it_fires():
    rewrites = {r.__name__: r for rs in REWRITES.values() for r in rs}
    rewrites |= {r.__name__: r for r in (implicit_broadcast, moved_number)}
    assert set(CASES) == set(rewrites)
    for name, cases in CASES.items():
        for before, _ in cases:
            graph = parse(f"{F64} {before} }}")
            assert any(
                rewrites[name](node) is not None
                for node in graph.nodes
                if rewrites[name] in (*REWRITES.get(node.op.name, ()), implicit_broadcast, moved_number) and node.inputs
            )


def test_rewrites_name_operations_that_exist():
    assert set(REWRITES) <= set(OPS)


@pytest.mark.parametrize(
    "body",
    [
        "k = constant(value=0.0, dtype='f64') a = add(x, k) return a",  # -0.0 + 0.0 is 0.0
        "k = constant(value=0, dtype='f64') a = add(x, k) return a",
        "k = constant(value=-0.0, dtype='f64') a = sub(x, k) return a",
        "k = constant(value=0.0, dtype='f64') a = sub(k, x) return a",
        "k = constant(value=0.0, dtype='f64') a = mul(x, k) return a",  # inf * 0 is nan
        "a = sub(x, x) return a",
        "a = div(x, x) return a",
        "a = sub(x, z) b = neg(a) return b",  # z - x has another zero
        "m = neg(x) a = mul(m, y) return a",
        "a = where(c, x, y) return a",
        "a = cast(x, dtype='f32') b = cast(a, dtype='f64') return b",
        "a = cast(x, dtype='i64') b = cast(a, dtype='f64') return b",
        "a = cast(x, dtype='i64') b = cast(a, dtype='i32') return b",
        "a = reshape(x, shape=(3, 2)) b = transpose(a, axes=(1, 0)) return b",
        "a = flip(x, axes=(0,)) b = flip(a, axes=(1,)) return b",
        "a = broadcast_to(y, shape=(2, 3)) return a",
        "a = broadcast_to(y, shape=(2, 3)) b = mul(a, y) return b",  # y * y would be f64[3]
        "a = broadcast_to(y, shape=(2, 3)) b = sum(a, axis=(0,)) return b",
        "a = broadcast_to(y, shape=(2, 3)) b = reshape(a, shape=(6,)) return b",
        "a = reshape(y, shape=(3, 1)) b = broadcast_to(a, shape=(3, 2)) return b",
    ],
)
def test_what_only_looks_right_is_left_alone(body):
    graph = parse(f"{F64} {body} }}")
    assert optimize(graph) is graph


def test_nothing_is_left_out_where_it_makes_the_result_larger():
    graph = parse(
        "f(x: f64[3]) { k = constant(value=1.0, dtype='f64') y = broadcast_to(k, shape=(2, 3)) a = mul(x, y) return a }"
    )
    assert [o.aval for o in simplify(graph).outputs] == [o.aval for o in graph.outputs]
    assert simplify(graph).outputs[0].op.name == "mul"


def test_a_reshape_of_an_empty_array_is_not_taken_for_added_axes():
    graph = parse("f(x: f64[0], y: f64[5,0]) { a = reshape(x, shape=(5, 0)) b = add(a, y) return b }")
    assert optimize(graph) is graph


def test_rewrites_follow_on_each_other_in_one_walk():
    graph = parse(
        "f(x: f64[3]) { k = constant(value=1.0, dtype='f64') b = broadcast_to(k, shape=(3,))"
        " a = mul(x, b) d = transpose(a, axes=(0,)) e = cast(d, dtype='f64') return e }"
    )
    after = simplify(graph)
    assert after.outputs == graph.inputs


# ---------------------------------------------------------------- the other passes


def test_cse_shares_equal_work_and_looks_through_the_order_of_commutative_operands():
    graph = parse(
        "f(x: f64[3], y: f64[3]) { a = mul(x, y) b = mul(y, x) c = sub(x, y) d = sub(y, x) e = exp(a) g = exp(b)"
        " return e, g, c, d }"
    )
    after = cse(graph)
    assert [n.op.name for n in after.nodes] == ["mul", "sub", "sub", "exp"]
    assert after.outputs[0] is after.outputs[1]


def test_cse_tells_parameters_apart_that_compare_equal():
    mark = Op("mark", infer=lambda x, *, what: x, reference=lambda x, *, what: x, params=("what",))
    x = input_node(Aval((), "f8"))
    nodes = [apply(mark, x, what=what) for what in (0.0, -0.0, 0, False, (0,), (False,), -0.0, (0,))]
    constants = [apply(CONSTANT, value=value, dtype="f64") for value in (0.0, -0.0, -0.0, float("nan"), float("nan"))]
    assert len(cse(Graph([x], nodes, nodes)).nodes) >= 6
    assert len(cse(Graph([], constants, constants)).nodes) == 3
    outputs = cse(Graph([x], nodes, nodes)).outputs
    assert [repr(o.params) for o in outputs] == [repr(n.params) for n in nodes]


def test_fold_computes_what_is_known_by_the_reference():
    graph = parse(
        "f(x: f32[3]) { a = constant(value=0.1, dtype='f32') b = constant(value=3.0, dtype='f32') c = div(a, b)"
        " d = cast(c, dtype='f64') e = mul(x, c) g = broadcast_to(d, shape=(3,)) return d, e, g }"
    )
    after = dce(fold(graph))
    assert [n.op.name for n in after.nodes] == ["constant", "constant", "mul", "broadcast_to"]
    quotient = np.float32(0.1) / np.float32(3)
    assert after.outputs[0].params == (float(quotient), "f64")


def test_fold_is_silent_about_what_overflows():
    graph = parse("f() { a = constant(value=0.0, dtype='f64') b = div(a, a) return b }")
    assert repr(fold(graph).outputs[0].params) == "(nan, 'f64')"


def test_fold_leaves_what_is_made_of_a_number_that_may_be_an_extent():
    graph = parse(
        "f() { a = constant(value=100.0, dtype='f64') b = constant(value=8.0, dtype='f64') c = div(b, a) d = neg(b)"
        " return c, d }"
    )
    assert [n.op.name for n in dce(fold(graph)).outputs] == ["div", "constant"]


def test_fold_leaves_host_calls_to_run_time():
    from codegen.lowering import Call

    host = Op("host", infer=lambda x: x, reference=lambda x: x, lower=Call())
    k = apply(CONSTANT, value=1.0, dtype="f64")
    called = apply(host, k)
    graph = Graph([], [k, called], [called])
    assert fold(graph) is graph


def test_dce_drops_what_no_output_needs_and_keeps_inputs_and_order():
    graph = parse("f(x: f64[3], y: f64[3]) { a = exp(x) b = neg(y) c = neg(x) d = mul(c, a) e = exp(b) return d }")
    after = dce(graph)
    assert [n.op.name for n in after.nodes] == ["exp", "neg", "mul"]
    assert after.inputs == graph.inputs
    assert dce(after) is after


# ---------------------------------------------------------------- the pipeline


def test_every_stage_can_be_looked_at(golden):
    graph = parse("""
    loss(x: f64[2,3], w: f64[3]) {
      one = constant(value=1.0, dtype='f64')  half = constant(value=0.5, dtype='f64')  two = div(one, half)
      ones = broadcast_to(one, shape=(2, 3))  wide = broadcast_to(w, shape=(2, 3))
      p = mul(x, wide)  q = mul(wide, x)  same = less(p, q)  r = where(same, p, q)
      n = neg(r)  g = mul(ones, n)  h = add(p, g)  i = mul(h, two)  unused = exp(i)
      return i
    }
    """)
    pages = [f"recorded\n{graph}"]
    for name, after in stages(graph):
        if after is not graph:
            pages.append(f"{name}\n{after}")
        graph = after
    golden("\n\n".join(pages))


def test_stages_end_with_what_optimize_gives():
    graph = parse("f(x: f64[3]) { a = cast(x, dtype='f64') b = reshape(a, shape=(3,)) c = exp(b) return c }")
    assert stages(graph)[-1][1].key == optimize(graph).key == parse("f(x: f64[3]) { c = exp(x) return c }").key


def test_a_graph_with_nothing_to_do_is_itself():
    graph = parse("f(x: f64[3]) { a = exp(x) return a }")
    assert optimize(graph) is graph
    assert [name for name, _ in stages(graph)] == [name for name, _ in PASSES]


def test_a_long_chain_does_not_recurse():
    x = input_node(Aval((2,), "f8"))
    nodes = [x]
    for _ in range(3000):
        nodes.append(apply(OPS["reshape"], nodes[-1], shape=(2,)))
    assert optimize(Graph([x], nodes[1:], nodes[-1:])).outputs == (x,)


def wrong_aval(graph):
    node = Node(OPS["exp"], graph.inputs, (), Aval((4,), "f8"))
    return Graph(graph.inputs, [node], [node])


def other_interface(graph):
    return Graph(graph.inputs, graph.nodes, [*graph.outputs, *graph.inputs])


@pytest.mark.parametrize("broken", [wrong_aval, other_interface])
def test_a_broken_pass_is_found_out_when_verification_is_on(broken, monkeypatch):
    monkeypatch.setattr(pipeline, "PASSES", (("broken", broken),))
    monkeypatch.setattr(pipeline, "ROUNDS", 1)
    graph = parse("f(x: f64[3]) { a = exp(x) return a }")
    with pytest.raises(VerifyError):
        optimize(graph)
    monkeypatch.delitem(os.environ, "AUTODIFF_VERIFY")
    optimize(graph)
