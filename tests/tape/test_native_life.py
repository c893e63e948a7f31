"""Nodes and handles that are freed are used again, and nothing else changes: see `codegen.runtime.recorder_life`."""

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np

import autodiff as ad
from autodiff.tape.node import Node, RichNode, rich_node


def leaf(n=100, requires_grad=True):
    return ad.tensor(np.arange(1.0, n + 1), requires_grad=requires_grad)


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


def test_the_class_of_a_handle_is_the_present_one(native):
    rows = [leaf(), ad.tensor(np.ones((3, 4))), ad.tensor(np.ones(5, np.float32))]
    for _ in range(200):
        for x in rows:
            y = x * 2.0
            assert type(y) is type(x) and y.shape == x.shape


def test_weak_references_are_told(native):
    x, told = leaf(), []
    for k in range(50):
        y = x * 2.0
        r = weakref.ref(y, lambda r, k=k: told.append(k))
        assert r() is y
        del y
        assert r() is None
    assert told == list(range(50))


def test_the_collector_sees_what_is_used_again(native):
    x = leaf()
    recorded(x, 100)
    for _ in range(50):
        y = x * 2.0
        assert gc.is_tracked(y) and gc.is_tracked(y.node)
    box = []
    y = x * 3.0
    box.append(y)
    y.node.value = box  # a cycle through a node, which no user can make
    gone = weakref.ref(y)
    del y, box
    gc.collect()
    assert gone() is None


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


def test_memory_is_flat(native):
    x = leaf()
    for _ in range(20):
        recorded(x, 300)
    blocks = []
    for _ in range(4):
        for _ in range(50):
            recorded(x, 300)
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    assert max(blocks[1:]) - min(blocks[1:]) < 500


def test_threads_free_what_others_made(native):
    made, stop = [], threading.Event()

    def drop():
        while not stop.is_set() or made:
            if made:
                made.pop()

    thread = threading.Thread(target=drop)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        x = leaf()
        for _ in range(3000):
            made.append(recorded(x, 10))
            y = recorded(x, 3)
            assert y.node.inputs[1] is x.node
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_a_process_ends_with_objects_alive():
    script = (
        "import numpy as np, autodiff as ad\n"
        "x = ad.tensor(np.ones(5), requires_grad=True)\n"
        "kept = []\n"
        "for _ in range(30):\n"
        "    y = ad.sum(x * 2.0); y.backward(); kept.append((y, x * 3.0, x.grad))\n"
        "class Late:\n"
        "    def __init__(self): self.me, self.y = self, x * 4.0\n"
        "    def __del__(self): self.y = None\n"
        "late = Late()\n"
        "print('end')\n"
    )
    command = [sys.executable, "-X", "faulthandler", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "end\n" and not done.stderr
