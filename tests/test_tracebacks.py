"""Tracebacks: the user's frames alone, on every route by which the user's functions are called."""

import bdb
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import autodiff as ad

ROOT = Path(ad.__file__).parent.parent
OURS = tuple(str(ROOT / name) for name in ("autodiff", "codegen"))


class Oops(Exception):
    pass


def raising(*_args, **_keywords):
    raise Oops


def refused(*_args, **_keywords):
    return ad.ones(3) @ ad.ones(4)


def unknown_value(x, *_args):
    return ad.reshape(x, (7, 8, 9))


def takes_none():
    return 1.0


X = np.ones(3)
T = ad.tensor(X, requires_grad=True)


def custom(name, **given):
    """A custom function of which one part is given, and the others are right."""

    def forward(ctx, x):
        return x * 2.0

    def backward(ctx, g):
        return g * 2.0

    @ad.function
    def f(x): ...

    parts = {"forward": forward, "backward": backward} | given
    for kind, part in parts.items():
        getattr(f, kind)(ad.Tensor, **({"host": True} if name == kind else {}))(part)
    f.__name__ = "f"
    return f


def of_method(f):
    @ad.function
    def g(x): ...

    g.method(ad.Tensor)(lambda x: f(x))
    return g


class Own(ad.AbstractTensor):
    shape, dtype = (3,), np.dtype(np.float64)


def of_operator(f):
    @ad.add.method(Own, FunctionType)
    def plus(x1, x2):
        return x2(x1)

    try:
        return Own() + f
    finally:
        plus.delete()


def hooked(f):
    y = T * 2.0
    y.register_hook(f)
    y.sum().backward()


def hooked_after(f):
    w = ad.tensor(X, requires_grad=True)
    w.register_post_accumulate_grad_hook(f)
    (w * 2.0).sum().backward()


def summed(f):
    with ThreadPoolExecutor(1) as pool:
        return ad.sum_over(f, ad.shards(lambda key: (key,), [1.0, 2.0], on=pool))(X)


#: Routes by which the user's functions are called.
ROUTES = {
    "jit": lambda f: ad.jit(f)(X),
    "jit of tensors": lambda f: ad.jit(f)(T),
    "grad": lambda f: ad.grad(f)(X),
    "grad of tensors": lambda f: ad.grad(f)(T),
    "value_and_grad": lambda f: ad.value_and_grad(f)(X),
    "vjp": lambda f: ad.vjp(f, X),
    "jvp": lambda f: ad.jvp(f, (X,), (X,)),
    "hvp": lambda f: ad.hvp(f, (X,), (X,)),
    "hessian": lambda f: ad.hessian(f)(X),
    "jacobian": lambda f: ad.jacobian(f)(X),
    "vmap": lambda f: ad.vmap(f)(X),
    "checkpoint": lambda f: ad.checkpoint(f)(T),
    "cond": lambda f: ad.cond(ad.tensor(True), f, f, T),
    "while_loop": lambda f: ad.while_loop(f, f, T),
    "fori_loop": lambda f: ad.fori_loop(0, 3, lambda i, x: f(x), T),
    "scan": lambda f: ad.scan(lambda c, x: f(c), T, X),
    "jit of grad": lambda f: ad.jit(ad.grad(f))(X),
    "grad of jit": lambda f: ad.grad(ad.jit(f))(X),
    "vmap of grad": lambda f: ad.vmap(ad.grad(f))(np.ones((2, 3))),
    "jit of scan": lambda f: ad.jit(lambda x: ad.scan(lambda c, e: f(c), x, x))(X),
    "grad of checkpoint": lambda f: ad.grad(ad.checkpoint(f))(X),
    "check_gradients": lambda f: ad.check_gradients(f, X),
    "inspect": lambda f: ad.inspect(f, X),
    "export": lambda f: ad.export(f, X, out="nowhere"),
    "tree.map": lambda f: ad.tree.map(f, {"a": T}),
    "sum_over": lambda f: summed(lambda w, x: f(w)),
}

#: Routes to a part of a custom function, or to a hook.
PARTS = {
    "forward": lambda f: custom("", forward=lambda ctx, x: f(x))(T),
    "forward in jit": lambda f: ad.jit(custom("", forward=lambda ctx, x: f(x)))(X),
    "forward in grad": lambda f: ad.grad(lambda x: custom("", forward=lambda ctx, x: f(x))(x).sum())(X),
    "host forward": lambda f: custom("forward", forward=lambda ctx, x: f(x))(T).sum().backward(),
    "host forward in jit": lambda f: ad.jit(custom("forward", forward=lambda ctx, x: f(x)))(X),
    "method": lambda f: of_method(f)(T),
    "method in grad": lambda f: ad.grad(of_method(f))(X),
    "backward": lambda f: custom("", backward=lambda ctx, g: f(g))(T).sum().backward(),
    "backward of several": lambda f: ad.backward([custom("", backward=lambda ctx, g: f(g))(T).sum()]),
    "backward in grad": lambda f: ad.grad(lambda x: custom("", backward=lambda ctx, g: f(g))(x).sum())(X),
    "backward in jit": lambda f: ad.jit(ad.grad(lambda x: custom("", backward=lambda ctx, g: f(g))(x).sum()))(X),
    "backward between tensors": lambda f: ad.grad(custom("", backward=lambda ctx, g: f(g))(T).sum(), [T]),
    "backward of a history": lambda f: custom("", backward=lambda ctx, g: f(g))(T).sum().backward(create_graph=True),
    "pullback": lambda f: ad.vjp(custom("", backward=lambda ctx, g: f(g)), X)[1](X),
    "hessian": lambda f: ad.hessian(lambda x: custom("", backward=lambda ctx, g: f(g))(x).sum())(X),
    "host backward": lambda f: custom("backward", backward=lambda ctx, g: f(g))(T).sum().backward(),
    "host backward in jit": lambda f: ad.jit(
        ad.grad(lambda x: custom("backward", backward=lambda ctx, g: f(g))(x).sum())
    )(X),
    "jvp rule": lambda f: ad.jvp(custom("", jvp=lambda ctx, dx: f(dx)), (X,), (X,)),
    "operator of a type of the user's": of_operator,
    "hook": hooked,
    "hook after": hooked_after,
}


def entries(error):
    return traceback.extract_tb(error.__traceback__)


def error_of(run, *args):
    with pytest.raises(Exception) as found:
        run(*args)
    return found.value


def assert_users(error, last):
    """The traceback goes from this test to the function that failed, by no frame of ours."""
    found = entries(error)
    assert not [f"{e.filename}:{e.lineno}" for e in found if e.filename.startswith(OURS) or e.filename == "<string>"]
    assert found[0].name == "error_of"
    assert found[-1].name == last


@pytest.mark.parametrize("name", [*ROUTES, *PARTS])
@pytest.mark.parametrize("f", [raising, refused], ids=["raising", "refused"])
def test_a_traceback_holds_the_users_frames_alone(name, f):
    assert_users(error_of((ROUTES | PARTS)[name], f), f.__name__)


@pytest.mark.parametrize("name", [name for name in ROUTES if name != "tree.map"])
def test_a_function_that_does_not_take_the_arguments_is_shown_without_our_frames(name):
    error = error_of(ROUTES[name], takes_none)
    assert isinstance(error, TypeError)
    assert not [e for e in entries(error) if e.filename.startswith(OURS)]


@pytest.mark.parametrize("run", [
    lambda: ad.grad(lambda x: x)(X),
    lambda: ad.grad(lambda x: x.sum())(np.arange(3)),
    lambda: ad.grad(lambda x: x.sum(), argnums=3)(X),
    lambda: ad.vjp(lambda x: x, X)[1](np.ones(4)),
    lambda: ad.jvp(lambda x: x, (X,), (np.ones(4),)),
    lambda: ad.vmap(lambda x: x, in_axes=5)(X),
    lambda: ad.jit(lambda x: x if x > 0 else -x)(1.0),
    lambda: ad.jit(lambda x: x[5])(X),
    lambda: ad.scan(lambda c, x: (c, x), 1.0, 1.0),
    lambda: (T * 2.0).backward(),
    lambda: float(T),
    lambda: T.numpy(),
    lambda: T + np.ones(4),
    lambda: np.ones(4) + T,
    lambda: T.sum(axis=5),
    lambda: ad.matmul(T, np.ones(4)),
    lambda: ad.linalg.inv(ad.zeros((2, 2))).numpy(),
    lambda: ad.jit(lambda a: ad.linalg.inv(a))(np.zeros((2, 2))),
    lambda: ad.jit(lambda a, i: a[i])(X, np.array([7])),
])  # fmt: skip
def test_an_error_that_we_raise_ends_at_the_users_line(run):
    error = error_of(run)
    assert isinstance(error, (ad.Error, IndexError))
    assert_users(error, "<lambda>")


def warm(f, *args):
    """Call f until its code is known on every tier, then once more with an argument that it does not take."""
    for _ in range(12):
        f(*args)


KNOWN = {
    "jit": (ad.jit(lambda x, i: x[i]), (X, np.array([1])), (X, np.array([7]))),
    "jit of tensors": (ad.jit(lambda x: x @ np.ones(3)), (T,), (ad.ones(4),)),
    "operator": (lambda x: T + x, (X,), (np.ones(4),)),
    "operator of tensors": (lambda x: T + x, (T,), (ad.ones(4),)),
    "function": (lambda x: ad.matmul(T, x), (T,), (ad.ones(4),)),
    "method": (lambda axis: T.sum(axis=axis), (0,), (5,)),
    "inverse": (lambda a: ad.linalg.inv(ad.asarray(a)).numpy(), (np.eye(2),), (np.zeros((2, 2)),)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_an_error_of_a_known_program_ends_at_the_users_line(name):
    f, right, wrong = KNOWN[name]
    warm(f, *right)
    error = error_of(lambda: f(*wrong))
    assert not [f"{e.filename}:{e.lineno}" for e in entries(error) if e.filename.startswith(OURS)]


@pytest.mark.parametrize("route", ["host forward in jit", "host backward", "backward"])
def test_a_part_that_fails_at_a_later_call_is_shown_alone(route):
    calls = []

    def late(x):
        calls.append(x)
        if is_due:
            raise Oops
        return x * 2.0

    is_due = False
    given = {route.split()[-3 if "jit" in route else -1]: lambda ctx, x: late(x)}
    f = custom(next(iter(given)) if "host" in route else "", **given)
    run = ad.jit(lambda x: f(x).sum()) if "jit" in route else lambda x: f(T).sum().backward()
    warm(run, X)
    is_due = True
    assert_users(error_of(run, X), "late")


# ---------------------------------------------------------------- what stays


def test_a_setting_shows_our_frames(monkeypatch):
    monkeypatch.setattr(ad.config, "full_tracebacks", True)
    found = [e.filename for e in entries(error_of(ROUTES["jit of grad"], raising)) if e.filename.startswith(OURS)]
    assert len(found) > 5
    with pytest.raises(ValueError, match="full_tracebacks is True or False"):
        ad.config.full_tracebacks = 2


@pytest.mark.parametrize("variable", ["0", "1"])
def test_a_variable_shows_our_frames(variable, tmp_path):
    file = tmp_path / "program.py"
    file.write_text("import autodiff as ad\n\ndef f(x):\n    return x / None\n\nad.jit(ad.grad(f))(1.0)\n")
    environment = {"PYTHONPATH": str(ROOT), "AUTODIFF_FULL_TRACEBACKS": variable, "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert (len(lines) == 2) == (variable == "0"), done.stderr
    assert lines[-1 if variable == "0" else 0].startswith(f'  File "{file}", line ')
    assert done.returncode == 1


def test_the_cause_and_the_context_of_an_error_are_kept_and_shortened():
    inner = Oops("inner")

    def f(x):
        try:
            ad.vjp(lambda y: ad.jvp(raising, (y,), (y,)), x)
        except Oops as found:
            try:
                raise inner from found
            except Oops:
                raise KeyError(3)  # noqa: B904  the context is what is looked at

    error = error_of(ad.grad(f), X)
    assert isinstance(error, KeyError)
    assert error.__context__ is inner
    assert isinstance(inner.__cause__, Oops)
    for one in (error, inner, inner.__cause__):
        assert entries(one)
        assert not [e for e in entries(one) if e.filename.startswith(OURS)]


def test_the_errors_of_a_group_are_shortened():
    def f(x):
        found = []
        for part in (raising, refused):
            try:
                ad.grad(part)(x)
            except Exception as error:
                found.append(error)
        raise ExceptionGroup("both", found)

    error = error_of(ad.jit(f), X)
    assert [type(e).__name__ for e in error.exceptions] == ["Oops", "ShapeError"]
    for one in (error, *error.exceptions):
        assert [e.name for e in entries(one)][-1] in ("f", "raising", "refused")
        assert not [e for e in entries(one) if e.filename.startswith(OURS)]


def test_an_error_that_is_its_own_context_ends():
    one, other = Oops(1), Oops(2)
    one.__context__, other.__context__ = other, one

    def f(x):
        raise one

    assert error_of(ad.grad(f), X) is one


def test_a_fault_of_this_library_is_shown_whole(monkeypatch):
    fault = eval("lambda *args, **keywords: {}['a fault']", {"__name__": "autodiff.somewhere"})
    monkeypatch.setattr("autodiff.transforms.functional.name_of", fault)
    names = [e.name for e in entries(error_of(ad.vjp, raising, X))]
    assert names == ["error_of", "run", "vjp", "<lambda>"]


def test_a_library_that_calls_us_and_that_we_call_stays_in_the_traceback():
    minimize = pytest.importorskip("scipy.optimize").minimize
    error = error_of(lambda: ad.grad(lambda x: minimize(ad.grad(raising), [1.0]).fun)(X))
    files = [Path(e.filename).name for e in entries(error)]
    assert any("scipy" in e.filename for e in entries(error)), files
    assert not [e for e in entries(error) if e.filename.startswith(OURS)]


def test_an_interrupt_is_left_as_it_is():
    def f(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as found:
        ad.jit(f)(X)
    assert [e for e in entries(found.value) if e.filename.startswith(OURS)]


def test_a_debugger_finds_the_users_frames_after_an_error():
    error = error_of(ROUTES["jit of grad"], raising)
    stack, _ = bdb.Bdb().get_stack(None, error.__traceback__)
    assert [frame.f_code.co_name for frame, _ in stack][-1] == "raising"
    assert "_args" in stack[-1][0].f_locals
