"""Kernels of complex numbers: real numbers at their level, both parts at once, places told apart."""

import numpy as np
from mlir_tools import run_program
from nest_tools import Nest

import autodiff as ad
from codegen import compiler
from codegen.emit.strides import form_of, never_meet
from codegen.ir import parse
from codegen.kernel.nest import F64, INDEX, MemRef

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def test_the_kernel_level_sees_real_numbers_only(golden):
    graph = parse("f(z: c128[100], w: c128[100]) { a = mul(z, w)  b = conj(a)  return b }")
    golden(compiler.stages(graph).mlir)


def test_the_real_mlir_computes_the_same():
    graph = parse(
        "f(z: c128[7], w: c64[3,4]) { a = exp(z)  b = mul(a, z)  c = abs_complex(b)  d = sqrt(w)  e = sum(d, axis=(0,))"
        "  return b, c, e }"
    )
    z, w = random(7), random(3, 4).astype(np.complex64)
    b, c, e = run_program(compiler.make_program(graph), [z, w])
    np.testing.assert_allclose(b, np.exp(z) * z, rtol=1e-14)
    np.testing.assert_allclose(c, np.abs(np.exp(z) * z), rtol=1e-14)
    np.testing.assert_allclose(e, np.sqrt(w).sum(0), rtol=1e-5)


def test_both_parts_are_loaded_and_stored_together():
    graph = parse("f(z: c128[1000], w: c128[1000]) { a = mul(z, w)  return a }")
    text = compiler.stages(graph).llvm
    assert "scatter" not in text and "gather" not in text


def test_the_next_size_needs_no_new_kernel():
    f = ad.jit(ad.value_and_grad(lambda z: ad.sum(ad.abs(z * z + 1) ** 2)))
    for n in (3001, 4057):
        f(random(n))
    before = compiler.counts().modules
    z = random(5003)
    value, g = f(z)
    assert compiler.counts().modules == before
    np.testing.assert_allclose(value, np.sum(np.abs(z * z + 1) ** 2), rtol=1e-13)
    np.testing.assert_allclose(g, 4 * (z * z + 1) * np.conj(z), rtol=1e-13)


def test_places_are_told_apart_as_sums_of_products():
    k = Nest("f", x=MemRef(64, F64), n=INDEX)
    with k.loop(k.index(8)) as i:
        double = k.op("arith.muli", i, k.index(2))
        after = k.op("arith.addi", double, k.index(1))
        far = k.op("arith.addi", double, k.index(4))
        moved = k.op("arith.addi", double, k.n)
    assert form_of(after).constant == 1 and form_of(after).terms == form_of(double).terms
    assert never_meet([double, after], i, {i})
    assert not never_meet([double, far], i, {i})
    assert not never_meet([double, moved], i, {i})
