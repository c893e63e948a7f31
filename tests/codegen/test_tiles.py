"""Loops by square tiles: what is read across is turned in registers; every size, order of axes, type and machine."""

import itertools

import numpy as np
import pytest
from emitted import emit_module
from nests import DTYPES, Nest, call, memref

import autodiff as ad
from codegen.emit import tiles
from codegen.kernel.nest import F32, F64, I64, INDEX
from codegen.runtime import engine
from codegen.runtime.share import shared

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
WIDEST = "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"
SIZES = (0, 1, 3, 7, 8, 9, 15, 16, 17, 33, 64, 70)


def across(type, *, between=False):
    """y[i, j] = x[j, i] + w[i], or for all b between them y[i, b, j] = x[j, b, i] + w[i], of run-time extents."""
    nest = Nest("across", writes=("y",), x=memref(type), w=memref(type),
                y=memref(type), m=INDEX, n=INDEX, k=INDEX, rows=INDEX, columns=INDEX)
    add = "arith.addi" if type is I64 else "arith.addf"

    def row(i, b):
        per_row = nest.load(nest.w, i)
        from_here = nest.op("arith.addi", nest.op("arith.muli", i, nest.columns), nest.op("arith.muli", b, nest.n))
        along = nest.op("arith.addi", nest.op("arith.muli", b, nest.m), i)

        def one(j):
            read = nest.op("arith.addi", nest.op("arith.muli", j, nest.rows), along)
            nest.store(nest.op(add, nest.load(nest.x, read), per_row), nest.y, nest.op("arith.addi", from_here, j))

        nest.loop(nest.n, body=one)

    with nest.parallel(nest.m) as i:
        if between:
            nest.loop(nest.k, body=lambda b: row(i, b))
        else:
            row(i, nest.constant(0))
    return nest.end()


@pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("type", [F64, F32, I64], ids=str)
def test_every_size_is_read_across_and_nothing_else_is_written(type, between, features, rng):
    function = across(type, between=between)
    code = engine.compile(emit_module([function], features))
    dtype = DTYPES[type]
    for m, n in itertools.product(SIZES, SIZES):
        k = 3 if between else 1
        x, w = ((rng.standard_normal(shape) * 100).astype(dtype) for shape in ((n, k, m), (m,)))
        y = np.full(m * k * n + 64, 7, dtype)
        call(code, function, [x.ravel(), w, y, m, n, k, k * m, k * n])
        np.testing.assert_array_equal(y[: m * k * n].reshape(m, k, n), x.transpose(2, 1, 0) + w[:, None, None])
        assert (y[m * k * n :] == 7).all()


def test_a_tile_is_loaded_by_whole_vectors():
    text = emit_module([across(F64)], WIDEST)
    assert text.count("load <8 x double>") == 8
    assert text.count("shufflevector <8 x double>") >= 24


def test_what_is_read_along_its_rows_has_no_tiles():
    nest = Nest("along", writes=("y",), x=memref(F64), y=memref(F64), m=INDEX, n=INDEX)
    with nest.parallel(nest.m) as i:
        start = nest.op("arith.muli", i, nest.n)

        def one(j):
            at = nest.op("arith.addi", start, j)
            nest.store(nest.load(nest.x, at), nest.y, at)

        nest.loop(nest.n, body=one)
    (loop,) = [o for o in nest.end().body.operations if o.name == "scf.parallel"]
    assert not tiles.reads_across(loop.regions[0])


@pytest.mark.parametrize("rows,chunk", [(9, 8), (40, 16), (700, 64), (3000, 64)])
def test_threads_take_whole_tiles(rows, chunk):
    pieces = shared(across(F64), (rows, 400_000, 1, rows, 400_000))
    (piece,) = [p for p in pieces if p.loop is not None]
    assert piece.is_tiled
    assert piece.chunk == chunk


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "complex128"])
@pytest.mark.parametrize("shape", [(17, 300), (20, 17, 50)], ids=str)
def test_every_order_of_axes_beside_other_work(shape, dtype, rng):
    x = (rng.standard_normal(shape) * 10).astype(dtype)
    for axes in itertools.permutations(range(len(shape))):
        turned = x.transpose(axes)
        z = (rng.standard_normal(turned.shape) * 10).astype(dtype)
        w = (rng.standard_normal(turned.shape[:1]) * 10).astype(dtype).reshape((-1, *[1] * (len(shape) - 1)))

        def f(x, z, w, axes=axes):
            return ad.permute_dims(x, axes) * z + w

        np.testing.assert_allclose(ad.jit(f)(x, z, w), turned * z + w, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(16, 16), (17, 300), (20, 17, 50), (5, 40)], ids=str)
def test_bools_are_turned_by_tiles(shape, rng):
    x = rng.random(shape) > 0.5
    for axes in itertools.permutations(range(len(shape))):
        turned = x.transpose(axes)
        z = rng.random(turned.shape) > 0.5
        np.testing.assert_array_equal(ad.jit(lambda x, z, axes=axes: ad.permute_dims(x, axes) ^ z)(x, z), turned ^ z)
    assert "load <16 x i8>" in ad.inspect(lambda x: ~x.T, np.zeros((200, 300), bool)).llvm
