"""Kernels of small dense matrices: where there is one, what it gives, and the program that it stands in."""

import mlir_tools
import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import linalg  # noqa: F401  its operations are in `OPS` once it is imported
from codegen import compiler
from codegen.compiler import compile_graph, make_program
from codegen.ir import OPS, Aval, Graph, apply, evaluate, input_node
from codegen.lowering import DENSE_ROWS
from codegen.program import HostCall, Kernel, Loop, every_step
from codegen.runtime.host_steps import WithFallback
from codegen.runtime.launcher import Refused
from codegen.runtime.share import shared

#: (operation, parameters, how many right-hand sides it takes: None for none)
PROGRAMS = [
    ("cholesky", {}, False), ("inv", {"refuses": True}, False), ("lu", {}, False), ("solve", {}, True),
    ("solve_factored", {}, True),
    ("solve_triangular", {"lower": True, "refuses": True}, True),
    ("solve_triangular", {"lower": False, "refuses": True}, True),
]  # fmt: skip
TOLERANCE = {np.float64: 1e-11, np.float32: 3e-3}


def definite(rng, *shape, dtype=np.float64):
    """Well conditioned, and its upper triangle another one than the lower."""
    n = shape[-1]
    x = rng.normal(size=(*shape, n)) / np.sqrt(n)
    y = x @ x.swapaxes(-1, -2) + np.eye(n)
    return ((y + y.swapaxes(-1, -2)) / 2).astype(dtype)


def case(rng, program, n, batch, columns, dtype=np.float64):
    """A graph of one operation, and arrays for it."""
    name, params, has_side = program
    a = definite(rng, *batch, n, dtype=dtype)
    if name in ("inv", "solve"):
        a = a + rng.normal(size=a.shape).astype(dtype) * 0.1  # a general one
    arrays = [a]
    if name == "solve_factored":
        arrays.append(np.linalg.cholesky(a))
    if has_side:
        arrays.append(rng.normal(size=(*batch, n, columns)).astype(dtype))
    inputs = [input_node(Aval(x.shape, x.dtype)) for x in arrays]
    return Graph.of(inputs, [apply(OPS[name], *inputs, **params)]), arrays


def is_native(graph):
    return not any(isinstance(s.work, HostCall) for s, _, _ in every_step(make_program(graph)))


@pytest.mark.parametrize(
    ("n", "dtype"), [(n, np.float64) for n in (1, 2, 4, 5, 7, 9, 11, 16, 33)] + [(3, np.float32), (10, np.float32)]
)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_kernel_gives_what_the_reference_gives_whatever_the_size_and_the_batch(program, n, dtype, rng):
    for batch, columns in (((), 1), ((), 3), ((3,), 1), ((2, 2), n)):
        graph, arrays = case(rng, program, n, batch, columns, dtype)
        (found,), (expected,) = compile_graph(graph).call(*arrays), evaluate(graph, *arrays)
        assert is_native(graph) and found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("n", [64, 66, 300, DENSE_ROWS + 1])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_larger_matrices_have_memory_of_their_own_and_the_largest_go_to_lapack(program, n, rng):
    for batch, columns in (((), 1), ((2,), 5)) if n <= DENSE_ROWS else (((), 1),):
        graph, arrays = case(rng, program, n, batch, columns)
        assert is_native(graph) == (n <= DENSE_ROWS)
        (found,), (expected,) = compile_graph(graph).call(*arrays), evaluate(graph, *arrays)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(("n", "batch", "columns"), [(3, (2,), 2), (9, (), 1), (10, (2,), 6)])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_the_same_kernels_pass_the_real_mlir(program, n, batch, columns, rng):
    graph, arrays = case(rng, program, n, batch, columns)
    (found,), (expected,) = mlir_tools.run_program(make_program(graph), arrays), evaluate(graph, *arrays)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("n", [4, 9])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_threads_share_the_matrices_of_a_batch_and_each_is_what_it_is_alone(program, n, rng):
    graph, arrays = case(rng, program, n, (3000,), 2)
    (kernel,) = [s.work for s in make_program(graph).steps]
    assert isinstance(kernel, Kernel) and any(0 < p.chunk < p.total for p in shared(kernel.function, kernel.extents))
    (found,) = compile_graph(graph).call(*arrays)
    for part in (slice(0, 2), slice(2998, 3000)):
        few, _ = case(rng, program, n, (2,), 2)
        np.testing.assert_allclose(found[part], compile_graph(few).call(*[x[part] for x in arrays])[0], rtol=1e-13)


def test_what_a_kernel_refuses_and_the_reference_does_not_has_a_value(rng):
    graph, arrays = case(rng, ("inv", {"refuses": True}, False), 3, (), 1)

    def refuses(*_):
        raise Refused("as it rounds")

    decided = WithFallback(graph)
    decided.call = refuses
    np.testing.assert_array_equal(decided(*arrays)[0], np.linalg.inv(arrays[0]))


def test_a_filter_is_one_native_step(rng):
    def filtered(transition, noise, seen):
        def step(state, z):
            x, p = state
            x, p = transition @ x, transition @ p @ transition.T + noise
            gain = ad.linalg.solve(p + noise, p).T
            x = x + gain @ (z - x)
            return (x, p - gain @ p), x

        return ad.scan(step, (ad.zeros(4), ad.eye(4)), seen)[1]

    transition, noise, seen = np.eye(4) + 0.1 * rng.normal(size=(4, 4)), 0.5 * np.eye(4), rng.normal(size=(20, 4))
    with compiler.recorded() as graphs:
        found = ad.jit(filtered)(transition, noise, seen)
    program = make_program(graphs[0])
    assert compile_graph(graphs[0]).plan and isinstance(program.steps[-1].work, Loop)
    x, p, expected = np.zeros(4), np.eye(4), []
    for z in seen:
        x, p = transition @ x, transition @ p @ transition.T + noise
        gain = np.linalg.solve(p + noise, p).T
        x, p = x + gain @ (z - x), p - gain @ p
        expected.append(x)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    *_, fill = graphs[0].inputs  # a number under `jit`: what the first state is filled with
    (ran,) = mlir_tools.run_program(program, [transition, noise, seen, np.zeros((), fill.aval.dtype)])
    np.testing.assert_allclose(ran, expected, rtol=1e-10)


#: (operation, parameters, dtypes)
NUMBERS = [
    ("det", "fc"), ("adjugate", "fc"), ("log_abs_det", "fc"), ("det_direction", "fc"),
    ("cholesky", "c"), ("inv", "c"), ("solve", "c"), ("solve_factored", "c"), ("solve_triangular", "c"),
]  # fmt: skip
PARAMS = {"solve_triangular": {"lower": False, "refuses": True}, "inv": {"refuses": True}}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 9, 13])
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in NUMBERS for kind in kinds])
def test_determinants_and_complex_matrices_are_native_too(name, kind, n, rng):
    x = rng.normal(size=(2, 3, n, n)) / np.sqrt(n) + np.eye(n)
    x = x + 1j * rng.normal(size=x.shape) if kind == "c" else x
    is_definite = name in ("cholesky", "solve_factored")
    arrays = [x @ x.swapaxes(-1, -2).conj() + np.eye(n) if is_definite else x]
    if name == "solve_factored":
        arrays.append(np.linalg.cholesky(arrays[0]))
    if name.startswith("solve"):
        arrays.append(x[..., :2].copy())
    inputs = [input_node(Aval(a.shape, a.dtype)) for a in arrays]
    graph = Graph.of(inputs, [apply(OPS[name], *inputs, **PARAMS.get(name, {}))])
    (found,), (expected,) = compile_graph(graph).call(*arrays), evaluate(graph, *arrays)
    assert is_native(graph) and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
