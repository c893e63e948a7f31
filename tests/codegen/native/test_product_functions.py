"""Matrix products as plain Python and as machine code: whole numbers, so that both have the same bits as NumPy's."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from codegen.native import f32, f64, i64
from codegen.native.structs import Pointer
from codegen.program import Gemm
from codegen.runtime import products
from codegen.runtime.product_steps import ProductExtents, TileWords, functions_of, product

DTYPES = {"f32": (np.float32, f32), "f64": (np.float64, f64)}


def in_plain_python(gemm, a, b, c):
    is_swapped, extents, share, tile = products._step_of(gemm)
    number = DTYPES[gemm.dtype][1]
    pointers = [Pointer([number(x) for x in array.reshape(-1).tolist()], 0, number) for array in (a, b, c)]
    names = products._names(extents, tile)
    functions = iter(functions_of(tile, [name for name in names if name]))
    here, said = TileWords(), ProductExtents()
    for field, name in zip(TileWords.fields(), names, strict=False):
        if name:
            setattr(here, field, next(functions))
    here.size, here.lanes, here.rows, here.depth = 1, tile.lanes, tile.rows, tile.depth  # a pointer counts elements
    for field, n in zip([*ProductExtents.fields()][1:], (*extents, *((0, share.total) if share else ())), strict=True):
        setattr(said, field, i64(n))
    said.tile = here
    a, b, c = pointers
    assert product(Pointer([b, a, c] if is_swapped else [a, b, c], 0, None), said) == 0
    return np.array([float(x) for x in c.items])


def in_machine_code(gemm, a, b, c):
    found = products.product_step(gemm)
    pointers = (ctypes.c_void_p * 3)(*[x.ctypes.data for x in ((b, a, c) if found.is_swapped else (a, b, c))])
    words = (*found.extents, *((0, found.share.total) if found.share else ()))
    extents = (ctypes.c_int64 * len(words))(*words)
    step = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(found.address)
    assert step(ctypes.addressof(pointers), ctypes.addressof(extents)) == 0
    return c.reshape(-1)


def agree(rng, dtype, m, n, k, transpose_a, transpose_b, batch=1):
    gemm = Gemm(dtype, m, n, k, transpose_a, transpose_b, batch, (m * k, k * n, m * n) if batch > 1 else (0, 0, 0))
    shapes = [(k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n), (m, n)]
    a, b, c = [rng.integers(-9, 9, (batch, *shape)).astype(DTYPES[dtype][0]) for shape in shapes]
    wanted = np.matmul(np.swapaxes(a, 1, 2) if transpose_a else a, np.swapaxes(b, 1, 2) if transpose_b else b)
    np.testing.assert_array_equal(in_plain_python(gemm, a, b, c), wanted.reshape(-1))
    np.testing.assert_array_equal(in_machine_code(gemm, a, b, c), wanted.reshape(-1))


@pytest.fixture
def few(monkeypatch):
    """Small products are cut into tiles and panels, packed and turned round, as large ones are."""
    small = dict(TILE=1, MOST_ROWS=12, LEAST_ROWS=4, FAR_COLUMNS=8, FAR_BYTES=64, SHORT=4, ACROSS_LEAST=4,
                 EVEN_LEAST=8)  # fmt: skip
    for name, value in small.items():
        monkeypatch.setattr(products, name, value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [*itertools.product((False, True), repeat=2)])
def test_plain_python_and_machine_code_agree_with_numpy(few, rng, dtype, transpose_a, transpose_b):
    for _ in range(12):
        m, n, k = rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 17, 20], 3).tolist()
        agree(rng, dtype, m, n, k, transpose_a, transpose_b, batch=int(rng.integers(1, 3)))


@pytest.mark.parametrize(
    "sizes",
    [(3, 4, 0), (1, 5, 0), (1, 37, 18), (1, 5, 40), (1, 1, 70), (17, 1, 9), (26, 19, 9), (26, 5, 9), (13, 40, 11)],
)
def test_empty_sums_vectors_and_blocks_too(few, rng, sizes):
    for dtype, transpose_a, transpose_b in itertools.product(DTYPES, (False, True), (False, True)):
        agree(rng, dtype, *sizes, transpose_a, transpose_b)


def test_all_functions_are_met(few):
    met = set()
    for m, n, k in itertools.product([1, 4, 5, 26], [1, 4, 5, 19, 40], [0, 9, 40]):
        for transposes in itertools.product((False, True), repeat=2):
            _, extents, _, tile = products._step_of(Gemm("f64", m, n, k, *transposes))
            met |= {*products._names(extents, tile)}
    assert met == {"", "wide", "narrow", "pack", "pack_columns", "put", "put_across", "rows", "dots", "dot"}


def test_words_are_the_fields_of_the_structs():
    assert len([*ProductExtents.fields()]) == products.WORDS == 1 + len(products._step_of(Gemm("f64", 2, 2, 2))[1])
    assert TileWords.size() == 8 * len([*products._names((1,) * 13, products.Tile.of("f64", "")), 1, 2, 3, 4])
