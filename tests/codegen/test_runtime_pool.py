"""Outputs and workspaces come from a pool, and go back to it when nobody can see them any more."""

import gc
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from programs import affine, affine_program, program

from codegen.ir import Aval
from codegen.program import Kernel, Step
from codegen.runtime import memory, native
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable
from codegen.runtime.launcher import LaunchPlan, launcher


@pytest.fixture
def table():
    return KernelTable(64)


@pytest.fixture
def pool():
    """The pool, empty, with its usual limit."""
    if not native.is_native():
        pytest.skip("no native launcher here")
    native.trim_pool()
    yield
    limit_pool(memory.POOL_BYTES)


def free_bytes():
    """The bytes that the pool keeps for later calls."""
    return native.native().call("pool_free_bytes")


def limit_pool(size):
    native.native().call("pool_set_limit", size)


def call_of(table, n):
    return Executable(affine_program(n), table).call


@pytest.mark.parametrize("n", [1, 7, 100, 128, 129, 5000, 600_000])
def test_an_output_owns_aligned_memory(pool, table, n):
    call, x = call_of(table, n), np.ones(n)
    found = [call(x)[0] for _ in range(3)]
    for y in found:
        assert y.flags.owndata and y.base is None and y.flags.writeable and y.flags.c_contiguous
        assert y.ctypes.data % 64 == 0 and (y == 3.0).all()
    assert len({y.ctypes.data for y in found}) == 3


def test_large_outputs_begin_at_different_places_of_a_page(pool, table):
    """Apart from each other, and from where NumPy's begin: 16 bytes behind a page."""
    n = 5_000_000  # so large that they are pages of their own, whatever the heap has been used for
    call, x = call_of(table, n), np.ones(n)
    found = [call(x)[0] for _ in range(4)][1:]  # the first is made before the launcher is there, perhaps
    assert all(y.ctypes.data % 64 == 0 and y[0] == y[-1] == 3.0 for y in found)
    places = [16, *sorted(y.ctypes.data % 4096 for y in found)]
    assert all(b - a >= 512 for a, b in pairwise(places))


@pytest.mark.parametrize("n", [1, 100, 600_000])
def test_memory_of_a_dead_output_serves_the_next_call(pool, table, n):
    call, x = call_of(table, n), np.ones(n)
    y = call(x)[0]
    place = y.ctypes.data
    del y
    assert free_bytes() >= 8 * n
    z = call(x)[0]
    assert z.ctypes.data == place and free_bytes() == 0


def test_a_view_keeps_its_memory_from_later_calls(pool, table):
    call = call_of(table, 1000)
    views = [call(np.full(1000, float(i)))[0][i::10] for i in range(10)]
    later = [call(np.full(1000, -1.0)) for _ in range(20)]
    for i, view in enumerate(views):
        assert (view == 2.0 * i + 1.0).all() and len(view) == 100
    assert all((y == -1.0).all() for (y,) in later)


@pytest.mark.parametrize("size", [0, 3, 100, 127, 128, 129, 5000])
def test_an_output_can_be_resized_as_any_array(pool, table, size):
    y = call_of(table, 100)(np.ones(100))[0]
    y.resize(size, refcheck=False)
    expected = np.zeros(size)
    expected[:100] = 3.0
    np.testing.assert_array_equal(y, expected)
    z = call_of(table, 100)(np.ones(100))[0]
    assert not np.shares_memory(y, z) and (z == 3.0).all()


def test_the_pool_keeps_no_more_than_its_limit(pool, table):
    limit_pool(1_000_000)
    sizes = [10, 1000, 20_000, 60_000]
    calls = [call_of(table, n) for n in sizes]
    for _ in range(3):
        kept = [call(np.ones(n))[0] for n, call in zip(sizes, calls, strict=True) for _ in range(5)]
        assert all((y == 3.0).all() for y in kept)
        del kept
        assert 0 < free_bytes() <= 1_000_000
    limit_pool(10_000)
    assert free_bytes() <= 10_000
    native.trim_pool()
    assert free_bytes() == 0


def test_what_is_larger_than_the_limit_is_given_back_at_once(pool, table):
    limit_pool(100)
    call = call_of(table, 1000)
    assert (call(np.ones(1000))[0] == 3.0).all() and free_bytes() == 0


def test_blocks_of_sizes_no_longer_used_make_room(pool, table):
    limit_pool(700_000)
    old, new = call_of(table, 30_000), call_of(table, 60_000)
    old(np.ones(30_000))
    old(np.ones(30_000))
    new(np.ones(60_000))
    first = new(np.ones(60_000))[0]
    place = first.ctypes.data
    del first
    assert new(np.ones(60_000))[0].ctypes.data == place
    assert free_bytes() <= 700_000


def test_a_large_workspace_comes_from_the_pool_and_calls_may_be_nested_in_threads(pool, table):
    n = 20_000
    a = Aval((n,), "f8")
    steps = [Step(Kernel(affine(n, 3.0, 0.0, name="k0")), (0, 2)), Step(Kernel(affine(n, 1.0, 1.0, name="k1")), (2, 1))]
    call = Executable(program([a], [a], [a], steps), table).call
    wrong = []

    def work(number):
        x = np.full(n, float(number))
        for _ in range(100):
            if (call(x)[0] != 3.0 * number + 1.0).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and free_bytes() > 8 * n


def test_blocks_in_use_never_overlap(pool):
    sizes = [0, 1, 8, 16, 17, 128, 129, 160, 161, 255, 257, 1000, 20_000]
    makers = [
        launcher(LaunchPlan("make", (), (Aval((n,), "f8"), Aval((3, n), "f4")), (), 0, (), False)) for n in sizes
    ]
    limit_pool(300_000)
    random, kept = np.random.default_rng(1), []
    for mark in range(3000):
        made = makers[random.integers(len(makers))]()
        if random.random() < 0.05 and made[0].size:
            made[0].resize(int(random.choice([1, made[0].size * 2])), refcheck=False)
        for array in made:
            array[...] = mark
        kept.append((mark, made))
        if len(kept) > 30:
            old, arrays = kept.pop(random.integers(len(kept)))
            assert all((array == old).all() for array in arrays)
    spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for _, arrays in kept for a in arrays if a.size)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_threads_may_drop_what_others_made(pool, table):
    call = call_of(table, 500)
    made: list = []
    wrong = []

    def work(number):
        for _ in range(300):
            made.append((number, call(np.full(500, float(number)))[0]))
            try:
                other, y = made.pop(0)
            except IndexError:
                continue
            if (y != 2.0 * other + 1.0).any():
                wrong.append(other)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_process_ends_cleanly_with_outputs_still_alive():
    script = (
        "import builtins, numpy as np, autodiff.ops\n"
        "from codegen.compiler import compile_graph\n"
        "from codegen.ir import parse\n"
        "f = compile_graph(parse('f(x: f64[100000]) { a = neg(x)  return a }'))\n"
        "builtins.kept = [f.call(np.ones(100000))[0] for _ in range(5)]\n"
        "builtins.call = f.call\n"
    )
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{script}"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_large_outputs_that_are_dropped_leave_memory_flat(pool, table):
    n = 1_000_000
    call, x = call_of(table, n), np.ones(n)

    def resident_mb():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 1_000_000

    call(x)
    gc.collect()
    before = resident_mb()
    for _ in range(50):
        call(x)
    assert resident_mb() - before < 30
