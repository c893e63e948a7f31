"""Regions: graphs as parameters of operations, in text, keys and the verifier."""

import pytest

import autodiff as ad
from codegen.ir import ParseError, VerifyError, parse, print_graph, verify

assert ad.cond  # declares the operations

TEXT = """f(x0: bool[], x1: f64[4]) {
  a: f64[4] = cond(x0, x1, dtype='f64', yes=body0(x0: f64[4]) {
    a: f64[4] = exp(x0)
    b: bool[4] = greater(x0, a)
    c: bool[] = any(b, axis=(0,))
    d: f64[4] = cond(c, x0, dtype='f64', yes=body1(x0: f64[4]) {
      a: f64[4] = neg(x0)
      return a
    }, no=body1)
    e: f64[4] = add(a, d)
    return e
  }, no=body1)
  return a
}"""


def test_a_region_stands_where_it_is_first_used_and_by_its_name_after_that():
    graph = parse(TEXT)
    verify(graph)
    assert print_graph(graph) == TEXT
    assert print_graph(parse(" ".join(TEXT.split()))) == TEXT


def test_graphs_whose_regions_differ_have_other_keys():
    same, other = parse(TEXT.replace("body1", "twin")), parse(TEXT.replace("neg(x0)", "abs(x0)"))
    assert parse(TEXT).key == same.key != other.key
    assert hash(parse(TEXT).key) == hash(same.key)


@pytest.mark.parametrize(("before", "after", "message"), [
    ("no=body1)\n  return", "no=body7)\n  return", r"line 12: expected a value, found 'body7'"),
    ("body1", "body0", "line 2: region 'body0' is defined twice"),
    ("neg(x0)", "neg(x1)", r"line 7: 'x1' is not defined here"),
    ("neg(x0)", "neg(x0, axis=1)", "neg takes no parameters"),
])
def test_text_of_a_region_that_is_wrong_is_refused_with_its_line(before, after, message):
    with pytest.raises(ParseError, match=message):
        parse(TEXT.replace(before, after))


def test_the_verifier_looks_into_regions():
    graph = parse(TEXT)
    region = graph.nodes[0].keywords["yes"]
    region.graph.nodes[0].aval = graph.inputs[0].aval
    with pytest.raises(VerifyError, match=r"is recorded as bool\[\], and its operands give f64\[4\]"):
        verify(graph)


def test_messages_show_the_size_of_a_region_on_one_line():
    graph = parse(TEXT)
    graph.nodes[0].aval = graph.inputs[0].aval
    with pytest.raises(VerifyError, match="no=<1 operations>"):
        verify(graph)
