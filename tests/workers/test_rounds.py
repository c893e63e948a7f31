"""Rounds of tasks, their sums, and the tasks themselves: the inside of `ad.shards`."""

import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest
from sharded import (
    KEYS,
    P,
    V,
    compiled_loss,
    compiled_moments,
    everything,
    in_one_process,
    load,
    load_even,
    loss,
    quotient,
    same,
)

import autodiff as ad
from autodiff.interop import foreign
from autodiff.workers import sums, task
from autodiff.workers.sums import Sum, run_round


@pytest.fixture
def trips(monkeypatch):
    seen = []

    def counted(shards, submit):
        seen.append(len(shards))
        return run_round(shards, submit)

    monkeypatch.setattr(sums, "run_round", counted)
    return seen


def test_a_jit_function_is_differentiated_once_for_all_shards_of_one_shape(monkeypatch):
    calls = []
    for name in ("vjp", "jvp"):
        step = getattr(foreign, name)
        monkeypatch.setattr(foreign, name, lambda *a, step=step: calls.append(step) or step(*a))
    total = quotient(ad.sum_over(compiled_loss, ad.shards(load_even, KEYS)))
    vector = ad.sum_over(compiled_moments, ad.shards(load_even, KEYS))
    for step in (
        lambda: ad.grad(total)(P), lambda: ad.hvp(total, (P,), (V,)),
        lambda: ad.grad(lambda p: ad.sum(vector(p)["m"] ** 2))(P),
    ):  # fmt: skip
        step()
        first = len(calls)
        step(), step()
        assert len(calls) == first
        calls.clear()


@pytest.mark.parametrize("name, most", [("value", 1), ("value_and_grad", 1), ("backward", 1), ("jit", 1), ("hvp", 2)])
def test_value_and_gradient_take_one_round_trip(name, most, trips):
    calls = everything(quotient(ad.sum_over(loss, ad.shards(load, KEYS))), None)
    jitted = ad.jit(ad.value_and_grad(quotient(ad.sum_over(loss, ad.shards(load, KEYS)))))
    if name == "jit":
        jitted(P)
    trips.clear()
    jitted(P) if name == "jit" else calls[name]()
    assert len(trips) == most


def test_no_gradient_is_computed_where_only_the_value_is_asked_for(monkeypatch):
    chains = []
    work = task._evaluated

    def seen(f, shard, order, parameters, cotangents):
        chains.append(order.chain)
        return work(f, shard, order, parameters, cotangents)

    monkeypatch.setattr(task, "_evaluated", seen)
    ad.sum_over(loss, ad.shards(load, KEYS))(P)
    assert set(chains) == {()}


def test_the_order_of_arrival_changes_no_bit():
    rng = np.random.default_rng(0)
    for n in (*range(1, 10), 33):
        values = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
        found = set()
        for _ in range(5):
            total = Sum(list(range(n)))
            for place in rng.permutation(n):
                total.add(int(place), task.Done(values[place], []))
            ((value,), _, count) = total.result()
            found.add(float(value))
            assert count == 1 and not total.missing
        assert len(found) == 1
        np.testing.assert_allclose(found.pop(), sum(values), rtol=1e-9)


def test_a_shard_is_loaded_once_and_dropped_at_the_end():
    loads = []

    def counted(key):
        loads.append(key)
        return load(key)

    shards = ad.shards(counted, KEYS)
    total = ad.sum_over(loss, shards)
    for _ in range(3):
        total(P)
    assert loads == list(KEYS)
    assert len(shards.kept) == len(KEYS)
    shards.close()
    assert not len(shards.kept)
    total(P)
    assert loads == [*KEYS, *KEYS]


def test_a_process_keeps_no_more_bytes_than_it_may():
    loads = []

    def counted(key):
        loads.append(key)
        return (np.zeros(1000),)

    with ad.shards(counted, KEYS, memory=20_000) as shards:
        total = ad.sum_over(lambda p, x: p + ad.sum(x), shards)
        assert total(1.0) == 5.0 and total(1.0) == 5.0
        assert sum(one.nbytes for one in shards.kept.values()) <= 20_000
    assert len(loads) == 10


def test_a_shard_of_more_bytes_than_a_process_may_keep_is_not_kept():
    with ad.shards(lambda key: (np.zeros(1000),), KEYS, memory=7_000) as shards:
        assert ad.sum_over(lambda p, x: p + ad.sum(x), shards)(1.0) == 5.0
        assert sum(one.nbytes for one in shards.kept.values()) <= 7_000


def test_arrays_of_a_shard_are_recorded_without_a_copy():
    views = np.arange(12.0).reshape(3, 4)
    (shard,) = task._load(_order(lambda key: (views.T,))).arrays
    assert not shard.flags.writeable and views.flags.writeable and shard.flags.owndata


def _order(load):
    here = lambda value: task.Sent(value, "it")  # noqa: E731  a stand-in
    return task.ShardOrder("t", 0, here(0), here(load), here(None), "f", (), None)


class Deserted:
    """A Dask client, as the library sees one, of a cluster that has no worker at the looks named in `alone`."""

    def __init__(self, alone):
        self.alone, self.looks, self.waiting = alone, 0, []

    def submit(self, f, *args, pure):
        self.waiting.append((future := Future(), f, args))
        return future

    def scheduler_info(self):
        self.looks += 1
        if self.looks in self.alone:
            return {"workers": {}}
        waiting, self.waiting = self.waiting, []
        for future, f, args in waiting:  # a worker is there again
            if future.set_running_or_notify_cancel():
                future.set_result(f(*[a.result() if isinstance(a, Future) else a for a in args]))
        return {"workers": {"one": {}}}


Deserted.__module__ = "distributed.client"


def test_a_cluster_without_workers_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(sums, "_LOOK_S", 0.01)
    monkeypatch.setattr(sums, "_PATIENCE_S", 0.2)
    start = time.monotonic()
    with pytest.raises(ad.WorkerError, match=r"after 1 attempt: (.|\n)*lost-worker-timeout") as lost:
        ad.sum_over(loss, ad.shards(load, KEYS, on=Deserted(range(10_000)), retries=1000))(P)
    assert lost.value.keys == tuple(KEYS) and time.monotonic() - start < 5


def test_a_cluster_that_can_be_made_again_is_made_again_when_its_workers_are_gone(monkeypatch):
    monkeypatch.setattr(sums, "_LOOK_S", 0.01)
    monkeypatch.setattr(sums, "_PATIENCE_S", 0.1)
    made = iter([Deserted(range(10_000)), Deserted(())])
    with ad.shards(load, KEYS, on=lambda: next(made)) as shards:
        same(ad.sum_over(loss, shards)(P), in_one_process(loss)(P))


def test_only_an_uninterrupted_time_without_workers_counts(monkeypatch):
    """Nor does one that began in a step before."""
    now = [1.0]  # a clock of its own: a busy machine may be late between two looks
    monkeypatch.setattr(sums, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(sums, "_LOOK_S", 0.01)
    total = ad.sum_over(loss, ad.shards(load, KEYS, on=(client := Deserted({1, 2, 4, 5})), retries=0))
    for _ in range(2):
        same(total(P), in_one_process(loss)(P))
        now[0] += 2 * sums._PATIENCE_S
    assert client.looks == 6


def test_progress_is_told(capsys, monkeypatch):
    told = []
    ad.sum_over(loss, ad.shards(load, KEYS, progress=lambda *x: told.append(x)))(P)
    assert told == [(i, 5) for i in range(1, 6)]
    monkeypatch.setattr(sums, "_SLOW_S", 0.0)
    ad.sum_over(loss, ad.shards(load, KEYS))(P)
    assert capsys.readouterr().err == ""
    ad.sum_over(loss, ad.shards(load, KEYS, progress=True))(P)
    assert "5 of 5 shards" in capsys.readouterr().err
