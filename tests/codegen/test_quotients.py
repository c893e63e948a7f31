"""Quotients and remainders of vectors of 64-bit integers: exact, of numbers of any size beside each other."""

import numpy as np
import pytest
from emitted import emit_module
from nests import call, elementwise

import autodiff as ad
from codegen.kernel.nest import I64
from codegen.runtime import engine

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}


def truncated(a, b):
    """a / b towards zero, and what it leaves, by Python's integers."""
    quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b, strict=True)]
    return quotients, [x - q * y for x, y, q in zip(a, b, quotients, strict=True)]


def numbers(rng, count):
    """Pairs of many sizes, also next to multiples and at the ends of what doubles hold; no divisor is 0 or -1."""
    ends = [s * (2**k + d) for k in (0, 31, 50, 51, 52, 53, 62) for d in (-1, 0, 1) for s in (1, -1)]
    ends += [2**63 - 1, -(2**63)]
    a, b = (x.ravel().tolist() for x in np.meshgrid(ends, [e for e in ends if e not in (0, -1)]))
    small = rng.integers(1, 2**25, count)
    a += (small * rng.integers(-(2**25), 2**25, count) + rng.integers(-1, 2, count)).tolist()
    return a, b + small.tolist()


@pytest.mark.parametrize("machine", MACHINES)
def test_quotients_and_remainders_are_exact(machine, rng):
    names = ("divsi", "remsi", "floordivsi")
    functions = {name: elementwise(name, f"arith.{name}", [I64, I64], I64) for name in names}
    code = engine.compile(emit_module(list(functions.values()), MACHINES[machine]))
    a, b = numbers(rng, 300)
    expected = dict(zip(names, (*truncated(a, b), [x // y for x, y in zip(a, b, strict=True)]), strict=True))
    order = rng.permutation(len(a))  # large ones beside small ones
    for places in (np.arange(len(a)), order, np.flatnonzero(np.abs(np.array(a, float)) < 2.0**51)):
        x, y = (np.array(v, np.int64)[places] for v in (a, b))
        for name, function in functions.items():
            found = np.empty(x.size, np.int64)
            assert call(code, function, (x, y, found, found.size)) == 0
            assert found.tolist() == [expected[name][j] for j in places], name


@pytest.mark.parametrize("divisor", [7, -3, 8, 0, -1, 2**40 + 1])
def test_integers_over_a_number_are_numpys(divisor, rng):
    x = np.concatenate([rng.integers(-1000, 1000, 70), [2**63 - 1, -(2**63), 0]])
    quotients, rests = ad.jit(lambda x: (x // divisor, x % divisor))(x)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotients, x // divisor)
        np.testing.assert_array_equal(rests, x % divisor)


def test_places_of_what_is_computed_and_reshaped_need_no_division_of_single_integers(rng):
    def f(x):
        return ad.sum(ad.reshape(ad.tile(x, (4,)), (70, 400)), axis=1)

    x = rng.normal(size=7000)
    np.testing.assert_allclose(ad.jit(f)(x), np.tile(x, 4).reshape(70, 400).sum(axis=1), rtol=1e-12)
    text = str(ad.inspect(f, x).llvm)
    assert "fdiv <" in text and "sdiv <" not in text
