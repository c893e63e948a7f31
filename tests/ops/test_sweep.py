"""The laws that every operation obeys, over all cases."""

import numpy as np
import pytest

import autodiff as ad

from .cases import Case, all_cases, eager, law, rng_of, taking_turns
from .moved import moved, tensors

CASES = all_cases()
COMPILED = taking_turns(CASES)
SMOOTH = [c for c in CASES if c.wrt]
SMOOTH_F64 = [c for c in SMOOTH if all(c.avals[i].dtype == np.float64 for i in c.wrt)]
SMOOTH_F32 = [c for c in SMOOTH if all(c.avals[i].dtype == np.float32 for i in c.wrt)]


def value(t):
    """The value of a result; no gradient of it is wanted."""
    return np.asarray(t.detach() if isinstance(t, ad.Tensor) else t)


def close(a, b, rtol):
    """Equal within rtol of the larger numbers there are, nan and inf in the same places."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    size = np.max(np.abs(b[np.isfinite(b)]), initial=1.0) if b.dtype.kind == "f" else 1
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size)


def rounding(dtype):
    return float(np.finfo(dtype).eps) if np.dtype(dtype).kind == "f" else 0.0


def inner(xs, ys):
    products = [value(x).astype(np.float64) * value(y).astype(np.float64) for x, y in zip(xs, ys, strict=True)]
    return sum(float(np.sum(p)) for p in products)


# ---------------------------------------------------------------- values


@law([c for c in CASES if c.expected is not None])
def test_the_value_equals_numpys(case: Case):
    point = case.point(rng_of(case))
    with eager(), np.errstate(all="ignore"):
        y = value(case.f(*tensors(point)))
        expected = np.asarray(case.expected(*point))
    assert y.dtype == expected.dtype
    close(y, expected, 8 * rounding(y.dtype))


@law(CASES)
def test_layout_does_not_matter(case: Case):
    point = case.point(rng_of(case))
    with eager():
        y = value(case.f(*tensors(point)))
        for rearranged in (by_columns, backwards, every_second):
            z = value(case.f(*[ad.asarray(rearranged(x)) for x in point]))
            close(z, y, rounding(y.dtype))


def by_columns(x):
    """The same values in Fortran's order."""
    return np.array(x, order="F")


def backwards(x):
    """The same values, lying in memory from the last row to the first."""
    return x[::-1].copy()[::-1] if x.ndim else x


def every_second(x):
    """The same values, lying two apart."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]) if x.ndim else (2,), x.dtype)
    wide[..., ::2] = x if x.ndim else x[None]
    return wide[..., ::2] if x.ndim else wide[:1].reshape(())


@law(COMPILED)
def test_native_code_equals_the_reference(case: Case):
    point = case.point(rng_of(case))
    with eager():
        expected = value(case.f(*tensors(point)))
    y = value(case.f(*tensors(point)))
    assert y.dtype == expected.dtype
    close(y, expected, case.ulps * rounding(y.dtype))


@law([c for c in COMPILED if c.traced])
def test_native_code_takes_any_layout(case: Case):
    point = case.point(rng_of(case))
    f = ad.jit(case.f)
    y = np.asarray(f(*point))
    for rearranged in (by_columns, backwards, every_second):
        z = np.asarray(f(*[rearranged(x) for x in point]))
        close(z, y, case.ulps * rounding(y.dtype))


def holds_specials(case, point):
    """The same inputs, three in ten floats replaced by nan, infinities or zeros of either sign.

    A table in rising order stays one, as a search in another has no right answer.
    """
    rng = rng_of(case)
    specials = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])

    def replaced(x):
        y = np.where(rng.random(x.shape) < 0.3, rng.choice(specials, x.shape), x).astype(x.dtype)
        return np.sort(y) if x.ndim == 1 and x.size > 1 and np.all(np.diff(x) > 0) else y

    return [replaced(x) if x.dtype.kind == "f" else x for x in point]


#: The largest case of each call.
SPECIAL = [c for c in sorted(CASES, key=lambda c: c.size) if np.float64 in c.dtypes]
SPECIAL = list({c.call: c for c in SPECIAL}.values())


@law(SPECIAL)
def test_native_code_and_its_gradients_know_nan_and_infinities(case: Case):
    point = holds_specials(case, case.point(rng_of(case)))

    def run():
        results = [case.f(*tensors(point))]
        if case.wrt:
            y, pullback = ad.vjp(moved(case, point, case.f), *tensors([point[i] for i in case.wrt]))
            results += gradients(pullback, np.ones(y.shape, y.dtype))
        return [value(x) for x in results]

    with np.errstate(all="ignore"):
        try:
            with eager():
                expected = run()
        except ad.LinAlgError:  # of a zero on a diagonal
            with pytest.raises(ad.LinAlgError):
                run()
            return
        for x, wanted in zip(run(), expected, strict=True):
            close(x, wanted, 16 * case.ulps * rounding(wanted.dtype))


# ---------------------------------------------------------------- first derivatives


@law(SMOOTH_F64)
def test_forward_mode_is_the_limit_of_differences(case: Case):
    rng = rng_of(case)
    point, direction = case.point(rng), case.direction(rng)
    with eager():
        f = moved(case, point, case.f)
        at = [point[i] for i in case.wrt]
        _, dy = ad.jvp(f, tensors(at), tensors(direction))
        h = 1e-6
        above = value(f(*tensors([x + h * dx for x, dx in zip(at, direction, strict=True)])))
        below = value(f(*tensors([x - h * dx for x, dx in zip(at, direction, strict=True)])))
    close(value(dy), (above - below) / (2 * h), 2e-8)


@law(SMOOTH_F64)
def test_reverse_mode_is_the_adjoint_of_forward_mode(case: Case):
    rng = rng_of(case)
    point, direction = case.point(rng), case.direction(rng)
    with eager():
        f = moved(case, point, case.f)
        at = tensors([point[i] for i in case.wrt])
        y, dy = ad.jvp(f, at, tensors(direction))
        y_bar = rng.uniform(-1, 1, y.shape)
        _, pullback = ad.vjp(f, *at)
        x_bars = gradients(pullback, y_bar)
    for x, x_bar in zip(at, x_bars, strict=True):
        assert x_bar.aval == x.aval
    np.testing.assert_allclose(inner([y_bar], [dy]), inner(x_bars, direction), rtol=1e-11, atol=1e-12)


def gradients(pullback, y_bar):
    """The cotangents of all inputs, as a tuple."""
    found = pullback(ad.tensor(y_bar))
    return found if isinstance(found, tuple) else (found,)


@law(SMOOTH_F32)
def test_float32_derivatives_are_those_of_float64(case: Case):
    rng = rng_of(case)
    point = case.point(rng)
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in point]
    with eager():
        found = []
        y_bar = None
        for inputs in (point, wide):
            y, pullback = ad.vjp(moved(case, inputs, case.f), *tensors([inputs[i] for i in case.wrt]))
            y_bar = rng.uniform(-1, 1, y.shape).astype(np.float32) if y_bar is None else y_bar
            found.append(gradients(pullback, y_bar.astype(y.dtype)))
    for narrow, exact in zip(*found, strict=True):
        assert narrow.dtype == np.float32
        close(value(narrow), value(exact).astype(np.float32), 64 * rounding(np.float32))


@law([c for c in COMPILED if c.wrt])
def test_native_gradients_equal_the_reference(case: Case):
    rng = rng_of(case)
    point = case.point(rng)
    at = [point[i] for i in case.wrt]

    def run():
        y, pullback = ad.vjp(moved(case, point, case.f), *tensors(at))
        return gradients(pullback, np.ones(y.shape, y.dtype))

    with eager():
        expected = run()
    for x_bar, wanted in zip(run(), expected, strict=True):
        close(value(x_bar), value(wanted), 4 * case.ulps * rounding(wanted.dtype))


# ---------------------------------------------------------------- second derivatives


def directional(case, point, y_bar):
    """x, dx -> d/dt <y_bar, f(x + t dx)>: the pullback against a direction, as tensors."""
    f = moved(case, point, case.f)

    def g(at, direction):
        _, pullback = ad.vjp(f, *at)
        return sum_of_products(gradients(pullback, y_bar), direction)

    return g


def sum_of_products(xs, ys):
    total = None
    for x, y in zip(xs, ys, strict=True):
        term = ad.sum(x * y)
        total = term if total is None else total + term
    return total


@law([c for c in SMOOTH_F64 if c.order > 1])
def test_second_derivatives_are_symmetric_and_the_limit_of_differences(case: Case):
    rng = rng_of(case)
    point, u, v = case.point(rng), case.direction(rng), case.direction(rng)
    at = [point[i] for i in case.wrt]
    with eager():
        y_bar = rng.uniform(-1, 1, case.f(*tensors(point)).shape)
        g = directional(case, point, y_bar)
        _, uv = ad.jvp(lambda *x: g(x, tensors(u)), tensors(at), tensors(v))
        _, vu = ad.jvp(lambda *x: g(x, tensors(v)), tensors(at), tensors(u))
        h = 1e-5
        above = value(g(tensors([x + h * d for x, d in zip(at, v, strict=True)]), tensors(u)))
        below = value(g(tensors([x - h * d for x, d in zip(at, v, strict=True)]), tensors(u)))
    np.testing.assert_allclose(value(uv), value(vu), rtol=1e-9, atol=1e-11)
    close(value(uv), (above - below) / (2 * h), 1e-6)


@law([c for c in SMOOTH_F32 if c.order > 1])
def test_float32_second_derivatives_are_those_of_float64(case: Case):
    rng = rng_of(case)
    point, u, v = case.point(rng), case.direction(rng), case.direction(rng)
    y_bar = rng.uniform(-1, 1, case.f(*tensors(point)).shape)

    def widened(x):
        return x.astype(np.float64) if x.dtype == np.float32 else x

    with eager():
        found = []
        for change in (lambda x: x, widened):
            inputs = [change(x) for x in point]
            g = directional(case, inputs, y_bar.astype(case.f(*tensors(inputs)).dtype))
            at = tensors([inputs[i] for i in case.wrt])
            _, uv = ad.jvp(lambda *x, g=g, change=change: g(x, tensors(map(change, u))), at, tensors(map(change, v)))
            found.append(value(uv))
    # Rounding errors add up over the dozens of operations of a second derivative.
    close(*found, 512 * rounding(np.float32))


# ---------------------------------------------------------------- completeness


def names_in(f):
    """The functions that a function of a case may call: names in its code, and texts in its defaults and cells."""
    if not hasattr(f, "__code__"):
        return set()
    kept = [*(f.__defaults__ or ()), *[cell.cell_contents for cell in f.__closure__ or ()]]
    return {*f.__code__.co_names, *[x for x in kept if isinstance(x, str)]}.union(
        *[names_in(x) for x in kept if callable(x)]
    )


NAMESPACES = {"ad": ad.ops, "linalg": ad.linalg, "random": ad.random, "fft": ad.fft, "special": ad.special}


@pytest.mark.parametrize("namespace", NAMESPACES.values(), ids=NAMESPACES)
def test_every_public_operation_has_a_case(namespace):
    named = set().union(*[names_in(c.f) for c in CASES])
    direct = [c.f for c in CASES] + [getattr(ad, name) for name in named if hasattr(ad, name)]
    direct += [getattr(ad.special, name) for name in named if hasattr(ad.special, name)]
    names = [*namespace.__all__, *getattr(namespace, "LATER", ())]
    public = {name: getattr(namespace, name) for name in names if callable(getattr(namespace, name))}
    missing = [n for n, f in public.items() if n not in named and not any(f is g for g in direct)]
    assert missing == []
