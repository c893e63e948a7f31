"""Engine, kernel table, executables."""

import gc
import threading
import traceback
import weakref
from pathlib import Path

import numpy as np
import pytest
from nests import Nest, memref
from programs import affine, affine_program, failing, gemm_program, host_step, program

from codegen.ir import Aval
from codegen.kernel.nest import F64, INDEX
from codegen.program import Gemm, Kernel, Step
from codegen.runtime import cost, memory
from codegen.runtime.cache import LRU
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable


@pytest.fixture
def table():
    return KernelTable(64)


def f64(*shape):
    return Aval(shape, "f8")


def test_an_executable_runs_its_kernel(table, rng):
    executable = Executable(affine_program(8), table)
    x = rng.standard_normal(8)
    (y,) = executable.call(x)
    np.testing.assert_array_equal(y, 2 * x + 1)
    (z,) = executable.call(np.repeat(x, 2)[::2])
    np.testing.assert_array_equal(z, y)


def test_steps_communicate_through_the_workspace(table, rng):
    a = f64(8)
    steps = [
        Step(Kernel(affine(8, 3.0, 0.0, name="k0")), (0, 3)),
        Step(Kernel(affine(8, 1.0, -1.0, name="k1")), (3, 4)),
        Step(Kernel(affine(8, 2.0, 0.0, name="k2")), (4, 1)),
        Step(Kernel(affine(8, 1.0, 5.0, name="k3")), (3, 2)),
    ]
    executable = Executable(program([a], [a, a], [a, a], steps), table)
    x = rng.standard_normal(8)
    first, second = executable.call(x)
    np.testing.assert_array_equal(first, 2 * (3 * x - 1))
    np.testing.assert_array_equal(second, 3 * x + 5)
    plan = executable.plan
    assert (len(plan.steps), len(plan.offsets), plan.workspace_bytes) == (4, 2, 128)


def test_one_kernel_serves_every_run_time_extent(table, rng):
    nest = Nest("double", x=memref(F64), y=memref(F64), n=INDEX, writes=("y",))
    with nest.parallel(nest.n) as i:
        nest.store(nest.op("arith.addf", nest.load(nest.x, i), nest.load(nest.x, i)), nest.y, i)
    function = nest.end()
    for n in (0, 1, 7, 1000):
        executable = Executable(program([f64(n)], [f64(n)], [], [Step(Kernel(function, (n,)), (0, 1))]), table)
        x = rng.standard_normal(n)
        np.testing.assert_array_equal(executable.call(x)[0], 2 * x)
    assert table.compiled_modules == 1 and len(table) == 1


def test_kernels_of_equal_text_share_code_under_any_name(table):
    for name in ("first", "second"):
        Executable(affine_program(8, name=name), table)
    Executable(affine_program(8, slope=3.0), table)
    assert table.compiled_modules == 2 and len(table) == 2


def test_missing_kernels_are_compiled_as_one_module(table):
    Executable(affine_program(8), table)
    a = f64(8)
    functions = [affine(8, slope, name=f"k{slope:.0f}") for slope in (2.0, 3.0, 4.0, 3.0)]
    steps = [Step(Kernel(function), (i, i + 1)) for i, function in enumerate(functions)]
    executable = Executable(program([a], [a, a, a, a], [], steps), table)
    assert table.compiled_modules == 2 and len(table) == 3
    got = executable.call(np.ones(8))
    assert [y[0] for y in got] == [3.0, 10.0, 41.0, 124.0]


def test_a_kernel_that_somebody_uses_is_found_however_old_it_is():
    table = KernelTable(1)
    executables = [Executable(affine_program(8, slope=float(slope)), table) for slope in range(4)]
    assert (table.compiled_modules, len(table)) == (4, 4)
    Executable(affine_program(8, slope=0.0), table)
    assert table.compiled_modules == 4
    del executables[:]
    assert len(table) == 1


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc")
def test_code_that_was_used_and_dropped_leaves_memory_flat():
    table = KernelTable(4)

    def use(slopes):
        for slope in slopes:
            assert Executable(affine_program(8, slope=float(slope)), table).call(np.ones(8))[0][0] == slope + 1.0

    def held():
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096, len(Path("/proc/self/maps").read_text().splitlines())

    use(range(70))
    before = held()
    use(range(100, 250))
    after = held()
    # Each living module has 60 KB and three maps.
    assert after[0] - before[0] < 5_000_000 and after[1] - before[1] < 100


def test_an_executable_lives_on_when_its_kernels_are_forgotten_or_another_user_goes(table):
    first, second = Executable(affine_program(8), table), Executable(affine_program(8, name="g"), table)
    call = first.call
    table.clear()
    del first
    gc.collect()
    assert call(np.ones(8))[0][0] == 3.0
    del call
    gc.collect()
    assert second.call(np.ones(8))[0][0] == 3.0


def host_program():
    aval = f64(8)
    return program(
        [aval, aval], [aval], [aval, aval],
        [
            Step(Kernel(affine(8)), (0, 3)),
            host_step(np.add, (aval, aval), aval, (3, 1, 4)),
            Step(Kernel(affine(8, 1.0, 1.0, name="b")), (4, 2)),
        ],
    )  # fmt: skip


@pytest.mark.parametrize("make", [affine_program, host_program], ids=["native", "host"])
def test_dropping_an_executable_frees_it_without_the_collector(table, make):
    gc.collect()
    gc.disable()
    try:
        executable = Executable(make(), table)
        kernels = [weakref.ref(kernel.code) for kernel in table._table.values()]
        whole = weakref.ref(executable)
        executable.call(*[np.ones(8)] * len(executable.inputs))
        table.clear()
        assert all(ref() is not None for ref in kernels)
        del executable
        assert whole() is None
        assert all(ref() is None for ref in kernels)
    finally:
        gc.enable()


def test_an_index_out_of_range_raises(table):
    executable = Executable(program([f64()], [f64()], [], [Step(Kernel(failing()), (0, 1))]), table)
    assert executable.call(2.0)[0] == 2.0
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            executable.call(-1.0)
    assert executable.call(3.0)[0] == 3.0


def test_native_steps_and_host_calls_take_turns(table, rng):
    executable = Executable(host_program(), table)
    x, y = rng.standard_normal((2, 8))
    np.testing.assert_allclose(executable.call(x, y[::-1])[0], 2 * x + 1 + y[::-1] + 1)
    assert len(executable.python_operations) == 1


def test_host_calls_alone_make_a_program(table):
    steps = [host_step(np.negative, (f64(3),), f64(3), (0, 2)), host_step(np.sum, (f64(3),), f64(), (2, 1))]
    executable = Executable(program([f64(3)], [f64()], [f64(3)], steps), table)
    (got,) = executable.call(np.arange(3.0))
    assert got.shape == () and got == -3.0


def test_host_code_gets_read_only_arrays_and_its_errors_keep_their_type(table):
    def reference(x):
        assert not x.flags.writeable
        if x[0] < 0:
            raise KeyError("mine")
        return x

    step = host_step(reference, (f64(3),), f64(3), (0, 1))
    executable = Executable(program([f64(3)], [f64(3)], [], [step]), table)
    x = np.ones(3)
    (got,) = executable.call(x)
    assert not np.shares_memory(got, x) and got.flags.writeable and x.flags.writeable
    with pytest.raises(KeyError, match="mine"):
        executable.call(-x)
    with pytest.raises(ValueError, match=r"argument 0 should be f64\[3\]"):
        executable.call(np.ones(4))
    np.testing.assert_array_equal(executable.call(x)[0], x)


def test_an_error_of_a_reference_holds_no_memory_of_the_program(table):
    """Its frames may live longer, and a debugger shows their arrays."""

    def reference(x):
        raise KeyError("mine")

    steps = [host_step(np.negative, (f64(3),), f64(3), (0, 2)), host_step(reference, (f64(3),), f64(3), (2, 1))]
    executable = Executable(program([f64(3)], [f64(3)], [f64(3)], steps), table)
    with pytest.raises(KeyError, match="mine") as raised:
        executable.call(np.ones(3))
    assert raised.value.__context__ is None
    arrays = []
    for frame, _ in traceback.walk_tb(raised.tb):
        for value in frame.f_locals.values():
            arrays += [x for x in (value if isinstance(value, tuple) else (value,)) if isinstance(x, np.ndarray)]
    assert arrays and all(array.flags.owndata for array in arrays)
    np.testing.assert_array_equal(arrays[-1], -np.ones(3))


def test_a_failing_kernel_between_host_calls_raises(table):
    steps = [host_step(np.negative, (f64(),), f64(), (0, 2)), Step(Kernel(failing()), (2, 1))]
    executable = Executable(program([f64()], [f64()], [f64()], steps), table)
    with pytest.raises(IndexError):
        executable.call(1.0)
    assert executable.call(-1.0)[0] == 1.0


def test_invalid_values_pass_through_host_calls_silently(table):
    executable = Executable(
        program([f64(2)], [f64(2)], [], [host_step(np.log, (f64(2),), f64(2), (0, 1))]), table
    )
    np.testing.assert_array_equal(executable.call(np.array([-1.0, 0.0]))[0], [np.nan, -np.inf])


def test_an_executable_may_be_called_within_its_own_host_call(table):
    depth = []

    def reference(x):
        depth.append(len(depth))
        return x + executable.call(x - 1.0)[0] if x > 0 else x

    steps = [host_step(reference, (f64(),), f64(), (0, 2)), Step(Kernel(failing()), (2, 1))]
    executable = Executable(program([f64()], [f64()], [f64()], steps), table)
    assert executable.call(4.0)[0] == 10.0 and len(depth) == 5


def test_an_executable_serves_several_threads(table):
    native, host = Executable(affine_program(1000), table), Executable(host_program(), table)
    product = Executable(gemm_program(Gemm("f64", 40, 40, 40), f64(40, 40), f64(40, 40), f64(40, 40)), table)
    wrong = []

    def work(number):
        for _ in range(50):
            ok = (native.call(np.full(1000, number))[0] == 2 * number + 1).all()
            ok &= (host.call(np.full(8, number), np.full(8, 1.0))[0] == 2 * number + 3).all()
            ok &= (product.call(np.full((40, 40), number), np.ones((40, 40)))[0] == 40 * number).all()
            if not ok:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_output_that_nothing_writes_is_our_mistake(table):
    with pytest.raises(AssertionError, match="nothing writes output 0"):
        Executable(program([f64(8)], [f64(8)], [], []), table)


def test_work_is_counted_through_loops_and_products():
    assert cost.operations_of(affine_program(1000)) in range(4000, 10_000)
    assert cost.operations_of(gemm_program(Gemm("f64", 10, 20, 30, batch=2), f64(), f64(), f64())) == 12_000
    nest = Nest("double", x=memref(F64), y=memref(F64), n=INDEX, writes=("y",))
    with nest.parallel(nest.n) as i:
        nest.store(nest.load(nest.x, i), nest.y, i)
    run_time = program([f64(500)], [f64(500)], [], [Step(Kernel(nest.end(), (500,)), (0, 1))])
    assert cost.operations_of(run_time) in range(1000, 3000)


def test_only_long_programs_release_the_lock(table):
    assert not Executable(affine_program(1000), table).plan.is_long
    assert Executable(affine_program(1_000_000), table).plan.is_long


def test_a_workspace_is_aligned():
    for size in (0, 1, 100, 4096):
        assert memory.address_of(memory.workspace(size)) % 64 == 0


def test_a_table_forgets_what_was_used_longest_ago():
    table = LRU(2)
    table.put("a", 1)
    table.put("b", 2)
    assert table.get("a") == 1
    table.put("c", 3)
    assert list(table) == ["a", "c"] and table.get("b") is None and "b" not in table
    assert (table.hits, table.misses, table.evictions, len(table)) == (1, 1, 1, 2)
    table.put("a", 4)
    assert sorted(table.values()) == [3, 4]
    assert table.pop("a") == 4 and table.pop("a") is None
    table.clear()
    assert len(table) == 0 and table.hits == 1
    with pytest.raises(ValueError):
        LRU(0)


def test_a_table_may_be_shared_by_threads():
    table = LRU(50)

    def work(seed):
        for i in range(2000):
            table.put((seed * i) % 97, i)
            table.get((i * 7) % 97)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 40 <= len(table) <= 50 and table.hits + table.misses == 8000


def test_a_table_keeps_fewer_entries_where_they_are_heavy_but_always_the_last():
    table = LRU(16, most=100)
    for k in range(10):
        table.put(k, str(k), 30)
    assert list(table) == [7, 8, 9]
    table.put(7, "again", 10)
    table.put(10, "10", 30)
    assert list(table) == [8, 9, 7, 10]  # 100 together
    table.pop(9)
    table.put(11, "11", 1000)
    assert list(table) == [11]
    table.clear()
    table.put(1, "1", 90)
    table.put(2, "2", 10)
    assert list(table) == [1, 2]
