"""Fusion: whatever is put together computes what the graph says, on random graphs of everything."""

import pytest
from fusible import check, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.passes.plan import plan

#: Graphs that once went wrong: a shared value stored too late, a reduction that only an empty array needs.
SEEDS = ((956, 25), (1728, 25), (1834, 25), (2946, 25), (4334, 25), (7490, 25), (7696, 25), (29, 25))


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_a_planned_program_computes_what_its_graph_says(seed, size):
    check(random_graph(seed, size), native=False)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_a_native_program_computes_what_its_graph_says(seed, size):
    check(random_graph(seed, size))


@pytest.mark.parametrize(("seed", "size"), SEEDS)
def test_a_graph_that_once_went_wrong_is_right(seed, size):
    check(random_graph(seed, size), native=False)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_planning_twice_gives_the_same_program(seed):
    graph = random_graph(seed)
    one, other = plan(graph), plan(graph)
    assert [s.buffers for s in one.steps] == [s.buffers for s in other.steps]
    assert [b.place for b in one.buffers] == [b.place for b in other.buffers]
