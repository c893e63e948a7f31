"""The walk over pieces of recordings as plain Python, on stand-ins of nodes: what the hash tells apart."""

import random

import pytest
from test_recording_walk import Objects, room  # noqa: F401  a fixture
from test_recording_walk import random_tape as tape_of

from codegen.native.structs import Pointer
from codegen.runtime import recording_piece as pieces
from codegen.runtime.recording_piece import PieceBlock, is_alike


def inputs_of(node):
    return node.inputs or tuple([n for n in (node.first, node.second) if n is not None])


def piece_of(root, rng):
    """A piece that ends in a node, and how many nodes older than that are its own."""
    order, own = [root], []
    for node in order:  # which grows meanwhile
        is_own = node is root or (node.value is Objects.none and rng.random() < 0.7)
        own.append(is_own)
        order += [i for i in dict.fromkeys(inputs_of(node)) if is_own and i not in order]
    made = PieceBlock()
    made.roots, made.count = 1, len(order)
    made.words = Pointer([int(is_own) for is_own in own], 0, pieces.u32)
    return made, [n for n, is_own in zip(order, own, strict=True) if is_own]


@pytest.mark.parametrize("seed", range(12))
def test_a_piece_is_found_in_what_is_alike_only(seed):
    root = tape_of(seed)[1]
    made, own = piece_of(root, random.Random(seed))
    assert is_alike(made, [root], True)
    assert is_alike(made, [root], False)
    assert is_alike(made, [tape_of(seed)[1]], False)
    places = {(n.number - 1) // 2 - 3 for n in own}
    for step in range(20):
        assert is_alike(made, [tape_of(seed, ("held", step))[1]], False)  # who holds a node does not matter
        if step in places:
            assert not is_alike(made, [tape_of(seed, ("kind", step))[1]], False)


@pytest.mark.parametrize("seed", range(12))
def test_what_has_got_a_value_is_another_piece(seed):
    root = tape_of(seed)[1]
    made, own = piece_of(root, random.Random(seed))
    assert is_alike(made, [root], True)
    outside = [i for n in own for i in inputs_of(n) if i not in own and i.value is Objects.none]
    for node in [*own, *outside]:
        node.value = object()
        assert not is_alike(made, [root], False)
        node.value = Objects.none
        assert is_alike(made, [root], False)


def test_other_numbers_are_no_other_piece():
    root = tape_of(3)[1]
    made, _ = piece_of(root, random.Random(3))
    assert is_alike(made, [root], True)
    tape, other = tape_of(3)
    for node in tape.nodes:
        node.number = 7 * node.number  # other threads have those between
    assert is_alike(made, [other], False)
