"""Programs by hand, for tests of the runtime."""

import numpy as np
from nests import Nest, memref

from codegen.ir import Aval, Graph, Op, apply, input_node
from codegen.kernel.nest import F64, I32, Status
from codegen.program import Buffer, BufferProgram, Gemm, HostCall, Kernel, Step


def coarsest(graph):
    """The eps of the least exact floats that a graph computes with: a cast to wider ones does not mend them."""
    dtypes = {node.aval.dtype for node in (*graph.inputs, *graph.nodes) if node.aval.dtype.kind == "f"}
    return max([np.finfo(dtype).eps for dtype in dtypes], default=0.0)


def program(inputs, outputs, temporaries, steps, name="f"):
    """Buffers are numbered inputs, outputs, temporaries; avals throughout."""
    place, places = 0, []
    for aval in temporaries:
        places.append(place)
        place += -(-aval.nbytes // 64) * 64
    buffers = (
        *[Buffer(aval, "input", i) for i, aval in enumerate(inputs)],
        *[Buffer(aval, "output", i) for i, aval in enumerate(outputs)],
        *[Buffer(aval, "temporary", p) for aval, p in zip(temporaries, places, strict=True)],
    )
    graph = Graph([input_node(a) for a in inputs], [], [])
    return BufferProgram(name, buffers, tuple(steps), tuple(inputs), tuple(outputs), place, graph)


def affine(n, slope=2.0, offset=1.0, name="affine"):
    """y = slope * x + offset over n elements of f64."""
    nest = Nest(name, x=memref(F64, n), y=memref(F64, n), writes=("y",))
    with nest.parallel(n) as i:
        product = nest.op("arith.mulf", nest.load(nest.x, i), nest.constant(slope, F64))
        nest.store(nest.op("arith.addf", product, nest.constant(offset, F64)), nest.y, i)
    return nest.end()


def failing():
    """Writes nothing; returns INDEX_OUT_OF_RANGE when x[0] < 0."""
    nest = Nest("failing", x=memref(F64, 1), y=memref(F64, 1), writes=("y",))
    x = nest.load(nest.x, 0)
    nest.store(x, nest.y, 0)
    bad = nest.compare("olt", x, nest.constant(0.0, F64))
    status = nest.op(
        "arith.select", bad, nest.constant(int(Status.INDEX_OUT_OF_RANGE), I32), nest.constant(0, I32), type=I32
    )
    return nest.end(status)


def affine_program(n=8, **options):
    aval = Aval((n,), "f8")
    return program([aval], [aval], [], [Step(Kernel(affine(n, **options)), (0, 1))])


def host_step(reference, avals, out, buffers, name="host"):
    """A host call of `reference` on these buffers (inputs, then the output)."""
    op = Op(name, infer=lambda *_: out, reference=reference)
    return Step(HostCall(apply(op, *[input_node(a) for a in avals])), buffers)


def gemm_program(gemm: Gemm, a, b, c):
    return program([a, b], [c], [], [Step(gemm, (0, 1, 2))])
