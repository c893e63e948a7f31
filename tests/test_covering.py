"""The part of a product that runs by default."""

import itertools

import pytest
from covering import covering, part

LENGTHS = [(1,), (5,), (41, 7), (7, 7), (4, 8), (2, 2, 16), (22, 10, 3), (3, 3, 3), (8, 24), (2, 2, 2, 2)]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_every_value_of_every_parameter_is_in_the_part(lengths, times):
    chosen = part(lengths, times)
    assert len(chosen) <= times * max(lengths)
    for i, n in enumerate(lengths):
        assert {c[i] for c in chosen} == set(range(n))


def test_no_pair_occurs_twice_while_others_are_left():
    for lengths in ((7, 3), (6, 4), (5, 5)):
        assert len(part(lengths, times=min(lengths))) == lengths[0] * lengths[1]


def test_the_rest_of_a_product_is_marked_slow():
    sets = covering(a="xy", b=[print, (1, "u"), 3]).args[1]
    assert [s.id for s in sets] == ["x-print", "x-1-u", "x-3", "y-print", "y-1-u", "y-3"]
    assert [s.values for s in sets] == [*itertools.product("xy", [print, (1, "u"), 3])]
    assert sum([not s.marks for s in sets]) == 3
