"""Programs at another size at each step: rules that are known at one are known at any, where that is right."""

import gc
import math

import numpy as np
import pytest
from spied import compile_any_size
from work_done import work

import autodiff as ad
from autodiff.tape import families, sizes
from tests.ops.cases import all_cases, eager, rng_of


@pytest.fixture
def varied(monkeypatch, patience):
    """True if recordings of known forms were answered by plans for any size."""
    answered = []
    plan = sizes.AnyPlans.plan

    def noted(self, numbers):
        found = plan(self, numbers)
        answered.append(found is not None)
        return found

    monkeypatch.setattr(sizes.AnyPlans, "plan", noted)
    find = families._at_size

    def noted_find(*given):
        found = find(*given)
        if found is not None:
            answered.append(True)
        return found

    monkeypatch.setattr(families, "_at_size", noted_find)
    return answered


RNG = np.random.default_rng(11)
ROWS, ONES, WEIGHTS = RNG.normal(size=(40, 5)), RNG.normal(size=40), RNG.normal(size=5)
SIZES = (3, 4, 6, 7, 9, 12, 21, 30, 2, 1, 5, 40, 39)


def slope(f, *arrays):
    """The value of f, and the gradients of it."""
    ts = [ad.tensor(a, requires_grad=True) for a in arrays]
    y = f(*ts)
    y.backward()
    return [y.item(), *[np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in ts]]


def check(f, *arrays):
    """Ours and what the references of operations give agree."""
    with eager():
        expected = slope(f, *arrays)
    for ours, right in zip(slope(f, *arrays), expected, strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------- what it saves


def test_a_batch_that_grows_runs_no_rule_and_compiles_nothing_once_sizes_vary(patience):
    w, right = ad.tensor(WEIGHTS, requires_grad=True), WEIGHTS.copy()
    rows, ones = ad.tensor(np.tile(ROWS, (4, 1))), ad.tensor(np.tile(ONES, 4))
    before = []
    for n in range(1, 121):
        if n in (60, 110):
            before.append((work().rules, ad.cache_info().compiles))
        r = rows[:n] @ w - ones[:n]
        ad.mean(r * r).backward()
        with ad.no_grad():
            w -= 0.01 * w.grad
            w.grad = None
        x, y = rows.numpy()[:n], ones.numpy()[:n]
        right = right - 0.01 * x.T @ (2 * (x @ right - y) / n)
        np.testing.assert_allclose(w.detach().numpy(), right, rtol=1e-12)
    # Above 64 elements a result is no longer small: that is another form, learnt once.
    (rules, compiles), (rules_later, compiles_later) = before
    assert rules_later - rules < 100 and compiles_later == compiles


def test_where_each_plan_serves_twice_in_a_step_sizes_vary_all_the_same(patience):
    keys = values = None
    before = 0
    for n in range(60):
        if n == 40:
            before = ad.cache_info().compiles
        row = ad.tensor(ROWS[n % 40 : n % 40 + 1])
        keys = row * 2 if keys is None else ad.concatenate([keys, row * 2])
        values = row * 3 if values is None else ad.concatenate([values, row * 3])
        found = ad.sum(ad.exp(keys) * values).numpy()
    rows = np.tile(ROWS, (2, 1))[:60]
    np.testing.assert_allclose(found, np.sum(np.exp(rows * 2) * rows * 3), rtol=1e-12)
    assert ad.cache_info().compiles - before <= 2


def test_a_size_that_is_run_again_and_again_has_the_machine_code_of_all_sizes(patience):
    w = ad.tensor(WEIGHTS, requires_grad=True)
    compiled = []
    for n in [*range(1, 30), *[31] * 6]:
        before = ad.cache_info().compiles
        ad.sum(ad.tanh(ad.tensor(ROWS[:n]) @ w)).backward()
        compiled.append(ad.cache_info().compiles - before)
    assert sum(compiled) == 1 and not any(compiled[-6:])
    np.testing.assert_allclose(slope(lambda w: ad.sum(ad.tanh(ad.tensor(ROWS[:31]) @ w)), WEIGHTS)[1],
                               ROWS[:31].T @ (1 - np.tanh(ROWS[:31] @ WEIGHTS) ** 2), rtol=1e-12)  # fmt: skip


def test_compiling_for_any_size_counts_as_compiling(varied, monkeypatch):
    """`max_compiles`, `cache_info` and `explain` say the same; a program met before the block is none of its own."""
    compile_any_size(monkeypatch)

    def steps(f, sizes):
        w = ad.tensor(WEIGHTS, requires_grad=True)
        for n in sizes:
            ad.sum(f(ad.tensor(np.tile(ROWS, (20, 1))[:n]) @ w)).backward()

    def told():
        return sum([miss.compiles for miss in ad.explain() if "of any size" in miss.what])

    before, of_any_size = ad.cache_info().compiles, told()
    with pytest.raises(ad.Error, match=r"max_compiles\(0\): \d graphs? w"), ad.max_compiles(0):
        steps(lambda x: ad.exp(ad.sin(x)), range(20, 40))
    assert told() > of_any_size and ad.cache_info().compiles - before >= told() - of_any_size
    compile_any_size(monkeypatch, why="")
    steps(lambda x: ad.cos(ad.sin(x)), range(20, 30))
    compile_any_size(monkeypatch)
    of_any_size = told()
    with ad.max_compiles(0):
        steps(lambda x: ad.cos(ad.sin(x)), range(30, 40))
    assert told() > of_any_size


# ---------------------------------------------------------------- what has to be right


PROGRAMS = {
    "mean": lambda x, v: ad.mean((x @ v) ** 2),
    "mean of columns": lambda x, v: ad.sum(ad.mean(x, axis=0) * v),
    "var": lambda x, v: ad.sum(ad.var(x, axis=0) * v) + ad.std(x),
    "softmax": lambda x, v: ad.sum(ad.softmax(x @ v) * ad.cumsum(x @ v)),
    "attention": lambda x, v: ad.sum(ad.softmax(x @ x.T, axis=-1) @ x * v),
    "differences": lambda x, v: ad.sum((x[1:] - x[:-1]) ** 2) if x.shape[0] > 1 else ad.sum(x),
    "halves": lambda x, v: ad.sum(x[: x.shape[0] // 2] @ v) + ad.sum(x[x.shape[0] // 2 :] ** 2),
    "backwards": lambda x, v: ad.sum(x[::-1] * x) + ad.sum(x[-1] * v),
    "every other": lambda x, v: ad.sum(x[::2] ** 2) + ad.sum(x[1::2] @ v),
    "flattened": lambda x, v: ad.sum(x.reshape(-1) * ad.cumsum(x.reshape(-1))),
    "identity": lambda x, v: ad.sum((x @ x.T + ad.eye(x.shape[0])) ** 2) + ad.sum(v),
    "triangle": lambda x, v: ad.sum(ad.tril(x @ x.T) ** 2) * ad.sum(v),
    "distances": lambda x, v: ad.sum(ad.exp(-ad.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1))) + ad.sum(v),
    "divided": lambda x, v: ad.sum(x) / x.shape[0] + ad.sum(v) / (x.shape[0] + 1) ** 2,
    "rooted": lambda x, v: ad.sum(x * v) * math.sqrt(x.shape[0]) / x.size,
    "decided": lambda x, v: ad.sum(x * v) if x.shape[0] % 3 else ad.sum(ad.sin(x) * v),
    "decided at one": lambda x, v: ad.sum(x**2) if x.shape[0] == 7 else ad.sum(x * v),
    "joined": lambda x, v: ad.sum(ad.concatenate([x, x[:1], v[None, :]]) ** 3),
    "stacked": lambda x, v: ad.sum(ad.stack([x, x * 2, x**2]) * v),
    "padded": lambda x, v: ad.sum(ad.pad(x @ v, (1, 2)) ** 2),
    "sorted": lambda x, v: ad.sum(ad.sort(x @ v) * ad.arange(x.shape[0])),
    "largest": lambda x, v: ad.max(x @ v) + ad.sum(ad.max(x, axis=0) * v),
    "product": lambda x, v: ad.prod(1 + 0.01 * (x @ v)),
    "repeated": lambda x, v: ad.sum(ad.repeat(x @ v, 2) ** 2) + ad.sum(ad.tile(x @ v, 3)),
    "solved": lambda x, v: ad.sum(ad.linalg.solve(x @ x.T + 9 * ad.eye(x.shape[0]), x @ v)),
    "norm": lambda x, v: ad.linalg.norm(x @ v) + ad.sum(v),
    "convolved": lambda x, v: ad.sum(ad.convolve(x @ v, v[:3]) ** 2),
    "taken": lambda x, v: ad.sum(ad.take(x, np.array([0, 0]), axis=0) * v),
    "spread": lambda x, v: ad.sum(ad.broadcast_to(v, x.shape) * x * ad.ones(x.shape)),
    "no gradient": lambda x, v: ad.sum(ad.stop_gradient(x) * v),
    "where": lambda x, v: ad.sum(ad.where(x > 0, x * v, 0.0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right_at_every_size(varied, name):
    for n in SIZES:
        check(PROGRAMS[name], ROWS[:n], WEIGHTS)
    assert any(varied) or name == "product"  # whose levels are as many as a logarithm says


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_on_the_beginning_of_what_is_there_is_right_at_every_size(varied, name):
    for n in SIZES:
        check(lambda x, v, n=n: PROGRAMS[name](x[:n], v), ROWS, WEIGHTS)


def test_two_extents_that_are_equal_at_times_are_right(varied):
    def f(x, y):
        return ad.sum(x[:, None] * y[None, :]) + (ad.sum(x * y) if x.shape == y.shape else ad.sum(x) * 2)

    for n, m in ((3, 5), (4, 6), (5, 5), (6, 5), (7, 7), (5, 9), (2, 2), (1, 1), (1, 6), (8, 4), (9, 9)):
        check(f, ONES[:n], ONES[:m] + 1)


def test_an_extent_of_one_is_spread(varied):
    for n in (3, 4, 6, 1, 7, 1, 5):
        check(lambda x, v: ad.sum(x * v) + ad.mean(x), ROWS[:1, :n] if n in (1, 5) else ROWS[:n], WEIGHTS)


@pytest.mark.parametrize("way", ["number", "length", "root", "parity", "text", "table"])
def test_a_custom_rule_may_look_at_a_shape(varied, way):
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x * 2.0

    looked = {
        "number": lambda x: 1.0 / x.shape[0],
        "length": len,
        "root": lambda x: math.isqrt(x.size),
        "parity": lambda x: 3.0 if x.shape[0] % 2 else 5.0,
        "text": lambda x: float(str(x.shape[0])[-1]),
        "table": lambda x: {3: 1.0, 7: 4.0}.get(x.shape[0], 2.0),
    }[way]

    @f.backward(ad.Tensor)
    def _(ctx, g):
        return {"x": g * looked(ctx.saved_variables.x)}

    for n in SIZES:
        x = ad.tensor(ONES[:n], requires_grad=True)
        ad.sum(f(x)).backward()
        np.testing.assert_allclose(x.grad.numpy(), np.full(n, float(looked(x))), rtol=1e-14)


def test_a_method_that_is_registered_changes_what_sizes_give_that_were_known(varied):
    def product(n):
        return slope(lambda x: ad.sum(ad.exp(x) * 2.0), ONES[:n])[1]

    for n in (3, 4, 6):
        np.testing.assert_allclose(product(n), 2 * np.exp(ONES[:n]), rtol=1e-14)
    assert varied[-1]

    @ad.multiply.method(ad.Tensor[ad.float64, 1], ad.Tensor[ad.float64, 1])
    def off_by_one(x1, x2):
        return ad.add(ad.multiply.invoke((ad.Tensor, ad.Tensor), x1, x2), 1.0)

    try:
        with eager():
            expected = [product(n) for n in (6, 7)]
        for n, right in zip((6, 7), expected, strict=True):
            np.testing.assert_allclose(product(n), right, rtol=1e-14)
    finally:
        off_by_one.delete()
    for n in (6, 7, 9):
        np.testing.assert_allclose(product(n), 2 * np.exp(ONES[:n]), rtol=1e-14)


def test_a_hook_runs_at_every_size(varied):
    seen = []
    for n in SIZES[:6]:
        x = ad.tensor(ONES[:n], requires_grad=True)
        x.register_hook(lambda g: seen.append(g.shape[0]))
        ad.sum(x**3).backward()
    assert seen == list(SIZES[:6])


def test_gradients_are_added_to_what_is_there_at_every_size(varied):
    v = ad.tensor(WEIGHTS, requires_grad=True)
    right = np.zeros(5)
    for n in SIZES:
        ad.sum(ad.tensor(ROWS[:n]) @ v).backward()
        right = right + ROWS[:n].sum(0)
        np.testing.assert_allclose(v.grad.numpy(), right, rtol=1e-12)
    assert any(varied)


def test_results_share_no_memory(varied):
    kept = []
    for n in SIZES:
        x = ad.tensor(ONES[:n], requires_grad=True)
        (ad.sum(x) * 2.0).backward()
        x.grad.numpy()
        kept.append((n, x.grad))
        with ad.no_grad():
            x.grad *= 1.0
    for n, g in kept:
        np.testing.assert_array_equal(g.numpy(), np.full(n, 2.0))


def test_an_error_at_one_size_names_the_place_and_the_next_is_right(varied):
    at = ad.tensor(np.arange(5, 6).repeat(2000))  # too many to be looked at before
    for n in (7, 8, 9, 4, 10):
        x = ad.tensor(ONES[:n], requires_grad=True)
        y = ad.sum(ad.take(x, at, axis=0))
        if n == 4:
            with pytest.raises(IndexError):
                y.backward()
        else:
            y.backward()
            np.testing.assert_array_equal(x.grad.numpy(), 2000 * (np.arange(n) == 5))


def test_forms_are_forgotten_and_hold_no_recording(varied):
    class Marked(np.ndarray):
        pass

    for n in SIZES:
        check(PROGRAMS["mean"], ROWS[:n], WEIGHTS)
    ad.clear_cache()
    gc.collect()
    assert len(families.forms) == 0


# ---------------------------------------------------------------- every operation

CALLS: dict = {}
for _case in all_cases():
    _extents = [e for a in _case.avals for e in a.shape]
    if _case.wrt and max(_extents, default=0) > 1 and all(a.dtype == np.float64 for a in _case.avals):
        CALLS.setdefault(_case.call, _case)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_an_operation_is_right_at_other_sizes(varied, name):
    case = CALLS[name]
    rng = rng_of(case)
    for more in (0, 1, 3, 4):
        shapes = [tuple([e + more if e > 1 else e for e in a.shape]) for a in case.avals]
        arrays = [draw(rng, shape).astype(np.float64) for draw, shape in zip(case.draws, shapes, strict=True)]

        def f(*ts):
            y = case.f(*ts)
            ys = y if isinstance(y, (tuple, list)) else [y]
            parts = [ad.real(t) + ad.imag(t) if t.dtype.kind == "c" else t for t in ys]
            return sum([ad.sum(t * np.cos(np.arange(t.size)).reshape(t.shape)) for t in parts])

        try:
            with eager():
                expected = slope(f, *arrays)
        except Exception:
            if more == 0:
                raise
            continue  # a shape that the call names is of one size
        for ours, right in zip(slope(f, *arrays), expected, strict=True):
            size = np.max(np.abs(right), initial=1.0, where=np.isfinite(right))
            np.testing.assert_allclose(ours, right, rtol=1e-8, atol=1e-8 * size)
