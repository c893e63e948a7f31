"""Quotients by a number that does not change have the bits of divisions, by an inverse that is found once."""

import functools
import re
from fractions import Fraction

import numpy as np
import pytest
from nests import DTYPES, Nest, call, memref

from codegen.emit import emit_module
from codegen.kernel.nest import F32, F64, INDEX, Extent
from codegen.runtime import engine

EACH_TYPE = pytest.mark.parametrize("type", [F64, F32], ids=str)
AVX512 = "+fma,+avx2,+avx512f,+avx512dq,+avx512vl,+avx512bw"


def quotients(type, extent=None, constant=None):
    """y[i] = x[i] / c[0], or by a constant."""
    size = Extent(0) if extent is None else extent
    arguments = {"x": memref(type, size), "c": memref(type, 1), "y": memref(type, size)}
    nest = Nest("quotients", writes=("y",), **arguments, **({"n": INDEX} if extent is None else {}))
    c = nest.load(nest.c, 0) if constant is None else nest.constant(constant, type)
    with nest.parallel(nest.n if extent is None else extent) as (i,):
        nest.store(nest.op("arith.divf", nest.load(nest.x, i), c), nest.y, i)
    return nest.end()


@functools.cache
def compiled(type):
    function = quotients(type)
    return function, engine.compile(emit_module([function], engine.target_features()), passes=engine.Passes.VECTORS)


def divided(type, x, c):
    function, code = compiled(type)
    y = np.empty_like(x)
    assert call(code, function, (x, np.array([c], x.dtype), y, x.size)) == 0
    return y


def exact(x, c):
    with np.errstate(all="ignore"):
        return x / x.dtype.type(c)


def bits(x):
    return np.where(np.isnan(x), 0, x.view(np.int64 if x.dtype == np.float64 else np.int32))


@EACH_TYPE
def test_quotients_have_the_bits_of_divisions(type, rng):
    dtype, info = DTYPES[type], np.finfo(DTYPES[type])
    top = 1 << info.nmant
    for c in [100.0, 3.0, -7.0, 1 / 3, 1 + info.eps, 2 - info.eps, *rng.uniform(1, 2, 40), *rng.lognormal(0, 9, 40)]:
        c = dtype(c)
        x = np.ldexp(rng.uniform(-2, 2, 3001), rng.integers(-20, 20, 3001)).astype(dtype)
        # And those whose quotients are next to the middle of two neighbours.
        whole = int(np.ldexp(np.frexp(abs(c))[0], info.nmant + 1))
        middles = [Fraction(2 * int(k) + 1, 2) * whole / 2**20 for k in rng.integers(top, 2 * top, 500)]
        near = np.array([float(m) for m in middles]).astype(dtype)
        x = np.concatenate([x, near, np.nextafter(near, dtype(0)), np.arange(-50, 50).astype(dtype) * c])
        np.testing.assert_array_equal(bits(divided(type, x, c)), bits(exact(x, c)))


@EACH_TYPE
def test_quotients_of_the_extremes_are_right(type, rng):
    dtype, info = DTYPES[type], np.finfo(DTYPES[type])
    tiny, least, huge = info.tiny, info.smallest_subnormal, info.max
    numbers = [0.0, 1.0, 1.5, huge, huge / 3, np.inf, np.nan, tiny, 3 * tiny, least, 7 * least, tiny / 3, 1e30, 1e-30]
    numbers += [*np.ldexp(rng.uniform(1, 2, 200), rng.integers(info.minexp - info.nmant, info.maxexp, 200))]
    numbers = np.array(numbers, dtype)
    x = np.concatenate([numbers, -numbers])
    # Below that a remainder is no number.
    is_small = np.abs(x) < np.ldexp(least, 2 * info.nmant + 2)
    for c in x:
        got, right = divided(type, x, c), exact(x, c)
        is_usual = ~is_small & ~(np.abs(right) < 2 * tiny)
        np.testing.assert_array_equal(bits(got[is_usual]), bits(right[is_usual]))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(right), err_msg=str(c))
        np.testing.assert_array_max_ulp(got[~np.isnan(right)], right[~np.isnan(right)], maxulp=1)
        assert np.isnan(got[np.isnan(right)]).all()


def test_loops_divide_once_where_that_pays():
    def first(features, *arguments):
        """What the first loop divides, or what is found before it."""
        text = emit_module([quotients(F64, *arguments)], features)
        return re.search(r"fdiv (<\d+ x double>|double)", text)[1]

    assert first(AVX512) == first(AVX512, 1000) == first(AVX512, 1000, 3.0) == "double"
    assert first(AVX512, 32) == first(AVX512, 1000, 4.0) == "<32 x double>"
    assert first("+fma,+avx2") == "<16 x double>"
