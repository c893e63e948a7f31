"""The loops that are shared among threads, and the places where they are cut."""

import numpy as np
import pytest
from nests import Nest, memref
from programs import affine, program

import autodiff.ops  # noqa: F401  (declares the operations that graphs are made of)
from codegen import compiler
from codegen.ir import Aval, evaluate, parse
from codegen.kernel.nest import F64, INDEX, MemRef
from codegen.program import Kernel, Step
from codegen.runtime import share, threads
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable


@pytest.fixture
def any_threads():
    """set_threads, undone afterwards."""
    before = threads.threads()
    yield threads.set_threads
    threads.set_threads(before)


def pieces_of(function, *extents):
    return share.shared(function, extents)


def test_small_loops_are_not_shared():
    function = affine(1000)
    assert [piece.function for piece in pieces_of(function)] == [function]


def test_a_large_loop_over_elements_becomes_one_piece_with_a_range():
    (piece,) = pieces_of(affine(1_000_000))
    assert piece.total == 1_000_000 and piece.chunk % 64 == 0 and piece.function.names[-2:] == ("begin", "end")
    assert piece.function.writes == affine(1).writes


def test_run_time_extents_decide_too():
    nest = Nest("double", x=memref(F64), y=memref(F64), n=INDEX, writes=("y",))
    with nest.parallel(nest.n) as i:
        nest.store(nest.op("arith.addf", nest.load(nest.x, i), nest.load(nest.x, i)), nest.y, i)
    function = nest.end()
    for n, is_shared in ((0, False), (100, False), (1_000_000, True)):
        (piece,) = pieces_of(function, n)
        assert piece.total == n and (piece.chunk < n) is is_shared
    table = KernelTable(8)
    for n in (100, 1_000_000, 1_000_001):
        aval = Aval((n,), "f8")
        call = Executable(program([aval], [aval], [], [Step(Kernel(function, (n,)), (0, 1))]), table).call
        x = np.arange(float(n))
        np.testing.assert_array_equal(call(x)[0], 2 * x)
    assert len(table) == 1


def test_a_piece_gets_of_the_kernels_arguments_what_it_needs():
    graph = parse("""f(x: f64[90,410], t: f64[90,410]) {
        e = exp(x)  s = sum(e, axis=(0,))  r = reshape(s, shape=(1, 410))  y = div(e, r)  p = mul(y, t)
        q = sum(p, axis=(0,))  return y, q }""")
    kernels = [step.work for step in compiler.make_program(graph).steps]
    fewer = 0
    for kernel in kernels:
        function, extents = kernel.function, kernel.extents
        memory = [a for a in function.arguments if isinstance(a.type, MemRef)]
        indices = function.arguments[len(memory) :]
        numbers = dict(zip(indices, extents, strict=True))
        for piece in share.shared(function, extents):
            own = [*[memory[j] for j in piece.memory], *[indices[j] for j in piece.indices]]
            assert piece.function.arguments[: len(own)] == own
            some = tuple([numbers[a] for a in own[len(piece.memory) :]])
            assert piece.numbers(extents, is_shared=True) == some
            assert piece.numbers(extents) == ((*some, 0, piece.total) if piece.chunk else some)
            written = [memory[j] for j in sorted(function.writes) if j in piece.memory]
            assert [own[j] for j in sorted(piece.function.writes)] == written
            fewer += len(own) < len(function.arguments)
    assert fewer


@pytest.mark.parametrize("n", [200_003, 1_000_003])
def test_each_sweep_over_one_long_row_is_shared(n, any_threads, rng):
    # A softmax, and its gradient: numbers of one sweep are read by the next.
    graph = parse(f"""f(x: f64[1,{n}], t: f64[1,{n}]) {{
        m = max(x, axis=(1,))  k = reshape(m, shape=(1, 1))  d = sub(x, k)  e = exp(d)  s = sum(e, axis=(1,))
        r = reshape(s, shape=(1, 1))  y = div(e, r)  p = mul(y, t)  q = sum(p, axis=(1,))  u = reshape(q, shape=(1, 1))
        v = sub(t, u)  g = mul(y, v)  return g, q }}""")
    for step in compiler.make_program(graph).steps:
        pieces = share.shared(step.work.function, step.work.extents)
        assert max(-(-piece.total // piece.chunk) for piece in pieces if piece.chunk) >= 2
    any_threads(2)
    x, t = rng.standard_normal((2, 1, n))
    got = compiler.compile_graph(graph).call(x, t)
    for found, expected in zip(got, evaluate(graph, x, t), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("body", ["g", "s"])
def test_what_looks_elements_up_is_shared_and_each_chunk_may_fail(any_threads, rng, body):
    graph = parse(f"""f(x: f64[500], i: i64[400001]) {{
        g = take(x, i, axes=(0,), place=0)  e = exp(g)  s = sum(e, axis=(0,))  return {body.replace("g", "e")} }}""")
    (step,) = compiler.make_program(graph).steps
    first = share.shared(step.work.function, step.work.extents)[0]
    assert first.total > 8 * first.chunk
    call = compiler.compile_graph(graph).call
    x, i = rng.standard_normal(500), rng.integers(-500, 500, 400_001)
    found = []
    for count in (1, 3, 2):
        any_threads(count)
        found += [call(x, i)[0].tobytes() for _ in range(5)]
        for place in (0, 200_000, 400_000):
            wrong = i.copy()
            wrong[place] = 500
            for _ in range(3):
                with pytest.raises(IndexError):
                    call(x, wrong)
    assert len(set(found)) == 1
    np.testing.assert_allclose(call(x, i)[0], evaluate(graph, x, i)[0], rtol=1e-12)


def test_blocks_are_shared_evenly_for_any_number_of_them():
    # Knowledge of the places where chunks begin may not hold for dear iterations: 74 blocks in two chunks, 64 and 10.
    nest = Nest("blocks", x=memref(F64), y=memref(F64), n=INDEX, writes=("y",))
    length = nest.constant(4096)
    with nest.parallel(nest.n) as i:
        first = nest.op("arith.muli", i, length)

        def step(j, total):
            return [nest.op("arith.addf", total, nest.load(nest.x, nest.op("arith.addi", first, j)))]

        (total,) = nest.loop(length, [nest.constant(0.0, F64)], step)
        nest.store(total, nest.y, i)
    function = nest.end()
    (piece,) = pieces_of(function, 3)
    assert piece.total == piece.chunk == 3
    for n in (74, 245, 1000):
        total, weight = share.iterations_and_operations(piece, function, (n,))
        assert total == n and share.chunk_of(total, weight, is_tiled=piece.is_tiled) <= n // 16


def two_loops(n, *, crosses):
    """y = 2 x by a parallel loop, then z = y[0] + x[0] (or of what y[0] was before the loop)."""
    nest = Nest("two", x=memref(F64, n), y=memref(F64, n), z=memref(F64, 1), writes=("y", "z"))
    zero = nest.constant(0, INDEX)
    early = nest.load(nest.y, zero) if crosses else None
    with nest.parallel(n) as i:
        x = nest.load(nest.x, i)
        nest.store(nest.op("arith.addf", x, x), nest.y, i)
    nest.store(nest.op("arith.addf", nest.load(nest.y, zero), early or nest.load(nest.x, zero)), nest.z, 0)
    return nest.end()


def test_what_follows_a_shared_loop_is_a_piece_of_its_own(any_threads):
    loop, rest = pieces_of(two_loops(200_000, crosses=False))
    assert (loop.total, rest.total) == (200_000, 0)
    aval = Aval((200_000,), "f8")
    executable = Executable(
        program([aval], [aval, Aval((), "f8")], [], [Step(Kernel(two_loops(200_000, crosses=False)), (0, 1, 2))]),
        KernelTable(8),
    )
    any_threads(2)
    y, z = executable.call(np.full(200_000, 3.0))
    assert (y == 6.0).all() and z == 9.0 and len(executable.plan.steps) == 2


def test_a_kernel_whose_pieces_would_need_each_other_s_values_stays_whole():
    function = two_loops(200_000, crosses=True)
    assert [piece.function for piece in pieces_of(function)] == [function]


def test_each_piece_reads_the_numbers_that_a_kernel_is_given():
    nest = Nest("scaled", x=memref(F64, 1_000_000), factor=memref(F64, 1), y=memref(F64, 1_000_000), writes=("y",))
    factor = nest.load(nest.factor, 0)
    with nest.parallel(1_000_000) as i:
        nest.store(nest.op("arith.mulf", nest.load(nest.x, i), factor), nest.y, i)
    (piece,) = pieces_of(nest.end())
    assert piece.total == 1_000_000 > piece.chunk
