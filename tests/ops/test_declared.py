"""Every declared operation: its case, its aval rule, its batching rule, its comparison with exact numbers."""

import importlib
import pkgutil
import sys
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops.protocols import UFUNCS
from autodiff.tape import Primitive
from autodiff.tape.lines import rule_code
from autodiff.tape.walk import needed
from codegen.ir import OPS, aval_of

from .cases import Case, all_cases, eager, law, rng_of
from .moved import moved, tensors
from .tails import TABLE

CASES = all_cases()
SMOOTH = [c for c in CASES if c.wrt]


@law(CASES)
def test_infer_tells_the_aval(case: Case):
    point = case.point(rng_of(case))
    recorded = case.f(*tensors(point)).aval
    with eager():
        y = case.f(*tensors(point))
    assert y.aval == recorded == aval_of(y.node.value)


def gradients(pullback, y_bar):
    """The cotangents of all inputs, as a tuple."""
    found = pullback(ad.tensor(y_bar))
    return found if isinstance(found, tuple) else (found,)


def test_every_operation_has_a_case():
    tried = set()
    for c in CASES:
        point = c.point(rng_of(c))
        y = c.f(*tensors(point))
        found = [y]
        if c in SMOOTH:
            _, pullback = ad.vjp(moved(c, point, c.f), *tensors([point[i] for i in c.wrt]))
            found += gradients(pullback, np.ones(y.shape, y.dtype))
        tried |= {node.kind.op.name for node in needed([t.node for t in found])}
    ours = {name for name, op in OPS.items() if type(op).__module__.startswith("autodiff")}
    assert ours - tried == set()


#: Why an elementwise operation that has a derivative is in no row.
OTHERS = {
    "steps, whose derivative is zero, in test_kinks": {"ceil", "floor", "floor_divide", "rint", "sign", "trunc"},
    "complex numbers, in test_complex": {"abs_complex", "conj", "imag", "imaginary", "real"},
    "what is chosen is passed on as it is, in test_elementwise": {"clip", "maximum", "minimum", "share"},
    "slopes of 1, 0 or a power of two, in test_edges and test_sweep": {
        "cast", "copysign", "fmod", "frexp_mantissa", "heaviside", "ldexp", "mod", "nextafter",
    },
    "a part of reductions, in test_reductions and test_summaries": {"log_of_sum", "root"},
    "the identity of ad.checkpoint, in tests/control": {"barrier"},
}  # fmt: skip


def points_of(row, dtype, points):
    """The points that are numbers of the dtype, as tuples and as arrays of the arguments."""
    with np.errstate(all="ignore"):
        table = np.array([p if isinstance(p, tuple) else (p,) for p in points]).astype(dtype)
    table = table[np.isfinite(table).all(1) & (table != 0).all(1)]
    return tuple([tuple(p) for p in table.tolist()]), [np.ascontiguousarray(c) for c in table.T]


def operations_of(row):
    """The names of the operations that the function and its first two derivatives record."""
    _, xs = points_of(row, np.dtype(np.float64), row.points[:1])
    names, seen = set(), set()

    def walk(t):
        nodes = [t.node]
        while nodes:
            node = nodes.pop()
            if id(node) not in seen:
                seen.add(id(node))
                if node.kind is not None and node.kind.op is not None:
                    names.add(node.kind.op.name)
                nodes += [i for i in node.inputs or () if i is not None]

    leaves = [ad.tensor(x, requires_grad=True) for x in xs]
    y = row.f(*leaves)
    walk(y)
    for _ in range(2):
        found = ad.grad(ad.sum(y), leaves, create_graph=True, allow_unused=True)
        found = [g for g in found if g is not None and g.requires_grad]
        for g in found:
            walk(g)
        if not found:
            break
        y = sum(ad.sum(g) for g in found)
    return names


def test_every_elementwise_operation_is_compared_or_said_why_not():
    for module in pkgutil.iter_modules(ad.ops.__path__, "autodiff.ops."):
        importlib.import_module(module.name)
    importlib.import_module("autodiff.control.choices")
    met = set().union(*map(operations_of, TABLE))
    differentiable = {name for name, op in OPS.items() if "elementwise" in op.traits and not op.discrete}
    spared = set().union(*OTHERS.values())
    assert differentiable - met - spared == set()
    assert spared <= differentiable


def test_every_operation_has_a_batch_rule():
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "autodiff"]
    operations = {id(x): x for m in modules for x in vars(m).values() if isinstance(x, Primitive)}
    operations |= {id(op): op for op in OPS.values() if isinstance(op, Primitive)}
    without_inputs = {"argument", "constant", "leaf"}  # nothing in them differs between examples
    of_calls = {"boundary", "call", "historyless", "unpack"}  # of custom functions, and of loops: the walk knows them
    assert {op.name for op in operations.values() if op.batch is None} == without_inputs | of_calls


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_every_universal_function_we_serve_gives_numpys_values(ufunc):
    whole = "d" not in {types[0] for types in ufunc.types}
    x = np.array([1, 2, 3]) if whole else np.array([1.0, 1.5, 2.0] if ufunc is np.arccosh else [0.25, 0.5, 0.75])
    inputs = [x] * ufunc.nin
    if ufunc is np.ldexp:
        inputs[1] = np.array([2, -1, 0])
    elif ufunc.__name__ in ("matvec", "vecmat"):
        inputs[ufunc.__name__ == "vecmat"] = np.outer(x, x)
    with eager():
        found = ufunc(*map(ad.tensor, inputs))
        wanted = ufunc(*inputs)
        for one, other in zip(found, wanted, strict=True) if ufunc.nout > 1 else [(found, wanted)]:
            assert isinstance(one, ad.Tensor)
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-14)


@pytest.mark.parametrize("kind", ["backward", "jvp"])
@pytest.mark.parametrize(
    "name, file", [("tanh", "elementwise.py"), ("arctan2", "elementwise.py"), ("matmul", "contraction.py")]
)
def test_a_derivative_is_told_where_it_is_written(name, file, kind):
    """Not in the file that makes rules of partial derivatives, of a slope, or of a transpose."""
    code = rule_code(OPS[name], kind if name != "matmul" else "backward")
    assert code is not None and Path(code.co_filename).name == file
