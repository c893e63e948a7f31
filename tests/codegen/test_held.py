"""Short rows that a loop adds to stay in registers: every length, type and machine, and nothing else is written."""

import itertools

import numpy as np
import pytest
from emitted import emit_module
from nests import DTYPES, Nest, call, memref

import autodiff as ad
from codegen.kernel.nest import F32, F64, I64, INDEX
from codegen.runtime import engine

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
WIDEST = "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"


def added(type, columns, *, rows=None, moves=False, spoilt=False):
    """y[i, k] += w[j] * x[j, k] for all i and j; `moves`: to y[i + j, k]; `spoilt`: y is read elsewhere too."""
    nest = Nest("added", writes=("y",), x=memref(type), w=memref(type), y=memref(type),
                m=INDEX, n=INDEX)  # fmt: skip
    add, times = ("arith.addi", "arith.muli") if type is I64 else ("arith.addf", "arith.mulf")
    width = nest.constant(columns)
    with nest.parallel(nest.m) as i:

        def row(j):
            weight = nest.load(nest.y if spoilt else nest.w, j)
            read = nest.op("arith.muli", j, width)
            to = nest.op("arith.muli", nest.op("arith.addi", i, j) if moves else i, width)

            def one(k):
                at = nest.op("arith.addi", to, k)
                x = nest.load(nest.x, nest.op("arith.addi", read, k))
                nest.store(nest.op(add, nest.load(nest.y, at), nest.op(times, weight, x)), nest.y, at)

            nest.loop(columns, body=one)

        nest.loop(nest.n if rows is None else rows, body=row)
    return nest.end()


@pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("type", [F64, F32, I64], ids=str)
def test_rows_of_every_length_are_added_up_and_nothing_else_is_written(type, features, rng):
    dtype = DTYPES[type]
    for columns, rows in itertools.product((2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 40), (None, 3, 12)):
        function = added(type, columns, rows=rows)
        code = engine.compile(emit_module([function], features))
        for m, n in itertools.product((1, 3), (0, 1, 2, 11) if rows is None else (rows,)):
            x, w, y = (rng.integers(-9, 9, size).astype(dtype) for size in ((n, columns), (n,), (m, columns)))
            found = np.append(y.ravel(), np.full(70, 7, dtype))
            call(code, function, [x.ravel(), w, found, m, n])
            np.testing.assert_array_equal(found[:-70].reshape(m, columns), y + w @ x)
            assert (found[-70:] == 7).all()


@pytest.mark.parametrize("columns", [5, 8, 20])
def test_a_row_is_loaded_before_the_loop_and_stored_behind_it(columns):
    assert "= phi <" in emit_module([added(F64, columns)], WIDEST)


def test_few_rows_are_written_out():
    text = emit_module([added(F64, 4, rows=4)], WIDEST)
    assert text.count("load <4 x double>") == 5
    assert text.count("store <4 x double>") == 1


@pytest.mark.parametrize("other", [{"moves": True}, {"spoilt": True}], ids=str)
def test_rows_at_other_places_or_read_elsewhere_are_not_held(other):
    assert "= phi <" not in emit_module([added(F64, 8, **other)], WIDEST)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("n,inner", [(1, 3), (2, 5), (3, 4), (10, 5), (10, 3), (7, 7), (12, 2), (9, 17), (40, 6)])
def test_reductions_of_a_middle_axis_with_work_beside_them(n, inner, dtype, rng):
    x = (rng.standard_normal((23, n, inner)) * 3).astype(dtype)
    close = {"rtol": 1e-5 if dtype == "float32" else 1e-12}

    def f(x):
        total = ad.sum(x, axis=1, keepdims=True)
        return total, ad.max(x, axis=1), ad.argmin(x, axis=1), x * 2 - total, ad.sum(x * x, axis=1)

    total, top, least, rest, squares = ad.jit(f)(x)
    wanted = x.sum(axis=1, keepdims=True, dtype=x.dtype)
    np.testing.assert_allclose(total, wanted, atol=1e-4 if dtype == "float32" else 1e-12, **close)
    np.testing.assert_array_equal(top, x.max(axis=1))
    np.testing.assert_array_equal(least, x.argmin(axis=1))
    np.testing.assert_allclose(rest, x * 2 - total, atol=1e-4, **close)
    np.testing.assert_allclose(squares, (x * x).sum(axis=1), **close)


@pytest.mark.parametrize("inner", [3, 5, 6, 7, 11])
def test_rows_divided_in_place_are_those_before(inner, rng):
    x = rng.standard_normal((300, 10, inner))
    found = ad.jit(lambda x: ad.exp(x) / ad.sum(ad.exp(x), axis=1, keepdims=True))(x)
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), rtol=1e-14)
