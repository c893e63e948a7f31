"""Matrix products: every source, every shape, transposed and batched, empty, special values."""

import ctypes
import itertools

import numpy as np
import pytest
from programs import gemm_program

from codegen.ir import Aval
from codegen.program import Gemm
from codegen.runtime import blas
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable


def scipy_blas():
    return next(blas._of_scipy(), None)


SOURCES = {"numpy": blas.find_blas, "scipy": scipy_blas, "none": lambda: None}


@pytest.fixture(params=[(s, w) for s in SOURCES for w in ("chosen", "blas", "loops")], ids="-".join)
def way(request, monkeypatch):
    """Each source of BLAS, with the library's choice between loops and BLAS, and with each forced."""
    source, work = request.param
    found = SOURCES[source]()
    if source != "none" and found is None:
        pytest.skip(f"no BLAS from {source}")
    monkeypatch.setattr(blas, "find_blas", lambda: found)
    if work != "chosen":
        monkeypatch.setattr(blas, "_is_faster_by_loops", lambda m, n, k: work == "loops")
    return request.param


def run(gemm, a, b):
    shape = (gemm.batch, gemm.m, gemm.n)
    program = gemm_program(gemm, Aval(a.shape, a.dtype), Aval(b.shape, b.dtype), Aval(shape, a.dtype))
    return Executable(program, KernelTable(8)).call(a, b)[0]


def expected_of(gemm, a, b):
    a = np.swapaxes(a, -1, -2) if gemm.transpose_a else a
    b = np.swapaxes(b, -1, -2) if gemm.transpose_b else b
    return np.matmul(a, b)


def operands(gemm, rng):
    """Packed operands; a stride of 0 is one matrix for all products."""
    dtype = {"f32": np.float32, "f64": np.float64}[gemm.dtype]
    a = (gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k)
    b = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    batches = [gemm.batch if stride else 1 for stride in gemm.strides[:2]]
    return [rng.standard_normal((n, *shape)).astype(dtype) for n, shape in zip(batches, (a, b), strict=True)]


SIZES = [
    (1, 1, 1), (1, 5, 7), (5, 1, 7), (5, 7, 1), (1, 1, 7), (7, 1, 1), (1, 7, 1), (3, 4, 5), (8, 8, 9), (33, 17, 20),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("transpose_a,transpose_b", [*itertools.product((False, True), repeat=2)])
def test_a_product_equals_numpy_s(way, rng, dtype, transpose_a, transpose_b):
    for m, n, k in SIZES:
        gemm = Gemm(dtype, m, n, k, transpose_a, transpose_b)
        a, b = operands(gemm, rng)
        tolerance = 1e-5 if dtype == "f32" else 1e-13
        np.testing.assert_allclose(run(gemm, a, b), expected_of(gemm, a, b), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("shared", [None, 0, 1])
def test_a_batch_is_one_product_after_another(way, rng, shared):
    for m, n, k in [(3, 4, 5), (1, 6, 7), (6, 1, 7), (20, 20, 20)]:
        strides = [m * k, k * n, m * n]
        if shared is not None:
            strides[shared] = 0
        gemm = Gemm("f64", m, n, k, False, True, batch=3, strides=tuple(strides))
        a, b = operands(gemm, rng)
        np.testing.assert_allclose(run(gemm, a, b), expected_of(gemm, a, b), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 4, 0), (4, 1, 0), (0, 0, 0), (40, 40, 0)])
def test_empty_sums_are_zero_and_empty_results_empty(way, sizes):
    m, n, k = sizes
    for batch in (1, 2):
        gemm = Gemm("f64", m, n, k, batch=batch, strides=(m * k, k * n, m * n))
        got = run(gemm, np.ones((batch, m, k)), np.ones((batch, k, n)))
        assert got.shape == (batch, m, n) and not got.any()


def test_no_products_leave_nothing(way):
    assert run(Gemm("f64", 2, 2, 2, batch=0), np.ones((0, 2, 2)), np.ones((0, 2, 2))).shape == (0, 2, 2)


def test_nan_and_inf_reach_exactly_their_row_and_column(way):
    for n in (3, 30):
        a = np.ones((1, n, n))
        a[0, 1, 1] = np.nan
        b = np.ones((1, n, n))
        b[0, 0, 2] = np.inf
        got = run(Gemm("f64", n, n, n), a, b)[0]
        assert np.isnan(got[1]).all()
        assert np.isposinf(np.delete(got[:, 2], 1)).all()
        assert (np.delete(np.delete(got, 1, 0), 2, 1) == n).all()


def test_zero_times_inf_is_nan(way):
    for m, n in ((3, 3), (1, 3), (3, 1), (30, 30)):
        got = run(Gemm("f64", m, n, 5), np.zeros((1, m, 5)), np.full((1, 5, n), np.inf))
        assert np.isnan(got).all()


def test_what_an_output_held_before_does_not_matter(way):
    """BLAS with beta = 0 must not read c."""
    gemm = Gemm("f64", 20, 20, 20)
    a, b, c = np.ones((20, 20)), np.ones((20, 20)), np.full((20, 20), np.nan)
    product = blas.product_step(gemm, blas.find_blas())
    if product is None:
        blas.multiply(gemm, a, b, c)
    else:
        pointers = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in (a, b, c)))
        extents = (ctypes.c_int64 * len(product.extents))(*product.extents)
        step = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(product.address)
        assert step(ctypes.addressof(pointers), ctypes.addressof(extents)) == 0
    assert (c == 20).all()


def test_sizes_beyond_32_bits_are_not_given_to_fortran():
    fortran = blas.Blas("pretended", {"f32": 1, "f64": 1}, True, None)
    product = blas.product_step(Gemm("f64", 2, 2, 2**31), fortran)
    assert product is not None and product.code is blas._loops_code("f64")


def test_without_blas_only_large_products_need_numpy():
    assert blas.product_step(Gemm("f64", 50, 50, 50), None) is None
    assert blas.product_step(Gemm("f64", 2, 2, 2), None) is not None
    assert blas.product_step(Gemm("f64", 500, 1, 500), None) is not None
