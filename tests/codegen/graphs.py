"""Random graphs and arrays for tests of the graph level.

Importing this declares the operations: the compiler itself knows none.
"""

import numpy as np
from hypothesis import strategies as st

import autodiff.ops.reductions  # noqa: F401  (and with it those of shapes and elements)
from codegen.ir import CONSTANT, OPS, Aval, Graph, apply, dtype_name, input_node
from codegen.ir import DTYPES as NUMPY

SHAPES = ((), (1,), (3,), (2, 3), (1, 3), (0, 3), (2, 1, 3))
DTYPES = ("f64", "f32", "i32", "i64", "bool")
NUMBERS = {"f": (0.0, -0.0, 1.0, -1.0, 2.5, float("inf"), float("nan")), "i": (0, 1, -1, 7), "b": (False, True)}

#: What arrays are filled with: everything that identities of school algebra fall over.
SPECIALS = {
    "f": (0.0, -0.0, 1.0, -1.0, 2.5, -3.25, 0.1, np.nan, np.inf, -np.inf, 1e-320, 1e-45, 3e38, -1.7e308),
    "i": (0, 1, -1, 7, -8, 2**31 - 1, -(2**31)),
    "b": (False, True),
}

BINARY = ("add", "sub", "mul", "div", "less")
UNARY = ("neg", "abs")


def filled(aval, rng):
    """An array of this aval made of special values."""
    pool = SPECIALS[aval.dtype.kind]
    with np.errstate(over="ignore"):
        return np.array([pool[i] for i in rng.integers(len(pool), size=aval.size)], aval.dtype).reshape(aval.shape)


def assert_same_bits(got, expected):
    """Equal arrays, zeros of equal sign; all nans are one."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@st.composite
def graphs(draw):
    """A graph of up to a dozen nodes over all dtypes, with the shapes and constants that passes look for."""

    def pick(things):
        return draw(st.sampled_from(things))

    inputs = [input_node(Aval(pick(SHAPES), NUMPY[pick(DTYPES)])) for _ in range(draw(st.integers(1, 3)))]
    values = list(inputs)
    for _ in range(draw(st.integers(0, 12))):
        node = _node(pick, values)
        if node is not None:
            values.append(node)
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return Graph(inputs, values[len(inputs) :], outputs)


def _node(pick, values):
    """One more node on these values; None where the drawn operation takes none of them."""
    x = pick(values)
    dtype, shape, kind = dtype_name(x.aval.dtype), x.aval.shape, x.aval.dtype.kind
    match pick(("constant", "binary", "binary", "unary", "where", "cast", "reshape", "transpose", "broadcast", "sum")):
        case "constant":
            return apply(CONSTANT, value=pick(NUMBERS[kind]), dtype=dtype)
        case "binary" if kind != "b":
            name = pick([n for n in BINARY if n != "div" or kind == "f"])
            others = [v for v in values if v.aval.dtype == x.aval.dtype and _fit(v, x)]
            operands = [x, pick(others)]
            return apply(OPS[name], *(operands if pick((True, False)) else reversed(operands)))
        case "unary" if kind != "b":
            return apply(OPS[pick(UNARY)], x)
        case "where":
            conditions = [v for v in values if v.aval.dtype.kind == "b" and _fit(v, x)]
            others = [v for v in values if v.aval.dtype == x.aval.dtype and v.aval.shape in ((), shape)]
            return apply(OPS["where"], pick(conditions), x, pick(others)) if conditions else None
        case "cast":
            return apply(OPS["cast"], x, dtype=pick(DTYPES))
        case "reshape":
            return apply(OPS["reshape"], x, shape=pick([s for s in SHAPES if np.prod(s) == x.aval.size] + [shape]))
        case "transpose":
            return apply(OPS["transpose"], x, axes=pick((tuple(range(len(shape))), tuple(reversed(range(len(shape)))))))
        case "broadcast":
            larger = [s for s in SHAPES if _broadcasts(shape, s)]
            return apply(OPS["broadcast_to"], x, shape=pick([*larger, shape]))
        case "sum" if kind != "b" and shape:
            return apply(OPS["sum"], x, axis=pick(((0,), (len(shape) - 1,), tuple(range(len(shape))))))
    return None


def _fit(a, b):
    try:
        np.broadcast_shapes(a.aval.shape, b.aval.shape)
    except ValueError:
        return False
    return True


def _broadcasts(small, large):
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False
