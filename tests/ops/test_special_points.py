"""No derivative of first or second order is a wrong finite number at zeros, ties, equal arguments and infinities.

At each special point a derivative is compared with those a little further on both ways, along the axis it was last
taken by.  Where these agree, the function is smooth there, and the derivative is theirs, or says that it is not known
(nan).  Where they differ there is a kink, and the derivative lies between them.  Where they grow without bound it is no
number.
"""

import itertools

import numpy as np
import pytest

import autodiff as ad

from .tails import TABLE

POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf]
STEPS = (1e-5, 1e-7)

#: Functions besides those of the table.
OTHERS = {
    "maximum": (ad.maximum, 2), "minimum": (ad.minimum, 2), "fmod": (ad.fmod, 2), "mod": (ad.mod, 2),
    "copysign": (ad.copysign, 2), "heaviside": (ad.heaviside, 2), "beta": (ad.special.beta, 2),
    "betaln": (ad.special.betaln, 2), "floor": (ad.floor, 1), "sign": (ad.sign, 1), "rint": (ad.rint, 1),
    "clip": (lambda x: ad.clip(x, 0.0, 1.0), 1), "abs squared": (lambda x: ad.abs(x) ** 2, 1),
    "abs to 3": (lambda x: ad.abs(x) ** 3, 1), "hypot squared": (lambda x, y: ad.hypot(x, y) ** 2, 2),
    "power to 0.5": (lambda x: x**0.5, 1), "power to -0.5": (lambda x: x**-0.5, 1), "power to -1": (lambda x: x**-1, 1),
    "power to 1.5": (lambda x: x**1.5, 1), "power to 3": (lambda x: x**3, 1), "x |x|": (lambda x: x * ad.abs(x), 1),
    "size": (lambda x, y: ad.abs(x + 1j * y), 2), "size squared": (lambda x, y: ad.abs(x + 1j * y) ** 2, 2),
    "angle": (lambda x, y: ad.angle(x + 1j * y), 2), "sinc of abs": (lambda x: ad.sinc(ad.abs(x)), 1),
}  # fmt: skip

#: What is taken by decision where there is no limit, by function and order of the derivative.
DECIDED = {
    "rel_entr": "the edge of its domain gets 0 from both sides", "kl_div": "as rel_entr",
    "betaln": "at 0 and -0.0, where it is infinite",
}  # fmt: skip


def limits(found, around):
    """True where a derivative may be what was found, given its neighbours: two steps on either side."""
    with np.errstate(all="ignore"):
        sides = [(a, b) for a, b in around if np.isfinite(a) and np.isfinite(b)]
        grows = any(abs(b) > abs(a) + 1e-3 * max(1.0, abs(b)) for a, b in sides)
        if np.isnan(found) or not sides:
            return True
        if grows:
            return not np.isfinite(found)
        low, high = min(b for _, b in sides), max(b for _, b in sides)
        if not np.isfinite(found):
            return len(sides) < len(around) or (abs(found) == np.inf and max(-low, high) > 1e6)
        room = 2e-3 * max(1.0, abs(low), abs(high))
        return low - room <= found <= high + room


def of_elements(f, arity):
    """For an elementwise function: all its derivatives at columns of points, by the arguments they are taken by."""

    def first(*xs):
        return ad.grad(lambda *xs: ad.sum(f(*xs)), argnums=tuple(range(arity)))(*xs)

    def derivatives(points):
        columns = [np.ascontiguousarray(c) for c in points.T]
        found = {(i,): g for i, g in enumerate(first(*columns))}
        for i in range(arity):
            again = ad.grad(lambda *xs, i=i: ad.sum(first(*xs)[i]), argnums=tuple(range(arity)))(*columns)
            found.update({(i, j): h for j, h in enumerate(again)})
        return found

    return derivatives


def of_rows(f, n):
    """For a function of a vector: all its derivatives at rows, by the elements they are taken by."""

    def derivatives(points):
        first, second = ad.vmap(ad.grad(f))(points), ad.vmap(ad.hessian(f))(points)
        found = {(i,): first[:, i] for i in range(n)}
        return found | {(i, j): second[:, i, j] for i in range(n) for j in range(n)}

    return derivatives


def check(derivatives, points):
    """Compare the derivatives at points with those around them."""
    n = points.shape[1]
    at = derivatives(points)
    around = {}
    for axis, sign, step in itertools.product(range(n), (1, -1), STEPS):
        moved = points.copy()
        column = moved[:, axis]
        moved[:, axis] = np.where(np.isfinite(column), column + sign * step, np.sign(column) / step**1.5)
        around[axis, sign, step] = derivatives(moved)
    wrong = []
    for key, k in itertools.product(at, range(len(points))):
        near = [[around[key[-1], sign, step][key][k] for step in STEPS] for sign in (1, -1)]
        if not limits(at[key][k], near):
            wrong.append((key, points[k].tolist(), float(at[key][k]), near))
    assert not wrong, wrong


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 1)


def points_of(arity):
    """Special points; not two infinities, of which nothing further on tells anything."""
    points = itertools.product(POINTS, repeat=arity)
    return np.array([p for p in points if arity == 1 or np.isfinite(p).any()])


FUNCTIONS = {**{row.name: (row.f, row.arity) for row in TABLE}, **OTHERS}


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in DECIDED])
def test_derivatives_of_elements_are_limits_at_special_points(name):
    f, arity = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        check(of_elements(f, arity), points_of(arity))


@pytest.mark.parametrize("name", DECIDED)
def test_a_decision_is_needed_where_it_was_made(name):
    f, arity = FUNCTIONS[name]
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        check(of_elements(f, arity), points_of(arity))


# Not quantiles, which take one of the elements that tie, and not squares of extremes: shares of a tie are constants to
# the second order.
REDUCTIONS = {
    **{name: getattr(ad, name) for name in ("sum", "prod", "max", "min", "mean", "var", "logsumexp", "ptp")},
    **{f"{f.__name__} squared": lambda x, f=f: f(x) ** 2 for f in (ad.std, ad.norm, ad.nanstd, ad.nanvar)},
    **{f"norm {p}": lambda x, p=p: ad.norm(x, p) for p in (1, np.inf, -np.inf, 3, 4)},
    "norm 4 to 4": lambda x: ad.norm(x, 4) ** 4,
    "cumsum": lambda x: ad.sum(ad.cumsum(x) ** 2),
    "cumprod": lambda x: ad.sum(ad.cumprod(x)),
    "cummax": lambda x: ad.sum(ad.cummax(x)),
    "cummin": lambda x: ad.sum(ad.cummin(x)),
    "sort": lambda x: ad.sum(ad.sort(x) * np.arange(3.0)),
    "nanmax": ad.nanmax,
    "nansum": lambda x: ad.nansum(x) ** 2,
    "softmax": lambda x: ad.sum(ad.softmax(x) * np.arange(3.0)),
    "log_softmax": lambda x: ad.log_softmax(x)[1],
    "norm": ad.norm,
    "std": ad.std,
    "power spectrum": lambda x: ad.sum(ad.abs(ad.fft.fft(x)) ** 2),
    "half a spectrum": lambda x: ad.abs(ad.fft.rfft(x))[1] ** 2,
    "det": lambda x: ad.linalg.det(ad.diag(x)),
}  # fmt: skip
ROWS = np.array([[0.0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 2], [2, 1, 1], [-1, 1, 0], [3, -0.0, 0], [1, 2, 3]])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_derivatives_of_rows_are_limits_at_special_points(name):
    with np.errstate(all="ignore"):
        check(of_rows(REDUCTIONS[name], 3), ROWS)
