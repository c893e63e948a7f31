"""`vmap` over all cases of the sweep: the same as one call for each example, stacked; and so are the derivatives."""


import numpy as np

import autodiff as ad

from .cases import Case, all_cases, eager, law, rng_of

CASES = [c for c in all_cases() if c.traced]
SMOOTH = [c for c in CASES if c.wrt and all(c.avals[i].dtype == np.float64 for i in c.wrt)]
#: The largest case of each call.
LARGEST = sorted(CASES, key=lambda c: sum(a.size for a in c.avals))
LARGEST = list({c.call: c for c in LARGEST if c.avals}.values())

COUNT = 3


def value(t):
    return np.asarray(t.detach() if isinstance(t, ad.Tensor) else t)


def close(a, b, rtol):
    a, b = value(a), value(b)
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    size = np.max(np.abs(b[np.isfinite(b)]), initial=1.0) if b.dtype.kind == "f" else 1
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size)


def rounding(dtype):
    return float(np.finfo(dtype).eps) if np.dtype(dtype).kind == "f" else 0.0


def subsets(count):
    """The sets of mapped arguments: each by itself, and all of them."""
    single = [tuple(j == i for j in range(count)) for i in range(count)]
    return single if count == 1 else [*single, (True,) * count]


def examples(case, mapped, rng):
    """For each example its arguments, those that are not mapped the same for all."""
    points = [case.point(rng) for _ in range(COUNT)]
    return [[x if m else first for x, m, first in zip(p, mapped, points[0], strict=True)] for p in points]


def together(points, mapped, axis):
    """The arguments of the mapped function, and its in_axes."""
    columns = list(zip(*points, strict=True))
    arguments = [ad.tensor(np.stack(c, axis) if m else c[0]) for c, m in zip(columns, mapped, strict=True)]
    return arguments, tuple(axis if m else None for m in mapped)


def stacked(found):
    return np.stack([value(y) for y in found])


@law([c for c in CASES if c.avals])
def test_vmap_is_one_call_for_each_example(case: Case):
    rng = rng_of(case)
    for mapped in subsets(len(case.avals)):
        points = examples(case, mapped, rng)
        with eager(), np.errstate(all="ignore"):
            expected = stacked([case.f(*map(ad.tensor, p)) for p in points])
            for axis in (0, -1):
                arguments, in_axes = together(points, mapped, axis)
                y = ad.vmap(case.f, in_axes)(*arguments)
                close(y, expected, 16 * rounding(expected.dtype))


@law(LARGEST)
def test_a_compiled_vmap_is_one_call_for_each_example(case: Case):
    mapped = (True,) * len(case.avals)
    points = examples(case, mapped, rng_of(case))
    with eager():
        expected = stacked([case.f(*map(ad.tensor, p)) for p in points])
    columns = [np.stack(c, axis=-1) for c in zip(*points, strict=True)]
    close(ad.jit(ad.vmap(case.f, -1))(*columns), expected, 2 * case.ulps * rounding(expected.dtype))


@law(SMOOTH)
def test_gradients_of_vmap_are_those_of_each_example(case: Case):
    rng = rng_of(case)
    with eager():
        for mapped in subsets(len(case.avals)):
            points = examples(case, mapped, rng)
            arguments, in_axes = together(points, mapped, 0)
            y, pullback = ad.vjp(moved(case, arguments, ad.vmap(case.f, in_axes)), *[arguments[i] for i in case.wrt])
            y_bar = rng.uniform(-1, 1, y.shape)
            found = pullback(ad.tensor(y_bar))
            each = [pulled(case, p, bar) for p, bar in zip(points, y_bar, strict=True)]
            for i, x_bar, bars in zip(case.wrt, found, zip(*each, strict=True), strict=True):
                expected = stacked(bars)
                close(x_bar, expected if mapped[i] else np.sum(expected, axis=0), 1e-12)


@law(SMOOTH)
def test_vmap_of_a_gradient_gives_the_gradient_of_each_example(case: Case):
    rng = rng_of(case)
    mapped = (True,) * len(case.avals)
    points = examples(case, mapped, rng)
    with eager():
        y_bar = rng.uniform(-1, 1, case.f(*map(ad.tensor, points[0])).shape)
        arguments, in_axes = together(points, mapped, 0)
        found = ad.vmap(lambda *x: pulled(case, x, y_bar), in_axes)(*arguments)
        each = [pulled(case, p, y_bar) for p in points]
    for x_bar, bars in zip(found, zip(*each, strict=True), strict=True):
        close(x_bar, stacked(bars), 1e-12)


@law(SMOOTH)
def test_tangents_of_vmap_are_those_of_each_example(case: Case):
    rng = rng_of(case)
    mapped = (True,) * len(case.avals)
    points = examples(case, mapped, rng)
    with eager():
        arguments, in_axes = together(points, mapped, 0)
        at = [arguments[i] for i in case.wrt]
        dots = [ad.tensor(rng.uniform(-1, 1, x.shape)) for x in at]
        _, found = ad.jvp(moved(case, arguments, ad.vmap(case.f, in_axes)), at, dots)
        each = [
            ad.jvp(moved(case, p, case.f), [ad.tensor(p[i]) for i in case.wrt], [d[n] for d in dots])[1]
            for n, p in enumerate(points)
        ]
    close(found, stacked(each), 1e-12)


def moved(case, point, f):
    """f as a function of the differentiated inputs alone."""

    def g(*moving):
        arguments = [x if isinstance(x, ad.Tensor) else ad.tensor(x) for x in point]
        for i, x in zip(case.wrt, moving, strict=True):
            arguments[i] = x
        return f(*arguments)

    return g


def pulled(case, point, y_bar):
    """The cotangents of the differentiated inputs of one call."""
    tensors = [x if isinstance(x, ad.Tensor) else ad.tensor(x) for x in point]
    _, pullback = ad.vjp(moved(case, tensors, case.f), *[tensors[i] for i in case.wrt])
    return pullback(ad.tensor(y_bar))


