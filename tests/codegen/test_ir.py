"""The graph level: text both ways, the verifier, the evaluator."""

import gc
import math
import weakref

import numpy as np
import pytest
from graphs import assert_same_bits, filled, graphs
from hypothesis import given
from hypothesis import strategies as st

from codegen.ir import (
    CONSTANT,
    INPUT,
    OPS,
    Aval,
    Graph,
    Node,
    Op,
    ParseError,
    VerifyError,
    apply,
    evaluate,
    input_node,
    node_names,
    parse,
    print_graph,
    verify,
)

# ---------------------------------------------------------------- text


@given(graphs())
def test_what_is_printed_reads_back_with_the_same_key_and_prints_the_same(graph):
    text = print_graph(graph)
    again = parse(text)
    assert again.key == graph.key
    assert print_graph(again) == text


def test_a_graph_prints_its_avals_and_fixed_names(golden):
    text = """
    loss(x: f64[8,3], w: f64[3]) {
      a = mul(x, w)  b = sum(a, axis=(1,))  c = constant(value=-0.0, dtype="f64")
      e = less(b, c)  d = where(e, b, c)  return d, b
    }
    """
    golden(print_graph(parse(text)))


def test_names_run_past_z():
    x = input_node(Aval((), "f8"))
    nodes = [x]
    for _ in range(28):
        nodes.append(apply(OPS["neg"], nodes[-1]))
    names = node_names(Graph([x], nodes[1:], nodes[-1:]))
    assert [names[n] for n in (x, nodes[1], nodes[26], nodes[27], nodes[28])] == ["x0", "a", "z", "aa", "ab"]


#: An operation that takes any parameter.
HOLD = Op("hold", infer=lambda x, *, what: x, reference=lambda x, *, what: x, params=("what",))

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(values)
def test_every_kind_of_parameter_reads_back_as_it_was(value):
    graph = graph_holding(value)
    again = parse(print_graph(graph), {"hold": HOLD})
    assert repr(again.nodes[0].params) == repr(graph.nodes[0].params)
    assert again.key == graph.key


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((), "()"),
        ((1,), "(1,)"),
        ((0, (-1, (2,))), "(0, (-1, (2,)))"),
        (-0.0, "-0.0"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (1e-300, "1e-300"),
        (True, "True"),
        (None, "None"),
        ("a'\n", '"a\'\\n"'),
        (complex(-0.0, math.inf), "complex(-0.0, inf)"),
        (np.float32(0.5), "0.5"),
    ],
)
def test_parameters_print_as(value, text):
    assert f"hold(x0, what={text})" in print_graph(graph_holding(value))
    again = parse(print_graph(graph_holding(value)), {"hold": HOLD})
    assert print_graph(again) == print_graph(graph_holding(value))


def graph_holding(value):
    x = input_node(Aval((2,), "f4"))
    node = apply(HOLD, x, what=value)
    return Graph([x], [node], [node])


def test_a_python_object_prints_by_name_and_cannot_be_read():
    text = print_graph(graph_holding(graph_holding))
    assert "what=<graph_holding>" in text
    with pytest.raises(ParseError, match=r"line 2: '<' begins nothing .*Python object"):
        parse(text, {"hold": HOLD})


def test_a_function_without_a_proper_name_still_gives_a_graph_that_reads():
    x = input_node(Aval((), "f8"))
    assert print_graph(parse(print_graph(Graph([x], [], [x], "<lambda>")))).startswith("lambda(x0: f64[])")
    assert print_graph(Graph([], [], [], "<>")) == "f() {\n  return\n}"
    assert parse("f(){return}").key == Graph([], [], []).key


def test_white_space_comments_and_avals_are_free():
    short = parse("f(x:f64[2,3]){a=exp(x)b=neg(a)return b,x}")
    long = parse("f ( p : f64[2, 3] ) {  # two\n  q : f64[2,3] = exp( p )\n\n r=neg(q) # last\n return r , p\n}\n")
    assert short.key == long.key


REFUSED_STATEMENTS = {
    "a = exq(x)": "no operation is called 'exq'; 'exp' is\n  a = exq(x)",
    "a = exp(y)": "'y' is not defined here",
    "a = exp(a)": "'a' is not defined here",
    "x = exp(x)": "'x' is defined twice",
    "a: f64[4] = exp(x)": "a is f64[3], not f64[4]",
    "a = sum(x)": "sum takes axis; got none",
    "a = sum(x, axes=(0,))": "sum takes axis; got axes",
    "a = exp(x, axis=0)": "exp takes no parameters; got axis",
    "a = sum(axis=(0,), x)": "operands stand before parameters",
    "a = sum(x, axis=(0,), axis=(0,))": "parameter 'axis' is given twice",
    "a = sum(x, axis=(0))": "a tuple of one value is written (value,)",
    "a = sum(x, axis=zero)": "expected a value, found 'zero'",
    "a = sum(x, axis=(,))": "expected a value, found ','",
    "a = constant(value=complex(1), dtype='c128')": "expected ',', found ')'",
    "a = constant(value=complex('1', 2), dtype='c128')": "complex takes two numbers",
    "a = input()": "an input stands in the head of the graph",
    "a = exp(x x)": "expected ',', found 'x'",
    "a = exp(x);": "';' begins nothing that a graph is made of",
    "a = 'open": '"\'" begins nothing that a graph is made of',
    "a exp(x)": "expected '=', found 'exp'",
    "a = 3(x)": "expected an operation, found '3'",
    "a = sum(x, 3)": "expected an operand or parameter, found '3'",
}
REFUSED_TEXTS = {
    "": "line 1: expected the name of a graph, found 'the end'",
    "f(x: f64[3]) {\n\n  return b }": "line 3: 'b' is not defined here",
    "f(x: f64[3], x: f64[3]) { return x }": "line 1: 'x' is defined twice",
    "f(x: f63[3]) { return x }": "line 1: not an aval: 'f63[3]'",
    "f(x: f64) { return x }": "line 1: expected an aval such as f64[3,4], found 'f64'",
    "f(x: f64[3]) {\n  a = exp(x)\n": "line 3: expected a statement or `return`, found 'the end'",
    "f(x: f64[3]) { return x }\ng": "line 2: expected the end, found 'g'",
}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *[(f"f(x: f64[3]) {{\n  {s}\n  return a }}", f"line 2: {why}") for s, why in REFUSED_STATEMENTS.items()],
        *REFUSED_TEXTS.items(),
    ],
)
def test_text_that_is_no_graph_is_refused_with_its_line(text, message):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)


def test_operands_that_do_not_fit_are_refused_with_the_line_and_what_the_shape_rule_says():
    with pytest.raises(ParseError, match=r"(?s)line 2: .*\n  a = add\(x, y\)$") as caught:
        parse("f(x: f64[3], y: f64[4]) {\n  a = add(x, y)\n  return a }")
    assert caught.value.__cause__ is not None


# ---------------------------------------------------------------- verifier


@given(graphs())
def test_what_shape_rules_built_verifies(graph):
    verify(graph)
    verify(parse(print_graph(graph)))


def broken_graphs():
    """Each kind of broken graph with what is said about it."""
    x, y = input_node(Aval((3,), "f8")), input_node(Aval((4,), "f8"))
    a = apply(OPS["exp"], x)
    b = apply(OPS["neg"], a)
    total = apply(OPS["sum"], x, axis=(0,))
    wrong = Node(OPS["neg"], (a,), (), Aval((4,), "f8"))
    unfit = Node(OPS["add"], (x, y), (), Aval((3,), "f8"))
    short = Node(OPS["sum"], (x,), (), Aval((), "f8"))
    listed = Node(OPS["sum"], (x,), ([0],), Aval((), "f8"))
    return {
        "no input": (Graph([a], [], [a]), "x0 of graph f stands among the inputs and is no `input` node"),
        "input twice": (Graph([x, x], [], [x]), "stands twice among the inputs"),
        "node twice": (Graph([x], [a, a], [a]), "of graph f stands twice"),
        "input below": (Graph([x], [y], [x]), "a of graph f is an input and stands among the nodes"),
        "order": (Graph([x], [b, a], [b]), r"a of graph f reads operand 0 \(exp: f64\[3\]\) before it is defined"),
        "missing": (Graph([x], [b], [b]), r"a of graph f reads operand 0"),
        "output": (Graph([x], [a], [a, b]), r"is output 1 and is not defined"),
        "aval": (
            Graph([x], [a, wrong], [wrong]),
            r"b of graph f is recorded as f64\[4\], and its operands give f64\[3\]\n"
            r"  b: f64\[4\] = neg\(a\)\n  with a: f64\[3\]",
        ),
        "unfit": (
            Graph([x, y], [unfit], [unfit]),
            r"(?s)a of graph f has operands that do not fit: .*with x0: f64\[3\], x1: f64\[4\]",
        ),
        "parameters": (Graph([x], [short], [short]), "a of graph f has 0 parameters; sum has 1"),
        "unhashable": (Graph([x], [listed], [listed]), "a of graph f has a parameter that cannot be part of a key"),
        "good": (Graph([x], [total], [total]), None),
    }


@pytest.mark.parametrize("name", broken_graphs())
def test_the_verifier_names_the_node_and_what_is_wrong(name):
    graph, message = broken_graphs()[name]
    if message is None:
        verify(graph)
        return
    with pytest.raises(VerifyError, match=message):
        verify(graph)


# ---------------------------------------------------------------- evaluator


@given(graphs(), st.integers(0, 1000))
def test_values_have_exactly_the_inferred_avals_and_share_no_memory(graph, seed):
    rng = np.random.default_rng(seed)
    arrays = [filled(i.aval, rng) for i in graph.inputs]
    before = [array.copy() for array in arrays]
    results = evaluate(graph, *arrays)
    assert [Aval(r.shape, r.dtype) for r in results] == [o.aval for o in graph.outputs]
    for i, result in enumerate(results):
        assert isinstance(result, np.ndarray) and result.flags.c_contiguous and result.flags.writeable
        assert not any(np.shares_memory(result, other) for other in [*arrays, *results[:i]])
    for array, old in zip(arrays, before, strict=True):
        assert_same_bits(array, old)


def test_the_evaluator_follows_numpy():
    graph = parse("f(x: f32[2,3], c: f32[]) { a = mul(x, c) b = sum(a, axis=(1,)) return b, x }")
    x = np.arange(6, dtype="f4").reshape(2, 3)
    b, same = evaluate(graph, x.T.copy().T, np.float32(2))
    assert_same_bits(b, np.array([6, 24], "f4"))
    assert_same_bits(same, x)


def test_the_aval_decides_where_the_reference_computes_in_another_dtype():
    graph = parse("f(x: i32[3]) { a = sum(x, axis=(0,)) return a }")
    (total,) = evaluate(graph, np.array([2**31 - 1, 1, 0], np.int32))
    assert total.dtype == graph.outputs[0].aval.dtype


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ((), TypeError, "graph f takes 1 arrays, got 0"),
        ((np.zeros(4),), ValueError, r"input 0 of graph f is f64\[3\], got f64\[4\]"),
        ((np.zeros(3, "f4"),), ValueError, r"is f64\[3\], got f32\[3\]"),
        ((np.zeros(3, ">f8"),), ValueError, r"is f64\[3\], got >f8\[3\]"),
    ],
)
def test_arrays_that_do_not_fit_the_inputs_are_refused(arrays, error, message):
    with pytest.raises(error, match=message):
        evaluate(parse("f(x: f64[3]) { return x }"), *arrays)


def test_values_are_dropped_after_their_last_reader():
    alive = []

    def step(x):
        gc.collect()
        # The values that this reads live, and nothing made before it.
        assert sum(ref() is not None for ref in alive) <= 1
        y = x + 1
        alive.append(weakref.ref(y))
        return y

    op = Op("step", infer=lambda x: x, reference=step)
    x = input_node(Aval((4,), "f8"))
    nodes = [x]
    for _ in range(6):
        nodes.append(apply(op, nodes[-1]))
    (result,) = evaluate(Graph([x], nodes[1:], nodes[-1:]), np.zeros(4))
    assert_same_bits(result, np.full(4, 6.0))


def test_what_no_output_needs_is_not_computed():
    def refuse(x):
        raise AssertionError("computed")

    x = input_node(Aval((4,), "f8"))
    dead = apply(Op("refuse", infer=lambda x: x, reference=refuse), x)
    evaluate(Graph([x], [dead], [x]), np.zeros(4))
    with pytest.raises(AssertionError, match="computed") as caught:
        evaluate(Graph([x], [dead], [dead]), np.zeros(4))
    assert caught.value.__notes__ == ["while evaluating a: f64[4] = refuse(x0)"]


def test_a_reference_that_disagrees_with_its_shape_rule_is_found_out():
    x = input_node(Aval((4,), "f8"))
    wrong = apply(Op("wrong", infer=lambda x: x, reference=lambda x: x[:2]), x)
    with pytest.raises(AssertionError, match=r"wrong: the shape rule says f64\[4\], the reference gave f64\[2\]"):
        evaluate(Graph([x], [wrong], [wrong]), np.zeros(4))


# ---------------------------------------------------------------- keys


def test_a_key_tells_constants_apart_that_compare_equal():
    keys = {
        repr(value): Graph([], [c := Node(CONSTANT, (), (value, "f64"), Aval((), "f8"))], [c]).key
        for value in (0.0, -0.0, 1.0, math.nan)
    }
    assert len(set(keys.values())) == len(keys)
    assert parse("f() { a = constant(value=nan, dtype='f64') return a }").key == keys["nan"]


def test_inputs_are_the_only_nodes_without_a_rule():
    assert OPS["input"] is INPUT
    with pytest.raises(AssertionError, match="inputs carry their aval"):
        INPUT.infer()
