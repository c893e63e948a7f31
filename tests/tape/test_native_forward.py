"""The forward pass by machine code records what the one in Python records: random histories, tangents of any leaves."""

import random

import numpy as np
import pytest
from test_native_reverse import recording

import autodiff as ad
from autodiff.tape import machine
from autodiff.tape.program import placed
from autodiff.transforms.forward import TangentPass


def recorded(past, results, leaves, tracks):
    """The recording of a pass, as a program of its own, and which results have tangents."""
    tangents = {n: ad.tensor(np.full(n.kind.out.shape, 0.5 + i)) for i, n in enumerate(leaves)}
    dots = TangentPass(past, tangents, results, tracks).results
    ends = [t.node for t in dots if t is not None]
    program, inputs, _ = placed([n for n in dict.fromkeys(ends) if n.value is None], (), ())
    place = {n: i for i, n in enumerate([*past, *[t.node for t in tangents.values()]])}
    known = [place.get(n, n.value if n.kind.op.name == "constant" else n.kind) for n in inputs]
    told = [kind.computation for kind in program.kinds]
    return (told, program.inputs, program.wires), known, [t is None for t in dots]


@pytest.mark.parametrize("tracks", [False, True])
def test_machine_code_and_python_record_the_same(native, patience, monkeypatch, tracks):
    reached, natively, by_python, go = 0, 0, [], TangentPass.visit_node
    monkeypatch.setattr(TangentPass, "visit_node", lambda self, at: (by_python.append(self.order[at]), go(self, at))[1])
    for seed in range(200):
        _made, past, results, _targets, _masked = recording(seed)
        leaves = [n for n in past if n.leaf is not None]
        leaves = random.Random(seed).sample(leaves, min(len(leaves), 1 + seed % 3))
        if not leaves:
            continue
        by_python.clear()
        here = recorded(past, results, leaves, tracks)
        went = len(by_python)
        with monkeypatch.context() as m:
            m.setattr(machine, "asks", None)
            there = recorded(past, results, leaves, tracks)
        assert here[0] == there[0] and here[2] == there[2], seed
        assert all(a is b or np.array_equal(a, b) for a, b in zip(here[1], there[1], strict=True)), seed
        assert len(by_python) - went == len(past) >= went
        reached += here[2].count(False)
        natively += len(past) - went
    assert reached > 300 and natively > 700
