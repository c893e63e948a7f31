"""Programs with in-place updates, grad modes, closures and nested control flow, each with an oracle.

    program(x)     f64[4] -> a float scalar, written with `ad`, as a user would
    oracle(x, f)   the same as a pure function of NumPy arrays: every value that the program computes under `no_grad`,
                   or detaches, is computed from `f` instead of x

x may be complex, so its gradient at f is exact by complex steps; it is what every route must give.  `reads` marks
programs that ask for a value on the way, which a trace refuses.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import autodiff as ad

STEPS = np.array([0.5, -0.3, 0.8])


class Program(NamedTuple):
    """A program, its oracle, and whether it reads values on the way."""

    run: Callable
    oracle: Callable
    reads: bool = False


PROGRAMS: dict[str, Program] = {}


def program(oracle, reads=False):
    """Register a program under its name."""

    def decorate(run):
        PROGRAMS[run.__name__] = Program(run, oracle, reads)
        return run

    return decorate


def put(x, key, value):
    """A copy of x with x[key] replaced."""
    y = np.array(x, dtype=np.result_type(x, np.asarray(value)))
    y[key] = value
    return y


def cubes(x):
    return (x * x * x).sum()


# ---------------------------------------------------------------- in-place updates


@program(lambda x, f: cubes(2 * x))
def scaled(x):
    x *= 2.0
    return cubes(x)


@program(lambda x, f: cubes(put(x, 0, 9.0)))
def element_set(x):
    x[0] = 9.0
    return cubes(x)


@program(lambda x, f: cubes(put(x, slice(1, 3), x[:2] * x[3])))
def slice_set(x):
    x[1:3] = x[:2] * x[3]
    return cubes(x)


@program(lambda x, f: cubes(put(x, slice(0, None, 2), x[::2] + np.sin(x[1::2]))))
def strided_slice_added_to(x):
    x[::2] += ad.sin(x[1::2])
    return cubes(x)


@program(lambda x, f: cubes(put(x, [0, 3], x[[3, 0]])))
def gathered_set(x):
    x[np.array([0, 3])] = x[np.array([3, 0])]
    return cubes(x)


@program(lambda x, f: cubes(x + np.array([0, 0, 1, 1]) * x[0] + np.array([0, 0, 1, 0]) * x[1]))
def added_at(x):
    np.add.at(x, np.array([2, 2, 3]), ad.stack([x[0], x[1], x[0]]))
    return cubes(x)


@program(lambda x, f: cubes(((x + 1) * x - 2) / 4) + cubes(x * 0 + 3))
def methods(x):
    y = x * 1.0
    y.add_(1).mul_(x)
    y -= 2
    y /= 4
    z = y * 1.0
    z.zero_()
    z.fill_(3.0)
    return cubes(y) + cubes(z)


@program(lambda x, f: cubes(put(x * 2, 0, x[1])) + cubes(x) + cubes(put(f + 1, 3, x[0])))
def copied(x):
    y, z = ad.zeros(4), ad.zeros(4)
    y.copy_(x)
    y *= 2.0
    y[0] = x[1]
    with ad.no_grad():
        z.copy_(x)
    z += 1.0
    z[3] = x[0]
    return cubes(y) + cubes(x) + cubes(z)


@program(lambda x, f: cubes(2 * x) + cubes(put(x, 3, 0.6)) + cubes(x))
def captured_values_assigned_whole(x):
    def part(c):
        d = c * 1.0
        c[...] = x
        c += x
        d.copy_(x)
        d[3] = 0.6
        return cubes(c) + cubes(d)

    return ad.checkpoint(part)(ad.sin(x)) + cubes(x)


@program(lambda x, f: cubes(x + x * x))
def two_names(x):
    y = x
    y += x * x
    return cubes(x)


@program(lambda x, f: (x * x * (x + 1)).sum())
def saved_before(x):
    y = x * x
    x += 1.0
    return (y * x).sum()


@program(lambda x, f: cubes(3 * x) + cubes(put(2 * x, 1, x[0])))
def leaves_of_a_dict(x):
    held = {"a": x * 1.0, "b": [x * 2.0]}
    held["a"] *= 3.0
    held["b"][0][1] = x[0]
    return cubes(held["a"]) + cubes(held["b"][0])


@program(lambda x, f: (x.sum() * x[0] + 1) ** 3)
def scalar_updated(x):
    s = x.sum()
    s *= x[0]
    s[()] += 1.0
    return s**3


@program(lambda x, f: cubes(np.cumsum(x)))
def loop_of_updates(x):
    for i in range(1, 4):
        x[i] += x[i - 1]
    return cubes(x)


@program(lambda x, f: cubes(np.sin(x) * 2 + x) + cubes(x))
def function_that_updates_its_argument(x):
    def twice(y):
        y *= 2.0
        return y + x

    return cubes(twice(ad.sin(x))) + cubes(x)


# ---------------------------------------------------------------- grad modes


@program(lambda x, f: (x * f**2).sum())
def cut(x):
    with ad.no_grad():
        c = x**2
    return (x * c).sum()


@program(lambda x, f: (x**3 / np.sqrt((f * f).sum())).sum())
def norm_cut(x):
    with ad.no_grad():
        n = ad.sqrt((x * x).sum())
    return (x**3 / n).sum()


@program(lambda x, f: (x * x * f**2 * 3).sum() + cubes(x))
def in_place_on_what_is_cut(x):
    with ad.no_grad():
        c = x**2
        c *= 3.0
    return (x * x * c).sum() + cubes(x)


@program(lambda x, f: (x * (2 * f)).sum() + cubes(2 * f))
def scaled_under_no_grad(x):
    y = x * 1.0
    with ad.no_grad():
        x *= 2.0
    return (y * x).sum() + cubes(x)


@program(lambda x, f: cubes(put(x, 0, 9.0)))
def element_set_under_no_grad(x):
    with ad.no_grad():
        x[0] = 9.0
    return cubes(x)


@program(lambda x, f: cubes(put(x, slice(1, 3), f[:2] * f[3])))
def slice_set_under_no_grad(x):
    with ad.no_grad():
        x[1:3] = x[:2] * x[3]
    return cubes(x)


@program(lambda x, f: cubes(put(np.sin(x), slice(None, 2), np.sin(f[:2]) + 1)))
def slice_added_to_under_no_grad(x):
    y = ad.sin(x)
    with ad.no_grad():
        y[:2] += 1.0
    return cubes(y)


@program(lambda x, f: cubes(put(x, [0, 2], (f + f[3])[[0, 2]])))
def added_at_under_no_grad(x):
    with ad.no_grad():
        np.add.at(x, np.array([0, 2]), x[3])
    return cubes(x)


@program(lambda x, f: (x * f**2).sum() + (f**2 * x).sum() + (f**3 * f).sum())
def enabled_within(x):
    with ad.no_grad():
        c = x**2
        with ad.enable_grad():
            d = c * x
        e = d * x
    return (x * c).sum() + d.sum() + e.sum()


@ad.no_grad()
def _decorated(x):
    c = x * x
    with ad.enable_grad():
        return c * x + c


@program(lambda x, f: (f * f * x + f * f).sum() + cubes(x))
def decorated(x):
    return _decorated(x).sum() + cubes(x)


@program(lambda x, f: (x * (0.9 * (0.9 * f + 0.1 * np.sin(f)) + 0.1 * np.sin(f + 0.1))).sum())
def moving_average(x):
    mean, y = ad.zeros(4), x * 1.0
    with ad.no_grad():
        mean += x
    for k in range(2):
        with ad.no_grad():
            mean *= 0.9
            mean += 0.1 * ad.sin(x + 0.1 * k)
    return (y * mean).sum()


@program(lambda x, f: (x * f).sum() + (x * np.sin(f)).sum() + cubes(x))
def detached(x):
    d, s = x.detach(), ad.stop_gradient(ad.sin(x))
    x += 0.0
    return (x * d).sum() + (x * s).sum() + cubes(x)


@program(lambda x, f: (x * (3 * f * f)).sum())
def inner_gradient_under_no_grad(x):
    with ad.no_grad():
        g = ad.grad(cubes)(x)
    return (x * g).sum()


@program(lambda x, f: (x * 6 * x).sum() + cubes(x))
def inner_gradient_with_updates(x):
    def inner(y):
        y *= 1.0
        with ad.no_grad():
            c = y * 2.0
        return (y * y * y).sum() + (c * 0.0).sum()

    second = ad.grad(lambda y: ad.grad(inner)(y).sum())(x)
    return (x * second).sum() + cubes(x)


@program(lambda x, f: (2 * x * np.cos(f) * x).sum())
def inner_tangent(x):
    def inner(y):
        with ad.no_grad():
            c = ad.cos(y)
        y *= y
        return y * c

    return (ad.jvp(inner, (x,), (ad.ones(4),))[1] * x).sum()


# ---------------------------------------------------------------- control flow


def _scan_oracle(x, f):
    c, k, total = x[0], f[0], 0
    for s in STEPS:
        total = total + k * k * x[1]
        c, k = np.sin(c * x[1]) + k * k * s * c, np.sin(k * f[1]) + k * k * s * k
    return c * c + total


@program(_scan_oracle)
def scan_with_a_cut(x):
    def step(c, s):
        with ad.no_grad():
            k = c * c
        return ad.sin(c * x[1]) + k * s * c, k * x[1]

    c, ys = ad.scan(step, x[0], STEPS)
    return c * c + ys.sum()


def _scan_updates(x, f):
    c, total = np.array(x), 0
    for s in STEPS:
        c = put(c * s, 0, np.sin(c[1]))
        total = total + cubes(c)
    return cubes(c) + total


@program(_scan_updates)
def scan_that_updates_its_carry(x):
    def step(c, s):
        old = c[1]
        c *= s
        c[0] = ad.sin(old)
        return c, cubes(c)

    c, ys = ad.scan(step, x, STEPS)
    return cubes(c) + ys.sum()


@program(lambda x, f: cubes(x * (1 + f * 2) * (1 + f * (1 + f * 2) * 2)))
def fori_loop_with_a_cut(x):
    def step(i, c):
        with ad.no_grad():
            k = c * 2.0
        c += c * k
        return c

    return cubes(ad.fori_loop(0, 2, step, x))


@program(lambda x, f: cubes(put(put(x, 1, f[0] ** 2), 1, f[0] ** 2)) + x[0] * 8)
def fori_loop_that_sets_under_no_grad(x):
    def step(i, c):
        with ad.no_grad():
            c[1] = c[0] ** 2
        return c

    return cubes(ad.fori_loop(0, 2, step, x)) + x[0] * 8.0


def _while(x, f):
    c, k = x, f
    for _ in range(3):
        c, k = c * (k**2 + 0.1) + x, k * (k**2 + 0.1) + f
    return cubes(c)


@program(_while)
def while_loop_with_a_cut(x):
    def step(value):
        c, n = value
        with ad.no_grad():
            k = c**2
            k += 0.1
        c *= k
        n += 1
        return c + x, n

    return cubes(ad.while_loop(lambda v: v[1] < 3, step, (x, 0))[0])


@program(lambda x, f: cubes(put(x, 0, f[0] * 2)) + cubes(x * 3 if f[0] > 0 else x * f))
def branches(x):
    def yes(x):
        with ad.no_grad():
            x[0] *= 2.0
        return x

    def no(x):
        with ad.no_grad():
            k = x * 1.0
        x *= k
        return x

    one = ad.cond(ad.ones(()) > 0, yes, no, x)
    return cubes(one) + cubes(ad.cond(x[0] > 0, lambda x: x * 3.0, no, x))


@program(lambda x, f: (np.sin(x) * f * x[0]).sum() + cubes(x))
def checkpoint_with_a_cut(x):
    def part(y):
        with ad.no_grad():
            k = y * x[0].detach()
        y[0] += 0.0
        return ad.sin(y) * k / x[0].detach() * x[0]

    return ad.checkpoint(part)(x).sum() + cubes(x)


@program(lambda x, f: (((np.array([[1.0, 2], [3, 4]]) @ x[:2]) * f[:2]).sum()) * 3 + cubes(x))
def sums_of_products_with_a_cut(x):
    rows = np.array([[[1.0, 2.0], [3.0, 4.0]]] * 3)

    def step(total, a):
        with ad.no_grad():
            outer = a.T @ ad.reshape(x[:2], (2, 1))
        return total + outer, None

    total, _ = ad.scan(step, ad.zeros((2, 1)), rows)
    return (total * ad.reshape(x[:2], (2, 1))).sum() + cubes(x)


def _nested(x, f):
    c, k, total = x[0], f[0], 0
    for s in STEPS:
        d, m = c, k
        for r in STEPS[:2]:
            d, m = np.sin(d) * (k * s) + r * x[2], np.sin(m) * (k * s) + r * f[2]
        total = total + d * c
        c, k = d + x[3] * m, m + f[3] * m
    return c + total


@program(_nested)
def scan_in_scan_over_a_cut_value(x):
    def outer(c, s):
        with ad.no_grad():
            k = c * s
        d, _ = ad.scan(lambda d, r: (ad.sin(d) * k + r * x[2], None), c, STEPS[:2])
        with ad.no_grad():
            m = d * 1.0
        return d + x[3] * m, d * c

    c, ys = ad.scan(outer, x[0], STEPS)
    return c + ys.sum()


def _branch_in_scan(x, f):
    c, k = x[0], f[0]
    for i in range(4):
        c, k = (c * x[i] + 2 * f[i], k * f[i] + 2 * f[i]) if f[i] > 0 else (np.sin(c + x[i]), np.sin(k + f[i]))
    return c * c


@program(_branch_in_scan)
def branch_in_scan(x):
    def step(c, i):
        y = x[i]
        with ad.no_grad():
            k = y * 2.0
        return ad.cond(y > 0, lambda c: c * y + k, lambda c: ad.sin(c + y), c), None

    return ad.scan(step, x[0], np.arange(4))[0] ** 2


@program(lambda x, f: cubes(np.sin(x * f[0]) * f * f[0]))
def loop_that_enables_under_no_grad(x):
    first = x[0].detach()
    with ad.no_grad():

        def step(c, _):
            k = c * first
            with ad.enable_grad():
                return ad.sin(c * first) * k, None

        y, _ = ad.scan(step, x, length=1)
    return cubes(y)


@program(lambda x, f: cubes(put(x * 2, 0, 1.0)) + (x * f).sum() * x.sum())
def mapped_updates(x):
    def one(row, whole):
        row *= 2.0
        row[0] = 1.0
        with ad.no_grad():
            k = whole * 1.0
        return cubes(row) + (whole * k).sum() * x.sum()

    return ad.vmap(one, (0, None))(ad.reshape(x, (1, 4)), x).sum()


def _mapped_scan(x, f):
    total = 0
    for a, b in zip(x, f, strict=True):
        for s in STEPS:
            a, b = (a * a + b * s, b * b + b * s) if b > 0 else (a * 0.5, b * 0.5)
        total = total + a
    return total * total


@program(_mapped_scan)
def checkpoint_in_scan_in_vmap(x):
    def step(c, s):
        with ad.no_grad():
            k = c * s
        return ad.cond(c > 0, lambda c: c * c + k, lambda c: c * 0.5, c), None

    return ad.vmap(lambda a: ad.scan(ad.checkpoint(step), a, STEPS)[0])(x).sum() ** 2


@program(lambda x, f: (np.sin(x) * f * x[1]).sum() + cubes(put(x, 1, 0.5)))
def jit_within(x):
    @ad.jit
    def part(y, z):
        with ad.no_grad():
            k = y * 1.0
        return (ad.sin(y) * k * z).sum()

    @ad.jit
    def updated(y):
        with ad.no_grad():
            y[1] = 0.5
        return cubes(y)

    return part(x, x[1]) + updated(x)


@ad.function
def _scaled_by_norm(x):
    with ad.no_grad():
        n = (x * x).sum()
    y = x * 1.0
    y *= n
    return y


@program(lambda x, f: cubes(x * (f * f).sum()))
def function_with_a_cut(x):
    return cubes(_scaled_by_norm(x))


@program(lambda x, f: (x * np.sin(f)).sum() * float(cubes(f)))
def closure_over_what_is_cut(x):
    with ad.no_grad():
        c, n = ad.sin(x), cubes(x)

    def part(y):
        return y * c * n

    return ad.checkpoint(part)(x).sum()


# ---------------------------------------------------------------- reads in between


@program(lambda x, f: cubes(2 * x) + (x * f).sum(), reads=True)
def reads_of_updates(x):
    y = x * 1.0
    y.detach().numpy()
    x *= 2.0
    x.detach().numpy()
    with ad.no_grad():
        k = y * 1.0
        np.asarray(k)
    z = cubes(x) + (y * k).sum()
    z.detach().numpy()
    return z


@program(lambda x, f: cubes(put(x, 0, f[1] ** 2)) + cubes(np.sin(x)), reads=True)
def reads_under_no_grad(x):
    s = ad.sin(x)
    with ad.no_grad():
        float(s.sum())
        x[0] = x[1] ** 2
        np.asarray(x)
    return cubes(x) + cubes(s)


@program(lambda x, f: cubes(x * f.max()), reads=True)
def read_number(x):
    with ad.no_grad():
        top = float(ad.max(x))
    x *= top
    return cubes(x)
