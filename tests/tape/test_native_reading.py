"""Handles answer natively as Python says: see `codegen.runtime.recorder_reads`."""

import gc
import threading

import numpy as np
import pytest

import autodiff as ad


def leaf(n=5, requires_grad=True):
    return ad.tensor(np.arange(1.0, n + 1), requires_grad=requires_grad)


def test_a_value_is_a_view_that_nobody_can_write_to(way):
    t = leaf(requires_grad=False)
    for read in (t.numpy, lambda: np.asarray(t), lambda: t.__array__()):
        found = read()
        assert type(found) is np.ndarray and not found.flags.writeable and found.flags.c_contiguous
        assert np.shares_memory(found, t.node.value)
        np.testing.assert_array_equal(found, [1, 2, 3, 4, 5])
        with pytest.raises(ValueError):
            found.flags.writeable = True
            found[0] = 9.0
            raise AssertionError("a value was changed")


def test_a_view_outlives_its_tensor(way):
    t = leaf(1000, requires_grad=False) * 2.0
    found = t.numpy()
    del t
    gc.collect()
    [np.ones(1000) for _ in range(100)]
    assert found[-1] == 2000.0


def test_numpy_protocol_takes_dtype_and_copy(way):
    t = leaf(requires_grad=False)
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    assert np.array(t).flags.writeable
    assert t.__array__(None, True).flags.writeable
    assert t.__array__(dtype=np.float32, copy=None).dtype == np.float32
    with pytest.raises(ValueError, match="copied"):
        t.__array__(np.float32, copy=False)
    with pytest.raises(TypeError):
        t.__array__(None, None, None)
    with pytest.raises(TypeError):
        t.__array__(*range(20))
    with pytest.raises(TypeError):
        t.__array__(order="C")


@pytest.mark.parametrize("read", [lambda t: t.numpy(), np.asarray, lambda t: np.array(t, dtype=np.float32)])
def test_a_gradient_is_not_lost(way, read):
    with pytest.raises(ad.GradientError, match="would lose its gradient"):
        read(leaf())
    with ad.no_grad():
        assert read(leaf())[0] == 1.0


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "bool", "complex128"])
def test_numbers_are_pythons(way, dtype):
    kinds = {"f": float, "i": int, "b": bool, "c": complex}
    t = ad.tensor(np.asarray(1, dtype))
    for _ in range(2):
        assert t.item() == 1 and type(t.item()) is kinds[np.dtype(dtype).kind]
        if dtype != "complex128":
            assert float(t) == 1.0 and type(float(t)) is float
        assert ad.tensor(np.asarray([[1]], dtype)).item() == 1
    with pytest.raises(ad.ShapeError):
        leaf().item()
    with pytest.raises(ad.ShapeError):
        float(leaf())


def test_a_pending_value_is_computed(way):
    t = leaf(requires_grad=False)
    for _ in range(3):
        assert float(ad.sum(t * 2.0)) == ad.sum(t * 2.0).item() == 30.0
        np.testing.assert_array_equal((t + 1.0).numpy(), [2, 3, 4, 5, 6])
        np.testing.assert_array_equal(np.asarray(t + 1.0), [2, 3, 4, 5, 6])


def test_detached_values_have_no_history(way):
    x = leaf()
    for _ in range(4):
        y = x * 2.0
        for t in (x, y):
            d = t.detach()
            assert not d.requires_grad and d.is_leaf and type(d) is type(t)
            assert d is not t and d.node is not t.node
            np.testing.assert_array_equal(d.numpy(), (np.arange(1.0, 6.0) * (2.0 if t is y else 1.0)))
    free = leaf(requires_grad=False)
    d = free.detach()
    assert d is not free and d.node is free.node
    d += 1.0
    assert free.numpy()[0] == 1.0 and d.numpy()[0] == 2.0


def test_what_is_detached_keeps_its_value(way):
    x = leaf()
    kept = []
    for _ in range(4):
        kept.append(x.detach())
        with ad.no_grad():
            x += 1.0
    assert [k.numpy()[0] for k in kept] == [1.0, 2.0, 3.0, 4.0]


def test_a_traced_function_sees_what_a_detached_tensor_holds_now(way):
    x = leaf()
    for _ in range(3):
        x.detach()
    f = ad.jit(lambda a: a + x.detach())
    first = f(np.zeros(5))
    with ad.no_grad():
        x += 1.0
    second = f(np.zeros(5))
    np.testing.assert_array_equal(np.asarray(second), np.asarray(first) + 1)


def test_detached_in_the_middle_gradients_stop(way):
    x = leaf()
    for _ in range(4):
        x.grad = None
        y = x * x
        ad.sum(y * y.detach()).backward()
        v = np.arange(1.0, 6.0)
        np.testing.assert_allclose(x.grad.numpy(), 2 * v * v * v)


def test_grad_is_read_and_written(way):
    x, y = leaf(), leaf(requires_grad=False)
    assert x.grad is None and y.grad is None
    with pytest.warns(UserWarning, match="of a computed tensor is not kept"):
        assert (x * 2.0).grad is None
    ad.sum(x * x).backward()
    g = x.grad
    assert x.grad is g and isinstance(g, ad.Tensor)
    x.grad = None
    assert x.grad is None
    x.grad = np.ones(5)
    np.testing.assert_array_equal(x.grad.numpy(), np.ones(5))
    with pytest.raises(ad.GradientError, match="is no gradient of"):
        x.grad = np.ones(4)
    with pytest.raises(ad.GradientError, match="belongs to leaves"):
        y.grad = None
    with pytest.raises(AttributeError):
        del x.grad
    np.testing.assert_array_equal(x.grad.numpy(), np.ones(5))


def test_a_retained_gradient_is_read_and_cleared(way):
    x = leaf()
    y = x * 2.0
    y.retain_grad()
    ad.sum(y * y).backward()
    np.testing.assert_allclose(y.grad.numpy(), 4 * np.arange(1.0, 6.0))
    y.grad = None
    assert y.grad is None


def test_grad_is_not_set_in_a_trace(way):
    x = leaf()

    def f(a):
        x.grad = None
        return a

    with pytest.raises(ad.GradientError, match="inside a traced function"):
        ad.jit(f)(np.ones(3))


def test_other_threads_are_answered(way):
    x = leaf()
    ad.sum(x * x).backward()
    found = []

    def work():
        found.append((x.grad.numpy().tolist(), x.detach().numpy().tolist(), x.grad.sum().item()))
        x.grad = None

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [([2, 4, 6, 8, 10], [1, 2, 3, 4, 5], 30.0)] and x.grad is None
