"""Nodes and handles that are freed are used again, and nothing else changes: see `codegen.runtime.recorder_life`."""

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np

import autodiff as ad


def leaf(n=100, requires_grad=True):
    return ad.tensor(np.arange(1.0, n + 1), requires_grad=requires_grad)


def recorded(x, steps):
    y = x
    for _ in range(steps):
        y = y * 0.5 + x
    return y


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


def test_a_process_ends_with_objects_alive(sharing):
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
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=sharing)
    assert done.stdout == "end\n" and not done.stderr
