"""Trees: nested containers as leaves and a structure."""

import dataclasses
import itertools
from collections import Counter, OrderedDict, defaultdict, namedtuple
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff import tree

Point = namedtuple("Point", "x y")


class Typed(NamedTuple):
    a: object
    b: object = 3


@dataclasses.dataclass
class Params:
    weight: object
    bias: object = None
    derived: object = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        self.calls = getattr(self, "calls", 0) + 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: object
    name: str = "n"


values = st.none() | st.integers() | st.text(max_size=3) | st.builds(object)
keys = st.text(max_size=3) | st.integers(0, 5)


def containers(children):
    return (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(keys, children, max_size=3)
        | st.dictionaries(keys, children, max_size=3).map(OrderedDict)
        | st.dictionaries(keys, children, max_size=3).map(lambda d: defaultdict(list, d))
        | st.builds(Point, children, children)
        | st.builds(Typed, children)
        | st.builds(Params, children, children)
        | st.builds(Frozen, children)
    )


trees = st.recursive(values, containers, max_leaves=12)


@given(trees)
def test_a_tree_is_its_leaves_and_its_structure(t):
    found, structure = ad.tree.flatten(t)
    again = ad.tree.unflatten(structure, found)
    assert again == t
    assert type(again) is type(t)
    assert structure.size == len(found) == len(ad.tree.names(structure))
    assert ad.tree.leaves(t) is not found and all(a is b for a, b in zip(ad.tree.leaves(t), found, strict=True))


@given(trees)
def test_structures_are_equal_exactly_when_trees_differ_in_leaves_only(t):
    found, structure = ad.tree.flatten(t)
    other = ad.tree.flatten(ad.tree.unflatten(structure, [object() for _ in found]))[1]
    assert other == structure
    assert hash(other) == hash(structure)
    assert ad.tree.flatten([t])[1] != ad.tree.flatten((t,))[1]
    assert ad.tree.flatten((t,))[1] != structure


@given(trees, trees)
def test_unequal_structures_differ_in_what_they_rebuild(a, b):
    one, other = ad.tree.flatten(a)[1], ad.tree.flatten(b)[1]
    if one.size == other.size:
        same = repr(ad.tree.unflatten(one, [0] * one.size)) == repr(ad.tree.unflatten(other, [0] * one.size))
        assert same == (one == other)


@given(trees)
def test_map_keeps_the_structure(t):
    assert tree.map(lambda x: x, t) == t
    assert tree.map(lambda *xs: xs[2], t, t, t) == t
    assert ad.tree.flatten(tree.map(lambda x: 0, t))[1] == ad.tree.flatten(t)[1]


@given(trees)
def test_the_name_of_a_leaf_is_how_python_reaches_it(t):
    found, structure = ad.tree.flatten(t)
    for name, leaf in zip(ad.tree.names(structure, "t"), found, strict=True):
        assert eval(name, {"t": t}) is leaf


@given(trees)
def test_a_printed_structure_shows_the_tree_with_stars(t):
    _, structure = ad.tree.flatten(t)
    star = type("Star", (), {"__repr__": lambda self: "*"})()
    assert repr(structure) == repr(ad.tree.unflatten(structure, [star] * structure.size))


@pytest.mark.parametrize("leaf", [None, 3, "text", np.ones(2), {1, 2}, Counter("aab"), Params, len])
def test_everything_else_is_a_leaf_also_none_sets_arrays_classes_and_subclasses_of_dict(leaf):
    found, structure = ad.tree.flatten(leaf)
    assert found[0] is leaf and len(found) == 1
    assert structure is ad.tree.LEAF


@pytest.mark.parametrize("empty", [(), [], {}, OrderedDict(), defaultdict(int)])
def test_an_empty_container_has_no_leaves_and_comes_back(empty):
    found, structure = ad.tree.flatten(empty)
    assert found == []
    assert ad.tree.unflatten(structure, []) == empty
    assert type(ad.tree.unflatten(structure, [])) is type(empty)


def test_a_dict_keeps_its_order_and_another_order_is_another_structure():
    ab, ba = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert ad.tree.leaves(ab) == [1, 2]
    assert ad.tree.leaves(ba) == [2, 1]
    assert ad.tree.flatten(ab)[1] != ad.tree.flatten(ba)[1]
    assert list(tree.map(lambda x: x, ba)) == ["b", "a"]


def test_map_goes_by_key_and_keeps_the_order_of_the_first():
    out = tree.map(lambda a, b: (a, b), {"a": 1, "b": 2}, {"b": 20, "a": 10})
    assert list(out.items()) == [("a", (1, 10)), ("b", (2, 20))]


def test_keys_of_several_types_need_no_order():
    assert ad.tree.leaves({1: "x", "a": "y", (2, 3): "z"}) == ["x", "y", "z"]


@pytest.mark.parametrize("same", [
    [1, True, 1.0, np.float64(1), 1 + 0j], [0.0, -0.0], [(0,), (False,)], [((1, "a"),), ((1.0, "a"),)],
    [frozenset([1]), frozenset([True])], [Fraction(1), 1],
])
def test_keys_that_are_equal_but_not_alike_are_of_different_structures(same):
    structures = [ad.tree.flatten(made)[1] for key in same for made in ({key: 2}, {key: (2, 3)})]
    assert len(set(structures)) == len(structures)
    for key, flat in zip(same, structures[::2], strict=True):
        (found,) = ad.tree.unflatten(flat, [2])
        assert repr(found) == repr(key) and ad.tree.flatten({key: 5})[1] == flat


def test_a_defaultdict_keeps_its_factory():
    out = tree.map(lambda x: x + 1, defaultdict(int, a=1))
    assert out["a"] == 2
    assert out["missing"] == 0


def test_a_dataclass_is_rebuilt_without_init():
    before = Params(1, 2)
    before.derived = 5
    after = tree.map(lambda x: x * 10, before)
    assert (after.weight, after.bias, after.derived) == (10, 20, 50)
    assert not hasattr(after, "calls"), "__post_init__ did not run"
    assert tree.map(lambda x: x, Frozen(1)) == Frozen(1)


def test_none_stands_for_a_whole_subtree_where_gradients_are_matched_with_arguments():
    structure = ad.tree.flatten({"w": 1, "b": (2, [3])})[1]
    assert ad.tree.flatten_up_to(structure, {"b": (7, None), "w": None}) == [None, 7, None]
    assert ad.tree.flatten_up_to(structure, None) == [None] * 3
    with pytest.raises(ad.ShapeError, match=r"differ at params\['b'\]"):
        ad.tree.flatten_up_to(structure, {"w": 1, "b": 2}, "params")
    with pytest.raises(ad.ShapeError):
        tree.map(lambda a, b: a, (1, (2,)), (1, None))


def test_where_the_first_tree_has_a_leaf_the_others_may_have_anything():
    assert tree.map(lambda a, b: b, (1, 2), ([3, 4], None)) == ([3, 4], None)


@pytest.mark.parametrize("other, place", [
    ((1, [2, 3, 4]), r"tree\[1\]: \[0\], \[1\] and \[0\], \[1\], \[2\] in a list"),
    ((1, (2, 3)), r"tree\[1\]: list and tuple"),
    ((1, 2), r"tree\[1\]: list and int"),
    ([1, [2, 3]], "tree: tuple and list"),
])
def test_map_names_the_first_place_where_trees_differ(other, place):
    with pytest.raises(ad.ShapeError, match=rf"the trees differ at {place}\n  called at test_tree.py"):
        tree.map(lambda a, b: a, (1, [2, 3]), other)


def test_map_names_the_keys_that_differ():
    with pytest.raises(ad.ShapeError, match=r"tree\['p'\]: \['w'\] and \['v'\] in a dict"):
        tree.map(lambda a, b: a, {"p": {"w": 1}}, {"p": {"v": 1}})
    with pytest.raises(ad.ShapeError, match=r"\['w'\] and nothing"):
        tree.map(lambda a, b: a, {"w": 1}, {})


@pytest.mark.parametrize("count", [0, 2, 4])
def test_the_wrong_number_of_leaves_is_refused(count):
    with pytest.raises(ad.ShapeError, match=rf"\(\*, \[\*, \*\]\) takes 3 leaves, not {count}"):
        ad.tree.unflatten(ad.tree.flatten((1, [2, 3]))[1], [0] * count)


def test_a_registered_class_is_a_container_also_after_it_was_met_as_a_leaf():
    class Pair:
        def __init__(self, first, second, label):
            self.first, self.second, self.label = first, second, label

    class SubPair(Pair): ...

    pair = Pair(1, (2, 3), "p")
    assert ad.tree.leaves(pair) == [pair]

    def split(p):
        return (p.first, p.second), p.label

    assert tree.register(Pair, split, lambda label, children: Pair(*children, label)) is Pair
    found, structure = ad.tree.flatten(pair)
    assert found == [1, 2, 3]
    out = ad.tree.unflatten(structure, [10, 20, 30])
    assert (out.first, out.second, out.label) == (10, (20, 30), "p")
    assert structure != ad.tree.flatten(Pair(1, (2, 3), "other"))[1]
    assert ad.tree.names(structure, "pair") == ["pair[0]", "pair[1][0]", "pair[1][1]"]
    assert len(ad.tree.leaves(SubPair(1, 2, "s"))) == 1, "only exactly this class"
    with pytest.raises(ad.ShapeError, match="in a Pair"):
        tree.map(lambda a, b: a, pair, Pair(1, (2, 3), "other"))


def test_only_a_class_can_be_registered():
    with pytest.raises(ad.DispatchError, match="takes a class, not 3"):
        tree.register(3, None, None)


def test_deep_and_wide_trees_come_back():
    deep = 1
    for _ in range(200):
        deep = [deep]
    assert ad.tree.unflatten(ad.tree.flatten(deep)[1], [1]) == deep
    wide = dict(zip(range(10_000), itertools.count(), strict=False))
    assert tree.map(lambda x: x, wide) == wide
