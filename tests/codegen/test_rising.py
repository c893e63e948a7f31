"""The gradient of a slice at a place that only the run knows: inside of it, at its edges, and beyond them."""

import itertools

import numpy as np
import pytest
from emitted import emit_module
from nests import Nest, call, memref

import autodiff as ad
from codegen.kernel.nest import F32, F64, I64, INDEX
from codegen.runtime import engine

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
WIDEST = "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"
DTYPES = {F64: np.float64, F32: np.float32}


def within(nest, i, offset, length, is_turned):
    """True if i - offset is a place of a window, two from its ends, and the nearest that is in it."""
    zero, one, two = map(nest.constant, (0, 1, 2))
    place = nest.op("arith.subi", i, offset)
    last = nest.op("arith.subi", length, one)
    if is_turned:
        high = nest.compare("sgt", nest.op("arith.subi", length, two), place)
        inside = nest.op("arith.andi", nest.compare("sle", two, place), high)
        nearest = nest.op("arith.minsi", last, nest.op("arith.maxsi", zero, place))
    else:
        high = nest.compare("sle", place, nest.op("arith.subi", last, two))
        inside = nest.op("arith.andi", nest.compare("sgt", place, one), high)
        nearest = nest.op("arith.maxsi", nest.op("arith.minsi", place, last), zero)
    return inside, nearest


def windows(type, *, is_summed=False):
    """y[i] = x[i - a] where that is there, two from its ends, and twice x[i - b]; or the sum over i."""
    nest = Nest("windows", writes=("y",), x=memref(type), y=memref(type), n=INDEX, m=INDEX,
                a=INDEX, b=INDEX)  # fmt: skip

    def element(i):
        zero, found = nest.constant(0.0, type), []
        for k, offset in enumerate((nest.a, nest.b)):
            inside, nearest = within(nest, i, offset, nest.m, is_turned=k == 1)
            value = nest.op("arith.mulf", nest.load(nest.x, nearest), nest.constant(k + 1.0, type))
            found.append(nest.op("arith.select", inside, value, zero, type=type))
        return nest.op("arith.addf", *found)

    if is_summed:
        def body(i, total):
            return (nest.op("arith.addf", total, element(i), fastmath=("reassoc",)),)

        (total,) = nest.loop(nest.n, (nest.constant(0.0, type),), body)
        nest.store(total, nest.y, 0)
    else:
        with nest.parallel(nest.n) as i:
            nest.store(element(i), nest.y, i)
    return nest.end()


def expected(x, n, a, b):
    found = np.zeros(n, x.dtype)
    for offset, times in ((a, 1), (b, 2)):
        for k, value in enumerate(x[2:-2], 2):
            if 0 <= k + offset < n:
                found[k + offset] += times * value
    return found


@pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("type", [F64, F32], ids=str)
@pytest.mark.parametrize("is_summed", [False, True])
def test_windows_at_any_place(type, features, is_summed, rng):
    function = windows(type, is_summed=is_summed)
    code = engine.compile(emit_module([function], features))
    for n, m in itertools.product((0, 1, 64, 257), (1, 31, 200)):
        x = rng.integers(-8, 9, m).astype(DTYPES[type])
        places = [(0, 0), (5, -3), (40, 100), (500, -500), (n - m, n - 1)]
        if (n, m) == (257, 200):  # every place of a vector at every edge
            places += [place for a in range(-70, 60) for place in ((a, -30), (-30, a))]
        for a, b in places:
            y = np.full(max(n, 1), np.nan, DTYPES[type])
            assert call(code, function, (x, y, n, m, a, b)) == 0
            right = expected(x, n, a, b)
            np.testing.assert_array_equal(y[:1] if is_summed else y[:n], right.sum() if is_summed else right)


@pytest.mark.parametrize("name", ["arith.maxsi", "arith.minsi"])
def test_a_counter_that_is_a_number_is_held_back_too(name):
    """Beside a window: an `arange` with a bound, stored."""
    nest = Nest("bounded", writes=("y", "z"), x=memref(F64), y=memref(F64),
                z=memref(I64), n=INDEX, m=INDEX, a=INDEX)  # fmt: skip
    with nest.parallel(nest.n) as i:
        nest.store(nest.load(nest.x, within(nest, i, nest.a, nest.m, is_turned=False)[1]), nest.y, i)
        nest.store(nest.op(name, nest.op("arith.index_cast", i, type=I64), nest.constant(90, I64)), nest.z, i)
    function = nest.end()
    code = engine.compile(emit_module([function], engine.target_features()))
    x, y, z = np.arange(200.0), np.zeros(257), np.zeros(257, np.int64)
    assert call(code, function, (x, y, z, 257, 200, 10)) == 0
    bounded = {"arith.maxsi": np.maximum, "arith.minsi": np.minimum}[name]
    np.testing.assert_array_equal(z, bounded(np.arange(257), 90))
    np.testing.assert_array_equal(y, np.clip(np.arange(257.0) - 10, 0, 199))


def test_away_from_edges_nothing_is_gathered_or_compared():
    text = emit_module([windows(F64)], WIDEST)
    near, edge = text.split("near.")[-1].split("edge.")[:2]
    assert not any([word in near for word in ("gather", "icmp", "switch", "smax")])
    assert near.count("load <") == 2
    assert "gather" in edge


def test_gradients_of_slices_at_many_places_take_one_compile(rng):
    x = ad.tensor(rng.normal(size=(40, 70)), requires_grad=True)

    def step(a, b, c):
        part, other = x[a : a + 20, b : b + 33], x[c : c + 20, 70 - 33 - b : 70 - b]
        (part * other).sum().backward()
        found, x.grad = x.grad.numpy(), None
        right = np.zeros((40, 70))
        value = x.detach().numpy()
        right[a : a + 20, b : b + 33] += value[c : c + 20, 70 - 33 - b : 70 - b]
        right[c : c + 20, 70 - 33 - b : 70 - b] += value[a : a + 20, b : b + 33]
        np.testing.assert_allclose(found, right, rtol=1e-14)

    step(0, 0, 0)
    step(1, 2, 3)
    before = ad.cache_info().compiles
    for place in ((20, 37, 20), (0, 37, 20), (3, 0, 19), (7, 18, 7), (20, 1, 0)):
        step(*place)
    assert ad.cache_info().compiles == before
