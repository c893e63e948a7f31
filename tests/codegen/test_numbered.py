"""Sets of numbers are sets, whether an int holds them or words do."""

from hypothesis import given
from hypothesis import strategies as st

from codegen.passes.numbered import EMPTY, Wide, count, has, numbers, of, one, without

sets = st.sets(st.one_of(st.integers(0, 70), st.integers(1000, 1100), st.integers(0, 40_000)), max_size=12)


@given(sets, sets)
def test_sets_of_numbers_are_sets(a, b):
    s, t = of(a), of(b)
    for found, true in ((s, a), (s | t, a | b), (s & t, a & b), (without(s, t), a - b), (without(s, s), set())):
        assert list(numbers(found)) == sorted(true)
        assert count(found) == len(true) and bool(found) == bool(true)
        assert isinstance(found, Wide) == (max(true, default=0) >= 1024)
        assert all([has(found, n) == (n in true) for n in a | b | {0, 1023, 1024}])
    joined = EMPTY
    for n in a:
        joined |= one(n)
    assert list(numbers(joined)) == sorted(a)
    assert list(numbers(s)) == sorted(a) and list(numbers(t)) == sorted(b)  # neither was changed


def test_a_union_with_what_a_wide_set_holds_is_that_set():
    s = of([3, 5000])
    assert s | of([3]) is s and of([3]) | s is s and s | of([5000]) is s and of([5000]) | s is s and s | EMPTY is s
