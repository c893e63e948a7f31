"""A node that machine code recorded is one object, and reads as any other: see `codegen.runtime.recorder_nodes`."""

import gc
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape.node import Node, RichNode, data_node, leaf_kind, out_of, rich_node


def leaf(n=100, requires_grad=True):
    return ad.tensor(np.arange(1.0, n + 1), requires_grad=requires_grad)


def three(x):
    return ad.where(x > 0.0, x, x * x)


@pytest.mark.parametrize(
    ("record", "count"), [(lambda x: ad.exp(x), 1), (lambda x: x * x, 2), (lambda x: x + 1.0, 2), (three, 3)]
)
def test_inputs_are_a_tuple_of_the_operands_each_time(native, record, count):
    x = leaf()
    for _ in range(20):
        node = record(x).node
        inputs = node.inputs
        assert type(inputs) is tuple and len(inputs) == count and inputs is node.inputs
        assert x.node in inputs and all(isinstance(i, Node) and i.number < node.number for i in inputs)


def test_numbers_count_what_is_made_here_and_there(native):
    x, numbers = leaf(), []
    for _ in range(50):
        numbers += [ad.exp(x).node.number, made_in_python().number, (x * 2.0).node.number]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)
    assert {type(n) for n in numbers} == {int}


def made_in_python():
    return data_node(leaf_kind(out_of(ad.tensor(1.0).aval)), np.asarray(1.0))


def test_a_number_between_two_is_kept(native):
    node = (leaf() * 2.0).node
    before = node.number
    node.number = before - 0.5
    assert node.number == before - 0.5
    node.number = before
    assert node.number == before and type(node.number) is int


def holders(x):
    return sys.getrefcount(x.node)


def test_inputs_that_are_dropped_are_let_go(native):
    x = leaf()
    for _ in range(3):
        y = x * x  # known from then on
    del y
    held = holders(x)
    y = x * x
    node = y.node
    assert holders(x) == held + 2
    assert len(node.inputs) == 2 and holders(x) == held + 2  # they moved, and are held once
    node.inputs = ()
    assert node.inputs == () and holders(x) == held
    node.inputs = (x.node,)
    del y, node
    assert holders(x) == held
    with pytest.raises(TypeError):
        (x * x).node.inputs = [x.node]


@pytest.mark.parametrize("depth", [1, 5, 300])
def test_a_cycle_through_a_hook_is_collected(native, depth):
    class Marker:
        pass

    def made():
        x, marker = leaf(3), Marker()
        y = x
        for _ in range(depth):
            y = ad.sin(y) * x
        x.register_hook(lambda g: (y, marker)[0] * 0.0 + g)
        return weakref.ref(marker)

    for _ in range(3):
        gone = made()
        gc.collect()
        assert gone() is None


def test_a_fork_amid_the_freeing_of_nodes_frees_on(native, sharing):
    program = """
        import os, threading, weakref, gc
        import numpy as np
        import autodiff as ad
        from autodiff.ops import recorder

        recorder.install()
        x = ad.tensor(np.arange(3.0), requires_grad=True)
        for _ in range(20):
            (ad.sin(x) * x).sum().backward()
        pids = []

        class Forks:
            def __init__(self, node): self.node = node
            def __del__(self):
                pid = os.fork()
                if pid == 0:
                    y = ad.sin(x) * x
                    z = ad.exp(y) * y
                    gone = weakref.ref(z)
                    before = len(gc.get_objects())
                    for _ in range(2000):
                        z = ad.exp(y) * y
                        z = ad.exp(z) * y
                    os._exit(0 if len(gc.get_objects()) - before < 500 else 1)
                pids.append(pid)

        def lets_go():
            y = ad.sin(x) * x
            forks = Forks(y.node)
            y.register_hook(lambda g: (forks, g)[1])
            del y

        lets_go()
        gc.collect()
        t = threading.Thread(target=lets_go)
        t.start(); t.join()
        gc.collect()
        assert len(pids) == 2, pids
        assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], env=sharing)
    assert done.returncode == 0


def recorded(x, steps):
    y = x
    for _ in range(steps):
        y = y * 0.5 + x
    return y


def test_a_long_chain_is_freed_without_recursion(native):
    x = leaf()
    for length in (1000, 200_000):
        with ad.no_grad():
            y = recorded_pending(x, length)
        gone = weakref.ref(y)
        del y
        assert gone() is None


def recorded_pending(x, steps):
    """A chain of nodes that nothing has evaluated (a recording evaluates itself before it gets that long)."""
    y = recorded(x, 10)
    node = y.node
    for _ in range(steps):
        made = Node.__new__(Node)
        made.kind, made.value, made.number, made.inputs = node.kind, None, node.number, (node,)
        node = made
    y.node = node
    return y


def test_what_is_used_again_is_as_new(native):
    x, plain = leaf(), object()
    for _ in range(3):
        recorded(x, 200)
    for _ in range(100):
        y = x * 2.0
        assert type(y.node) is Node and y.node.value is None and y.masked is False
        assert weakref.getweakrefcount(y) == 0 and sys.getrefcount(y) == sys.getrefcount(plain)
        assert y.node.inputs[0] is x.node


def test_nodes_of_the_class_below_are_freed_as_usual(native):
    x = leaf()
    before = sum(type(o) is RichNode for o in gc.get_objects())
    for _ in range(100):
        node = rich_node(x.node.kind, (x.node,))
        gone = weakref.ref(node)
        del node
        assert gone() is None
    assert sum(type(o) is RichNode for o in gc.get_objects()) == before


def test_classes_and_values_are_let_go(native):
    x, value = leaf(), np.ones(100)
    recorded(x, 50)
    kept = [type(x), Node, x.node.kind, x.node, value]
    before = [sys.getrefcount(k) for k in kept]
    for _ in range(300):
        y = recorded(x, 20)
        y.node.value = value
        del y
    after = [sys.getrefcount(k) for k in kept]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 20
