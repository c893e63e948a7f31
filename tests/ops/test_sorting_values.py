"""Sorts by machine code give the bits of NumPy's stable sort: zeros of both signs and nan as they stand."""

import ctypes
import itertools

import numpy as np
import pytest

import autodiff as ad
from codegen.kernel.nest import Status
from codegen.native import Translation
from codegen.runtime import engine, objects, order_rows

DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "bool": "bool"}

#: Machines by what LLVM says they have: vectors packed by masks, by a table, and not at all.
FEATURES = {"avx512": "+avx2,+fma,+avx512f,+avx512dq,+avx512vl,+avx512bw", "avx2": "+avx2,+fma", "plain": ""}

#: Rows that a network sorts, more and fewer than vectors have lanes, and longer ones; columns; nothing at all.
SHAPES = [
    *[((n,), 0) for n in (0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 300, 1000, 5000)],
    *[((9, n), 1) for n in (2, 33, 64, 65, 200, 511, 512, 513)],
    ((200, 19), 0), ((600, 3), 0), ((2, 400, 5), 1), ((3, 0, 2), 0), ((3, 0, 2), 1),
]  # fmt: skip


def many(dtype, shape, rng):
    """Different elements, equal ones, rising and falling ones, some far more often than others, and special ones."""
    if dtype == "bool":
        yield rng.integers(0, 2, shape).astype(bool)
        return
    x = (rng.standard_normal(shape) * 1e6).astype(dtype)
    yield x
    yield np.sort(x, -1)
    yield np.flip(np.sort(x, -1), -1)
    yield rng.integers(-3, 3, shape).astype(dtype)
    if dtype.startswith("int"):
        limits = np.iinfo(dtype)
        yield rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        for often, seldom in ((limits.min, limits.max), (limits.max, limits.min)):
            yield np.where(rng.random(shape) < 0.9, often, seldom).astype(dtype)
        # Each key is twice the one before: no vector of them says where the middle is.
        yield (np.array(1, dtype) << rng.integers(0, limits.bits - 1, shape)).astype(dtype)
        return
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    for j, special in enumerate((np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, tiny, -tiny)):
        x[rng.integers(0, 12, shape) == j] = special
    yield x
    for special in (np.nan, -np.inf, np.inf, -0.0):
        yield np.where(rng.random(shape) < 0.9, special, x).astype(dtype)


def stable(x, axis, descending):
    """The sort by NumPy."""
    return np.take_along_axis(x, stable_order(x, axis, descending), axis)


def stable_order(x, axis, descending):
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def same_bits(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def text_of(name, features):
    return Translation().text([order_rows.order_of(name, features)])


def status_of(code, x, axis, descending, out):
    """`order` of a module, called as a step is."""
    n, inner = x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    pointers = (ctypes.c_void_p * 2)(x.ctypes.data, out.ctypes.data)
    extents = (ctypes.c_int64 * 5)(n, inner, -1 if descending else 0, 0, x.size // n if n else 0)
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(code.address("order"))(pointers, extents)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("name", DTYPES)
def test_an_order_for_each_kind_of_machine_is_the_stable_one_of_numpy(name, features, rng):
    if features == "avx2" and "+avx2" not in engine.target_features().split(","):
        pytest.skip("this machine has no AVX2")
    code = objects.compiled(text_of(name, FEATURES[features]))
    for (shape, axis), descending in itertools.product(SHAPES, (False, True)):
        for x in many(DTYPES[name], shape, rng):
            x, order = np.ascontiguousarray(x), np.empty(x.shape, np.int64)
            assert status_of(code, x, axis, descending, order) == 0
            np.testing.assert_array_equal(order, stable_order(x, axis, descending))


def test_an_order_without_memory_says_so(rng):
    nothing = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(lambda size: None)
    text = text_of("f64", engine.target_features()).replace("@PyMem_RawMalloc(", "@no_memory(")
    code = objects.compiled(text, {"no_memory": ctypes.cast(nothing, ctypes.c_void_p).value})
    for shape, axis in (((300,), 0), ((200, 3), 0)):
        x = rng.standard_normal(shape)
        assert status_of(code, x, axis, False, np.empty(shape, np.int64)) == Status.NO_MEMORY


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES.values())
def test_rows_are_sorted_to_the_same_bits_by_any_number_of_threads(dtype, descending, rng):
    f = ad.jit(lambda x: ad.sort(x, descending=descending))
    before = ad.config.threads
    try:
        for shape in ((70_000,), (300, 100), (40, 2000), (30, 3)):
            for x in many(dtype, shape, rng):
                expected = stable(x, x.ndim - 1, descending)
                for threads in (1, 2, 3):
                    ad.config.threads = threads
                    same_bits(f(x), expected)
    finally:
        ad.config.threads = before


def test_sorts_of_parts_and_of_results_are_right(rng):
    x = rng.standard_normal((300, 400))
    same_bits(ad.jit(lambda x: ad.sort(x[::2, ::-3], axis=0))(x), np.sort(x[::2, ::-3], axis=0))
    same_bits(ad.jit(lambda x: ad.sort(ad.sort(x.T, axis=0) - 1, axis=1))(x), np.sort(np.sort(x.T, 0) - 1, axis=1))
    same_bits(ad.jit(lambda x: ad.sort(x, axis=None))(x), np.sort(x, axis=None))
    long = rng.standard_normal(40_000)
    rows = ad.jit(lambda x: ad.scan(lambda total, _: (ad.sort(total)[::-1] * 2, total[0]), x, ad.zeros(3))[0])(long)
    np.testing.assert_array_equal(rows, np.sort(long)[::-1] * 8)


def test_numbers_that_something_else_reads_are_found(rng):
    """A gradient puts what comes back where the elements came from."""
    x, w = rng.standard_normal(1000), rng.standard_normal(1000)
    found = ad.jit(ad.grad(lambda x: ad.sum(w * ad.sort(x) ** 2)))(x)
    expected = np.empty(1000)
    expected[np.argsort(x)] = 2 * w * np.sort(x)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    both = ad.jit(lambda x: (ad.sort(x), ad.argsort(x)))(x)
    same_bits(both[0], np.sort(x))
    np.testing.assert_array_equal(both[1], np.argsort(x))


def test_sorts_of_any_length_are_right(rng):
    """Steps of many lengths, whose kernels are for any: also where threads share a row."""
    x = ad.tensor(rng.standard_normal(90_000))
    for n in (5, 90, 100, 200, 1000, 1001, 5000, 30_000, 90_000):
        same_bits(ad.sort(x[:n] * 2).numpy(), np.sort(x.numpy()[:n] * 2))
