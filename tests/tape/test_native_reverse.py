"""The backward pass by machine code records what the one in Python records: random histories, any targets and seeds."""

import random

import numpy as np
import pytest
from work_done import work

import autodiff as ad
from autodiff.tape import machine, walk
from autodiff.tape.node import data_node
from autodiff.tape.program import placed
from autodiff.tape.walk import history
from autodiff.transforms.backward_pass import looking
from autodiff.transforms.reverse import ReversePass


@ad.function
def scaled(x, y):
    """A custom function of two outputs."""


@scaled.forward(ad.Tensor, ad.Tensor)
def _(ctx, x, y):
    ctx.save_for_backward(x=x, y=y)
    return x * y, ad.sin(x)


@scaled.backward(ad.Tensor, ad.Tensor)
def _(ctx, g, h):
    s = ctx.saved_variables
    return g * s.y + h * ad.cos(s.x), g * s.x


OPERATIONS = (
    lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a - b, lambda a, b: ad.sin(a), lambda a, b: ad.exp(a * 0.1),
    lambda a, b: ad.where(a > b, a, b * 2.0), lambda a, b: ad.maximum(a, b), lambda a, b: ad.floor(a) * b,
    lambda a, b: abs(a), lambda a, b: a.sum() * b, lambda a, b: scaled(a, b)[0], lambda a, b: sum(scaled(a, b)),
    lambda a, b: ad.concatenate([a, b, a])[:4], lambda a, b: a**3.0, lambda a, b: ad.stop_gradient(a) * b,
    lambda a, b: ad.sqrt(a * a + 1.0), lambda a, b: ad.stack([a, b]).max(axis=0),
)  # fmt: skip


def recording(seed):
    """Leaves, all that was recorded of them, and what is asked: results with cotangents, targets."""
    rng = random.Random(seed)
    leaves = [ad.tensor(np.linspace(0.1 * i, 1 + i, 4), requires_grad=i != 3) for i in range(4)]
    made = list(leaves)
    for _ in range(rng.randrange(3, 30)):
        a, b = rng.choice(made[-7:]), rng.choice(made[-7:])
        y = rng.choice(OPERATIONS)(a, b)
        if y.shape == (4,):
            made.append(y)
            if rng.random() < 0.1 and y.requires_grad:
                y.register_hook(lambda g: g * 2.0)
            if rng.random() < 0.1 and y.requires_grad:
                y.retain_grad()
    results = [y.node for y in rng.sample(made, 2) if y.requires_grad] or [(made[0] * 1.0).node]
    past = history(results)
    targets = rng.sample(past, min(len(past), rng.randrange(1, 4)))
    targets += [n for n in past if n.leaf is not None and rng.random() < 0.8]
    return made, past, results, targets, [rng.random() < 0.3 for _ in results]


def recorded(past, results, targets, masked, tracks):
    """The recording of a pass, as a program of its own, and for which targets; masked or not; how many rules ran."""
    seeds = [data_node(ad.tensor(np.ones(n.kind.out.shape)).node.kind, np.ones(n.kind.out.shape)) for n in results]
    before = work().rules
    starts, looks = list(zip(results, seeds, masked, strict=True)), looking(past, seeds, tracks)
    found = ReversePass(past, starts, tuple(targets), tracks, looks).reached()
    bars = [bar for _, bar, _ in found]
    program, inputs, _ = placed([b for b in dict.fromkeys(bars) if b.value is None], (), ())
    place = {n: i for i, n in enumerate([*past, *seeds])}
    known = [place.get(n, n.value if n.kind.op.name == "constant" else n.kind) for n in inputs]
    told = [kind.computation for kind in program.kinds]
    masked = {n: m for n, _, m in found}
    return (told, program.inputs, program.wires), known, masked, work().rules - before


@pytest.mark.parametrize("tracks", [False, True])
def test_machine_code_and_python_record_the_same(native, patience, monkeypatch, tracks):
    reached = went = 0
    for seed in range(300):
        _made, past, results, targets, masked = recording(seed)
        here = recorded(past, results, targets, masked, tracks)
        with monkeypatch.context() as m:
            m.setattr(machine, "asks", None)
            there = recorded(past, results, targets, masked, tracks)
        assert here[0] == there[0] and here[2:] == there[2:]
        assert all(a is b or np.array_equal(a, b) for a, b in zip(here[1], there[1], strict=True))
        reached += len(here[2])
        went += here[3]
    assert reached > 500 and went > 1500
    assert machine.asks is not None


def test_histories_are_those_of_python(native, monkeypatch):
    for seed in range(200):
        made = recording(seed)[0]
        roots = [y.node for y in random.Random(seed).sample(made, 2)]
        here = history(roots)
        with monkeypatch.context() as m:
            m.setattr(machine, "asks", None)
            assert here == history(roots) and here == sorted(here, key=walk.by_number)


def test_a_hook_that_asks_for_values_of_the_same_history_changes_nothing(native):
    """Each of its asks walks over the nodes that the pass has marked."""
    x = np.linspace(0.1, 1.0, 5)
    for _ in range(3):
        w = ad.tensor(x, requires_grad=True)
        steps, y = [], w
        for k in range(40):
            y = ad.sin(y) * w
            steps.append(y)
            if k % 8 == 3:
                y.register_hook(lambda g, y=y: g * (2.0 if float(ad.sum(y * y)) > 0 else 0.0))
        ad.sum(y).backward()
        steps_there, there = [x], x
        for _ in range(40):
            there = np.sin(there) * x
            steps_there.append(there)
        g, of_x = np.ones(5), np.zeros(5)
        for k in reversed(range(40)):
            g = g * (2.0 if k % 8 == 3 else 1.0)
            of_x += g * np.sin(steps_there[k])
            g = g * x * np.cos(steps_there[k])
        np.testing.assert_allclose(w.grad.numpy(), of_x + g, rtol=1e-12)
