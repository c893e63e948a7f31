"""Known calls of jit functions with tensors, static values and arrays of any layout: short ways that give the same."""

import contextlib
import gc
import sys

import numpy as np
import pytest
from natively import without_general_way, without_python

import autodiff as ad


def tensor(n=4, **options):
    return ad.tensor(np.arange(1.0, n + 1), **options)


def known(f, *args, **options):
    """f under jit that knows this call, and no general way."""
    g = ad.jit(f, **options)
    for _ in range(3):
        g(*args)
    without_general_way(g)
    return g


def test_tensors_come_back_as_tensors():
    x, y = tensor(), tensor() * 2.0
    y.numpy()
    g = known(lambda x, d: {"p": x * d["y"], "s": (x.sum(), 3)}, x, {"y": y})
    found = g(x, {"y": y})
    assert isinstance(found["p"], ad.Tensor) and isinstance(found["s"][0], ad.Tensor) and found["s"][1] == 3
    np.testing.assert_array_equal(found["p"].numpy(), 2 * np.arange(1.0, 5.0) ** 2)
    assert found["s"][0].item() == 10.0 and not found["p"].requires_grad and found["p"].is_leaf


def test_tensors_beside_arrays_and_numbers():
    g = known(lambda x, a, k: x * a + k, tensor(), np.ones(4), 2.0)
    np.testing.assert_array_equal(g(tensor(), np.full(4, 3.0), 5.0).numpy(), np.arange(1.0, 5.0) * 3 + 5)


@pytest.mark.parametrize("name", ["pending", "another shape", "another dtype", "tracked", "an array", "structured"])
def test_other_calls_go_the_general_way(name):
    g = ad.jit(lambda x: x * 2.0)
    for _ in range(3):
        g(tensor())
    others = {
        "pending": tensor() + 1.0, "another shape": tensor(5), "another dtype": tensor().astype(np.float32),
        "tracked": tensor(requires_grad=True), "an array": np.ones(4), "structured": ad.Diagonal(tensor()),
    }  # fmt: skip
    x = others[name]
    kind = np.ndarray if name == "an array" else ad.Diagonal if name == "structured" else ad.Tensor
    value = np.asarray(ad.dense(x).detach() if name == "structured" else x.detach() if name == "tracked" else x)
    for _ in range(3):
        found = g(x)
        assert isinstance(found, kind)
        found = found if name == "an array" else ad.dense(found).detach()
        np.testing.assert_allclose(np.asarray(found), 2 * value)


def test_tracked_calls_are_recorded_and_differentiated():
    w, x = tensor(requires_grad=True), tensor(requires_grad=True)
    g = known(lambda w, x: (ad.tanh(w * 0.1) * x).sum(), w, x)
    for _ in range(4):
        w.grad = x.grad = None
        y = g(w, x)
        assert y.requires_grad
        (y * 2.0).backward()
    v = np.arange(1.0, 5.0)
    np.testing.assert_allclose(w.grad.numpy(), 2 * 0.1 * v / np.cosh(0.1 * v) ** 2)
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.tanh(0.1 * v))


def test_tracked_calls_follow_grad_mode_and_detached_arguments():
    w = tensor(requires_grad=True)
    g = ad.jit(lambda w: (w * w).sum())
    for _ in range(4):
        assert g(w).requires_grad and not g(w.detach()).requires_grad
        with ad.no_grad():
            assert not g(w).requires_grad
    assert float(g(w).detach()) == 30.0


def test_second_derivatives_go_through_a_known_call():
    w = tensor(requires_grad=True)
    g = known(lambda w: (w * w * w).sum(), w)
    (first,) = ad.grad(g(w), [w], create_graph=True)
    (second,) = ad.grad(first.sum(), [w])
    np.testing.assert_allclose(second.numpy(), 6 * np.arange(1.0, 5.0))


def test_what_a_trace_captured_counts_with_its_present_contents():
    w, scale = tensor(requires_grad=True), tensor()
    g = ad.jit(lambda x: (x * scale).sum())
    h = ad.jit(lambda x: (x * w).sum())
    x = tensor()
    for k in range(4):
        assert g(x).item() == 30.0 + 10.0 * k
        w.grad = None
        h(x).backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.arange(1.0, 5.0))
        scale += 1.0


def test_a_hook_on_a_traced_argument_runs_at_each_backward():
    seen = []

    def f(w):
        if w.requires_grad:
            w.register_hook(lambda g: seen.append(1))
        return (w * 2.0).sum()

    w, g = tensor(requires_grad=True), ad.jit(f)
    for _ in range(4):
        g(w).backward()
    assert len(seen) == 4


def test_a_method_that_is_registered_later_counts():
    @ad.function
    def scaled(x):
        return x * 2.0

    x, w = tensor(), tensor(requires_grad=True)
    g = ad.jit(lambda x: scaled(x).sum())
    for _ in range(4):
        assert g(x).item() == 20.0 and g(w).detach().item() == 20.0
    method = scaled.method(ad.Vector)(lambda x: x * 3.0)
    for _ in range(3):
        assert g(x).item() == 30.0 and g(w).detach().item() == 30.0
    method.delete()
    assert g(x).item() == 20.0 and g(w).detach().item() == 20.0


def test_custom_functions_and_several_results_are_recorded_the_general_way():
    @ad.function
    def cube(x): ...

    @cube.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x * x * x

    @cube.backward(ad.Tensor)
    def _(ctx, g):
        return {"x": 3 * g * ctx.saved_variables.x ** 2}

    w = tensor(requires_grad=True)
    g, h = ad.jit(lambda w: cube(w).sum()), ad.jit(lambda w: (w.sum(), w * 2.0))
    for _ in range(4):
        w.grad = None
        g(w).backward()
        np.testing.assert_allclose(w.grad.numpy(), 3 * np.arange(1.0, 5.0) ** 2)
        w.grad = None
        a, b = h(w)
        (a + b.sum()).backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.full(4, 3.0))


def test_inside_a_trace_known_calls_are_part_of_it():
    g = ad.jit(lambda x: x * 2.0)
    for _ in range(3):
        g(tensor()), g(tensor(requires_grad=True))
    h = ad.jit(lambda x: g(x) + 1.0)
    np.testing.assert_array_equal(h(np.ones(4)), np.full(4, 3.0))
    np.testing.assert_array_equal(ad.grad(lambda x: g(x).sum())(np.ones(4)), np.full(4, 2.0))
    np.testing.assert_array_equal(ad.vmap(g)(np.ones((3, 4))), np.full((3, 4), 2.0))


@pytest.mark.parametrize("value", [3, 2**40, 0.5, -0.0, "text", None, True, (1, 2)])
def test_static_values_are_known_when_they_are_equal(value):
    """An equal int, float or text is the same call; what is compared otherwise is left to Python."""
    runs = []

    def f(x, how):
        runs.append(how)
        return x * float(len(runs))

    def again():
        return {int: lambda: int(str(value)), float: lambda: value + 0.0 if value else -0.0,
                str: lambda: "".join(list(value))}.get(type(value), lambda: value)()  # fmt: skip

    for options in ({"static_argnums": 1}, {"static_argnames": "how"}):
        runs.clear()
        g = ad.jit(f, **options)
        found = [g(np.ones(2), again())[0] for _ in range(5)]
        assert found == [1.0] * 5 and len(runs) == 1
        if type(value) is not tuple:
            without_python(g)
            assert g(np.ones(2), again())[0] == 1.0


def test_other_static_values_are_other_calls():
    g = ad.jit(lambda x, k: x * (k if k else 7.0) * (2.0 if np.signbit(k) else 1.0), static_argnums=1)
    for _ in range(4):
        assert [g(np.ones(1), k)[0] for k in (1, 2, 1.5, 0.0, -0.0, -1)] == [1, 2, 1.5, 7, 14, -2]
        assert ad.jit(lambda x, k: x * (2.0 if k is True else 3.0), static_argnums=1)(np.ones(1), True)[0] == 2.0


LAYOUTS = {
    "every other": lambda a: np.repeat(a, 2, axis=1)[:, ::2], "columns": lambda a: np.hstack([a, a])[:, : a.shape[1]],
    "transposed": lambda a: np.ascontiguousarray(a.T).T, "order of Fortran": np.asfortranarray,
    "backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1], "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_arrays_of_any_layout_stay_on_the_native_path(name):
    a = np.arange(1.0, 13.0).reshape(3, 4)
    g = ad.jit(lambda x, d: (x * d["y"], x.sum()))
    for _ in range(3):
        g(a, {"y": a})
    x = LAYOUTS[name](a)
    before = x.copy()
    without_python(g)
    for given in ((x, {"y": a}), (a, {"y": x}), (x, {"y": x})):
        p, s = g(*given)
        np.testing.assert_array_equal(p, given[0] * given[1]["y"])
        assert s == given[0].sum() and p.flags.c_contiguous
    np.testing.assert_array_equal(x, before)


def test_layouts_keep_nothing_and_lose_nothing():
    a = np.arange(12.0).reshape(3, 4)
    x, g = np.asfortranarray(a), ad.jit(lambda x, y: x + y)
    for _ in range(5):
        g(a, a), g(x, a)
        with contextlib.suppress(Exception):  # the first error imports what tells of it
            g(x, "no array")
    gc.collect()
    kept = [a, x, a.dtype, None]
    before = [sys.getrefcount(k) for k in kept]
    for _ in range(500):
        g(x, a)
        with contextlib.suppress(Exception):
            g(x, "no array")
    after = [sys.getrefcount(k) for k in kept]
    assert max(abs(i - k) for i, k in zip(before, after, strict=True)) < 20


def test_tensor_calls_keep_nothing_and_lose_nothing():
    x, w = tensor(100), tensor(100, requires_grad=True)
    g = ad.jit(lambda x: (x * 2.0).sum())
    for _ in range(5):
        g(x), g(w)
    gc.collect()
    kept = [x, w, x.node, w.node, x.node.value, g]
    before = [sys.getrefcount(k) for k in kept]
    for _ in range(300):
        g(x), g(w)
    gc.collect()
    after = [sys.getrefcount(k) for k in kept]
    assert max(abs(i - k) for i, k in zip(before, after, strict=True)) < 20
