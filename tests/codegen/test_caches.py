"""Large results go past the caches: which stores do, and that they store what others would."""

import numpy as np
import pytest
from emitted import emit_module
from mlir_runs import run as run_both
from nests import Nest, call, memref

import autodiff as ad
from codegen import compiler
from codegen.families import Families
from codegen.ir import parse
from codegen.kernel.nest import F32, F64, I8, INDEX, every, form_of
from codegen.passes import plan, storage
from codegen.program import Kernel
from codegen.runtime import engine
from codegen.runtime.kernels import KernelTable

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
DTYPES = {F64: np.float64, F32: np.float32, I8: np.bool_}


def doubled(type, sizes=(1 << 40, 1 << 40)):
    """y = 2 x, and of bools y = x."""
    nest = Nest("doubled", writes=("y",), x=memref(type), y=memref(type), n=INDEX)
    with nest.parallel(nest.n) as i:
        x = nest.load(nest.x, i)
        nest.store(nest.op("arith.addf", x, x) if type.is_float else x, nest.y, i)
    function = nest.end()
    storage.mark_nontemporal(function, sizes)
    return function


@pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("type", DTYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 16, 17, 33, 100, 257])
def test_what_goes_past_the_caches_is_what_is_stored(type, n, features, rng):
    function = doubled(type)
    text = emit_module([function], features)
    code = engine.compile(text)
    assert "!nontemporal" in text and "fence" in text
    for shift in range(4):  # of so many elements from where a register may begin
        x = rng.integers(0, 2, size=n).astype(DTYPES[type])
        y = np.zeros(n + 80, x.dtype)
        start = (-y.ctypes.data % 64) // y.itemsize + shift
        assert call(code, function, (x, y[start:], n)) == 0
        np.testing.assert_array_equal(y[start : start + n], x * (2 if type.is_float else 1))
        assert not y[:start].any() and not y[start + n :].any()


def test_a_store_that_goes_past_the_caches_is_another_function_than_one_that_does_not():
    assert form_of(doubled(F64)) != form_of(doubled(F64, (8, 8)))
    assert emit_module([doubled(F64)]) != emit_module([doubled(F64, (8, 8))])
    assert form_of(doubled(F64)) == form_of(doubled(F64))


def test_mlir_says_so_too(rng):
    x = rng.normal(size=40)
    assert run_both(doubled(F64), [x, np.zeros(40)], [40]) == 0


def marked(graph):
    """By kernel: the numbers of the arguments whose stores go past the caches."""
    return [
        sorted({
            step.work.function.arguments.index(o.operands[1])
            for o in every(step.work.function.body.operations)
            if "nontemporal" in o.attributes
        })
        for step in plan.plan(graph).steps
        if isinstance(step.work, Kernel)
    ]  # fmt: skip


SUM_AND_MAP = """f(x: f64[{n}]) {{
    e: f64[{n}] = mul(x, x)  s: f64[] = sum(e, axis=(0,))  return e, s }}"""


def test_large_results_of_large_kernels_do():
    least = storage.NONTEMPORAL_BYTES // 16  # x and e together
    (found,) = marked(parse(SUM_AND_MAP.format(n=least + 100)))
    assert len(found) == 1  # e; not the sum, nor the sums of blocks
    assert marked(parse(SUM_AND_MAP.format(n=least - 10_000))) == [[]]


def test_what_a_kernel_reads_again_does_not():
    rows = """f(x: f64[8000,1000]) {
        top: f64[8000] = max(x, axis=(1,))  t: f64[8000,1] = reshape(top, shape=(8000, 1))
        u: f64[8000,1000] = broadcast_to(t, shape=(8000, 1000))  d: f64[8000,1000] = sub(x, u)
        e: f64[8000,1000] = exp(d)  s: f64[8000] = sum(e, axis=(1,))  r: f64[8000,1] = reshape(s, shape=(8000, 1))
        b: f64[8000,1000] = broadcast_to(r, shape=(8000, 1000))  y: f64[8000,1000] = div(e, b)  return y }"""
    assert any(marked(parse(rows)))
    for step in plan.plan(parse(rows)).steps:
        accesses = list(every(step.work.function.body.operations))
        read = {o.operands[0] for o in accesses if o.name == "memref.load"}
        assert not any("nontemporal" in o.attributes and o.operands[1] in read for o in accesses)


def test_results_have_the_same_bits(monkeypatch, rng):
    """Also beside sums, whose products and sums are fused as before, and where rows begin anywhere."""
    x = rng.normal(size=(301, 777))

    def both(x):
        y = x * x * x + x
        return ad.sum(y), y

    def results():
        compiler.clear()
        return [np.asarray(r) for r in (*ad.jit(both)(x), *ad.jit(lambda x: (ad.softmax(x, axis=1), x[:, 1:] + 1))(x))]

    into = results()
    monkeypatch.setattr(storage, "NONTEMPORAL_BYTES", 1 << 10)
    with compiler.recorded() as graphs:
        past = results()
    assert any(any(m) for g in graphs for m in marked(g))
    for ours, theirs in zip(past, into, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    compiler.clear()


def test_a_family_has_no_program_for_sizes_beyond_the_caches(monkeypatch):
    monkeypatch.setattr(storage, "NONTEMPORAL_BYTES", 1 << 20)
    families = Families(KernelTable(16))
    known = [families.find(parse(SUM_AND_MAP.format(n=n))) is not None for n in (5000, 6000, 7000, 100_000, 8000)]
    assert known == [False, True, True, False, True]
