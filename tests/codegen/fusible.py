"""Random graphs of everything that fusion meets, and two ways to run a program: interpreted and native."""

import numpy as np
from nest_interpret import interpret
from nest_verify import verify_function

import autodiff.ops  # noqa: F401  (declares the operations)
from codegen.compiler import compile_graph
from codegen.ir import CONSTANT, DTYPES, OPS, Aval, Graph, apply, dtype_name, evaluate, evaluate_node, input_node
from codegen.passes.plan import plan
from codegen.program import Gemm, HostCall, Kernel

UNARY = ("neg", "exp", "tanh", "sin", "abs")
BINARY = ("add", "sub", "mul", "maximum")
REDUCTIONS = ("sum", "max", "min", "prod", "argmax", "argmin")
KINDS = (
    "unary", "binary", "binary", "binary", "scalar", "cast", "where", "reduce", "reduce", "keep", "reshape",
    "transpose", "broadcast", "slice", "flip", "pad", "concatenate", "take", "scatter", "along", "cumsum", "matmul",
)
SHAPES = ((), (1,), (5,), (4, 3), (3, 4), (12,), (2, 3, 4), (6, 4), (1, 4), (4, 1), (0, 3), (2, 1, 3), (2, 2, 3))


def random_graph(seed: int, size: int = 14, dtypes=("f64", "f64", "f32", "i64", "i32", "bool")) -> Graph:
    """A graph of about `size` nodes; small values, so that chains stay finite."""
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(rng.integers(1, 4)):
        values.append(input_node(Aval(_pick(rng, SHAPES), DTYPES[_pick(rng, dtypes)])))
    inputs = list(values)
    for _ in range(size):
        node = _node(rng, values)
        if node is not None and node.aval.size <= 200:
            values.append(node)
    recent = values[-6:]
    outputs = [recent[i] for i in rng.integers(len(recent), size=rng.integers(1, 4))]
    return Graph.of(inputs, outputs)


def _pick(rng, things):
    return things[rng.integers(len(things))]


def _spread(x, shape):
    return x if x.aval.shape == shape else apply(OPS["broadcast_to"], x, shape=shape)


def _node(rng, values):
    kind = _pick(rng, KINDS)
    x = _pick(rng, values[-8:])
    shape, dtype, of = x.aval.shape, dtype_name(x.aval.dtype), x.aval.dtype.kind
    same = [v for v in values if v.aval.dtype == x.aval.dtype]
    fitting = [v for v in same if _broadcasts(v.aval.shape, shape)]
    axis = int(rng.integers(len(shape))) if shape else 0

    def number(value):
        return apply(CONSTANT, value=value, dtype=dtype)

    if kind == "unary" and of == "f":
        return apply(OPS[_pick(rng, UNARY)], apply(OPS["tanh"], x) if rng.random() < 0.5 else x)
    if kind == "unary" and of == "i":
        return apply(OPS[_pick(rng, ("neg", "abs"))], x)
    if kind == "binary" and of != "b":
        return apply(OPS[_pick(rng, BINARY)], x, _pick(rng, fitting))
    if kind == "scalar" and of != "b":
        return apply(OPS[_pick(rng, BINARY)], x, number({"f": 0.5, "i": 3}[of]))
    if kind == "cast":
        return apply(OPS["cast"], apply(OPS["tanh"], x) if of == "f" else x, dtype=_pick(rng, ("f64", "f32", "i64")))
    if kind == "where" and of != "b":
        return apply(OPS["where"], apply(OPS["less"], x, number({"f": 0.25, "i": 1}[of])), x, _pick(rng, fitting))
    if kind in ("reduce", "keep") and shape:
        axes = tuple(sorted(rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)].tolist()))
        name = _pick(rng, ("any", "all") if of == "b" else REDUCTIONS)
        if 0 in [shape[a] for a in axes] and name not in ("sum", "prod", "any", "all"):
            return None
        y = apply(OPS[name], x, axis=axes)
        if kind == "keep":
            y = apply(OPS["reshape"], y, shape=tuple(1 if a in axes else n for a, n in enumerate(shape)))
            return y if y.aval.dtype != x.aval.dtype or of == "b" else apply(OPS["sub"], x, y)
        return y
    if kind == "reshape":
        return apply(OPS["reshape"], x, shape=_pick(rng, [s for s in SHAPES if np.prod(s) == x.aval.size] + [shape]))
    if kind == "transpose":
        return apply(OPS["transpose"], x, axes=tuple(rng.permutation(len(shape)).tolist()))
    if kind == "broadcast":
        return _spread(x, _pick(rng, [s for s in SHAPES if _broadcasts(shape, s)] + [shape]))
    if kind == "flip" and shape:
        return apply(OPS["flip"], x, axes=(axis,))
    if kind == "slice" and shape and shape[axis] > 2:
        start = apply(CONSTANT, value=1, dtype="i64")
        short = (*shape[:axis], shape[axis] - 2, *shape[axis + 1 :])
        return apply(OPS["slice"], x, start, axes=(axis,), steps=(1,), shape=short)
    if kind == "pad" and shape:
        wide = tuple(n + 3 if a == axis else n for a, n in enumerate(shape))
        filling = _spread(number({"f": 1.5, "i": 2, "b": True}[of]), wide)
        start = apply(CONSTANT, value=1, dtype="i64")
        return apply(OPS["slice_update"], filling, x, start, axes=(axis,), steps=(1,))
    if kind == "concatenate" and shape:
        others = [v for v in same if v.aval.ndim == x.aval.ndim
                  and all(a == axis or n == m for a, (n, m) in enumerate(zip(v.aval.shape, shape, strict=True)))]
        return apply(OPS["concatenate"], x, _pick(rng, others), axis=axis)
    if kind in ("take", "scatter") and shape and shape[axis]:
        places = apply(OPS["iota"], shape=(4,), axis=0, dtype="i64")
        places = apply(OPS["mod"], apply(OPS["mul"], places, apply(CONSTANT, value=3, dtype="i64")),
                       apply(CONSTANT, value=shape[axis], dtype="i64"))
        taken = apply(OPS["take"], x, places, axes=(axis,), place=axis)
        if kind == "take" or of == "b":
            return taken
        return apply(OPS["scatter_add"], places, taken, shape=shape, axes=(axis,), place=axis)
    if kind == "along" and shape and shape[axis] and of != "b":
        picked = (*shape[:axis], 1 if rng.random() < 0.7 else 2, *shape[axis + 1 :])
        places = apply(OPS["iota"], shape=picked, axis=int(rng.integers(len(shape))), dtype="i64")
        places = apply(OPS["mod"], places, apply(CONSTANT, value=shape[axis], dtype="i64"))
        taken = apply(OPS["take_along"], x, places, axis=axis)
        return taken if rng.random() < 0.3 else apply(OPS["scatter_along"], places, taken, shape=shape, axis=axis)
    if kind == "cumsum" and shape and of != "b":
        return apply(OPS["cumsum"], x, axis=axis, reverse=rng.random() < 0.5)
    if kind == "matmul" and len(shape) >= 2 and of != "b":
        others = [v for v in same if v.aval.ndim >= 2 and v.aval.shape[-2] == shape[-1]]
        other = _pick(rng, others) if others else x
        batch = other.aval.shape[:-2]
        if others and (_broadcasts(batch, shape[:-2]) or _broadcasts(shape[:-2], batch)):
            return apply(OPS["matmul"], x, other)
    return None


def _broadcasts(small, large):
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False


def arrays_for(graph, seed=0):
    """One array per input, of small values."""
    rng = np.random.default_rng(seed)
    found = []
    for i in graph.inputs:
        raw = rng.standard_normal(i.aval.shape) if i.aval.dtype.kind == "f" else rng.integers(-2, 3, i.aval.shape)
        found.append(np.asarray(raw).astype(i.aval.dtype))
    return found


def run_interpreted(program, arrays):
    """The outputs of a program, its kernels interpreted; memory that nothing wrote is filled with rubbish."""
    work = np.full(program.workspace_bytes, 0x55, np.uint8)
    outputs = [np.full(a.shape, 1, a.dtype) for a in program.outputs]
    memory = []
    for b in program.buffers:
        if b.role == "temporary":
            memory.append(work[b.place : b.place + b.aval.nbytes].view(b.aval.dtype).reshape(b.aval.shape))
        else:
            memory.append((arrays if b.role == "input" else outputs)[b.place])
    for step in program.steps:
        buffers = [memory[j] for j in step.buffers]
        if isinstance(step.work, Kernel):
            assert len(set(step.buffers)) == len(step.buffers), "two arguments are the same memory"
            verify_function(step.work.function)
            status = interpret(step.work.function, [*buffers, *step.work.extents])
            assert status == 0
        elif isinstance(step.work, HostCall):
            buffers[-1][...] = evaluate_node(step.work.node, buffers[:-1])
        else:
            _multiply(step.work, *buffers)
    return outputs


def _multiply(gemm: Gemm, a, b, c):
    for j in range(gemm.batch):
        sa, sb, sc = gemm.strides
        x = a.reshape(-1)[j * sa :][: gemm.m * gemm.k]
        y = b.reshape(-1)[j * sb :][: gemm.k * gemm.n]
        x = x.reshape(gemm.k, gemm.m).T if gemm.transpose_a else x.reshape(gemm.m, gemm.k)
        y = y.reshape(gemm.n, gemm.k).T if gemm.transpose_b else y.reshape(gemm.k, gemm.n)
        c.reshape(-1)[j * sc :][: gemm.m * gemm.n] = (x @ y).reshape(-1)


def assert_close(got, expected, graph):
    """Equal up to rounding; nan where nan is."""
    single = any(v.aval.dtype == np.float32 for v in (*graph.inputs, *graph.nodes))
    tolerance = 2e-4 if single else 1e-9
    for g, e in zip(got, expected, strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape
        np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance, err_msg=str(graph))


def check(graph, *, native=True, seed=0):
    """Plan a graph and compare with the evaluator."""
    arrays = arrays_for(graph, seed)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, *arrays)
    got = compile_graph(graph).call(*arrays) if native else run_interpreted(plan(graph), arrays)
    try:
        assert_close(got, expected, graph)
    except AssertionError:
        if not _is_decided_by_rounding(graph, arrays, expected):
            raise


def _is_decided_by_rounding(graph, arrays, expected):
    """True if the value itself jumps when inputs move by a rounding error: the argmin of equal sums, say."""
    rng = np.random.default_rng(1)
    for _ in range(16):
        moved = [_moved(a, rng) for a in arrays]
        with np.errstate(all="ignore"):
            again = evaluate(graph, *moved)
        for a, e in zip(again, expected, strict=True):
            if not np.allclose(a, e, rtol=1e-3, atol=1e-3, equal_nan=True):
                return True
    return False


def _moved(array, rng):
    if array.dtype.kind != "f":
        return array
    return array * (1 + 16 * np.finfo(array.dtype).eps * rng.uniform(-1, 1, array.shape)).astype(array.dtype)
