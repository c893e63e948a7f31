"""SEMANTICS 6: detect_anomaly names the forward line and the rule that made the first NaN or inf."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest
from work_done import work

import autodiff as ad


def parameter(value=(0.0, 1.0)):
    return ad.tensor(value, requires_grad=True)


def line_of(f, offset):
    return f"test_anomaly.py:{f.__code__.co_firstlineno + offset}"


def test_it_names_the_operation_the_line_and_the_entry():
    def loss(x):
        y = x * 2.0
        return ad.sqrt(y).sum()

    x = parameter()
    with ad.detect_anomaly(), pytest.raises(ad.GradientError) as caught:
        loss(x).backward()
    message = str(caught.value)
    assert message.startswith("the derivative of sqrt made inf at [0] in the gradient of its input f64[2]")
    assert f"sqrt(f64[2]) was recorded at {line_of(loss, 2)}, in " in message
    assert x.grad is None


def test_it_finds_the_first_nan_not_where_it_ends_up():
    x = parameter([0.0, 2.0])
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match="derivative of sqrt made inf"):
        (ad.sqrt(x * x) * 3.0).sum().backward()


def test_a_custom_rule_is_named_with_its_place():
    @ad.function
    def bad(t): ...

    @bad.forward
    def _(ctx, t: ad.Tensor):
        return t * 1.0

    @bad.backward
    def rule(ctx, g):
        return g * np.nan

    x = parameter()
    for _ in range(2):
        with ad.detect_anomaly(), pytest.raises(ad.GradientError) as caught:
            (bad(x) * 2.0).sum().backward()
        assert "the derivative of bad made nan at [0]" in str(caught.value)
        assert "its rule is at test_anomaly.py:" in str(caught.value)
        assert "bad(f64[2]) was recorded at test_anomaly.py:" in str(caught.value)


def test_a_call_with_several_outputs_is_watched_too():
    @ad.function
    def both(t): ...

    @both.forward
    def _(ctx, t: ad.Tensor):
        return t * 1.0, t * 2.0

    @both.backward
    def _(ctx, g1, g2):
        return g1 / 0.0 + g2

    a, b = both(parameter())
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match="derivative of both made nan"):
        (a * b).sum().backward(retain_graph=True)
        (a + b).sum().backward()


def test_a_finite_backward_passes_and_gives_the_same_gradient():
    x = parameter([0.5, 1.0])
    ad.sqrt(x).sum().backward()
    expected = x.grad.numpy()
    x.grad = None
    with ad.detect_anomaly():
        ad.sqrt(x).sum().backward()
    np.testing.assert_allclose(x.grad, expected)


def test_what_was_recorded_before_has_no_line_but_is_watched():
    y = ad.sqrt(parameter()).sum()
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match="recorded before detect_anomaly"):
        y.backward()


def test_a_known_backward_is_watched_inside_and_known_again_outside():
    def step(x):
        x.grad = None
        ad.sqrt(x).sum().backward()

    x = parameter()
    for _ in range(4):
        step(x)
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match="sqrt made inf"):
        step(x)
    rules = work().rules
    step(x)
    assert work().rules == rules
    assert x.grad.tolist() == [np.inf, 0.5]


def test_a_function_transformation_is_watched():
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match="sqrt made inf"):
        ad.grad(lambda x: ad.sqrt(x).sum())(np.zeros(2))


def test_a_seed_or_hook_that_brings_nan_is_told_from_a_rule():
    x = parameter()
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match=r"reached sum is nan.*\n.*\n.*\n.*no rule made it"):
        (x * 2.0).sum().backward(np.nan)
    y = x * 2.0
    y.register_hook(lambda g: g * np.inf)
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match=r"reached mul is inf at \[0\]"):
        y.sum().backward()


def test_a_forward_that_was_not_finite_is_told():
    x = parameter([0.0, 1.0])
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match="an input of that call is not finite already"):
        h = ad.log(x)
        (h * h).sum().backward()


def test_a_branch_that_was_not_taken_is_no_anomaly():
    x = parameter([0.0, 1.0])
    with ad.detect_anomaly():
        ad.where(x > 0.5, ad.log(x), 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]


def test_it_holds_in_its_own_context_only():
    failures = []

    def other():
        try:
            x = parameter()
            ad.sqrt(x).sum().backward()
        except BaseException as error:
            failures.append(error)

    with ad.detect_anomaly():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not failures


def test_it_nests_and_ends():
    mode = ad.detect_anomaly()
    with mode, mode:
        pass
    x = parameter()
    ad.sqrt(x).sum().backward()
    assert x.grad.tolist() == [np.inf, 0.5]


@pytest.mark.parametrize("calls", [0, 1, 5])
@pytest.mark.parametrize("kind", ["jit of grad", "grad of jit", "backward through jit", "jit of a method"])
def test_a_jit_function_is_run_as_plain_python_and_watched(kind, calls):
    def f(x):
        return ad.sqrt(x).sum()

    compiled = ad.jit(f)

    def backward(x):
        t = parameter(x)
        compiled(t).backward()
        return t.grad.numpy()

    run = {
        "jit of grad": ad.jit(ad.grad(f)), "grad of jit": ad.grad(compiled), "backward through jit": backward,
        "jit of a method": ad.jit(lambda x, n: ad.value_and_grad(f)(x)[n], static_argnums=1),
    }[kind]  # fmt: skip
    more = (1,) if kind == "jit of a method" else ()
    for _ in range(calls):
        assert np.asarray(run(np.zeros(1), *more)).tolist() == [np.inf]
    with ad.detect_anomaly():
        with pytest.raises(ad.GradientError, match=r"sqrt made inf(.|\n)*recorded at test_anomaly.py:\d+, in f"):
            run(np.zeros(1), *more)
        found = run(np.full(1, 4.0), *more)
        assert np.asarray(found).tolist() == [0.25] and (kind == "backward through jit" or type(found) is np.ndarray)
    assert np.asarray(run(np.zeros(1), *more)).tolist() == [np.inf]


@pytest.mark.parametrize("route", ["plain", "jit outside", "jit inside"])
def test_the_examples_of_vmap_are_watched_one_after_the_other(route):
    def f(x):
        return ad.sqrt(x).sum()

    run = {"plain": ad.vmap(ad.grad(f)), "jit outside": ad.jit(ad.vmap(ad.grad(f))),
           "jit inside": ad.vmap(ad.grad(ad.jit(f)))}[route]  # fmt: skip
    good, bad = np.array([[1.0, 4.0], [4.0, 1.0]]), np.array([[1.0, 4.0], [4.0, 0.0]])
    with ad.detect_anomaly():
        np.testing.assert_array_equal(run(good), [[0.5, 0.25], [0.25, 0.5]])
        with pytest.raises(ad.GradientError, match=r"sqrt made inf at \[1\](.|\n)*at test_anomaly.py:\d+, in f"):
            run(bad)
        shared = ad.vmap(lambda x, y: (x * 2.0, y * 3.0), in_axes=(0, None), out_axes=(1, None))(good, np.ones(2))
        np.testing.assert_array_equal(shared[0], good.T * 2.0)
        np.testing.assert_array_equal(shared[1], [3.0, 3.0])
        assert ad.vmap(lambda x: x * 2.0)(np.ones((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("transformed", [lambda f: f, ad.jit], ids=["plain", "jit"])
def test_a_tangent_that_is_no_number_is_found(transformed):
    f = transformed(lambda x: ad.exp(ad.sqrt(x)).sum())
    with ad.detect_anomaly():
        with pytest.raises(ad.GradientError, match=r"sqrt made inf at \[1\] in the tangent(.|\n)*test_anomaly.py:\d+"):
            ad.jvp(f, (np.array([1.0, 0.0]),), (np.ones(2),))
        assert ad.jvp(f, (np.array([1.0, 4.0]),), (np.ones(2),))[1] > 0
        branch = transformed(lambda x: ad.where(x > 0.5, ad.log(x), 0.0).sum())
        assert ad.jvp(branch, (np.array([0.0, 1.0]),), (np.ones(2),))[1] == 1.0


def test_a_tangent_by_the_rule_of_the_gradient_is_told_as_a_tangent_of_its_operation():
    """Operations without a rule forward use that of the gradient: nobody went backward."""
    with ad.detect_anomaly():
        told = r"derivative of log_abs_det made nan in the tangent of its result(.|\n)*test_anomaly.py:\d+, in <lambda>"
        with pytest.raises(ad.GradientError, match=told) as raised:
            ad.jvp(lambda a: ad.linalg.slogdet(a).logabsdet, (np.array([[1.0, 2.0], [2.0, 4.0]]),), (np.ones((2, 2)),))
        assert "backward" not in str(raised.value)


def _step(x):
    return ad.sqrt(x) * 2.0


#: Programs whose step is `_step`, by what runs it.
RUN_IN_THE_GRAPH = {
    "scan": lambda x: ad.scan(lambda c, _: (_step(c), c), x, length=3)[0],
    "scan over xs": lambda x: ad.scan(lambda c, e: (c + _step(e), c), x[0], x)[0],
    "results of scan": lambda x: ad.scan(lambda c, e: (c, _step(e)), 1.0, x)[1],
    "reverse scan": lambda x: ad.scan(lambda c, e: (c + _step(e), None), 0.0, x, reverse=True)[0],
    "fori_loop": lambda x: ad.fori_loop(0, 3, lambda i, c: _step(c) + i, x),
    "while_loop": lambda x: ad.while_loop(lambda c: c[0] < 3, lambda c: [c[0] + 1, _step(c[1])], [ad.tensor(0), x])[1],
    "cond": lambda x: ad.cond(ad.sum(x) >= 0, _step, lambda x: x, x),
    "checkpoint": lambda x: ad.checkpoint(_step)(x),
    "checkpoint in scan": lambda x: ad.scan(ad.checkpoint(lambda c, _: (_step(c), None)), x, length=2)[0],
    "cond in fori_loop": lambda x: ad.fori_loop(0, 2, lambda i, c: ad.cond(i < 3, _step, lambda c: c, c), x),
    "scan in jit": ad.jit(lambda x: ad.scan(lambda c, _: (_step(c), c), x, length=3)[0]),
    "vmap of scan": lambda x: ad.vmap(lambda e: ad.scan(lambda c, _: (_step(c), c), e, length=2)[0])(x),
    "a number carried": lambda x: ad.scan(lambda c, e: (c * _step(e), c), 1.0, ad.astype(x, "float32"))[0],
    "no steps": lambda x: ad.scan(lambda c, e: (_step(c), c), x, ad.ones((0, 2)))[0] * _step(x),
    "no steps of fori_loop": lambda x: ad.fori_loop(3, 3, lambda i, c: _step(c), x) * _step(x),
    "a constant": lambda x: ad.fori_loop(0, 2, lambda i, c: 2.0, 1.0) * _step(x),
}
ASKED = {
    "grad": lambda f, x: ad.grad(lambda x: ad.sum(f(x)))(x),
    "backward": lambda f, x: _backward(f, x),
    "jvp": lambda f, x: ad.jvp(f, (x,), (np.ones_like(x),))[1],
    "jit of grad": lambda f, x: ad.jit(ad.grad(lambda x: ad.sum(f(x))))(x),
    "hvp": lambda f, x: ad.hvp(lambda x: ad.sum(f(x)), x, np.ones_like(x)),
}


def _backward(f, x):
    t = parameter(x)
    ad.sum(f(t)).backward()
    return t.grad.numpy()


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", RUN_IN_THE_GRAPH)
def test_what_runs_in_the_graph_is_watched_line_by_line(name, asked):
    """The body's line and operation are named, not the loop's and a rule of the library's."""
    program, ask = RUN_IN_THE_GRAPH[name], ASKED[asked]
    good = np.array([0.5, 2.0])
    before = ask(program, good)
    with ad.detect_anomaly():
        found = ask(program, good)
        with pytest.raises(ad.GradientError, match=rf"of sqrt made (.|\n)* at {line_of(_step, 1)}, in _step") as caught:
            ask(program, np.array([0.0, 0.0]))
    np.testing.assert_allclose(found, before, rtol=1e-6)
    assert np.asarray(found).dtype == np.asarray(before).dtype
    assert "loops.py" not in str(caught.value) and not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("name", RUN_IN_THE_GRAPH)
@pytest.mark.parametrize("mode", ["eager", "anomaly", "both"])
def test_a_body_that_runs_as_plain_python_gives_what_the_graph_gives(name, mode, monkeypatch):
    program, x = RUN_IN_THE_GRAPH[name], ad.tensor([0.5, 2.0])
    expected = program(x)
    if mode != "anomaly":
        monkeypatch.setattr(ad.config, "eager", True)
    with ad.detect_anomaly() if mode != "eager" else contextlib.nullcontext():
        found = program(x)
        assert type(found) is type(expected) and found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_a_loop_recorded_before_is_called_by_its_name():
    y = ad.scan(lambda c, _: (_step(c), c), parameter(), length=2)[0].sum()
    assert "call scan(" in str(ad.inspect(y).tape)
    with ad.detect_anomaly(), pytest.raises(ad.GradientError, match="of sqrt made"):
        y.backward()
