"""Pieces of recordings are found by machine code exactly where plain Python finds them: pairs of random programs.

Plain Python compares all that is said of a piece (`described`), machine code a hash of it.
"""

import random

import numpy as np
import pytest
from test_native_keys import MISSES, Program

import autodiff as ad
from autodiff.tape import machine
from autodiff.tape.node import Node
from autodiff.tape.plan import drops_inputs, set_value
from autodiff.tape.segment import Segment
from autodiff.tape.walk import by_number, gradient_inputs, history, needed, uncommon
from autodiff.transforms.backward import places_above, release


def described(roots, bounds):
    """The nodes that are reached from the roots, made comparable, and in the order in which they are met.

    bounds    of each in this order: True for one of its own

    None where it has not so many nodes, or one of its own has room for more than an operation.
    """
    order = list(roots)
    place = {n: i for i, n in enumerate(order)}
    parts = []
    for node, is_own in zip(order, bounds, strict=False):  # the order grows meanwhile
        pending = node.value is None
        if not is_own:
            parts.append((node.kind.out, pending))
            continue
        if type(node) is not Node:
            return None
        for i in node.inputs:
            if i not in place:
                place[i] = len(order)
                order.append(i)
        parts.append((node.kind, pending, *[place[i] for i in node.inputs]))
    return (parts, order) if len(order) == len(bounds) == len(place) else None


class Results:
    """Stands for code that gives these results."""

    __slots__ = ("executable", "results")

    def __init__(self):
        self.executable, self.results = self, ()

    def call(self):
        return self.results


class Piece:
    """A piece that machine code learns, and plain Python beside it.   stored: the nodes that are computed"""

    def __init__(self, roots, inside, stored):
        order = list(roots)
        for node in order:  # which grows meanwhile
            order += [i for i in dict.fromkeys(node.inputs if node in inside else ()) if i not in order]
        self.bounds = [node in inside for node in order]
        self.parts, order = described(roots, self.bounds)
        self.stored = [order.index(n) for n in stored]
        self.results = Results()
        words = [(place, k, int(drops_inputs(order[place]))) for k, place in enumerate(self.stored)]
        self.segment = object.__new__(Segment)
        forward = machine.asks.code(self.results, [], words)
        self.segment.block = machine.asks.piece(roots, self.bounds, [], [], forward, [])

    def accepts(self, roots):
        """The parts of what the roots end, one if it is the piece."""
        parts, known = [], {n.kind: [self.segment] for n in roots}
        machine.asks.cut_known_segments(known, list(reversed(roots)), parts, set(), set(), None)
        return parts

    def accepts_in_python(self, roots):
        """The nodes of what the roots end, if it is the piece; else None."""
        found = described(roots, self.bounds)
        return None if found is None or found[0] != self.parts else found[1]


def recorded(program):
    """The nodes that a program's result needs, the latest first."""
    root = program.result.node
    past = frozenset([root]) if root.kind.out.requires_grad else frozenset()
    return sorted(needed([root], past), key=by_number, reverse=True)


def piece_of(nodes, rng):
    """A piece at the end of a recording, and the places of its roots; None where there is none."""
    inside = []
    for node in nodes[: rng.randrange(3, 16)]:
        if type(node) is not Node or node.leaf is not None or not node.inputs:
            break
        inside.append(node)
    read = {i for n in inside for i in n.inputs}
    roots = [k for k, n in enumerate(inside) if n not in read or rng.random() < 0.2]
    if not inside or rng.random() < 0.1:
        return None
    stored = [n for n in inside if n.value is None and rng.random() < 0.5]
    return Piece([nodes[k] for k in roots], set(inside), stored), roots


def state_of(nodes):
    return [(n.value is None, len(n.inputs)) for n in nodes]


def compare(seeds):
    """Accepted, refused: how many pieces of the second of two programs were like those of the first."""
    counts = [0, 0]
    for seed in seeds:
        rng = random.Random(seed)
        first, second = Program(seed // 2, "nothing"), Program(seed // 2, MISSES[seed % len(MISSES)])
        made = piece_of(recorded(first), rng)
        nodes = recorded(second)
        if made is None or len(nodes) <= made[1][-1]:
            continue
        piece, places = made
        roots = tuple([nodes[k] for k in places])
        parts = piece.accepts(roots)
        exact = piece.accepts_in_python(roots)
        counts[not parts] += 1
        assert bool(parts) == (exact is not None), (seed, MISSES[seed % len(MISSES)])
        if not parts:
            continue
        (segment, found), = parts
        assert segment is piece.segment
        assert [id(x) for x in found] == [id(x) for x in exact]
        given = [found[place] for place in piece.stored]
        results = tuple([np.full(n.kind.out.shape, float(k)) for k, n in enumerate(given)])
        alike = recorded(first)
        other = piece.accepts_in_python([alike[k] for k in places])
        piece.results.results = results
        machine.asks.compute_parts(parts)
        for place, value in zip(piece.stored, results, strict=True):
            set_value(other[place], value)
        assert state_of(found) == state_of(other)
        assert [id(n.value) for n in given] == [id(other[place].value) for place in piece.stored]
    return counts


def test_pieces_are_found_exactly_where_they_are_alike(native):
    accepted, refused = compare(range(200))
    assert accepted > 40 and refused > 20


@pytest.mark.slow
def test_pieces_of_fifty_thousand_pairs(native):
    compare(range(200, 50_200))


def test_a_node_that_has_room_for_more_is_in_no_piece(native):
    def made(is_hooked):
        x = ad.tensor(np.ones(3), requires_grad=True)
        y = ad.sin(x)
        if is_hooked:
            y.register_hook(lambda g: g)
        return ad.exp(y) * 2.0

    y, z = made(False), made(True)
    nodes = needed([y.node], frozenset([y.node]))
    inside = {n for n in nodes if n.inputs}
    piece = Piece((y.node,), inside, ())
    assert piece.accepts((y.node,))
    assert not piece.accepts((z.node,)) and piece.accepts_in_python((z.node,)) is None


def left_of(seed):
    """What is told of the history of a program, and left of it once it is given up."""
    past = history([Program(seed, MISSES[seed % len(MISSES)]).result.node])
    rare = [past.index(n) for n in uncommon(past)]
    release(past)
    return rare, [(n.kind.released, len(n.inputs)) for n in past]


def test_a_history_is_given_up_as_it_is_without_machine_code(native, monkeypatch):
    found = [left_of(seed) for seed in range(20)]
    monkeypatch.setattr(machine, "asks", None)
    assert [left_of(seed) for seed in range(20)] == found
    assert any([any([is_released for is_released, _ in left]) for _, left in found])


def test_gradients_go_through_what_leads_to_their_targets(native):
    for seed in range(20):
        past = history([Program(seed, "nothing").result.node])
        leaves = [n for n in past if n.leaf is not None]
        for targets in (leaves, leaves[:1], [*leaves[1:], *past[-2:]]):
            reached = set(targets)
            for node in past:
                if not reached.isdisjoint(gradient_inputs(node)):
                    reached.add(node)
            through = [k for k, n in enumerate(past) if not reached.isdisjoint(gradient_inputs(n))]
            assert places_above(past, targets) == through
