"""A whole program, whose kernels are one module of MLIR, run by the real tools."""

import numpy as np
from mlir_tools import run_program
from nest_tools import Nest

from codegen.ir import Aval, Graph, Op
from codegen.ir.graph import Node, input_node
from codegen.kernel.nest import F64, INDEX, MemRef
from codegen.program import Buffer, BufferProgram, Gemm, HostCall, Kernel, Step


def scale(name, size, factor):
    k = Nest(name, x=MemRef(size, F64), y=MemRef(size, F64))
    with k.loop(k.index(size)) as i:
        k.store(k.op("arith.mulf", k.load(k.x, i), k.constant(factor, F64)), k.y, i)
    return k.function("y")


def program(buffers, steps, inputs, outputs, name="f"):
    avals = tuple(buffers[b].aval for b in inputs), tuple(buffers[b].aval for b in outputs)
    return BufferProgram(name, tuple(buffers), tuple(steps), *avals, 0, Graph((), (), ()))


def f64(*shape):
    return Aval(shape, np.float64)


def host_program():
    """y = 3 * sorted(2 * (x^T @ w)), the sort by the host."""
    product = input_node(f64(4))
    order = Op("sort", infer=lambda a: a, reference=np.sort)
    buffers = [
        Buffer(f64(3, 2), "input", 0),
        Buffer(f64(3, 2), "input", 1),
        Buffer(f64(2, 2), "temporary", 0),
        Buffer(f64(4), "temporary", 64),
        Buffer(f64(4), "temporary", 0),
        Buffer(f64(2, 2), "output", 0),
    ]
    steps = [
        Step(Gemm("f64", 2, 2, 3, transpose_a=True), (0, 1, 2)),
        Step(Kernel(scale("k0", 4, 2.0)), (2, 3)),
        Step(HostCall(Node(order, (product,), (), f64(4))), (3, 4)),
        Step(Kernel(scale("k1", 4, 3.0)), (4, 5)),
    ]
    return program(buffers, steps, [0, 1], [5])


def test_a_program_runs_products_kernels_and_host_calls_in_order(rng):
    x, w = rng.normal(size=(2, 3, 2))
    (y,) = run_program(host_program(), [x, w])
    np.testing.assert_allclose(y, 3 * np.sort((2 * (x.T @ w)).ravel()).reshape(2, 2), rtol=1e-14)


def test_a_kernel_of_run_time_extents_reads_buffers_in_another_shape(rng):
    k = Nest("transpose", x=MemRef(None, F64), y=MemRef(None, F64), m=INDEX, n=INDEX)
    with k.parallel(k.m) as i, k.loop(k.n) as j:
        k.store(k.load(k.x, k.place(i, k.n, j)), k.y, k.place(j, k.m, i))
    buffers = [Buffer(f64(12), "input", 0), Buffer(f64(2, 2, 3), "output", 0)]
    p = program(buffers, [Step(Kernel(k.function("y"), (3, 4)), (0, 1))], [0], [1])
    x = rng.normal(size=12)
    (y,) = run_program(p, [x])
    np.testing.assert_array_equal(y.ravel(), x.reshape(3, 4).T.ravel())


def test_products_come_in_batches_and_share_a_matrix(rng):
    buffers = [
        Buffer(Aval((3, 2, 4), np.float32), "input", 0),
        Buffer(Aval((5, 4), np.float32), "input", 1),
        Buffer(Aval((3, 2, 5), np.float32), "output", 0),
    ]
    gemm = Gemm("f32", 2, 5, 4, transpose_b=True, batch=3, strides=(8, 0, 10))
    a, b = (rng.normal(size=x.aval.shape).astype(np.float32) for x in buffers[:2])
    (c,) = run_program(program(buffers, [Step(gemm, (0, 1, 2))], [0, 1], [2]), [a, b])
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)


def test_an_unread_input_and_an_empty_program_are_fine():
    assert run_program(program([Buffer(f64(2), "input", 0)], [], [0], []), [np.zeros(2)]) == []
