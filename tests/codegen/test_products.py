"""Matrix products: every shape, transposed and batched, empty, special values; the same bits however they are cut."""

import ctypes
import itertools

import numpy as np
import pytest
from programs import gemm_program

import autodiff as ad
from codegen.ir import Aval
from codegen.program import Gemm
from codegen.runtime import products, threads
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable
from codegen.runtime.products import Tile


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
    (9, 32, 300), (70, 90, 40), (20, 65, 257), (1, 37, 70), (1, 70, 37), (37, 1, 70), (1, 1, 300),
    (3, 200, 170), (9, 2, 6), (50, 4, 3), (33, 8, 400),
]  # fmt: skip

#: As LLVM writes what processors can do: 16, 32 and 64 bytes at once, with and without masks and many registers.
PROCESSORS = {"sse": "", "neon": "+neon", "avx2": "+avx2,+fma", "avx512": "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"}


@pytest.fixture(params=PROCESSORS)
def processor(request, monkeypatch):
    """Code as it is made for another processor; this one runs it as well as it can."""
    products.product_step(Gemm("f64", 1, 1, 1))  # the step is the same for all
    monkeypatch.setattr(products.engine, "target_features", lambda: PROCESSORS[request.param])
    # Code of another processor is for this test alone.
    step = {key: code for key, code in products.objects._codes.items() if key[0] == "product"}
    monkeypatch.setattr(products.objects, "_codes", step)
    monkeypatch.setattr(products, "_loaded", {})


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("transpose_a,transpose_b", [*itertools.product((False, True), repeat=2)])
def test_a_product_equals_numpy_s(processor, rng, dtype, transpose_a, transpose_b):
    for m, n, k in SIZES:
        gemm = Gemm(dtype, m, n, k, transpose_a, transpose_b)
        a, b = operands(gemm, rng)
        tolerance = 1e-5 if dtype == "f32" else 1e-13
        np.testing.assert_allclose(run(gemm, a, b), expected_of(gemm, a, b), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("shared", [None, 0, 1])
def test_a_batch_is_one_product_after_another(rng, shared):
    for m, n, k in [(3, 4, 5), (1, 6, 7), (6, 1, 7), (20, 20, 20)]:
        strides = [m * k, k * n, m * n]
        if shared is not None:
            strides[shared] = 0
        gemm = Gemm("f64", m, n, k, False, True, batch=3, strides=tuple(strides))
        a, b = operands(gemm, rng)
        np.testing.assert_allclose(run(gemm, a, b), expected_of(gemm, a, b), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 4, 0), (4, 1, 0), (0, 0, 0), (40, 40, 0)])
def test_empty_sums_are_zero_and_empty_results_empty(sizes):
    m, n, k = sizes
    for batch in (1, 2):
        gemm = Gemm("f64", m, n, k, batch=batch, strides=(m * k, k * n, m * n))
        got = run(gemm, np.ones((batch, m, k)), np.ones((batch, k, n)))
        assert got.shape == (batch, m, n) and not got.any()


def test_no_products_leave_nothing():
    assert run(Gemm("f64", 2, 2, 2, batch=0), np.ones((0, 2, 2)), np.ones((0, 2, 2))).shape == (0, 2, 2)


def test_nan_and_inf_reach_exactly_their_row_and_column():
    for n in (3, 30):
        a = np.ones((1, n, n))
        a[0, 1, 1] = np.nan
        b = np.ones((1, n, n))
        b[0, 0, 2] = np.inf
        got = run(Gemm("f64", n, n, n), a, b)[0]
        assert np.isnan(got[1]).all()
        assert np.isposinf(np.delete(got[:, 2], 1)).all()
        assert (np.delete(np.delete(got, 1, 0), 2, 1) == n).all()


def test_zero_times_inf_is_nan():
    for m, n in ((3, 3), (1, 3), (3, 1), (30, 30)):
        got = run(Gemm("f64", m, n, 5), np.zeros((1, m, 5)), np.full((1, 5, n), np.inf))
        assert np.isnan(got).all()


def test_what_an_output_held_before_does_not_matter():
    gemm = Gemm("f64", 20, 20, 20)
    a, b, c = np.ones((20, 20)), np.ones((20, 20)), np.full((20, 20), np.nan)
    product = products.product_step(gemm)
    pointers = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in (a, b, c)))
    extents = (ctypes.c_int64 * len(product.extents))(*product.extents)
    step = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(product.address)
    assert step(ctypes.addressof(pointers), ctypes.addressof(extents)) == 0
    assert (c == 20).all()


@pytest.fixture
def cut_finely(monkeypatch):
    """Small products are cut into many tiles too, and shared."""
    for name, value in dict(SHARED=0, READ=0, TILE=1, MOST_ROWS=8, LEAST_ROWS=4).items():
        monkeypatch.setattr(products, name, value)


BITS = [(100, 70, 300), (16, 200, 40), (200, 10, 20), (1, 300, 50), (300, 1, 50), (70, 150, 330)]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("transpose_a,transpose_b", [(False, False), (True, False), (False, True)])
def test_bits_do_not_depend_on_tiles_and_threads(request, rng, dtype, transpose_a, transpose_b):
    gemms = [Gemm(dtype, *sizes, transpose_a, transpose_b, 2, _strides(sizes)) for sizes in BITS]
    arrays = [operands(gemm, rng) for gemm in gemms]
    whole = [run(gemm, *pair) for gemm, pair in zip(gemms, arrays, strict=True)]
    request.getfixturevalue("cut_finely")
    before = threads.threads()
    try:
        for count in (1, 3):
            threads.set_threads(count)
            for gemm, pair, first in zip(gemms, arrays, whole, strict=True):
                assert products.product_step(gemm).share
                for _ in range(5):
                    assert run(gemm, *pair).tobytes() == first.tobytes()
    finally:
        threads.set_threads(before)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_of_rows_that_lie_across_are_the_same(processor, rng, dtype):
    gemm = Gemm(dtype, 2 * 64 + 5, 130, 700, True, False)
    a, b = operands(gemm, rng)
    plain = Gemm(dtype, gemm.m, gemm.n, gemm.k)
    found = run(gemm, a, b)
    assert np.isfinite(found).all()
    assert found.tobytes() == run(plain, np.ascontiguousarray(np.swapaxes(a, 1, 2)), b).tobytes()


@pytest.mark.parametrize("n", [2, 4, 5, 8, 10, 13, 24, 30])
def test_columns_beside_a_corner_are_left_alone(processor, rng, n):
    gemm = Gemm("f32", 9, n, 700)
    a, b = operands(gemm, rng)
    memory = np.full(gemm.m * n + 64, 7, np.float32)
    c = memory[32:-32]
    product = products.product_step(gemm)
    pointers = (ctypes.c_void_p * 3)(a.ctypes.data, b.ctypes.data, c.ctypes.data)
    extents = (ctypes.c_int64 * len(product.extents))(*product.extents)
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(product.address)(
        ctypes.addressof(pointers), ctypes.addressof(extents)
    )
    assert (memory[:32] == 7).all() and (memory[-32:] == 7).all()
    np.testing.assert_allclose(c.reshape(9, n), expected_of(gemm, a, b)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("n", "widest"), [(4, 4), (8, 8), (3, 16), (16, 16), (2, 16)])
def test_rows_that_fill_a_shorter_vector_have_tiles_of_these(processor, n, widest):
    tile = Tile.of("f32", products.engine.target_features())
    needed = products._layout_of(Gemm("f32", 9, n, 6))[2]
    assert needed == products.replace(tile, lanes=min(tile.lanes, widest))


def _strides(sizes):
    m, n, k = sizes
    return (m * k, k * n, m * n)


LARGE = [(128, 256, 784), (784, 256, 128), (1000, 1000, 1000), (256, 10, 784), (7, 5000, 999)]


@pytest.mark.parametrize("m", range(2, 34))
def test_few_rows_are_shared_evenly_among_tiles(processor, m, rng):
    gemm = Gemm("f64", m, 70, 64, False, False, 1, (0, 0, 0))
    _, _, tile = products._layout_of(gemm)
    full = Tile.of("f64", products.engine.target_features())
    tiles = -(-m // full.rows)
    even = -(-m // tiles)
    if m <= products.EVEN_TILES * full.rows and even < full.rows and 1.3 * even <= full.rows:
        assert tile.rows == even and even * (tiles - 1) < m <= even * tiles < m + tiles
    else:  # what gains less is not worth 20 ms of LLVM
        assert tile == full
    assert tile.depth == full.depth
    a, b = operands(gemm, rng)
    np.testing.assert_allclose(run(gemm, a, b), expected_of(gemm, a, b), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 10, 64), (65, 9, 130), (784, 10, 256), (300, 5, 300), (67, 17, 600), (33, 20, 128)]
)
def test_few_columns_are_rows_of_the_transpose_and_have_the_same_bits(
    processor, monkeypatch, rng, dtype, transpose_b, m, n, k
):
    for batch in (1, 3):
        gemm = Gemm(dtype, m, n, k, True, transpose_b, batch, (k * m, k * n, m * n) if batch > 1 else (0, 0, 0))
        a, b = operands(gemm, rng)
        monkeypatch.setattr(products, "ACROSS_GAIN", 0)
        assert products._layout_of(gemm)[0] and products.product_step(gemm).is_swapped
        across = run(gemm, a, b)
        monkeypatch.setattr(products, "ACROSS_GAIN", 1e9)
        assert not products._layout_of(gemm)[0]
        assert across.tobytes() == run(gemm, a, b).tobytes()
        np.testing.assert_allclose(across, expected_of(gemm, a, b), rtol=0, atol=1e-4 if dtype == "f32" else 1e-11)


def test_a_transpose_is_computed_where_it_fills_its_vectors(monkeypatch):
    monkeypatch.setattr(products.engine, "target_features", lambda: PROCESSORS["avx512"])

    def is_across(m, n, k, transpose_a=True, dtype="f64"):
        return products._layout_of(Gemm(dtype, m, n, k, transpose_a, False, 1, (0, 0, 0)))[0]

    assert is_across(784, 10, 256) and is_across(300, 5, 300, dtype="f32")
    assert not is_across(784, 16, 256)  # fills two vectors
    assert not is_across(784, 10, 256, transpose_a=False)  # would have to be turned
    assert not is_across(784, 10, 20)  # moved as long as computed
    assert not is_across(9, 10, 256)


@pytest.mark.parametrize("sizes", LARGE)
def test_large_products_are_cut_into_tiles_for_several_threads(sizes):
    for dtype in ("f32", "f64"):
        share = products.product_step(Gemm(dtype, *sizes)).share
        assert share and share.blocks >= 4
    assert products.product_step(Gemm("f64", 50, 50, 50)).share is None


@pytest.mark.parametrize(
    "dtype,k,is_shared", [("f32", 500, False), ("f32", 640, True), ("f64", 400, False), ("f64", 460, True)]
)
def test_a_product_with_a_vector_is_shared_where_its_matrix_takes_long_to_read(dtype, k, is_shared):
    for sizes in ((1, k, k), (k, 1, k)):
        assert (products.product_step(Gemm(dtype, *sizes)).share is not None) is is_shared


def test_a_large_product_equals_numpy_s(rng):
    gemm = Gemm("f32", 200, 300, 600, True, False)
    a, b = operands(gemm, rng)
    expected = expected_of(gemm, a.astype(np.float64), b.astype(np.float64))
    error = np.abs(run(gemm, a, b) - expected).max()
    assert error <= 2 * np.abs(expected_of(gemm, a, b) - expected).max()


@pytest.mark.parametrize(("m", "better"), [(9, 32), (40, 32), (200, 8)], ids=["near", "still near", "far"])
def test_a_long_sum_errs_like_its_panels_not_like_one_running_total(rng, m, better):
    """A result that stays in the cache nearest has shorter panels."""
    gemm = Gemm("f32", m, 24, 8192)
    a, b = operands(gemm, rng)
    expected = expected_of(gemm, a.astype(np.float64), b.astype(np.float64))
    terms = a[0, :, :, None] * b[0, None, :, :]
    running = np.add.accumulate(terms, axis=1, dtype=np.float32)[:, -1]
    mean_square = [np.mean((c - expected[0]) ** 2) for c in (run(gemm, a, b)[0], running)]
    assert mean_square[0] < mean_square[1] / better


@pytest.mark.parametrize("columns", [4, 5, 64])
def test_sums_along_many_rows_are_rounded_once_in_eight(columns):
    rows = 10_000
    x, y = np.full((rows, columns), 0.1, np.float32), np.ones(rows, np.float32)
    found = ad.jit(lambda x, y: x.T @ y)(x, y)
    wanted = rows * float(np.float32(0.1))
    assert np.abs(found / wanted - 1).max() < 2e-5  # one row after the other: 9.7e-5
