"""The walk over recordings as plain Python, on stand-ins of nodes: order, liveness, and what the hash tells apart."""

import random

import pytest

from codegen.native import u32
from codegen.native.structs import Pointer
from codegen.runtime import recording_entries as entries
from codegen.runtime import recording_hash as hashing
from codegen.runtime import recording_objects as objects
from codegen.runtime import recording_structs as raw
from codegen.runtime import recording_walk as walking
from codegen.runtime.recording_entries import CHEAP, IN_HISTORY, KEPT, READ, ROOT, begin, walk
from codegen.runtime.recording_structs import tape

ROOM = 512


class Objects:
    """The stand-ins of Python's own objects."""

    none, true, false, plain, rich, leaf_op, op = (object() for _ in range(7))


@pytest.fixture(autouse=True)
def room(monkeypatch):
    """Room for the entries of a walk, and for what the C library would do."""
    tape.none, tape.true, tape.plain_type, tape.leaf_op = Objects.none, Objects.true, Objects.plain, Objects.leaf_op
    for name, kind in (
        ("met", entries.WalkEntry), ("queue", u32), ("order", u32), ("calls", u32), ("bodies", u32), ("roots", u32),
        ("window", u32), ("numbered", entries.NumberedEntry), ("identities", entries.LeafPlace),
    ):  # fmt: skip
        setattr(walk, name, Pointer([None] * (ROOM * 4), 0, kind))
    walk.capacity = ROOM
    monkeypatch.setattr(objects.set_bytes, "plain", _zero)
    for kind in (raw.RawKind, raw.RawOut, raw.RawLeaf):
        monkeypatch.setattr(kind, "__int__", lambda thing: id(thing) & (1 << 47) - 1, raising=False)


def _zero(start, value, size):
    for i in range(len(start.items)):
        start.items[i] = None
    return start


class Tape:
    """Nodes that stand in for those of a recording, with as many references as they have readers."""

    kinds = {}  # noqa: RUF012  # interned

    def __init__(self):
        self.nodes = []

    def kind(self, name, tracks, heavy):
        if (name, tracks, heavy) not in self.kinds:
            kind, out = raw.RawKind(), raw.RawOut()
            out.requires_grad = kind.tracks = Objects.true if tracks else Objects.false
            kind.heavy, kind.op, kind.out = Objects.true if heavy else Objects.false, Objects.op, out
            self.kinds[name, tracks, heavy] = kind
        return self.kinds[name, tracks, heavy]

    def node(self, name, inputs=(), value=Objects.none, tracks=True, heavy=False):
        node = raw.RawNode()
        node.type, node.kind, node.value = Objects.plain, self.kind(name, tracks, heavy), value
        node.number = 2 * len(self.nodes) + 1
        if len(inputs) < 3:
            node.first, node.second = [*inputs, None, None][:2]
        else:
            node.inputs = tuple(inputs)
        for i in inputs:
            i.references += 1
        self.nodes.append(node)
        return node


def walked(*roots, past=True, tracks=False):
    """The hash of a recording, and its entries in canonical order."""
    digest = hashing.Digest()
    begin()
    for node, flags in roots:
        walking.root(node, ROOT | flags | (IN_HISTORY if past else 0))
    walking.gather()
    hashing.order_and_hash(digest, tracks)
    return (digest.low, digest.high), [walk.met[walk.order[i]] for i in range(digest.count)]


def random_tape(seed, change=None):
    rng = random.Random(seed)
    made = Tape()
    values = [made.node("data", value=object(), tracks=i % 2 == 0) for i in range(3)]
    for step in range(20):
        picks = [values[rng.randrange(max(0, len(values) - 5), len(values))] for _ in range(rng.randrange(1, 4))]
        name = rng.choice("abc")
        if change == ("kind", step):
            name = "d"
        if change == ("wire", step):
            picks = [values[0], *picks[1:]]
        heavy = name == "a"
        tracks = any(p.kind.out.requires_grad is Objects.true for p in picks)
        values.append(made.node(f"{name}{len(picks)}", picks, tracks=tracks, heavy=heavy))
        if change == ("held", step):
            values[-1].references += 1
    return made, values[-1]


@pytest.mark.parametrize("seed", range(12))
def test_nodes_are_in_the_order_in_which_they_were_made_and_data_where_it_is_used(seed):
    _made, root = random_tape(seed)
    _, found = walked((root, 0))
    pending = [e.node.number for e in found if e.node.value is Objects.none]
    assert pending == sorted(pending)
    place = {id(e.node): i for i, e in enumerate(found)}
    for i, e in enumerate(found):
        inputs = e.node.inputs or [n for n in (e.node.first, e.node.second) if n is not None]
        assert all(place[id(q)] < i for q in inputs)
        assert e.links == sum(
            sum(q is e.node for q in (r.node.inputs or (r.node.first, r.node.second))) for r in found
        )


@pytest.mark.parametrize("seed", range(12))
def test_a_hash_is_the_same_for_what_is_alike_only(seed):
    key = walked((random_tape(seed)[1], 0))[0]
    assert walked((random_tape(seed)[1], 0))[0] == key
    found = walked((random_tape(seed)[1], 0))[1]
    reached = {(e.node.number - 1) // 2 - 3 for e in found}
    for step in range(20):
        if step in reached:
            assert walked((random_tape(seed, ("kind", step))[1], 0))[0] != key


def test_a_heavy_result_that_somebody_holds_is_stored_and_what_follows_is_cheap():
    made = Tape()
    x = made.node("data", value=object())
    product = made.node("product", [x], heavy=True)
    y = made.node("sin", [product])
    root = made.node("sum", [y], heavy=True)
    _, found = walked((root, 0))
    flags = {id(e.node): e.flags for e in found}
    assert not flags[id(product)] & (KEPT | CHEAP) and not flags[id(y)] & (KEPT | CHEAP)
    assert flags[id(root)] & KEPT
    product.references += 1
    _, found = walked((root, 0))
    flags = {id(e.node): e.flags for e in found}
    assert flags[id(product)] & KEPT and flags[id(y)] & CHEAP and not flags[id(y)] & KEPT
    product.references -= 1
    _, found = walked((root, 0), tracks=True)
    assert {id(e.node): e.flags for e in found}[id(product)] & KEPT


def test_what_is_only_read_is_not_stored():
    made = Tape()
    x = made.node("data", value=object())
    seed, root = made.node("ones", [x], tracks=False), made.node("sin", [x])
    _, found = walked((root, 0), (seed, READ))
    flags = {id(e.node): e.flags for e in found}
    assert flags[id(root)] & KEPT and not flags[id(seed)] & KEPT
