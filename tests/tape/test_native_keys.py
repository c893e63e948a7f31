"""Hashes of recordings by machine code are equal exactly where exact keys are: pairs of random programs, nearly alike.

Those of families are equal exactly where exact keys without numbers are.  The exact key is what `walk.structure` says,
with what is stored along, seeds and groups.
"""

import gc
import random
import weakref

import numpy as np
import pytest
from exact_keys import exactly, without_numbers

import autodiff as ad
from autodiff.tape import machine
from autodiff.tape.ask import Question
from autodiff.tape.known import BACKWARD, NODES, TENSORS, VALUE, Ask, read
from autodiff.tape.plan import source
from autodiff.tape.program import placed
from autodiff.tape.record import state
from autodiff.tape.sizes import _is_plain
from autodiff.tape.walk import history, needed
from autodiff.transforms.backward import _leaves
from autodiff.transforms.backward_pass import Group
from autodiff.transforms.functional import _group_of
from autodiff.transforms.gradient import Gradients

#: What one of two programs does otherwise.
MISSES = (
    "nothing", "shape", "wire", "operation", "sharing", "held", "hook", "tracks", "constant", "known", "no grad",
    "number", "old", "retained", "live", "leaf order", "released", "parameter",
)  # fmt: skip


@ad.function
def doubled(x, c):
    """x times c, whose rule reads the number."""


@doubled.forward(ad.Tensor, float)
def _(ctx, x, c):
    ctx.save_for_backward(x=x)
    return x * c


@doubled.backward(ad.Tensor, float)
def _(ctx, g):
    return g * 2.0


class Program:
    """A random recording, and all that is held of it.

    miss    what is done otherwise at a random place
    """

    def __init__(self, seed, miss):
        self.rng = rng = random.Random(seed)
        self.miss, self.at = miss, rng.randrange(4, 24)
        self.extent = 3 if miss == "shape" else 4
        self.kept, self.is_plain = [], seed % 3 != 0
        makers = [self.leaf(i) for i in range(rng.randrange(2, 5))]
        by_place = -1 if miss == "leaf order" else 1
        self.leaves = leaves = [make() for make in makers[::by_place]][::by_place]
        values = [*leaves, ad.tensor(np.ones(self.extent))]
        if miss == "sharing":
            values[0] = values[1]
        for step in range(rng.randrange(8, 26)):
            values.append(self.step(step, values))
        self.result = ad.sum(values[-1] + values[-2])
        if miss == "retained":
            values[-3].retain_grad() if values[-3].requires_grad else None
        self.targets = [leaves[0], values[len(leaves) + 2]]
        self.kept += [t for i, t in enumerate(values) if i % 5 == 0]
        for i, leaf in enumerate(leaves):
            if leaf.requires_grad and (i % 2 == 0) != (miss == "old" and i == 0):
                leaf.grad = ad.tensor(np.zeros(leaf.shape))

    def leaf(self, i):
        values = np.full(self.extent if i == 0 else 4 if self.miss != "shape" else self.extent, 0.1 * i)
        tracks = (i != 1) != (self.miss == "tracks" and i == 0)
        return lambda: ad.tensor(values, requires_grad=tracks)

    def step(self, step, values):
        rng = self.rng
        is_other = step == self.at % 8
        a, b = (values[rng.randrange(max(0, len(values) - 6), len(values))] for _ in range(2))
        choice = rng.randrange(11)
        if is_other and self.miss == "wire":
            a, b = b, a
        if is_other and self.miss == "operation":
            choice = (choice + 1) % 11
        if choice == 6 and self.is_plain:
            choice = 8
        number = 1.5 if is_other and self.miss in ("constant", "number") else 0.5
        if is_other and self.miss == "no grad":
            with ad.no_grad():
                return a * b
        power = 3 if is_other and self.miss == "parameter" else 2
        made = [
            lambda: ad.sin(a), lambda: a * b, lambda: a + b, lambda: a * number, lambda: ad.sum(a) * b,
            lambda: a**power, lambda: doubled(a, number), lambda: ad.max(a) + b,
            lambda: ad.mean(a) * b, lambda: ad.broadcast_to(ad.sum(a.reshape(-1)[:power]), a.shape) + b,
            lambda: ad.concatenate([a.reshape(-1)[: number * 2 < 2 or 2], a.reshape(-1)])[-a.size :].reshape(a.shape),
        ][choice]()  # fmt: skip
        if is_other and self.miss == "held":
            self.kept.append(a)
        if is_other and self.miss == "hook" and made.requires_grad:
            made.register_hook(lambda g: g)
        if is_other and self.miss == "known":
            made.detach().numpy()
        if is_other and self.miss == "live":
            self.kept.append(ad.sum(made))
        if is_other and self.miss == "released" and made.requires_grad:
            ad.sum(made).backward()
            for leaf in self.leaves:
                if leaf.requires_grad:
                    leaf.grad = None
        return made


def live_beside(root):
    """Nodes of small results that somebody has."""
    found = [t.node for r in state.now.small if (t := r()) is not None]
    return list(dict.fromkeys([n for n in found if n.value is None and n is not root]))


def asked(program, purpose, retain):
    """An ask for values, or for gradients."""
    root = program.result.node
    live = live_beside(root)
    if purpose == "value":
        return Question(Ask(VALUE, (root,)), (root,), live, retain)
    past = history([root])
    seeds = [(root, ad.tensor(1.0).node)]
    if purpose == "backward":
        leaves = _leaves(past, None)
        groups = [Group(tuple(nodes), leaf.hooks or None) for leaf, nodes in leaves.items()]
        ask = Ask(BACKWARD, (root,), (None,))
    else:
        targets = [t.node for t in program.targets]
        if purpose == "tensors":
            groups = [Group(_group_of(x, past).nodes) for x in targets]
        else:
            groups = [Group((x,)) for x in targets]
        ask = Ask(TENSORS if purpose == "tensors" else NODES, (root,), (None,), (), tuple(targets))
    return Gradients(seeds, groups, retain=retain, past=past, live=live, ask=ask)


def keys_of(program, purpose, retain):
    """The exact key of an ask, its nodes, and the recording as machine code reads it; None for nothing."""
    question = asked(program, purpose, retain)
    key, order = exactly(question), [id(n) for n in question.order]
    del question  # what is held would count as something that may be asked for
    return key, order, read_by(asked(program, purpose, retain))


def read_by(question):
    """The recording of an ask as machine code reads it."""
    return read(question.ask, question.live, question.tracks)


PURPOSES = ("value", "backward", "tensors", "nodes")


def compare(seeds):
    """Each hash stands for one exact key, and each exact key has one hash: how many programs had one of another."""
    exact_of, hash_of, same = {}, {}, 0
    forms = Forms()
    for seed in seeds:
        for miss in ("nothing", MISSES[seed % len(MISSES)]):
            program = Program(seed // 2, miss)
            for purpose in PURPOSES:
                retain = seed % 3 == 0
                key, order, found = keys_of(program, purpose, retain)
                forms.add(purpose, key, found, (seed, miss))
                if found is None:
                    continue
                assert [id(n) for n in found.order] == order
                one, other = (purpose, found.key), (purpose, key)
                same += one in exact_of
                assert exact_of.setdefault(one, key) == key, (seed, miss, purpose, "one hash for two keys")
                assert hash_of.setdefault(other, found.key) == found.key, (seed, miss, purpose, "two hashes for a key")
    return same, len(exact_of), forms


class Forms:
    """The hashes of families, and the exact keys without numbers that they stand for.

    same     pairs of recordings with one hash, whose numbers differ
    """

    def __init__(self):
        self.form_of, self.hash_of, self.numbers, self.same = {}, {}, {}, 0

    def add(self, purpose, key, found, where):
        """Each hash stands for one key without numbers, each of these has one hash."""
        if found is None or found.family is None:  # what rules of users' do is for one size; hooks have no key
            assert found is None or not _is_plain(found.order), where
            return
        form, numbers = without_numbers(key)
        assert found.numbers == numbers, where
        one, other = (purpose, found.family), (purpose, form)
        assert self.form_of.setdefault(one, form) == form, (*where, purpose, "one hash for two forms")
        assert self.hash_of.setdefault(other, found.family) == found.family, (*where, purpose, "two hashes for a form")
        self.same += self.numbers.setdefault(one, numbers) != numbers


def test_hashes_are_equal_exactly_where_keys_are(native):
    same, different, forms = compare(range(150))
    assert same > 300 and different > 300
    print(forms.same, len(forms.form_of))
    assert forms.same > 20 and len(forms.form_of) > 150


@pytest.mark.slow
def test_hashes_of_fifty_thousand_pairs(native):
    for first in range(0, 50_000, 1000):
        compare(range(first, first + 1000))


def test_programs_are_put_down_as_in_python(native):
    """Machine code puts down of pending nodes the same as `placed` says: kinds, wires, inputs, results."""
    different = set()
    for seed in range(300):
        program = Program(seed, MISSES[seed % len(MISSES)])
        pending = [n for n in needed([program.result.node]) if n.value is None]
        outputs = [source(n) for n in (program.result.node, *pending[:: 1 + seed % 3])]
        arguments = pending[: seed % 2]
        drawn, inputs, _ = placed(outputs, arguments, ())
        assert machine.asks.program_of_pending(tuple(outputs), tuple(arguments)) == [drawn.kinds, inputs, drawn.wires]
        different.add(drawn.key)
    assert len(different) > 200


def test_a_key_holds_what_it_was_made_of(native):
    drawn, _, _ = placed([source(Program(1, "nothing").result.node)], (), ())
    key, kinds = drawn.key, [weakref.ref(kind.computation) for kind in drawn.kinds]
    del drawn
    gc.collect()
    assert kinds and all(told() is not None for told in kinds) and key


def said_by_machine(program, purpose, tracks):
    """The exact key of an ask by machine code, and by Python."""
    there = exactly(asked(program, purpose, tracks))
    question = asked(program, purpose, tracks)
    question.found = read_by(question)
    return question.found and exactly(question), there


def test_exact_keys_by_machine_code_are_those_of_python(native):
    made = 0
    for seed in range(200):
        program = Program(seed, MISSES[seed % len(MISSES)])
        for purpose in ("value", "backward", "tensors", "nodes"):
            here, there = said_by_machine(program, purpose, seed % 3 == 0)
            assert here is None or here == there, (seed, purpose)
            made += here is not None
    assert made > 600
