"""A program that has each call of machine code's that may fail fail in turn: `python failing_calls.py PROGRAM...`.

It runs in the build of AUTODIFF_NATIVE_CHECKS=faults.  Each of PROGRAMS is a pair: `make()` gives what it works on, and
`run(made)` its result.  For n = 1, 2, 3 ... the n-th call of `run` that may fail fails, until there is none: `run` then
raises MemoryError or gives its result by another way.  If it raises it is run again, which gives the result: so a call
that fails leaves all as it was.  Nothing is held, and nothing is let go too often, by any of these.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import sys
import time
import warnings
from collections import Counter
from itertools import count, cycle

import numpy as np

import autodiff as ad
from autodiff import session
from autodiff.ops import recorder
from autodiff.tape import tier
from codegen.native.writer import TextWriter
from codegen.runtime import native

#: The number of times that each call fails between two looks at counts, and how often these are looked at.
TIMES, LOOKS = 12, 8
#: A program whose length varies has fewer calls now and then.
TRIES = 5
PROGRAMS = {}
rows = np.arange(1.0, 7.0).reshape(2, 3)
ints = np.array([1, 0])


def program(make, patient=False, is_new=False):
    """A program; NumPy always evaluates a patient one.  Of a new one each time tables grow: counts say nothing."""

    def of(run):
        PROGRAMS[run.__name__] = make, run, patient, is_new
        return run

    return of


def values(*tensors):
    return [np.asarray(t.detach().numpy() if isinstance(t, ad.Tensor) else t).tolist() for t in tensors]


def leaf():
    return ad.tensor(rows, requires_grad=True)


def plain():
    return ad.tensor(rows)


# ------------------------------------------------------------------ recording


@program(lambda: rows + 0)
def leaves(x):
    return values(ad.tensor(x), ad.tensor(x, requires_grad=True))


@program(leaf)
def operators(x):
    return values(x + 2.0, 3 * x, x - x, -x, x**2, 2.0**x, x / (x + 1), abs(x), x @ ad.transpose(x), x + rows, rows * x)


@program(leaf)
def comparisons(x):
    return values(x < 3, x >= x, x == 2.0)


@program(leaf)
def functions(x):
    return values(
        ad.exp(x), ad.where(x > 2, x, 0.0), ad.sum(x, axis=0), ad.concatenate([x, x], axis=1), x.sum(), x.reshape(3, 2),
        ad.stack((x, x)), x.mean(axis=1, keepdims=True), ad.max(x, axis=-1), ad.zeros((2, 2)), ad.logsumexp(x, axis=1),
        ad.einsum("ij,kj->ik", x, x),
    )  # fmt: skip


@program(leaf)
def subscripts(x):
    return values(x[0], x[:, 1], x[..., 1:], x[None, 1, ::2], x[ints], x[ad.tensor(ints)], x[1, 2], x[:, 0:2])


@program(leaf)
def small_results(x):
    made = [x.sum() * float(i) for i in range(3)]
    return values(*made)


# ------------------------------------------------------------------ in place


@program(plain)
def in_place(x):
    y = x + 0.0
    y += 1.0
    y *= x
    y -= rows
    y[0] = 5.0
    y[:, 1] = x[:, 0]
    y[ints] = x * 2
    return values(y)


def updated(made, update):
    """The tensor after an update that was made once: an attempt that raises has not made it."""
    if len(made) == 1:
        update(made[0])
        made.append("done")
    return values(made[0])


@program(lambda: [plain() + 1.0])
def one_update(made):
    def update(x):
        x += 1.0

    return updated(made, update)


@program(lambda: [(plain() + 1.0)[0, 0]])
def small_update(made):
    def update(x):
        x *= 2.0

    return updated(made, update)


@program(lambda: [plain() + 1.0])
def one_assignment(made):
    def update(x):
        x[0] = x[1] * x[0]

    return updated(made, update)


@program(lambda: [leaf()])
def leaf_in_place(made):
    def update(x):
        with ad.no_grad():
            x -= 1.0

    return updated(made, update)


# ------------------------------------------------------------------ reading


@program(lambda: plain() * 2)
def read_numpy(x):
    return [x.detach().numpy().tolist(), np.asarray(x).tolist(), np.array(x, dtype="f4").tolist()]


@program(lambda: (plain() * 2).sum())
def read_number(x):
    return [x.item(), float(x), bool(x), float(x + 1), (x * 3).item(), bool(x > 1)]


# ------------------------------------------------------------------ gradients


def chain(x):
    y = x
    for _ in range(8):
        y = ad.sin(y) * x + 0.5
    return (y * y).sum()


def with_loss():
    x = leaf()
    return x, chain(x)


@program(with_loss)
def backward(made):
    x, loss = made
    if x.grad is None:
        loss.backward()
    return values(x.grad)


def two_losses():
    x = leaf()
    chain(x).backward()
    return x, chain(x), x.grad.numpy().copy()


@program(two_losses)
def accumulated(made):
    x, loss, before = made
    if (x.grad.numpy() == before).all():
        loss.backward()
    return values(x.grad)


@program(lambda: [leaf(), leaf(), leaf()])
def several_leaves(made):
    x, y, z = made
    if x.grad is None:
        assert y.grad is None and z.grad is None
        (chain(x) + chain(y * z)).backward()
    return values(x.grad, y.grad, z.grad)


@program(leaf)
def reset_grad(x):
    (x * x).sum().backward()
    x.grad = None
    (x * x).sum().backward()
    found = values(x.grad)
    x.grad = None
    return found


@program(leaf)
def grad_of(x):
    return values(ad.grad(chain)(x), ad.grad(lambda y: (ad.grad(chain)(y) * y).sum())(x))


@program(leaf)
def many_at_once(x):
    return values(*ad.vmap(lambda r: (ad.sin(r) * r).sum())(x), ad.jvp(chain, [x], [x])[1])


def with_long_loss():
    x = leaf()
    y = x
    for _ in range(60):
        y = ad.sin(0.1 * y) * x + 0.25 * y  # so little that last bits stay last ones
        y = y - 0.5 * ad.cos(y)
    return x, y.sum()


@program(with_long_loss)
def long_loop(made):
    x, loss = made
    if x.grad is None:
        loss.backward()
    return values(x.grad)


def with_many():
    x = leaf()
    parts = [x * float(i) for i in range(70)]
    return x, parts, ad.stack(parts).sum()


@program(with_many)
def many_nodes(made):
    x, parts, y = made
    if x.grad is None:
        y.backward()
    return [*values(*parts), *values(x.grad)]


@program(leaf)
def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    x.grad = None
    (y * y).sum().backward()
    return values(x.grad)


@program(leaf)
def told_after(x):
    told = []
    x.register_post_accumulate_grad_hook(told.append)
    x.grad = None
    (x * x).sum().backward()
    return [*values(x.grad), [len(told)]]


@ad.function
def squared(x):
    """x * x"""


@squared.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x * x


@squared.backward(ad.Tensor)
def _(ctx, grad_output):
    return {"x": 2 * ctx.saved_variables.x * grad_output}


@program(leaf)
def by_calls(x):
    x.grad = None
    squared(x + 1).sum().backward()
    return values(x.grad)


@program(lambda: np.arange(9001.0))
def large_arrays(data):
    x = ad.tensor(data, requires_grad=True)
    return values(x[:2], (x + data)[:2], (data * x).sum())


@program(plain)
def what_is_not_known(x):
    return values(x + np.float32(1), ad.sum(x, axis=(0, -1)), x.sum(axis=np.int64(0)), ad.add(x, x2=2.0))


@program(lambda: np.arange(2000.0))
def closed(data):
    return values(ad.grad(lambda x: (x * data + data).sum())(np.arange(2000.0)))


# ------------------------------------------------------------------ without machine code of its own


@program(leaf, patient=True)
def interpreted(x):
    y = ad.sin(x) * 2.0 + ad.where(x > 2, x, 0.5)
    z = ad.sum(y * y, axis=1) + ad.logsumexp(x @ ad.transpose(x), axis=0)
    x.grad = None
    z.sum().backward()
    return values(z, x.grad)


#: The lengths of loops: only recordings whose length varies are cut into parts.
lengths, widths = cycle((60, 57, 71, 64, 80)), count(3)


def loop(x):
    """The result of a loop, and by NumPy its value and derivative."""
    y, dy = rows, np.ones_like(rows)
    for _ in range(next(lengths)):
        x = ad.where(x > 0, x, 1.0) - 0.1 * ad.sin(x) * rows
        y, dy = y - 0.1 * np.sin(y) * rows, dy * (1 - 0.1 * np.cos(y) * rows)
    return (x * x).sum(), (y * y).sum(), 2 * y * dy


def with_varied_loss():
    x = leaf()
    return x, *loop(x)


@program(with_varied_loss, patient=True)
def in_parts(made):
    x, loss, _, right = made
    if x.grad is None:
        loss.backward()
    return [(x.grad.numpy() - right).tolist()]


@program(lambda: loop(plain()), patient=True)
def value_in_parts(made):
    loss, right, _ = made
    return [loss.item() - right]


def anew():
    session.reset_all()
    return ad.tensor(np.ones((2, next(widths))), requires_grad=True)


@program(anew, patient=True, is_new=True)
def new_programs(x):
    y = ad.sin(x[:, 1:]) * 3.0 + ad.where(x[0] > 2, x[0], 0.5)[1:]
    x.grad = None
    (y * y).sum().backward()
    found = ad.vmap(lambda r: (ad.cos(r) * r).sum())(x) / float(x.shape[1])
    return values(y[:, 0], x.grad[:, 1], found)


@program(lambda: [session.reset_all(), *with_varied_loss()][1:], patient=True, is_new=True)
def parts_anew(made):
    return in_parts(made)


@program(native.trim_pool)
def memory_anew(_):
    x = plain()
    return values(x + x, x @ ad.transpose(x))


# ------------------------------------------------------------------ jit


@ad.jit
def compiled(a, options):
    return {"sum": (a * options["by"]).sum(), "both": [a + 1, (a, ad.exp(a))], "n": 3}


@program(lambda: rows + 0)
def jit(x):
    found = compiled(ad.tensor(x), {"by": 2.0})
    other = compiled(x, {"by": 2.0})
    return [*values(found["sum"], *found["both"][1]), *values(other["sum"], other["both"][0])]


@program(lambda: rows.repeat(2, 1))
def jit_of_strided(x):
    found = compiled(x[:, ::2], {"by": 2.0})
    return values(found["sum"], found["both"][0])


class Line:
    def __init__(self, slope):
        self.slope = slope


ad.tree.register(Line, lambda line: ((line.slope,), None), lambda _, children: Line(*children))


@ad.jit
def steeper(line, at):
    return Line(line.slope * 2), line.slope[at]


@program(lambda: Line(rows))
def jit_of_container(line):
    steeper(Line(ad.tensor(rows)), np.int64(1))
    found, row = steeper(line, np.int64(1))
    return values(found.slope, row)


@program(lambda: Line(rows))
def jit_out_of_range(line):
    try:
        steeper(line, np.int64(7))
    except IndexError:
        return [[1.0]]


@program(leaf)
def jit_of_leaf(x):
    x.grad = None
    compiled(x, {"by": 3.0})["sum"].backward()
    return values(x.grad)


# ------------------------------------------------------------------ others

noisy = np.array([[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]])


@program(lambda: ad.tensor(noisy, requires_grad=True))
def sorted_rows(x):
    x.grad = None
    (ad.sort(x, axis=1) * rows).sum().backward()
    return values(x.grad, ad.argsort(x, axis=1), ad.sort(x.detach(), axis=0))


@program(leaf)
def transformed(x):
    x.grad = None
    (abs(ad.fft.fft(x)) * rows).sum().backward()
    return values(x.grad, ad.fft.irfft(ad.fft.rfft(x.detach())))


@program(lambda: ad.tensor(np.eye(3) * 3 + 0.1, requires_grad=True))
def matrices(x):
    x.grad = None
    (x @ x @ ad.linalg.inv(x) + ad.linalg.det(x)).sum().backward()
    return values(x.grad, ad.linalg.solve(x.detach(), rows[0]))


@ad.jit
def looped(x):
    total = ad.fori_loop(0, 4, lambda i, c: c * 1.5 + x, x)
    last, each = ad.scan(lambda c, row: (c * row, c), total[0], x)
    return ad.cond(last.sum() > 0, lambda v: v * 2, lambda v: v, each), ad.while_loop(
        lambda c: c.sum() < 100, lambda c: c * 2, x
    )


@program(leaf)
def control_flow(x):
    found, other = looped(x)
    x.grad = None
    found.sum().backward()
    return values(found, other, x.grad)


@program(plain)
def by_the_host(x):
    return values(steep(x), ad.vmap(steep)(x))


@ad.jit
def steep(x):
    return ad.linalg.eigvalsh(ad.einsum("...i,...j->...ij", x, x)).sum() + x.sum()


@program(lambda: (plain(), ints))
def by_arrays(made):
    x, at = made
    x = x + 0.0
    x[at, 1] = 9.0
    x[:, ad.tensor(at)] += 1.0
    return values(x, x[at, at], x[at[:, None], at], x[x.detach().numpy() > 3])


@program(lambda: ad.random.key(3))
def drawn(key):
    one, two = ad.random.split(key)
    return values(ad.random.normal(one, (3,)), ad.random.uniform(two, (2, 2)))


@program(leaf)
def transforms(x):
    y, pull = ad.vjp(lambda v: ad.sin(v) * v, x.detach())
    many = ad.vmap(ad.grad(lambda r: (ad.sin(r) * r).sum()))(x)
    row = rows[0]
    return values(pull(y)[0], many, ad.jacobian(lambda r: ad.sin(r) * r)(row), ad.hessian(lambda r: (r**3).sum())(row))


@program(leaf)
def second_order(x):
    (g,) = ad.grad((x * x * ad.sin(x)).sum(), [x], create_graph=True)
    x.grad = None
    (g * g).sum().backward()
    return values(g, x.grad)


#: Of a family one size after the other.
sizes = cycle(range(3, 40))


def of_new_size():
    data = np.linspace(0.0, 1.0, next(sizes))
    return data, ad.tensor(data, requires_grad=True)


@program(of_new_size)
def families(made):
    data, x = made
    x.grad = None
    (ad.sin(x) * x).sum().backward()
    return [[np.abs(x.grad.numpy() - np.cos(data) * data - np.sin(data)).max()]]


@ad.jit
def with_many_results(x):
    return [x * i for i in range(12)], {"a": x.sum(), "b": (x.max(), x[0], x[:, 1])}


@program(plain)
def many_results(x):
    found, named = with_many_results(x)
    return values(*found, named["a"], *named["b"])


def anew_function():
    @ad.function
    def doubled(x):
        return x * 2

    @doubled.method(ad.Tensor)
    def _(x):
        return x * 2 + x[0]

    return doubled, leaf()


@program(anew_function, is_new=True)
def learned(made):
    doubled, x = made
    return values(doubled(x), doubled(x), ad.roll(x, 1, axis=1), ad.tile(x, (2, 1)), ad.clip(x, 2.0, 4.0))


@program(lambda: np.linspace(0.0, 1.0, 70_000))
def shared_work(data):
    x = ad.tensor(data, requires_grad=True)
    (ad.exp(x) * ad.sin(x)).sum().backward()
    return values(x.grad[:3], ad.sort(x.detach())[-2:])


# ------------------------------------------------------------------ the sweep


class Build:
    """The counters of the modules of machine code whose calls may fail, and what is counted."""

    def __init__(self) -> None:
        recorder.install()
        self.recorder = recorder._installed.recorder
        codes = (self.recorder._code, native.native().code)
        at = [ctypes.PYFUNCTYPE(ctypes.c_int64)(code.address("faults"))() for code in codes]
        self.faults = [(ctypes.c_int64 * 2).from_address(address) for address in at]
        self.kinds = []
        self.met = set()

    def begin(self) -> None:
        gc.collect()
        self.kinds = [o for o in gc.get_objects() if type(o).__name__ in ("Kind", "Out")]
        gc.freeze()

    def counts(self):
        found = {f"references of {name}": sys.getrefcount(o) for name, o in self.recorder._objects.items()}
        found["references of rows"] = sys.getrefcount(rows)
        found["references of dtype"] = sys.getrefcount(rows.dtype)
        found["references of kinds"] = sum(map(sys.getrefcount, self.kinds))
        for thing in gc.get_objects():
            name = f"number of {type(thing).__name__}"
            found[name] = found.get(name, 0) + 1
        return found


def attempt(make, run, fault, n):
    """The result with the n-th call failing, and which one that was: an empty text where there are not so many."""
    made = make()
    fault[:] = n, 0
    try:
        found = run(made)
        ctypes.pythonapi.PyErr_Occurred()  # raises an error that nobody has met
    except MemoryError:
        found = None
    finally:
        said = ctypes.string_at(fault[1]).decode() if fault[1] else ""
        fault[:] = 0, 0
    if found is None:
        found = run(made)
    (plain() + 1.0).numpy()  # what is remembered of small results up to the next ask is forgotten
    return found, said


def drift_of(build, *arguments):
    """The counts that have changed as often as a call failed, or more often, at each look."""
    attempt(*arguments)
    drift = None
    for look in range(LOOKS):
        time.sleep(0.05 * look)  # another thread, which writes to disk say, may be at work
        gc.collect()
        before = build.counts()
        before["blocks"] = sys.getallocatedblocks()
        for _ in range(TIMES):
            attempt(*arguments)
        gc.collect()
        after = {"blocks": sys.getallocatedblocks()} | build.counts()
        found = {k: v - before.get(k, 0) for k, v in after.items() if abs(v - before.get(k, 0)) >= TIMES}
        drift = found if drift is None else {k: found[k] for k in drift if k in found}
        if not drift:  # or tables of Python's have grown
            break
    return drift


def sweep(build, name, first=1, to_first_drift=False):
    make, run, patient, is_new = PROGRAMS[name]
    if patient:
        ad.config.patience = 8
        tier.Account.reason_to_compile = lambda self, ran: ""
    for _ in range(3 if is_new else 40):
        expected = run(make())
    build.begin()
    if not is_new:
        drift_of(build, make, run, build.faults[0], 0)
    faults, seen = 0, Counter()
    for fault in build.faults:
        n = first
        while True:
            for _ in range(TRIES):
                found, said = attempt(make, run, fault, n)
                if said:
                    break
            if not said:
                break
            label = f"{name}: call {n}, {said}"
            build.met.add(said)
            print(label, file=sys.stderr, flush=True)
            if not np.allclose(flat(found), flat(expected)):
                print(f"WRONG {label}: {found} where {expected} is right")
            seen[said] += 1
            # One of thousands of calls is as the others of its line.
            if seen[said] <= 3 and not is_new and (drift := drift_of(build, make, run, fault, n)):
                print(f"DRIFT {label}: {drift}")
                if to_first_drift:
                    return
            n += 1
        faults += n - first
    print(f"DONE {name}: {faults} calls")


def flat(found):
    return np.concatenate([np.ravel(np.asarray(one, dtype=float)) for one in found])


def grow(build):
    """Have a walk over a recording ask for memory, of which there is none: Python is told, and the next walk works."""
    last = ad.tensor(rows, requires_grad=True)
    for _ in range(3000):
        last = last * 1.5
    fault, found, n = build.faults[0], None, 0
    while found is None:
        n += 1
        fault[:] = n, 0
        found = build.recorder.history_of((last.node,), 0)
        fault[:] = 0, 0
    if len(found) != 3001:
        print(f"WRONG grow: {len(found)} nodes")
    if n < 10:
        print(f"WRONG grow: {n - 1} calls")
    print(f"DONE grow: {n - 1} calls")


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    assert os.environ["AUTODIFF_NATIVE_CHECKS"] == "faults"
    words = sys.argv[1:] or [*PROGRAMS]
    if is_held := words[0] == "--held":  # locals keep their references: a fault that is to be seen
        TextWriter.release = lambda self, text: None
        words = words[1:]
    build = Build()
    for word in words:
        name, _, first = word.partition(":")
        if name == "grow":
            grow(build)
        else:
            sweep(build, name, int(first or 1), is_held)
    if path := os.environ.get("MET"):
        with open(path, "a") as file:
            file.writelines(f"{one}\n" for one in sorted(build.met))
