"""Large extents are arguments of kernels: other sizes, the same code, the same values."""

import numpy as np
import pytest
from emitted import emit_module
from fusible import check
from nest_verify import verify_function
from nests import Nest, memref
from programs import affine

from codegen.ir import parse
from codegen.kernel.arguments import SMALL, SMALL_INSIDE, with_arguments
from codegen.kernel.nest import F64, MemRef
from codegen.passes import optimize
from codegen.passes.plan import plan
from codegen.program import Kernel
from codegen.runtime import engine
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable

#: Programs of a batch of n, one for each way to lay loops.
GRAPHS = {
    "elements": "f(x: f64[{n}]) {{ a = exp(x) b = add(a, x) return b }}",
    "rows": """f(x: f64[{n},5]) {{
        m = max(x, axis=(1,)) k = reshape(m, shape=({n}, 1)) d = sub(x, k) e = exp(d)
        s = sum(e, axis=(1,)) t = reshape(s, shape=({n}, 1)) y = div(e, t) return y }}""",
    "columns": "f(x: f32[{n},7]) {{ e = tanh(x) s = sum(e, axis=(0,)) return e, s }}",
    "mean": """f(x: f64[{n}]) {{
        s = sum(x, axis=(0,)) c = constant(value={n}.0, dtype='f64') m = div(s, c)
        one = constant(value=1.0, dtype='f64') r = div(one, c) y = mul(x, r) return m, y }}""",
    "turned": "f(x: f64[{n},6]) {{ t = transpose(x, axes=(1, 0)) e = exp(t) return e }}",
    "flat": "f(x: f64[{n},6]) {{ e = neg(x) r = flip(e, axes=(0,)) y = reshape(r, shape=({all},)) return y }}",
    "running": "f(x: f64[{n},3]) {{ c = cumsum(x, axis=0, reverse=False) return c }}",
}
SIZES = (2, SMALL - 1, SMALL, SMALL + 1, 64, 65, 100, SMALL_INSIDE, SMALL_INSIDE + 1, 1000)


def graph(name, n):
    return parse(GRAPHS[name].format(n=n, all=6 * n))


def kernels(g):
    return [step.work for step in plan(optimize(g)).steps]


def text(g):
    """The text that LLVM is given for a graph."""
    functions = [work.function for work in kernels(g)]
    return emit_module(functions, engine.target_features())


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("n", SIZES)
def test_a_program_is_right_for_any_extent(name, n):
    check(graph(name, n))


@pytest.mark.parametrize("name", ["elements", "rows", "mean", "flat"])
def test_kernels_of_other_large_extents_are_one_text(name):
    assert len({text(graph(name, n)) for n in (33, 50, 61, 77, 501, 1023)}) == 1


def test_a_sum_in_blocks_is_one_text_for_any_number_of_blocks_whole_or_not():
    assert len({text(graph("columns", n)) for n in (3000, 4681, 5001, 7020, 40_001, 2340 * 5)}) == 1


@pytest.mark.parametrize("n", [3000, 2340 * 2, 2340 * 2 + 1, 40_001])
def test_sums_in_any_number_of_blocks_are_right(n):
    check(graph("columns", n))


def test_small_extents_stay_numbers():
    for work in kernels(graph("rows", 6)):
        assert work.extents == ()


def test_a_kernel_without_large_extents_is_itself():
    kernel = Kernel(affine(SMALL))
    assert with_arguments(kernel) is kernel


def test_every_place_of_a_number_has_an_argument_of_its_own():
    kernel = with_arguments(Kernel(affine(100)))
    memory = [a.type for a in kernel.function.arguments if isinstance(a.type, MemRef)]
    assert memory == [MemRef(None, F64), MemRef(None, F64)]
    assert kernel.extents == (100,) and kernel.function.names == ("x", "y", "n0")
    verify_function(kernel.function)


def test_what_varies_is_an_argument_however_small():
    kernel = with_arguments(Kernel(affine(4)), varying=[1])
    memory = [a.type for a in kernel.function.arguments if isinstance(a.type, MemRef)]
    assert memory == [MemRef(4, F64), MemRef(None, F64)]


def test_bounds_of_inner_loops_stay_numbers_for_longer():
    def rows(n):
        nest = Nest("rows", x=memref(F64, 40 * n), writes=("x",))
        with nest.parallel(40) as i:
            first = nest.op("arith.muli", i, nest.constant(n))
            with nest.parallel(n) as j:
                nest.store(nest.constant(1.0, F64), nest.x, nest.op("arith.addi", first, j))
        return with_arguments(Kernel(nest.end())).extents

    assert rows(SMALL_INSIDE) == (40, SMALL_INSIDE)
    assert rows(SMALL_INSIDE + 1) == (40, SMALL_INSIDE + 1, SMALL_INSIDE + 1)


@pytest.mark.parametrize("n", [1000, 1024, 1021, 64_000, 64_001, 100_000])
def test_whole_vectors_and_rests_of_dear_loops_are_right(n):
    check(parse(f"f(x: f64[{n}]) {{ a = sin(x) b = tanh(a) c = log1p(b) d = exp(c) return d }}"))


def test_other_sizes_cost_no_llvm():
    table = KernelTable(64)
    for n in (40, 41, 57, 63, 99, 640, 900):
        g = graph("rows", n)
        x = np.random.default_rng(n).normal(size=(n, 5))
        (y,) = Executable(plan(optimize(g)), table).call(x)
        e = np.exp(x - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-14)
    assert table.compiled_modules == 1
