"""A graph of unknown extents in machine code: one program, for any of them."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from spied import compile_any_size

import autodiff as ad
from autodiff.tape import families, tier
from codegen import compiler, sized_code, sized_products
from codegen.runtime import native, products, share
from tests.ops.cases import eager

RNG = np.random.default_rng(3)

pytestmark = pytest.mark.skipif(not native.is_native(), reason="no native launcher here")


@pytest.fixture
def made(monkeypatch, patience):
    """The programs compiled for any size: at the first run, of every program that comes in two sizes."""
    found = []
    compile_sized = compiler.compile_sized

    def noted(graph, is_small):
        found.append(compile_sized(graph, is_small))
        return found[-1]

    monkeypatch.setattr(tier, "compile_sized", noted)
    compile_any_size(monkeypatch)
    return found


@pytest.fixture
def calls(monkeypatch, made):
    """The values that machine code for any size was called with."""
    found = []
    call = sized_code.SizedCode.call

    def noted(self, values, arrays):
        found.append(values)
        return call(self, values, arrays)

    monkeypatch.setattr(sized_code.SizedCode, "call", noted)
    return found


def slopes(f, *arrays):
    xs = [ad.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    y = f(*xs)
    y.backward()
    return [y.detach().numpy(), *[x.grad.numpy() for x in xs if x.grad is not None]]


def agrees(f, *arrays):
    with eager():
        right = slopes(f, *arrays)
    rtol, atol = (1e-11, 1e-12) if arrays[0].dtype == np.float64 else (2e-4, 2e-5)
    for ours, expected in zip(slopes(f, *arrays), right, strict=True):
        assert ours.shape == expected.shape and ours.dtype == expected.dtype
        np.testing.assert_allclose(ours, expected, rtol, atol)


def softmax(x, w):
    e = ad.exp(x @ w)
    return ad.mean(ad.log(ad.sum(e, axis=1)) * ad.max(e, axis=1))


PROGRAMS = {
    "pointwise": lambda x, w: ad.mean(ad.tanh(x * w[:, 0]) ** 2),
    "products": lambda x, w: ad.mean(ad.tanh(x @ w) @ ad.transpose(w, (1, 0)) * x),
    "a product with a vector": lambda x, w: ad.sum((x @ w[:, 0]) ** 2),
    "rows": softmax,
    "columns": lambda x, w: ad.sum(ad.mean(x, axis=0) * ad.sum(w, axis=1)),
    "places": lambda x, w: ad.sum((x[1:] - x[:-1]) ** 2) + ad.sum(ad.flip(x, 0) * x),
    "running sums": lambda x, w: ad.sum(ad.cumsum(x, axis=0) ** 2) / 100.0,
    "stored between": lambda x, w: ad.sum(ad.sum(x @ w, axis=0) * ad.max(x @ w, axis=0)) * ad.mean(x),
}


@pytest.mark.parametrize(("name", "dtype"), [*[(name, "f8") for name in PROGRAMS], ("rows", "f4")])
def test_one_program_serves_every_size(calls, name, dtype):
    w = RNG.normal(size=(5, 4)).astype(dtype)
    for n in (3, 4, 6, 7, 9, 2, 5, 1, 4, 31, 64, 65, 100, 1000):
        agrees(PROGRAMS[name], RNG.normal(size=(n, 5)).astype(dtype), w)
    assert len(calls) >= 4


@pytest.mark.parametrize("name", ["products", "rows", "columns"])
def test_two_extents_may_be_unknown_and_may_be_equal(calls, name):
    for n, m in ((3, 6), (4, 7), (9, 8), (6, 5), (8, 8), (7, 9), (5, 12), (12, 5), (2, 2), (2, 1), (1, 3), (16, 4)):
        agrees(PROGRAMS[name], RNG.normal(size=(n, m)), RNG.normal(size=(m, 4)))
    assert any(len(values) > 1 for values in calls)


def test_where_planning_decides_by_size_there_is_a_program_for_small_and_one_for_large(calls, made):
    f, w = PROGRAMS["pointwise"], RNG.normal(size=(5, 4))
    for n in (3, 4, 6, 7):
        agrees(f, RNG.normal(size=(n, 5)), w)
    (small,) = made
    small.is_fit = lambda n: n < 100
    for n in (9, 300, 8, 150, 500):
        agrees(f, RNG.normal(size=(n, 5)), w)
    assert len(made) == 2
    assert {(8,), (9,), (300,), (500,)}.issubset(calls)


@pytest.mark.parametrize("name", ["pointwise", "products", "a product with a vector"])
def test_a_large_size_is_shared_by_threads_and_a_small_one_after_it_is_not(calls, monkeypatch, name):
    monkeypatch.setattr(share, "SHARED", 10_000)
    monkeypatch.setattr(products, "SHARED", 10_000)
    monkeypatch.setattr(products, "READ", 10_000)
    shared = []
    put = sized_products.put_share

    def noted(*given):
        shared.append(given[-1] is not None)
        put(*given)

    for module in (sized_code, sized_products):
        monkeypatch.setattr(module, "put_share", noted)
    monkeypatch.setattr(sized_code, "SHARED", 10_000)
    w = RNG.normal(size=(8, 4))
    for n in (3, 4, 5000, 6, 9, 5001, 3000, 5):
        agrees(PROGRAMS[name], RNG.normal(size=(n, 8)), w)
    assert True in shared and False in shared


def test_a_result_without_elements_has_its_size_all_the_same(calls):
    """Nothing writes it."""

    def f(x, w):
        return ad.mean((x[1:] - x[:-1]) ** 2)

    for k in (3, 4, 6, 7, 9, 12):
        with np.errstate(all="ignore"):
            agrees(f, np.zeros((0, k), "f4"), np.zeros(1, "f4"))
    assert any(calls)


def test_arrays_that_are_not_packed_are_taken(made):
    for n in (3, 4, 6):
        ad.exp(ad.tensor(np.ones((n, 5))) * 2.0).numpy()
    (code,) = made
    wide = RNG.normal(size=(9, 10))
    for given in (np.asfortranarray(wide[:, :5]), wide[:, ::2], wide[::-1, 5:], wide[:, :5].astype("f4")):
        (found,) = code.call((9,), [given, 2.0])
        np.testing.assert_allclose(found, np.exp(given.astype("f8") * 2), 1e-13)


def test_results_are_nobody_elses_memory(calls):
    kept = []
    for n in (3, 4, 6, 7, 9, 7, 9, 11):
        x = RNG.normal(size=n)
        kept.append((ad.exp(ad.tensor(x) * 2.0).numpy(), np.exp(x * 2)))
    for ours, right in kept:
        np.testing.assert_allclose(ours, right, 1e-13)


def test_threads_run_one_program_at_once(made, monkeypatch):
    def work(n):
        for k in range(20):
            x = RNG_OF[n].normal(size=n + k)
            y = ad.sum(ad.exp(ad.tensor(x)) * 2.0).item()
            if not np.isclose(y, 2 * np.exp(x).sum(), rtol=1e-12):
                wrong.append((n, k))

    monkeypatch.setattr(sized_code, "_put_shared", lambda *given: time.sleep(0.0001))  # between writing and running
    monkeypatch.setattr(sized_code, "SHARED", 0)
    wrong = []
    for n in (3, 4, 6):
        ad.sum(ad.exp(ad.tensor(np.ones(n))) * 2.0).item()
    RNG_OF = {n: np.random.default_rng(n) for n in (5, 40, 300)}
    threads = [threading.Thread(target=work, args=(n,)) for n in RNG_OF]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_not_kernels_has_none_and_is_evaluated(made):
    def f(x, w):
        return ad.sum(ad.linalg.solve(ad.eye(x.shape[1]) * 9.0 + ad.transpose(x, (1, 0)) @ x, w) ** 2)

    for n in (3, 4, 6, 7, 9, 12):
        agrees(f, RNG.normal(size=(n, 5)), RNG.normal(size=(5, 4)))
    assert made and made[-1] is None


def test_an_index_outside_is_an_error_and_the_next_run_is_right(calls):
    rows = np.array([0, 2, 1])
    for n in (3, 4, 6, 7, 9):
        x = RNG.normal(size=(n, 2))
        np.testing.assert_allclose(ad.take(ad.tensor(x), ad.tensor(rows), axis=0).numpy() * 1, x[rows])
        with pytest.raises(IndexError):
            ad.take(ad.tensor(x) * 2.0, ad.tensor(rows + n) + 0, axis=0).numpy()


def test_a_gradient_has_its_own_size_where_a_parameter_is_updated_and_grows(calls):
    """A pending update names no extents in its key, but they follow from the unknown ones."""
    for m in (4, 5, 7, 6, 9, 10, 8):
        w = ad.tensor(np.ones((m, 3)), requires_grad=True)
        right = np.ones((m, 3))
        for n in (3, 5, 4, 6, 8):
            x = RNG.normal(size=(n, m))
            ad.mean((ad.tensor(x) @ w) ** 2).backward()
            grad = 2 / (3 * n) * x.T @ (x @ right)
            assert w.grad.shape == w.grad.numpy().shape == (m, 3)
            np.testing.assert_allclose(w.grad.numpy(), grad, 1e-10)
            with ad.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
            right = right - 0.1 * grad
        np.testing.assert_allclose(w.detach().numpy(), right, 1e-10)
    assert any(calls)


def test_a_size_that_comes_again_has_a_name_of_its_own_and_the_same_machine_code(calls, made, monkeypatch):
    found = []
    find = families._at_size

    def noted(*given):
        known = find(*given)
        found.append(known is not None)
        return known

    monkeypatch.setattr(families, "_at_size", noted)
    f, w = PROGRAMS["pointwise"], RNG.normal(size=(5, 4))
    for n in (3, 4, 6, 7, 9):
        slopes(f, RNG.normal(size=(n, 5)), w)
    programs, compiles = len(made), ad.cache_info().compiles
    for n in [8] * 12:
        agrees(f, RNG.normal(size=(n, 5)), w)
    assert any(found) and not any(found[-6:])
    assert len(made) == programs and ad.cache_info().compiles == compiles


def test_a_size_with_a_name_takes_arrays_that_are_not_packed_and_runs_in_many_threads(calls):
    def work():
        for _ in range(30):
            wide = RNG.normal(size=(8, 10))
            for given in (np.asfortranarray(wide[:, :5]), wide[:, ::2]):
                y = ad.sum(ad.exp(ad.tensor(given)) * 2.0).item()
                if not np.isclose(y, 2 * np.exp(given).sum(), rtol=1e-12):
                    wrong.append(given)

    wrong = []
    for n in (3, 4, 6, 8, 8, 8):
        ad.sum(ad.exp(ad.tensor(np.ones((n, 5)))) * 2.0).item()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_of_it_stays_when_all_is_forgotten(made):
    for n in (3, 4, 6, 7, 9):
        ad.exp(ad.tensor(np.ones(n)) * 2.0).numpy()
    found = [code for code in made if code is not None]
    assert found
    gone = [weakref.ref(code) for code in found]
    found.clear()
    made.clear()
    ad.clear_cache()
    gc.collect()
    assert not any(r() for r in gone)
