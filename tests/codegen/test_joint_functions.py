"""Functions of one number that have steps in common are one with several results; long chains go in twos."""

import re

import numpy as np
import pytest
from emitted import emit_module
from mpmath import mp, mpf
from nests import DTYPES, Nest, call, elementwise, memref

from codegen.kernel.nest import F32, F64, INDEX
from codegen.records import replace
from codegen.runtime import engine, objects
from codegen.runtime.disk import DiskCache
from codegen.runtime.kernels import KernelTable

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
EACH_MACHINE = pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)


def both(type):
    """y = sin(x), z = cos(x)."""
    nest = Nest(
        "both", writes=("y", "z"), x=memref(type), y=memref(type), z=memref(type),
        n=INDEX,
    )  # fmt: skip
    with nest.parallel(nest.n) as i:
        x = nest.load(nest.x, i)
        nest.store(nest.op("math.cos", x), nest.z, i)
        nest.store(nest.op("math.sin", x), nest.y, i)
    return nest.end()


def run(function, features, *arrays):
    code = engine.compile(emit_module([function], features))
    assert call(code, function, (*arrays, arrays[0].size)) == 0


@EACH_MACHINE
@pytest.mark.parametrize("type", [F64, F32], ids=str)
def test_sine_and_cosine_of_one_number_have_the_bits_that_each_has_alone(type, features, rng):
    x = np.concatenate([rng.normal(size=43) * 10, [0.0, -0.0, 1e300, -1e30, np.inf, np.nan, 2.0**41, 5e5]])
    with np.errstate(over="ignore"):
        x = x.astype(DTYPES[type])
    y, z = np.empty_like(x), np.empty_like(x)
    run(both(type), features, x, y, z)
    for name, got in (("sin", y), ("cos", z)):
        alone = np.empty_like(x)
        run(elementwise(name + "_alone", f"math.{name}", [type], type), features, x, alone)
        assert got.tobytes() == alone.tobytes()


def test_sine_and_cosine_of_one_number_are_one_call():
    text = emit_module([both(F64)], MACHINES["widest"])
    body = text.split("@both.body")[2]
    assert "@sincos.v8f64" in body and "@sin.v8f64" not in body and "@cos.v8f64" not in body


def minus(nest, x):
    return nest.op("arith.negf", x)


def times(nest, x, y):
    return nest.op("arith.mulf", x, y)


#: exp(-(x * x)) as it may be written.
BELLS = {
    "-(x*x)": lambda nest, x, _: minus(nest, times(nest, x, x)),
    "-x*x": lambda nest, x, _: times(nest, minus(nest, x), x),
    "x*-x": lambda nest, x, _: times(nest, x, minus(nest, x)),
}
#: And what is something else.
OTHERS = {
    "x*x": lambda nest, x, _: times(nest, x, x),
    "-x*-x": lambda nest, x, _: times(nest, minus(nest, x), minus(nest, x)),
    "-(-x*x)": lambda nest, x, _: minus(nest, times(nest, minus(nest, x), x)),
    "-(x*y)": lambda nest, x, y: minus(nest, times(nest, x, y)),
    "-(y*y)": lambda nest, x, y: minus(nest, times(nest, y, y)),
    "-y*x": lambda nest, x, y: times(nest, minus(nest, y), x),
    "-x": lambda nest, x, _: minus(nest, x),
}


def erf_and_exp(type, exponent=BELLS["-(x*x)"]):
    """y = erf(x), z = exp(the exponent of x and another number)."""
    names = {n: memref(type) for n in ("x", "other", "y", "z")}
    nest = Nest("error_function", writes=("y", "z"), **names, n=INDEX)
    with nest.parallel(nest.n) as i:
        x, other = nest.load(nest.x, i), nest.load(nest.other, i)
        nest.store(nest.op("math.exp", exponent(nest, x, other)), nest.z, i)
        nest.store(nest.op("math.erf", x), nest.y, i)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize(("type", "end", "least"), [(F64, 6.0, 27.3), (F32, 9.25, 10.1)], ids=str)
def test_the_bell_beside_the_error_function_is_right_also_where_that_has_ended(type, end, least, features, rng):
    near = np.concatenate([rng.uniform(-end, end, 203), rng.uniform(-1e-2, 1e-2, 20), [0.0, -0.0, 1e-300, end, -end]])
    far = np.concatenate([np.nextafter([end, -end], [9, -9]), rng.uniform(end, least, 9), [40.0, 1e30, -np.inf]])
    for mixed in (near, np.concatenate([near, far, [np.nan]])):
        x = rng.permutation(mixed).astype(DTYPES[type])
        y, z, alone, exact = np.empty_like(x), np.empty_like(x), np.empty_like(x), np.empty_like(x)
        run(erf_and_exp(type), features, x, x, y, z)
        run(elementwise("erf_alone", "math.erf", [type], type), features, x, alone)
        assert y.tobytes() == alone.tobytes()
        with np.errstate(over="ignore"):
            run(elementwise("exp_alone", "math.exp", [type], type), features, -(x * x), exact)
        is_near = np.abs(x) <= end
        np.testing.assert_array_equal(z[~is_near], exact[~is_near])  # and nan
        with mp.workprec(80):
            true = np.array([float(mp.exp(-(mpf(v) ** 2))) for v in x[is_near].tolist()])
        bound = 3 if features else 3 + end**2  # one without fused operations rounds the square
        assert np.all(np.abs(z[is_near] - true) <= bound * np.spacing(true.astype(x.dtype)))


@pytest.mark.parametrize("exponent", BELLS.values(), ids=BELLS)
def test_the_error_function_and_its_bell_are_one_call(exponent):
    text = emit_module([erf_and_exp(F64, exponent)], MACHINES["masks"])
    body = text.split("@error_function.body")[2]
    assert "@erfbell.v" in body and "@erf.v" not in body and "@exp.v" not in body


@pytest.mark.parametrize("exponent", OTHERS.values(), ids=OTHERS)
def test_another_exponential_beside_the_error_function_is_itself(exponent):
    function = erf_and_exp(F64, exponent)
    assert "@erfbell" not in emit_module([function], MACHINES["masks"])


def tanh_and_exp(type, exponent=lambda nest, size: minus(nest, nest.op("arith.addf", size, size))):
    """y = tanh(x), z = exp(-(|x| + |x|))."""
    nest = Nest("fading", writes=("y", "z"), **{n: memref(type) for n in "xyz"}, n=INDEX)
    with nest.parallel(nest.n) as i:
        x = nest.load(nest.x, i)
        nest.store(nest.op("math.exp", exponent(nest, nest.op("math.absf", x))), nest.z, i)
        nest.store(nest.op("math.tanh", x), nest.y, i)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize("type", [F64, F32], ids=str)
def test_the_exponential_beside_a_hyperbolic_tangent_has_all_digits_also_where_that_is_one(type, features, rng):
    ends = [0.0, -0.0, 1e-30, 9.9, 10.1, 21.9, -22.1, 43.6, 51.9, -52.2, 60.0, 354.3, -372.9, 373.1, 1e30, -np.inf]
    x = rng.permutation(np.concatenate([rng.normal(size=120) * 4, rng.uniform(-380, 380, 60), ends, [np.nan]]))
    x = x.astype(DTYPES[type])
    y, z, alone = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    run(tanh_and_exp(type), features, x, y, z)
    run(elementwise("tanh_alone", "math.tanh", [type], type), features, x, alone)
    assert y.tobytes() == alone.tobytes() and np.isnan(z[np.isnan(x)]).all()
    rest, z = x[~np.isnan(x)], z[~np.isnan(x)]
    with mp.workprec(80):
        true = np.array([float(mp.exp(-2 * abs(mpf(v)))) for v in rest.tolist()]).astype(x.dtype)
    assert np.all(np.abs(z - true) <= np.spacing(true))


def test_a_hyperbolic_tangent_and_the_exponential_are_one_call():
    body = emit_module([tanh_and_exp(F64)], MACHINES["masks"]).split("@fading.body")[2]
    assert "@tanhfade.v" in body and "@tanh.v" not in body and "@exp.v" not in body
    for other in (lambda nest, size: nest.op("arith.addf", size, size), minus, lambda nest, size: size):
        assert "@tanhfade" not in emit_module([tanh_and_exp(F64, other)], MACHINES["masks"])


def exp_and_less_one(type):
    """y = expm1(x), z = exp(x)."""
    nest = Nest("growing", writes=("y", "z"), **{n: memref(type) for n in "xyz"}, n=INDEX)
    with nest.parallel(nest.n) as i:
        x = nest.load(nest.x, i)
        nest.store(nest.op("math.exp", x), nest.z, i)
        nest.store(nest.op("math.expm1", x), nest.y, i)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize("type", [F64, F32], ids=str)
def test_an_exponential_and_what_it_is_beyond_one_are_one_call_and_right(type, features, rng):
    assert "@expm1exp.v" in emit_module([exp_and_less_one(F64)], MACHINES["masks"])
    ends = [0.0, -0.0, 1e-310, -1e-300, 1e-20, -19.9, -20.1, -39.9, -44.5, -87.4, -103.9, -104.1, 88.7, 89.1, -708.5]
    ends += [-745.1, -746.5, 709.7, 709.8, 1e30, -1e30, np.inf, -np.inf, np.nan]
    x = rng.permutation(np.concatenate([rng.normal(size=100), rng.uniform(-750, 720, 60), ends])).astype(DTYPES[type])
    y, z, less, whole = (np.empty_like(x) for _ in range(4))
    run(exp_and_less_one(type), features, x, y, z)
    run(elementwise("expm1_alone", "math.expm1", [type], type), features, x, less)
    run(elementwise("exp_alone", "math.exp", [type], type), features, x, whole)
    assert y.tobytes() == less.tobytes()
    np.testing.assert_allclose(z, whole, rtol=2 * np.finfo(x.dtype).eps, atol=2 * np.finfo(x.dtype).smallest_subnormal)


def test_of_different_numbers_they_are_two_calls():
    nest = Nest("apart", writes=("y",), x=memref(F64, 40), y=memref(F64, 40))
    with nest.parallel(40) as i:
        x = nest.load(nest.x, i)
        nest.store(nest.op("math.sin", nest.op("math.cos", x)), nest.y, i)
    assert "@sincos" not in emit_module([nest.end()], MACHINES["widest"])


def chain(depth, functions):
    """y = f(f(... f(x))) of so many functions."""
    nest = Nest("chain", writes=("y",), x=memref(F64), y=memref(F64), n=INDEX)
    with nest.parallel(nest.n) as i:
        values = [nest.load(nest.x, i)] * functions
        for step in range(depth):
            values = [nest.op("math.tanh" if step % 2 else "math.sin", v) for v in values]
            values = [nest.op("arith.addf", v, nest.constant(float(j), F64)) for j, v in enumerate(values)]
        while len(values) > 1:
            values = [nest.op("arith.addf", *values[:2]), *values[2:]]
        nest.store(values[0], nest.y, i)
    return nest.end()


def test_a_long_chain_takes_four_vectors_at_a_time_and_what_has_work_side_by_side_one():
    assert "<32 x double>" in emit_module([chain(20, 1)], "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma")
    assert "<16 x double>" not in emit_module([chain(4, 4)], "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma")


def name_of(kernel):
    """The name of a kernel in its module, which may have elementary functions, too."""
    (name,) = [n for n in kernel.code.names if not n.startswith("called.")]
    return name


def test_kernels_share_the_code_of_the_functions_that_they_call(monkeypatch, rng):
    made, texts = objects.new_code, []

    def noted(keys, text, *more):
        texts.append(text)
        return made(keys, text, *more)

    monkeypatch.setattr(objects, "new_code", noted)
    table, x = KernelTable(8), rng.normal(size=40)
    for depth in (8, 9):  # long chains, which are not large
        texts.clear()
        function, y = chain(depth, 1), np.zeros(40)
        (kernel,) = table.load([function]).values()
        assert call(kernel.code, replace(function, name=name_of(kernel)), (x, y, 40)) == 0
        expected = x
        for step in range(depth):
            expected = np.tanh(expected) if step % 2 else np.sin(expected)
        np.testing.assert_allclose(y, expected, rtol=1e-14)
    (text,) = texts  # the second kernel alone
    assert {*re.findall(r"^(\w+) .*@called\.tanh\..*nounwind", text, re.MULTILINE)} == {"declare"}


def test_a_kernel_from_disk_finds_the_functions_that_it_calls(monkeypatch, tmp_path):
    disk, function, found = DiskCache(tmp_path / "objects"), chain(8, 1), []
    for objects_from_disk in (0, 1):
        monkeypatch.setattr(objects, "_codes", {})  # as in a new process
        table, x, y = KernelTable(8, lambda: disk), np.linspace(-2.0, 2.0, 40), np.zeros(40)
        (kernel,) = table.load([function]).values()
        assert call(kernel.code, replace(function, name=name_of(kernel)), (x, y, 40)) == 0
        assert table.disk_objects == objects_from_disk
        found.append(y)
    np.testing.assert_array_equal(*found)


@EACH_MACHINE
def test_functions_are_called_in_a_large_loop_and_inlined_in_a_small_one(features, rng):
    large, small = (replace(chain(depth, 1), name=name) for name, depth in (("large", 24), ("small", 2)))
    assert "@called." in emit_module([large], features) and "@called." not in emit_module([small], features)
    code = engine.compile(emit_module([large, small], features))
    for n in (1, 5, 40):
        x = rng.normal(size=n)
        x[0] = 1e300  # libm's, in both
        for function, depth in ((large, 24), (small, 2)):
            expected, y = x, np.empty(n)
            for step in range(depth):
                expected = (np.tanh if step % 2 else np.sin)(expected)
            assert call(code, function, (x, y, n)) == 0
            np.testing.assert_allclose(y, expected, rtol=1e-14)


@EACH_MACHINE
def test_a_long_chain_is_right_for_any_length(features, rng):
    for n in (0, 1, 7, 8, 15, 16, 17, 40):
        x = rng.normal(size=n)
        expected = x
        for step in range(20):
            expected = (np.tanh if step % 2 else np.sin)(expected)
        y = np.empty(n)
        run(chain(20, 1), features, x, y)
        np.testing.assert_allclose(y, expected, rtol=1e-14)
