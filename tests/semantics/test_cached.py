"""SEMANTICS 7 and issue 2: what a loop costs after its first turns.  No rule, no compile, no memory."""

from __future__ import annotations

import gc
import math
import os

import numpy as np
import pytest
from custom_functions import mul_constant_function, parameter
from regression import RNG, squared_error
from work_done import work

import autodiff as ad

DATA = RNG.normal(size=(203, 6))
TARGET = DATA @ RNG.normal(size=6) + 0.5


pytestmark = pytest.mark.usefixtures("cold")


def compiles():
    return ad.cache_info().compiles


class Model:
    """Linear regression with a custom loss."""

    def __init__(self):
        self.w, self.b = parameter(np.zeros(6)), parameter(0.0)

    def loss(self, x, y):
        return squared_error(x @ self.w + self.b, y)

    def step(self, x, y, rate):
        for p in (self.w, self.b):
            p.grad = None
        loss = self.loss(x, y)
        loss.backward()
        with ad.no_grad():
            for p in (self.w, self.b):
                p -= rate * p.grad
        return loss


def resident():
    """Resident memory in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---------------------------------------------------------------- a training loop


def test_a_training_loop_compiles_and_runs_rules_in_its_first_two_iterations_only():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    for i in range(1000):
        loss = model.step(x, y, 0.1)
        if i == 1:
            known, rules = compiles(), work().rules
    assert (compiles(), work().rules) == (known, rules)
    assert loss.item() < 1e-6
    np.testing.assert_allclose(model.b.detach(), 0.5, atol=1e-3)
    assert compiles() - known <= 1  # the final ask


def test_another_learning_rate_compiles_nothing_and_runs_no_rule():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    for i in range(50):
        model.step(x, y, 0.1 / (1 + i))
        if i == 1:
            known = compiles(), work().rules
    assert (compiles(), work().rules) == known


def test_mini_batches_are_one_compile_plus_one_for_a_shorter_last_one():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    for i in range(0, 96, 32):
        model.step(x[i : i + 32], y[i : i + 32], 0.05)
    known, rules = compiles(), work().rules
    for epoch in range(6):
        for i in range(0, 192, 32):
            model.step(x[i : i + 32], y[i : i + 32], 0.05)
        model.step(x[192:], y[192:], 0.05)  # the shorter last one
        if epoch == 1:
            last, last_rules = compiles(), work().rules
    assert last - known <= 2, "the shorter batch, and the update that runs with it"
    assert (compiles(), work().rules) == (last, last_rules)
    assert last_rules - rules <= rules


def test_an_occasional_print_compiles_once():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    seen = []
    for i in range(200):
        loss = model.step(x, y, 0.1)
        if i % 20 == 19:
            assert str(loss).startswith("f64[]")
            float(ad.abs(model.w.detach()).max())
        seen.append(compiles())
    assert seen[2] == seen[18], "nothing before the first print"
    assert seen[40] == seen[-1], "nothing after it"
    assert seen[-1] - seen[2] <= 2


def test_a_running_total_of_detached_losses_stays_flat():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    total = ad.tensor(0.0)
    by_hand = 0.0
    for i in range(2000):
        loss = model.step(x, y, 0.01)
        total += loss.detach()
        if i % 500 == 0:
            by_hand = total.item()
        if i == 3:
            known, rules = compiles(), work().rules
        if i == 600:
            gc.collect()
            before = len(gc.get_objects())
    gc.collect()
    assert (work().rules - rules, compiles() - known) <= (40, 2)
    assert len(gc.get_objects()) - before < 200
    assert total.item() >= by_hand > 0


def test_item_after_backward_runs_nothing():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    for _ in range(3):
        loss = model.loss(x, y)
        loss.backward()
        runs = work().runs
        loss.item()
        float(loss)
        str(loss)
        assert work().runs == runs


def test_item_before_backward_is_known_the_second_time():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    for i in range(6):
        loss = model.loss(x, y)
        loss.item()
        loss.backward()
        model.w.grad = model.b.grad = None
        if i == 1:
            known = compiles(), work().rules
    assert (compiles(), work().rules) == known


def test_resident_memory_of_a_loop_stays_flat_without_the_collector():
    model = Model()
    x, y = ad.tensor(DATA), ad.tensor(TARGET)
    gc.collect()
    gc.disable()
    try:
        for i in range(4000):
            model.step(x, y, 0.01)
            if i == 1000:
                before = resident()
        assert resident() - before < 2_000_000
    finally:
        gc.enable()


# ---------------------------------------------------------------- numbers that rules read


def test_mul_constant_with_1000_constants_is_one_compile_and_1000_right_gradients():
    mul_constant = mul_constant_function()
    x = parameter([1.0, 2.0])
    for i in range(1000):
        x.grad = None
        mul_constant(x, 0.5 * i).sum().backward()
        np.testing.assert_array_equal(x.grad, [0.5 * i] * 2)
        if i == 0:
            known = compiles()
    assert compiles() == known


def test_a_backward_that_looks_at_a_number_is_always_right():
    @ad.function
    def turn(t, angle): ...

    @turn.forward
    def _(ctx, t: ad.Tensor, angle: ad.Number):
        ctx.save_for_backward(angle=angle)
        return t * math.cos(angle)

    @turn.backward
    def _(ctx, g):
        return {"t": g * math.cos(ctx.saved_variables.angle)}

    x = parameter([1.0])
    for angle in [0.0, 1.0, 2.0, 1.0, 0.0] * 3:
        x.grad = None
        turn(x, angle).sum().backward()
        np.testing.assert_allclose(x.grad, [math.cos(angle)])


def test_a_rule_that_branches_on_a_number_is_always_right():
    limit = [1.0]

    @ad.function
    def f(t, k): ...

    @f.forward
    def _(ctx, t: ad.Tensor, k: ad.Number):
        ctx.k = k
        return t * 1.0

    @f.backward
    def _(ctx, g):
        return {"t": g * 2.0 if ctx.k > limit[0] else g * 3.0}

    x = parameter([1.0])
    for k, bound in [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (0.0, 1.0), (4.0, 3.0)] * 3:
        limit[0] = bound
        x.grad = None
        f(x, k).sum().backward()
        assert x.grad.item() == (2.0 if k > bound else 3.0)


FACTOR = 2.0


def test_a_global_that_a_rule_reads_is_never_stale(monkeypatch):
    @ad.function
    def f(t): ...

    @f.forward
    def _(ctx, t: ad.Tensor):
        return t * 1.0

    @f.backward
    def _(ctx, g):
        return g * FACTOR

    x = parameter([1.0])
    for factor in (2.0, 3.0, 2.0, 5.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(3):
            x.grad = None
            f(x).sum().backward()
            assert x.grad.item() == factor


def test_a_rule_made_anew_with_equal_constants_hits():
    x = parameter([1.0])
    for i in range(6):
        x.grad = None
        k = 3.0

        @ad.function
        def f(t): ...

        f.forward(ad.Tensor)(lambda ctx, t: t * 1.0)
        f.backward(ad.Tensor)(lambda ctx, g, k=k: g * k)
        f(x).sum().backward()
        assert x.grad.item() == 3.0
        if i == 1:
            known = compiles(), work().rules
    assert (compiles(), work().rules) == known


# ---------------------------------------------------------------- run-time arguments


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: x * (0.5 + k),
        lambda x, k: x[k],
        lambda x, k: x[k : k + 3],
        lambda x, k: ad.clip(x, -0.1 * k, 0.1 * k),
        lambda x, k: ad.full((3,), float(k)) * x[:3],
        lambda x, k: ad.where(x > 0.1 * k, x, float(k)),
        lambda x, k: x - k,
        lambda x, k: x ** (1.5 + k),
    ],
    ids=["factor", "index", "start", "bounds", "fill", "where", "integer", "exponent"],
)
def test_numbers_are_run_time_arguments(f):
    x = parameter(np.linspace(0.1, 2.0, 12))
    for k in range(8):
        x.grad = None
        f(x, k).sum().backward()
        if k == 1:
            known = compiles()
    assert compiles() == known


def test_a_numbers_kind_is_in_the_key_and_its_value_never():
    x = ad.tensor([1, 2, 3])
    assert (x + 1).dtype == np.int64 and (x + 1.0).dtype == np.float64 and (x + True).dtype == np.int64
    y = ad.tensor([1.0], dtype=ad.float32)
    assert (y * 2).dtype == (y * 2.0).dtype == np.float32
    assert (y * np.float64(2.0)).dtype == np.float64


def test_an_int_that_does_not_fit_raises_when_recorded():
    x = ad.tensor([1], dtype=ad.int32)
    with pytest.raises(OverflowError, match=r"(?s)i32.*test_cached.py"):
        x + 2**40
