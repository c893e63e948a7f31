"""Sums over shards: the same numbers as in one process, on every executor; and what goes wrong says so."""

import gc
import os
import pickle
import random
import runpy
import signal
import threading
import time
import weakref
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from sharded import (
    KEYS,
    TRACES,
    P,
    V,
    compiled_loss,
    compiled_moments,
    everything,
    in_one_process,
    load,
    load_even,
    loss,
    moments,
    quotient,
    same,
)

import autodiff as ad


def traces():
    return list(TRACES)


@dataclass
class Line:
    w: object
    b: object


def of_line(line, x, y):
    return Line(ad.sum((x @ line.w + line.b - y) ** 2), ad.sum(x @ line.w))


def spawned(count=2):
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


@pytest.fixture(scope="module", autouse=True)
def machine_code_is_shared(sharing):
    """Processes are started again and again here, and none of the laws is about what they compile."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AUTODIFF_CACHE", "AUTODIFF_CACHE_DIR"):
            patch.setenv(name, sharing[name])
        yield


@pytest.fixture(scope="module", params=["here", "threads", "processes"])
def on(request):
    if request.param == "here":
        yield None
    else:
        with ThreadPoolExecutor(2) if request.param == "threads" else spawned() as pool:
            yield pool


NAMES = list(everything(None, None))


@pytest.mark.parametrize("fs", [(loss, moments), (compiled_loss, compiled_moments)], ids=["recorded", "compiled"])
@pytest.mark.parametrize("name", NAMES)
def test_a_sum_over_shards_is_an_ordinary_function(name, fs, on):
    shards = ad.shards(load, KEYS, on=on)
    ours = everything(quotient(ad.sum_over(fs[0], shards)), ad.sum_over(fs[1], shards))
    alone = everything(quotient(in_one_process(loss)), in_one_process(moments))
    same(ours[name](), alone[name]())


def test_a_jit_function_is_traced_once_for_all_tasks():
    with spawned(1) as pool:
        total = quotient(ad.sum_over(compiled_loss, ad.shards(load_even, KEYS, on=pool)))
        steps = [
            (lambda: total(P), 1), (lambda: ad.grad(total)(P), 1), (lambda: ad.hvp(total, (P,), (V,)), 1)
        ]  # fmt: skip
        for step, most in steps:
            before = len(pool.submit(traces).result())
            step()
            traced = len(pool.submit(traces).result()) - before
            step(), step()
            assert len(pool.submit(traces).result()) - before == traced <= most


def test_static_arguments_of_a_jit_function_stay_python_values():
    def powers(w, n, x, y):
        return ad.sum(sum([(x @ w) ** i for i in range(n)]))

    f = ad.jit(powers, static_argnums=1)
    total, expected = ad.sum_over(f, ad.shards(load, KEYS)), in_one_process(powers)
    for n in (2, 3):
        same(total(P["w"], n), expected(P["w"], n))
        same(ad.grad(total)(P["w"], n), ad.grad(expected)(P["w"], n))


def test_eager_mode_and_no_grad_give_the_same():
    total = quotient(ad.sum_over(loss, ad.shards(load, KEYS)))
    expected = ad.grad(total)(P)
    with ad.no_grad():
        same(total(P), quotient(in_one_process(loss))(P))
    ad.config.eager = True
    try:
        same(ad.grad(total)(P), expected)
        same(ad.hvp(total, (P,), (V,)), ad.hvp(quotient(in_one_process(loss)), (P,), (V,)))
    finally:
        ad.config.eager = False


def test_parameters_and_results_are_trees_of_the_users_types(on):
    total = ad.sum_over(of_line, ad.shards(load, KEYS, on=on))
    line = Line(np.ones(3), 2.0)
    found, expected = total(line), in_one_process(of_line)(line)
    assert type(found) is Line
    same(found, expected)
    same(ad.grad(lambda line: total(line).w)(line), ad.grad(lambda line: in_one_process(of_line)(line).w)(line))


def test_derivatives_agree_with_differences():
    total = ad.sum_over(loss, ad.shards(load, KEYS))
    ad.check_gradients(lambda w: total({"w": w, "b": 0.5})[0], P["w"], order=2)
    vector = ad.sum_over(moments, ad.shards(load, KEYS))
    ad.check_gradients(lambda w: vector({"w": w, "b": 0.5})["m"], P["w"], order=2)


def test_integers_are_added_exactly():
    big = 2**53
    total = ad.sum_over(lambda p, x: (p * x, big + 1, x > 1), ad.shards(lambda k: (np.array([1, 2, 3]),), range(3)))
    tripled, count, more = total(2)
    assert count == 3 * big + 3 and list(tripled) == [6, 12, 18] and list(more) == [0, 3, 3]
    assert all(x.dtype == np.int64 for x in (tripled, count, more))
    with pytest.raises(OverflowError, match="does not fit int64"):
        ad.sum_over(lambda p, x: 2**62, ad.shards(lambda k: (k,), range(3)))(1)


def bits(total):
    results = [ad.value_and_grad(quotient(total))(P), ad.hvp(quotient(total), (P,), (V,))]
    return [np.asarray(x).tobytes() for x in ad.tree.leaves(results)]


def test_the_bits_are_the_same_for_any_number_of_threads_and_for_every_step():
    found = set()
    for count in (1, 2, 3):
        with ThreadPoolExecutor(count) as pool:
            total = ad.sum_over(loss, ad.shards(load, KEYS, on=pool))
            found |= {tuple(bits(total)) for _ in range(3)}
    found.add(tuple(bits(ad.sum_over(loss, ad.shards(load, KEYS)))))
    assert len(found) == 1


def test_a_task_is_compiled_before_its_first_run(monkeypatch):
    """Else the bits of a sum would depend on how often a worker had computed with the program before."""
    monkeypatch.setattr(ad.config, "patience", 8)
    seen = []

    def noting(p, x):
        seen.append(ad.config.patience)
        return ad.sum(p * x)

    total = ad.sum_over(noting, ad.shards(lambda key: (np.full(3, key),), range(2)))
    assert ad.grad(total)(2.0) == 3.0
    assert seen and not any(seen)
    assert ad.config.patience


def test_optimisers_find_the_same_minimum(on):
    optimize = pytest.importorskip("scipy.optimize")

    def least(total):
        def objective(w):
            return quotient(total)({"w": w, "b": 0.5}) + 0.1 * ad.sum(w * w)

        return optimize.minimize(ad.jit(ad.value_and_grad(objective)), np.zeros(3), jac=True, method="L-BFGS-B").x

    same(least(ad.sum_over(loss, ad.shards(load, KEYS, on=on))), least(in_one_process(loss)))


# ---------------------------------------------------------------- workers that are lost


def slow(p, x, y):
    time.sleep(0.002)
    return loss(p, x, y)


def pids_of(pool):
    return list(pool._processes or ())


def kill(pool):
    for pid in random.sample(found, 1) if (found := pids_of(pool)) else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_killed_worker_changes_no_bit():
    made = []

    def make():
        made.append(spawned())
        return made[-1]

    expected = bits(ad.sum_over(loss, ad.shards(load, KEYS)))
    with ad.shards(load, KEYS, on=make) as shards:
        total = ad.sum_over(loss, shards)
        assert bits(total) == expected
        kill(made[-1])
        assert bits(total) == expected
    assert len(made) == 2


def die_at_three(key):
    if key == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return load(key)


def test_a_shard_that_kills_its_workers_is_an_error_with_the_keys():
    with ad.shards(die_at_three, KEYS, on=lambda: spawned(1), retries=1) as shards:
        with pytest.raises(ad.WorkerError, match=r"after 2 attempts(.|\n)*keys: .*3(.|\n)*test_workers.py") as caught:
            ad.sum_over(loss, shards)(P)
        assert 3 in caught.value.keys
        assert 0 not in caught.value.keys  # its result was kept


def test_a_broken_executor_that_cannot_be_made_again_says_how_to_make_it_so():
    with spawned(1) as pool, pytest.raises(ad.WorkerError, match="give on= a function that makes the executor"):
        ad.sum_over(loss, ad.shards(die_at_three, [3], on=pool))(P)
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(ad.WorkerError, match=r"new futures after shutdown(.|\n)*keys: 0, 1, 2, 3, 4"):
        ad.sum_over(loss, ad.shards(load, KEYS, on=pool))(P)


def test_an_executor_that_is_made_and_has_been_shut_down_is_made_again():
    pools = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
    pools[0].shutdown()
    with ad.shards(load, KEYS, on=lambda: pools.pop(0)) as shards:
        same(ad.sum_over(loss, shards)(P), in_one_process(loss)(P))


def test_an_interrupt_cancels_what_has_not_begun(on):
    ran = []

    def interrupted(done, count):
        ran.append(done)
        raise KeyboardInterrupt

    shards = ad.shards(load, range(40), on=on, progress=interrupted)
    with pytest.raises(KeyboardInterrupt):
        ad.sum_over(loss, shards)(P)
    assert len(ran) == 1
    same(ad.sum_over(loss, ad.shards(load, KEYS, on=on))(P), in_one_process(loss)(P))


@pytest.mark.slow
def test_fifty_kills_at_random_moments_change_no_bit():
    random.seed(7)
    made = []

    def make():
        made.append(spawned())
        return made[-1]

    expected = bits(ad.sum_over(slow, ad.shards(load, KEYS)))
    kills = 0
    with ad.shards(load, KEYS, on=make, retries=20) as shards:
        total = ad.sum_over(slow, shards)
        assert bits(total) == expected
        while kills < 50:
            timer = threading.Timer(random.random() * 0.05, lambda: kill(made[-1]))
            timer.start()
            for _ in range(3):
                assert bits(total) == expected
            timer.join()
            kills += 1
    assert len(made) > 25


# ---------------------------------------------------------------- misuse


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} {b}")


def load_raising(key):
    if key == 3:
        raise FileNotFoundError("no such shard")
    return load(key)


def raising(p, x, y):
    raise Odd("very", "odd")


def test_an_error_of_load_arrives_as_itself_with_the_key(on):
    with pytest.raises(FileNotFoundError, match="no such shard") as caught:
        ad.sum_over(loss, ad.shards(load_raising, KEYS, on=on))(P)
    assert any("while loading the shard with the key 3" in note for note in caught.value.__notes__)


def test_an_error_of_f_arrives_with_the_key(on):
    shards = ad.shards(load, [7], on=on)
    with pytest.raises((Odd, RuntimeError), match="very odd") as caught:
        ad.grad(lambda p: ad.sum_over(raising, shards)(p)[0])(P)
    assert any("with the shard with the key 7" in note for note in caught.value.__notes__)
    same(ad.sum_over(loss, shards)(P), loss(P, *load(7)))


def load_nothing(key):
    pass


def load_other_dtype(key):
    x, y = load(key)
    return (x, y) if key < 2 else (x.astype(np.float32), y.astype(np.float32))


def load_other_shape(key):
    x, y = load(key)
    return (x, y) if key < 2 else (x[:, :2], y)


def product(w, x, y):
    return ad.sum(x, axis=0) * w


def text(w, x, y):
    return "text"


@pytest.mark.parametrize("load, f, kind, message", [
    (load_nothing, product, ad.DispatchError, r"returned NoneType for the key \d\n  load is test_workers.py:\d+"),
    (load_other_dtype, product, ad.DTypeError, r"returned float32\[3\] for the key \d+\n  and float64\[3\] for"),
    (load_other_shape, product, ad.ShapeError, r"float64\[2\] for the key \d\n  and float64\[3\](.|\n)*test_workers"),
    (load, text, ad.DTypeError, r"text \(test_workers.py:\d+\) returned str, which cannot be added"),
])  # fmt: skip
def test_shards_and_results_that_do_not_fit_are_named(load, f, kind, message, on):
    w = np.float32(1.0)
    with pytest.raises(kind, match=message):
        ad.sum_over(f, ad.shards(load, [0, 1, 4, 3], on=on))(w)


@pytest.mark.parametrize("arguments, message", [
    ((load, [1, 2, 1]), "the key 1 is there twice"),
    ((load, []), "there are no keys"),
    ((load, "abc"), "keys is a str"),
    ((load, 3), "not a list of keys"),
    ((load, [[1], [2]]), "has no hash"),
    ((None, [1]), "takes a function"),
    ((load, [1], 3), "has no submit"),
    ((load, [1], None, -1), "retries is a number from 0"),
    ((load, [1], None, 2, None, 0), "memory is a number of bytes"),
    ((load, [1], None, 2, None, "1 GB"), "memory is a number of bytes"),
])  # fmt: skip
def test_arguments_that_make_no_shards_are_refused_at_the_users_line(arguments, message):
    with pytest.raises(ad.DispatchError, match=rf"{message}(.|\n)*at test_workers.py:\d+"):
        ad.shards(*arguments)


def test_a_function_that_makes_no_executor_is_refused():
    with pytest.raises(ad.DispatchError, match=r"the function on= made 3, which has no submit\n  called at test_work"):
        ad.sum_over(loss, ad.shards(load, KEYS, on=lambda: 3))(P)


class OnlySubmits:
    def submit(self, f, *args):
        future = Future()
        future.set_result(f(*pickle.loads(pickle.dumps(args))))
        return future


def test_an_executor_needs_nothing_but_submit():
    with ad.shards(load, KEYS, on=OnlySubmits) as shards:
        total = ad.sum_over(loss, shards)
        same(total(P), in_one_process(loss)(P))
        shards.renew()
        same(total(P), in_one_process(loss)(P))


@pytest.mark.parametrize("when", ["at submit", "later"])
def test_a_lost_task_keeps_nothing_of_the_user_alive(when):
    """Else what is live differs after a worker was lost, and so do the program around the sum and its last bits."""

    lost = []

    class LosesOne(OnlySubmits):
        def submit(self, f, *args):
            if not lost and when == "at submit":
                lost.append(1)
                raise BrokenProcessPool("lost")
            future = super().submit(f, *args)
            if not lost:
                lost.append(1)
                future = Future()
                future.set_exception(BrokenProcessPool("lost"))
            return future

    def step():
        mine = P["w"] + 1.0
        ad.grad(quotient(total))({"w": mine, "b": 0.5})
        return weakref.ref(mine)

    total = ad.sum_over(loss, ad.shards(load, KEYS, on=LosesOne))
    gc.disable()
    try:
        assert step()() is None and lost
    finally:
        gc.enable()


def test_a_class_of_executors_makes_one():
    with ad.shards(load, KEYS, on=ThreadPoolExecutor) as shards:
        assert ad.sum_over(loss, shards)(P) == ad.sum_over(loss, ad.shards(load, KEYS))(P)


def test_sum_over_takes_shards():
    with pytest.raises(ad.DispatchError, match=r"shards is \[1, 2\](.|\n)*make them by ad.shards"):
        ad.sum_over(loss, [1, 2])


def test_a_function_that_reads_a_tensor_that_tracks_is_refused():
    c = ad.tensor(2.0, requires_grad=True)
    shards = ad.shards(load, KEYS)

    def reading(w, x, y):
        return ad.sum(x @ w) * c

    with pytest.raises(ad.GradientError, match=r"reads the tensor 'c' \(f64\[\]\), which requires grad"):
        ad.sum_over(reading, shards)

    def inner(scale):
        return ad.sum_over(lambda w, x, y: ad.sum(x @ w) * scale, shards)(np.ones(3))

    for route in (ad.grad(inner), ad.jit(inner), ad.jit(ad.grad(inner))):
        with pytest.raises(ad.GradientError, match=r"reads the tensor 'scale'(.|\n)*make it a parameter of f"):
            route(2.0)


def test_a_sum_that_is_made_while_tracing_is_the_known_one():
    shards = ad.shards(load, KEYS)
    made = ad.jit(ad.value_and_grad(lambda p: quotient(ad.sum_over(loss, shards))(p)))
    same(made(P), ad.value_and_grad(quotient(in_one_process(loss)))(P))


def test_a_constant_tensor_may_be_read():
    c = ad.tensor(2.0)
    total = ad.sum_over(lambda w, x, y: ad.sum(x @ w) * c, ad.shards(load, KEYS))
    same(ad.grad(total)(np.ones(3)), 2 * sum([load(k)[0].sum(axis=0) for k in KEYS]))


def test_a_function_that_no_pickle_takes_is_named():
    lock = threading.Lock()

    def locked(w, x, y):
        with lock:
            return ad.sum(x @ w)

    with spawned(1) as pool, pytest.raises(ad.DispatchError, match=r"locked, cannot be sent(.|\n)*test_workers.py"):
        ad.sum_over(locked, ad.shards(load, KEYS, on=pool))(np.ones(3))
    with ThreadPoolExecutor(1) as pool:
        same(ad.sum_over(locked, ad.shards(load, KEYS, on=pool))(np.ones(3)), sum([load(k)[0].sum() for k in KEYS]))


def test_a_worker_error_keeps_its_keys_when_pickled():
    error = ad.WorkerError("text")
    error.keys = (1, 2)
    assert pickle.loads(pickle.dumps(error)).keys == (1, 2)


def test_the_simulation_of_many_workers_has_its_limits_right():
    simulated = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "many_workers.py"))
    equal = np.full(1000, 0.5)
    assert simulated["tree"](1, 8.0, equal[:1], 2) == 0.5  # one worker adds nothing
    root = 2 * 1000 * 8e6 / simulated["LINK"]  # the bytes that pass through the root
    assert 0.9 * root / 2 < simulated["flat"](1000, 8e6, equal) - 0.5 < 1.3 * root
    assert simulated["tree"](1000, 8e6, equal, 8) < simulated["flat"](1000, 8e6, equal) / 5
