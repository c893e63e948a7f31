"""The native recorder neither leaks nor crashes, whatever runs in between: see `ops.recorder`."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
from many_threads import in_turns

import autodiff as ad


def leaf(n=100):
    return ad.tensor(np.arange(1.0, n + 1), requires_grad=True)


PROGRAMS = [
    lambda a, b: a * b,
    lambda a, b: a * a,
    lambda a, b: a * 2.5,
    lambda a, b: 3 / a,
    lambda a, b: ad.exp(a),
    lambda a, b: ad.sum(a),
    lambda a, b: ad.softmax(a),
]


def test_references_are_counted_right(way):
    a, b = leaf(100), leaf(100)
    for run in PROGRAMS * 4:
        run(a, b)
    gc.collect()
    kept = [a, a.node, a.node.kind, b.node, type(a), (a * b).node.kind, ad.sum(a).node.kind, None, True, False, 2.5,
            ad.multiply.learned, ad.exp]  # fmt: skip
    before = [sys.getrefcount(x) for x in kept]
    gc.disable()
    try:
        for _ in range(200):
            for run in PROGRAMS:
                run(a, b)
        after = [sys.getrefcount(x) for x in kept]
    finally:
        gc.enable()
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 100


def test_a_dropped_recording_is_freed_at_once(way):
    a = leaf(100)
    for _ in range(4):
        y = ad.sum(ad.exp(a * 2.0) * a)
    gc.collect()
    gc.disable()
    try:
        before, gone = _plain_nodes(), weakref.ref(y)
        del y
        assert gone() is None
        assert _plain_nodes() == before - 5  # the number is one
    finally:
        gc.enable()


def _plain_nodes():
    return sum(type(x).__name__ == "Node" for x in gc.get_objects())


def test_threads_record_apart(way):
    found = {}

    def work(k):
        a = ad.tensor(np.full(100, float(k)), requires_grad=True)
        for _ in range(60):
            a.grad = None
            y = a
            for _ in range(20):
                y = y * 0.5 + a
            ad.sum(y).backward()
        found[k] = a.grad.numpy()[0]

    in_turns(work)
    expected = sum(0.5**i for i in range(21))
    assert found.keys() == {0, 1, 2, 3}
    assert all(abs(g - expected) < 1e-12 for g in found.values())


def test_the_collector_may_run_code_that_records(native):
    """A finalizer that runs while a node is made records, asks, registers: what is being made is right all the same."""
    a = leaf(100)
    a * a
    ran = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            ran.append(float(ad.sum(a * 2.0).detach()))
            ad.multiply.learned.forget()

    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(200):
            Cycle()
            y = ad.exp(a * 0.5) * a
            assert y.node.inputs[1] is a.node and y.node.inputs[0].inputs[0].inputs[0] is a.node
    finally:
        gc.set_threshold(*threshold)
    assert ran and all(x == ran[0] for x in ran)


def test_what_runs_while_an_array_is_lent_may_leave_the_other_operand_with_another_node(native, thawed):
    """A finalizer that runs between two operands changes the second in place: the result is of either value of it."""
    a = np.arange(1.0, 101)
    for _ in range(3):
        ad.multiply(a, leaf(100).detach())
    found = []
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what other tests left is not gone through at every allocation
    for _ in range(20):
        t = ad.tensor(np.full(100, 2.0)) * 1.0  # nobody else has its node
        others = []

        class Cycle:
            def __init__(self, t, others):
                self.me, self.t, self.others = self, t, others

            def __del__(self):
                self.t.add_(1.0)
                self.t.numpy()  # what led to it goes
                self.others += [ad.tensor(np.full(100, 50.0)) * 3.0 for _ in range(4)]

        gc.collect()
        gc.disable()
        try:
            Cycle(t, others)
            gc.set_threshold(1, 1, 1)
            gc.enable()
            y = ad.multiply(a, t)
            gc.disable()
        finally:
            gc.set_threshold(*threshold)
            gc.enable()
        found.append(y.numpy() / a)
        del y, others
    gc.unfreeze()
    assert all(set(ratio) <= {2.0} or set(ratio) <= {3.0} for ratio in found)


def test_without_the_launcher_python_records(sharing):
    script = (
        "import numpy as np, autodiff as ad\n"
        "from autodiff.ops import recorder\n"
        "a = ad.tensor(np.ones(5), requires_grad=True)\n"
        "for _ in range(450): ad.sum(a * 2.0).backward()\n"
        "print(recorder.is_installed(), a.grad.tolist())\n"
    )
    said = {}
    for flag in "01":
        environment = sharing | {"AUTODIFF_LAUNCHER": flag, "PYTHONPATH": os.pathsep.join(sys.path)}
        said[flag] = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout
    assert said["0"].startswith("False") and said["1"].startswith("True")
    assert said["0"].split(" ", 1)[1] == said["1"].split(" ", 1)[1]
