"""SEMANTICS 6: whether gradients are tracked, per context; what no_grad, enable_grad and detach mean."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from custom_functions import parameter

import autodiff as ad


def test_under_no_grad_results_track_nothing():
    x = parameter()
    with ad.no_grad():
        y = x * 2.0
        assert not ad.is_grad_enabled()
    assert not y.requires_grad and y.is_leaf and ad.is_grad_enabled()
    assert (x * 2.0).requires_grad


def test_enable_grad_tracks_again_inside_no_grad():
    x = parameter()
    with ad.no_grad(), ad.enable_grad():
        y = x * 2.0
    y.sum().backward()
    np.testing.assert_allclose(x.grad, [2.0] * 3)


@pytest.mark.parametrize(("mode", "expected"), [(ad.no_grad, False), (ad.enable_grad, True)])
def test_the_modes_decorate_functions(mode, expected):
    @mode()
    def f(x):
        return x * 2.0

    assert f.__name__ == "f"
    for _ in range(2):
        assert f(parameter()).requires_grad is expected
    assert ad.is_grad_enabled()


def test_a_mode_is_restored_when_the_block_raises():
    with pytest.raises(ZeroDivisionError), ad.no_grad():
        raise ZeroDivisionError
    assert ad.is_grad_enabled()


def test_a_mode_object_may_be_entered_again_inside_itself():
    mode = ad.no_grad()
    with mode:
        with mode:
            pass
        assert not ad.is_grad_enabled()
    assert ad.is_grad_enabled()


def test_backward_inside_no_grad_works():
    x = parameter()
    y = (x * x).sum()
    with ad.no_grad():
        y.backward()
    np.testing.assert_allclose(x.grad, [2.0, 4.0, 6.0])


def test_grad_of_a_function_inside_no_grad_works():
    with ad.no_grad():
        np.testing.assert_allclose(ad.grad(lambda x: (x * x).sum())(np.ones(3)), [2.0] * 3)
        g = ad.grad(lambda x: (x * x).sum())(ad.tensor([1.0]))
    assert not g.requires_grad


def test_a_cached_run_keeps_the_modes_apart():
    x = parameter()
    for i in range(6):
        if i % 2:
            with ad.no_grad():
                y = ad.sin(x)
            assert not y.requires_grad
        else:
            y = ad.sin(x)
            assert y.requires_grad
        np.testing.assert_allclose(y.detach(), np.sin([1.0, 2, 3]))


def test_jit_keeps_the_modes_apart():
    f = ad.jit(lambda x: ad.sin(x) * 2.0)
    x = parameter()
    for _ in range(2):
        with ad.no_grad():
            assert not f(x).requires_grad
        y = f(x)
        assert y.requires_grad
        x.grad = None
        y.sum().backward()
        np.testing.assert_allclose(x.grad, 2 * np.cos([1.0, 2, 3]))


def test_threads_begin_with_gradients_on_and_do_not_see_each_other():
    seen = {}
    inside, done = threading.Event(), threading.Event()

    def quiet():
        with ad.no_grad():
            inside.set()
            done.wait(5)
            seen["quiet"] = ad.is_grad_enabled()

    def other():
        inside.wait(5)
        seen["other"] = ad.is_grad_enabled()
        done.set()

    threads = [threading.Thread(target=quiet), threading.Thread(target=other)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == {"other": True, "quiet": False}


def test_asyncio_tasks_do_not_see_each_others_mode():
    seen = []

    async def quiet():
        with ad.no_grad():
            await asyncio.sleep(0.005)
            seen.append(("quiet", ad.is_grad_enabled()))

    async def other():
        await asyncio.sleep(0.001)
        seen.append(("other", ad.is_grad_enabled()))
        x = parameter()
        y = (x * x).sum()
        await asyncio.sleep(0.01)
        y.backward()
        seen.append(("gradient", x.grad.tolist()))

    async def both():
        await asyncio.gather(quiet(), other())

    asyncio.run(both())
    assert sorted(seen) == [("gradient", [2.0, 4.0, 6.0]), ("other", True), ("quiet", False)]


def test_a_task_inherits_the_mode_it_was_made_in():
    async def ask():
        return ad.is_grad_enabled()

    async def main():
        with ad.no_grad():
            return await asyncio.create_task(ask())

    assert asyncio.run(main()) is False


def test_detach_has_the_value_without_the_history():
    x = parameter()
    y = x * 2.0
    d = y.detach()
    assert not d.requires_grad and d.is_leaf
    (y * d).sum().backward()
    np.testing.assert_allclose(x.grad, [4.0, 8.0, 12.0])


def test_reading_a_tracking_tensor_as_an_array_is_an_error_with_advice():
    x = parameter()
    for read in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.array(x * 2.0)):
        with pytest.raises(ad.GradientError, match=r"detach\(\)\.numpy\(\)"):
            read()
    with ad.no_grad():
        np.testing.assert_array_equal(np.asarray(x), [1.0, 2.0, 3.0])
    assert float(x.sum()) == 6.0 and x.sum().item() == 6.0 and "6.0" in str(x.sum())
