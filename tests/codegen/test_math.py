"""Elementary functions: their error against mpmath, their special values, their independence of place.

The bound of each is read from its docstring, so that what is promised is what is tested.
"""

import functools
import importlib.util
import math
import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from covering import covering
from emitted import emit_module
from mpmath import mp, mpf
from nests import DTYPES, call, elementwise

from codegen.emit.math import FUNCTIONS, coefficients, tables
from codegen.emit.math.points import erf_points
from codegen.kernel.nest import F32, F64
from codegen.runtime import engine

OF_TWO = ("atan2", "fmod", "pow")
#: MLIR's names of those that are not "math." and their own.
OPERATIONS = {"pow": "math.powf", "fmod": "arith.remf"}
TYPES = (F64, F32)
EACH_TYPE = pytest.mark.parametrize("type", TYPES, ids=str)
EACH_FUNCTION = pytest.mark.parametrize("name", FUNCTIONS)

#: Where functions are defined, if not everywhere.
DOMAINS = {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-1, 1), "acosh": (1, math.inf), "log": (0, math.inf),
           "log1p": (-1, math.inf), "log2": (0, math.inf), "log10": (0, math.inf)}  # fmt: skip
REFERENCES = {
    "pow": mp.power, "exp2": lambda x: mp.power(2, x), "log2": lambda x: mp.log(x, 2),
    "fmod": lambda x, y: mpf(math.fmod(float(x), float(y))),  # that of C is exact, and mpmath's has the sign of y
}  # fmt: skip
REFERENCES["cbrt"] = lambda x: mp.sign(x) * mp.cbrt(abs(x))
REFERENCES |= {name: getattr(mp, name) for name in FUNCTIONS if name not in REFERENCES}

#: Functions of doubles, for the exhaustive slices of floats.
IN_DOUBLES = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cbrt": np.cbrt, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sin": np.sin,
    "sinh": np.sinh, "tan": np.tan, "tanh": np.tanh,
    "erf": lambda x: np.fromiter(map(math.erf, x.tolist()), np.float64, x.size),
}  # fmt: skip


#: What machines offer; what is written for one runs on this one too.
MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}


@functools.cache
def compiled(machine):
    """All functions of both types, as kernels of a run-time number of elements, in one module."""
    functions = {}
    for name in FUNCTIONS:
        operation = OPERATIONS.get(name, f"math.{name}")
        for type in TYPES:
            functions[name, type] = elementwise(f"{name}_{type}", operation, [type] * (1 + (name in OF_TWO)), type)
    text = emit_module(list(functions.values()), MACHINES[machine])
    return functions, engine.compile(text)


def run(name, type, *arrays, machine="widest"):
    functions, code = compiled(machine)
    arrays = [np.ascontiguousarray(a, DTYPES[type]) for a in arrays]
    result = np.empty(arrays[0].size, DTYPES[type])
    assert call(code, functions[name, type], (*arrays, result, result.size)) == 0
    return result


def promised_ulps(name):
    """The bound in the function's docstring."""
    return float(re.search(r"within ([\d.]+) ulp", FUNCTIONS[name].__doc__).group(1))


def errors_in_ulps(values, exact, dtype):
    """|value - exact| in units of the last place of the exact value, which are numbers of mpmath."""
    info, found = np.finfo(dtype), []
    for value, right in zip(values.tolist(), exact, strict=True):
        if abs(right) >= mpf(2) ** info.maxexp:
            found.append(0.0 if value == mp.sign(right) * mp.inf else mp.inf)
            continue
        exponent = max(int(mp.frexp(right)[1]) if right else info.minexp, info.minexp + 1)
        found.append(abs(mpf(value) - right) / mpf(2) ** (exponent - 1 - info.nmant))
    return np.array(found, float)


def points(name, type, rng, count):
    """Numbers of all sizes, and many of moderate size, in the domain."""
    info = np.finfo(DTYPES[type])
    everywhere = np.ldexp(rng.uniform(1, 2, count), rng.integers(info.minexp - info.nmant, info.maxexp, count))
    near_one = np.ldexp(rng.uniform(1, 2, count), rng.integers(-12, 8, count))
    x = np.concatenate([everywhere * rng.choice([-1, 1], count), near_one * rng.choice([-1, 1], count),
                        rng.uniform(-2, 2, count), rng.uniform(-1, 1, count) * info.maxexp * math.log(2)])
    low, high = DOMAINS.get(name, (-math.inf, math.inf))
    x = x.astype(DTYPES[type])
    x[x < low] = -x[x < low]
    return x[(x > low) & (x < high) & np.isfinite(x)]


def test_the_coefficients_are_what_the_tool_makes():
    path = Path(__file__).parents[2] / "tools" / "fit_elementary.py"
    spec = importlib.util.spec_from_file_location("fit_elementary", path)
    tool = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    digits = mp.dps
    spec.loader.exec_module(tool)
    checked = [fit for fit in tool.fits() if fit.degree <= 5]
    assert len(checked) > 5
    for fit in checked:
        assert tuple(tool.coefficients(fit)[0]) == getattr(coefficients, fit.name)
    mp.dps = digits


@covering(times=2, name=FUNCTIONS, type=TYPES, machine=MACHINES)
def test_errors_are_within_what_the_docstring_says(machine, name, type, rng):
    count = {"widest": 120, "masks": 30, "plain": 50}[machine]
    x = points(name, type, rng, count)
    arguments = [x]
    if name in OF_TWO:
        other = rng.permutation(points(name, type, rng, count))
        n = min(x.size, other.size)
        arguments = [x[:n], other[:n]]
    if name == "pow":
        base = np.abs(arguments[0])
        # Exponents for which the result is a number.
        exponents = rng.uniform(-1, 1, base.size) * np.finfo(x.dtype).maxexp / np.log2(base.astype(float))
        arguments = [np.concatenate([base, base]), np.concatenate([arguments[1], exponents.astype(x.dtype)])]
    # Enough digits to reduce the largest double by pi/2, and to see that a tiny one is not zero.
    with mp.workprec(1200):
        exact = [REFERENCES[name](*map(mpf, numbers)) for numbers in zip(*(a.tolist() for a in arguments), strict=True)]
        errors = errors_in_ulps(run(name, type, *arguments, machine=machine), exact, x.dtype)
    worst = int(errors.argmax())
    at = [a[worst] for a in arguments]
    assert errors[worst] <= promised_ulps(name), f"{name}{at}: {errors[worst]:.2f} ulp"


@pytest.mark.parametrize("name", IN_DOUBLES)
def test_all_floats_of_many_slices_are_within_what_the_docstring_says(name):
    low, high = DOMAINS.get(name, (-math.inf, math.inf))
    # 2^14 consecutive floats of either sign from these on; the functions change their ways at some of them.
    starts = (0.0, 1e-40, 1.2e-7, 2.4e-4, 0.3, 0.499, 0.62499, 0.7071, 0.99951, 1.0, 1.2498, 1.5707, 2.6249, 3.1415,
              9.999, 16.63, 88.7, 709.0, 8.3e6, 2.62e5, 1e10, 3e38)  # fmt: skip
    firsts = np.array(starts, np.float32).view(np.int32)
    x = (firsts[:, None] + np.arange(2**14, dtype=np.int32)).reshape(-1).view(np.float32)
    x = np.concatenate([x, -x])
    x = x[(x > low) & (x < high) & np.isfinite(x)]
    with np.errstate(over="ignore", under="ignore"):
        exact = IN_DOUBLES[name](x.astype(np.float64))
        in_range = np.abs(exact) < 2.0**128 * (1 - 2.0**-25)
        exponent = np.maximum(np.frexp(np.where(in_range, exact, 1.0))[1], -125)
        values = run(name, F32, x)
        errors = np.abs(values - np.where(in_range, exact, 0.0)) / np.ldexp(1.0, exponent - 24)
    assert np.array_equal(values[~in_range], np.sign(exact[~in_range]) * np.inf)
    errors = errors[in_range]
    worst = int(errors.argmax())
    assert errors[worst] <= promised_ulps(name), f"{name}({x[in_range][worst]!r}): {errors[worst]:.2f} ulp"


#: f at nan, inf, -inf and 0.0; at 1 and -1 where they are special, and beyond.
_NAN, _INF = math.nan, math.inf
SPECIALS = {
    "acos": {_NAN: _NAN, _INF: _NAN, 1.0: 0.0, 1.5: _NAN, -1.5: _NAN},
    "acosh": {_NAN: _NAN, _INF: _INF, -_INF: _NAN, 1.0: 0.0, 0.5: _NAN, -1.0: _NAN},
    "asin": {_NAN: _NAN, _INF: _NAN, 0.0: 0.0, 1.5: _NAN, -1.5: _NAN},
    "asinh": {_NAN: _NAN, _INF: _INF, -_INF: -_INF, 0.0: 0.0},
    "atan": {_NAN: _NAN, _INF: math.pi / 2, -_INF: -math.pi / 2, 0.0: 0.0},
    "atanh": {_NAN: _NAN, _INF: _NAN, 1.0: _INF, -1.0: -_INF, 0.0: 0.0, 1.5: _NAN},
    "cbrt": {_NAN: _NAN, _INF: _INF, -_INF: -_INF, 0.0: 0.0, 1.0: 1.0, -1.0: -1.0, 27.0: 3.0, -0.125: -0.5},
    "cos": {_NAN: _NAN, _INF: _NAN, -_INF: _NAN, 0.0: 1.0},
    "cosh": {_NAN: _NAN, _INF: _INF, -_INF: _INF, 0.0: 1.0, 800.0: _INF},
    "erf": {_NAN: _NAN, _INF: 1.0, -_INF: -1.0, 0.0: 0.0},
    "exp": {_NAN: _NAN, _INF: _INF, -_INF: 0.0, 0.0: 1.0, 800.0: _INF, -800.0: 0.0},
    "exp2": {_NAN: _NAN, _INF: _INF, -_INF: 0.0, 0.0: 1.0, 2000.0: _INF, -2000.0: 0.0},
    "expm1": {_NAN: _NAN, _INF: _INF, -_INF: -1.0, 0.0: 0.0, 800.0: _INF, -800.0: -1.0},
    "log": {_NAN: _NAN, _INF: _INF, -_INF: _NAN, 0.0: -_INF, 1.0: 0.0, -1.0: _NAN},
    "log2": {_NAN: _NAN, _INF: _INF, -_INF: _NAN, 0.0: -_INF, 1.0: 0.0, -1.0: _NAN},
    "log10": {_NAN: _NAN, _INF: _INF, -_INF: _NAN, 0.0: -_INF, 1.0: 0.0, -1.0: _NAN},
    "log1p": {_NAN: _NAN, _INF: _INF, -_INF: _NAN, 0.0: 0.0, -1.0: -_INF, -1.5: _NAN},
    "sin": {_NAN: _NAN, _INF: _NAN, -_INF: _NAN, 0.0: 0.0},
    "sinh": {_NAN: _NAN, _INF: _INF, -_INF: -_INF, 0.0: 0.0, 800.0: _INF, -800.0: -_INF},
    "tan": {_NAN: _NAN, _INF: _NAN, -_INF: _NAN, 0.0: 0.0},
    "tanh": {_NAN: _NAN, _INF: 1.0, -_INF: -1.0, 0.0: 0.0},
}

SLOPE_ONE = ["asin", "asinh", "atan", "atanh", "expm1", "log1p", "sin", "sinh", "tan", "tanh"]


@EACH_TYPE
@pytest.mark.parametrize("name", SPECIALS)
def test_special_values_are_right(name, type):
    x, expected = (np.array(list(v), DTYPES[type]) for v in (SPECIALS[name], SPECIALS[name].values()))
    np.testing.assert_array_equal(run(name, type, x), expected)


@EACH_TYPE
@pytest.mark.parametrize("name", [*SLOPE_ONE, "cbrt", "erf"])
def test_functions_that_are_zero_at_zero_keep_its_sign(name, type):
    result = run(name, type, np.array([0.0, -0.0]))
    assert result.tolist() == [0.0, 0.0] and np.signbit(result).tolist() == [False, True]


@EACH_TYPE
@pytest.mark.parametrize("name", SLOPE_ONE)
def test_functions_of_slope_one_give_subnormals_back(name, type):
    tiny = np.finfo(DTYPES[type]).smallest_subnormal
    x = tiny * np.arange(-40, 41).astype(DTYPES[type])
    np.testing.assert_array_equal(run(name, type, x), x)


@EACH_TYPE
@pytest.mark.parametrize(("name", "reference"), [("pow", np.power), ("atan2", np.arctan2), ("fmod", np.fmod)])
def test_functions_of_two_follow_numpy_at_all_pairs_of_special_values(name, reference, type):
    # 2.0**53 + 1 is odd and no float; -7.0 is odd, -0.5 not whole.
    numbers = [_NAN, _INF, -_INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -7.0, 1e30, -1e30]
    x, y = (a.reshape(-1).astype(DTYPES[type]) for a in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        expected = reference(x, y)
    got = run(name, type, x, y)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(x.dtype).eps)
    zeros = expected == 0
    assert np.array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


@EACH_TYPE
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_any_size_are_right_and_leave_their_neighbours_alone(name, type, rng):
    huge = [np.finfo(DTYPES[type]).max, -np.finfo(DTYPES[type]).max, 1e22, -1e22, 2.0**60, 1e38]
    x = rng.uniform(-5, 5, 100).astype(DTYPES[type])
    alone = run(name, type, x)
    places = np.arange(len(huge)) * 13
    x[places] = huge
    together = run(name, type, x)
    with mp.workprec(1200):
        exact = [REFERENCES[name](mpf(v)) for v in x[places].tolist()]
        assert errors_in_ulps(together[places], exact, x.dtype).max() <= promised_ulps(name)
    others = np.delete(np.arange(x.size), places)
    np.testing.assert_array_equal(together[others], alone[others])


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_what_rounding_took_from_a_reduced_angle_is_added_again(name, rng):
    turns = np.concatenate([rng.integers(1, 2**k, 100) for k in (4, 10, 20, 30, 39)])
    x = np.concatenate([rng.uniform(-3, 3, 500), np.pi / 2 * turns * (1 + 1e-9 * rng.standard_normal(turns.size))])
    with mp.workprec(300):
        exact = [REFERENCES[name](mpf(v)) for v in x.tolist()]
        assert errors_in_ulps(run(name, F64, x, machine="masks"), exact, x.dtype).max() <= 0.7


@covering(times=2, machine=MACHINES, name=["sin", "cos"], low=[0.0, 0.15, 0.3, 0.45, 0.6])
def test_errors_of_angles_have_no_side(name, low, machine, rng):
    """They add up in a chain of sines otherwise: .013 ulp each were 8 % of the error of a hundred."""
    x = rng.uniform(low, low + 0.15, 100_000)
    exact = getattr(np, name)(x.astype(np.longdouble))
    errors = (run(name, F64, x, machine=machine) - exact) / np.spacing(exact.astype(np.float64))
    assert abs(errors.mean()) < 0.006  # six times what chance allows


@pytest.mark.parametrize("machine", ["widest", "masks"])
@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("low", [0.0, 0.8, 1.6, 2.3, 3.2, 6.0, 1000.0])
def test_errors_of_angles_of_floats_are_those_of_a_rounding(name, low, machine, rng):
    """The part that rounding took from a reduced angle is the same for many: .13 last bits from 2.4 to 3, error .41."""
    x = rng.uniform(low, low + 0.7, 50_000).astype(np.float32)
    exact = getattr(np, name)(x.astype(np.float64))
    errors = (run(name, F32, x, machine=machine) - exact) / np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert abs(errors.mean()) < 0.02
    assert np.sqrt(np.mean(errors**2)) < 0.3
    assert np.abs(errors).max() < 0.75


@EACH_TYPE
@pytest.mark.parametrize("machine", ["widest", "masks"])
@pytest.mark.parametrize(
    ("name", "low", "high", "bound"),
    [("asin", 0.5, 0.7, 0.36), ("asin", 0.7, 0.999, 0.3), ("acos", 0.0, 0.5, 0.33), ("atan", 2.5, 9, 0.3),
     ("atan", 0.42, 0.6, 0.3), ("atan", 0.6, 2.4, 0.3), ("tan", 0.3, 1.5, 0.3), ("tan", 1.6, 3.1, 0.3)],
)  # fmt: skip
def test_quotients_and_sums_with_a_quarter_turn_are_rounded_once(name, low, high, bound, machine, type, rng):
    """Half of pi less twice a number was rounded to a side, .44 last bits from .6 to .7; quotients erred by .5."""
    x = rng.uniform(low, high, 50_000).astype(DTYPES[type])
    exact = IN_DOUBLES[name](x.astype(np.longdouble))
    spacing = np.spacing(exact.astype(DTYPES[type])).astype(np.longdouble)
    errors = ((run(name, type, x, machine=machine) - exact) / spacing).astype(float)
    assert abs(errors.mean()) < 0.05
    assert np.sqrt(np.mean(errors**2)) < bound


@EACH_TYPE
@pytest.mark.parametrize("machine", ["widest", "masks"])
@pytest.mark.parametrize("size", [1.0, 1e-300, 1e300])
def test_angles_of_points_are_rounded_once(size, machine, type, rng):
    """Their quotient was rounded before, by the diagonal three times: .58 last bits."""
    size = size if type is F64 else {1.0: 1.0}.get(size, 1e-38 if size < 1 else 1e37)
    y, x = (size * rng.normal(size=(2, 50_000))).astype(DTYPES[type])
    y[:1000], x[:1000] = 0.5 * size, size
    exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    spacing = np.spacing(np.abs(exact).astype(DTYPES[type])).astype(np.longdouble)
    errors = ((run("atan2", type, y, x, machine=machine) - exact) / spacing).astype(float)
    assert np.sqrt(np.mean(errors**2)) < 0.31
    assert np.abs(errors).max() < 0.8


@pytest.mark.parametrize(("name", "low"), [("log", 0.985), ("log", 1.0), ("log1p", 0.0), ("log1p", -1e-4)])
def test_logarithms_near_zero_err_by_little_more_than_a_rounding(name, low, rng):
    """A table of 128 points that had 62 bits was .22 last bits too small below 1, and of log1p erred twice as much."""
    x = low + rng.uniform(0, 0.015 if name == "log" else 1e-4, 50_000)
    exact = getattr(np, name)(x.astype(np.longdouble))
    errors = ((run(name, F64, x, machine="masks") - exact) / np.spacing(np.abs(exact).astype(np.float64))).astype(float)
    assert abs(errors.mean()) < 0.02
    assert np.sqrt(np.mean(errors**2)) < 0.32


@pytest.mark.parametrize(("name", "bound"), [("log", 1.0), ("log1p", 1.5)])
@pytest.mark.parametrize("machine", ["widest", "masks"])
def test_logarithms_of_doubles_are_right_at_the_ends_of_their_intervals(name, bound, machine):
    """On both sides of each end of what tables of mantissas divide, and near 1."""
    ends = (0x3FE6B00000000000 + (np.arange(129) << 45)).view(np.float64)
    x = np.concatenate([ends, 1 + np.linspace(-1, 1, 101) / 256, 1 + np.geomspace(1e-16, 1e-2, 40)])
    x = np.concatenate([x, np.nextafter(x, 9), np.nextafter(x, 0)])
    x = np.concatenate([x, x * 2.0**-500, x * 2.0**300])
    x = x - 1 if name == "log1p" else x
    x = x[x > -1]
    with mp.workprec(120):
        exact = [REFERENCES[name](mpf(v)) for v in x.tolist()]
    assert errors_in_ulps(run(name, F64, x, machine=machine), exact, np.float64).max() <= bound


@EACH_TYPE
@EACH_FUNCTION
def test_a_value_is_the_same_in_every_lane_and_alone(name, type, rng):
    x = points(name, type, rng, 20)[:37]
    arguments = [x, x[::-1].copy()][: 1 + (name in OF_TWO)]
    together = run(name, type, *arguments)
    alone = np.concatenate([run(name, type, *(a[j : j + 1] for a in arguments)) for j in range(x.size)])
    np.testing.assert_array_equal(together, alone)


@EACH_TYPE
@pytest.mark.parametrize(("name", "base"), [("log2", 2), ("log10", 10)])
def test_logarithms_of_powers_of_the_base_are_whole(name, base, type):
    info = np.finfo(DTYPES[type])
    # Those of 10 that are numbers of the type to the last digit, and their neighbours up to the largest.
    exponents = range(info.minexp, info.maxexp) if base == 2 else range(int(math.log10(info.max)) + 1)
    powers = np.array([float(base) ** e for e in exponents], DTYPES[type])
    assert run(name, type, powers).tolist() == list(exponents)


@EACH_TYPE
@pytest.mark.parametrize("machine", ["widest", "masks", "plain"])
def test_erf_is_right_at_and_between_its_points(machine, type):
    """On both sides of each point, where it goes over to the next, and where it ends."""
    end, dtype = 6 if type is F64 else 9.25, DTYPES[type]
    points = np.arange(64 * end + 1) / 64
    x = np.concatenate([points, points[1:] - 1 / 128, np.linspace(end - 0.1, end + 0.1, 40)]).astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(99)), np.nextafter(x, dtype(-9))])
    exact = [mp.erf(mpf(v)) for v in x.tolist()]
    assert errors_in_ulps(run("erf", type, x, machine=machine), exact, dtype).max() < 2


def test_the_table_of_logarithms_is_what_the_tool_makes(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    tool = importlib.import_module("fit_tables")
    with mp.workdps(50):
        assert tuple(tool.inverse("F64", j) for j in range(16)) == tables.LOG_INVERSES_F64
        assert [tool.logarithm("F64", "10", j) for j in range(16)] == list(zip(*tables.LOGS_10_F64, strict=True))
        fitted = importlib.import_module("fit_elementary").coefficients(tool.log_near_one("F32"))
        assert tuple(fitted[0]) == tables.LOG_NEAR_F32


@pytest.mark.parametrize(("suffix", "count"), [("f64", 64 * 6 + 1), ("f32", 64 * 9 + 17)])
def test_points_of_erf_are_rounded_once(suffix, count):
    number = np.float64 if suffix == "f64" else np.float32
    with mp.workdps(50):
        for j, (value, slope) in enumerate(erf_points(suffix, count)):
            c = mpf(j) / 64
            assert value == number(mp.erf(c))
            assert slope == number(2 / mp.sqrt(mp.pi) * mp.exp(-c * c))


def test_the_tables_of_powers_are_what_the_tool_makes(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    tool = importlib.import_module("fit_tables")
    with mp.workdps(50):
        assert tuple(tool.factors("F64")) == tables.POW_INVERSES_F64
        assert [tool.log2_parts("F32", f) for f in tables.POW_INVERSES_F32] == list(
            zip(*tables.POW_LOGS_F32, strict=True)
        )
        assert [tool.root_parts("F64", n) for n in range(16)] == list(zip(*tables.POW_ROOTS_F64, strict=True))
        for fit in tool.pow_fits("F32"):
            fitted = importlib.import_module("fit_elementary").coefficients(fit)
            assert tuple(fitted[0]) == getattr(tables, fit.name)


@pytest.mark.parametrize(("suffix", "dtype", "count"), [("F64", np.float64, 16), ("F32", np.float32, 32)])
def test_the_factors_of_mantissas_leave_exact_remainders(suffix, dtype, count, rng):
    inverses = getattr(tables, f"POW_INVERSES_{suffix}")
    m = np.concatenate([rng.uniform(0.75, 1.5, 500), (np.arange(24, 48) + 0.5) / 32]).astype(dtype)
    m = np.concatenate([m, np.nextafter(m, dtype(0)), np.nextafter(m, dtype(2))])
    for value in m[m < 1.5].tolist():
        r = Fraction(value) * Fraction(inverses[round(value * count) % count]) - 1
        assert Fraction(float(dtype(float(r)))) == r and abs(r) < Fraction(1, 16)


@EACH_TYPE
@pytest.mark.parametrize("machine", MACHINES)
def test_remainders_next_to_multiples_and_of_huge_quotients_are_exact(machine, type, rng):
    info, dtype = np.finfo(DTYPES[type]), DTYPES[type]
    y = np.ldexp(rng.uniform(1, 2, 600), rng.integers(-20, 20, 600)).astype(dtype)
    whole = np.ldexp(1.0, rng.integers(0, info.nmant + 4, 600)).astype(np.int64) + rng.integers(-3, 4, 600)
    x = (y.astype(float) * whole).astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(np.inf)), -x, rng.uniform(-9, 9, 99)])
    y = np.concatenate([y, y, y, -y, np.full(99, info.smallest_subnormal * 3)])
    x, y = x.astype(dtype), y.astype(dtype)
    result, expected = run("fmod", type, x, y, machine=machine), np.fmod(x, y)
    np.testing.assert_array_equal(result, expected)
    assert np.array_equal(np.signbit(result), np.signbit(expected))


@EACH_TYPE
def test_powers_that_are_huge_or_tiny_by_large_exponents_of_numbers_next_to_one(type, rng):
    info = np.finfo(DTYPES[type])
    near = 1 + np.ldexp(rng.uniform(-1, 1, 150), -rng.integers(3, 40 if type is F64 else 18, 150))
    x = np.concatenate([near, rng.uniform(0.74, 1.51, 150), 1 + rng.uniform(-0.04, 0.04, 100)]).astype(DTYPES[type])
    x = x[x != 1]
    y = rng.choice([-1.04, -0.999, -0.9, 0.9, 0.999], x.size) * info.maxexp / np.log2(x.astype(float))
    y = y.astype(x.dtype)
    with mp.workprec(200):
        exact = [mp.power(mpf(a), mpf(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        errors = errors_in_ulps(run("pow", type, x, y), exact, x.dtype)
    assert errors.max() <= promised_ulps("pow")


@EACH_TYPE
@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p"])
def test_logarithms_next_to_one_and_at_the_ends_of_intervals(name, type, rng):
    near = 1 + np.ldexp(rng.uniform(-1, 1, 200), -rng.integers(2, 50, 200))
    near = np.concatenate([near, rng.uniform(0.7, 1.6, 200)])
    ends = np.concatenate([np.arange(24, 49) / 32.0, np.arange(48, 97) / 64.0])
    x = np.concatenate([near, ends, np.nextafter(ends, 0), np.nextafter(ends, 4)]).astype(DTYPES[type])
    x = x - x.dtype.type(1) if name == "log1p" else x
    x = x[x != (0 if name == "log1p" else 1)]
    with mp.workprec(200):
        errors = errors_in_ulps(run(name, type, x), [REFERENCES[name](mpf(v)) for v in x.tolist()], x.dtype)
    assert max(errors) <= promised_ulps(name)
