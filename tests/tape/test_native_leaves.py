"""Constants with a copy of an array are made natively as Python makes them: see `codegen.runtime.recorder_arrays`."""

import sys
import threading

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(0)
ARRAYS = {
    "vector": RNG.normal(size=7), "strided": RNG.normal(size=(6, 5))[::2, ::-1], "0-d": np.array(2.5),
    "by columns": np.asfortranarray(RNG.normal(size=(3, 4))), "f32": RNG.normal(size=(2, 1, 3)).astype(np.float32),
    "i64": np.arange(5), "i32": np.arange(5, dtype=np.int32), "bool": np.array([True, False]),
    "c128": np.array([1j, 2.0]), "empty": np.zeros((0, 3)), "rank 5": np.ones((1, 2, 1, 2, 1)),
    "read-only": np.broadcast_to(np.arange(3.0), (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_a_constant_is_a_copy(way, name):
    array = ARRAYS[name]
    for _ in range(3):
        t = ad.tensor(array)
        value = t.node.value
        assert (t.shape, t.dtype) == (array.shape, array.dtype) and not t.requires_grad and t.is_leaf
        assert type(value) is np.ndarray and value.flags.c_contiguous and not value.flags.writeable
        assert value.flags.owndata and not np.shares_memory(value, array)
        np.testing.assert_array_equal(value, array)
        assert t.node.kind.out is ad.tensor(array, requires_grad=False).node.kind.out


def test_more_shapes_than_the_table_holds(way):
    for _ in range(2):
        for n in range(300):
            assert ad.tensor(np.arange(float(n))).tolist() == list(range(n))


def test_what_is_no_array_of_ours_is_refused_as_before(way):
    for _ in range(2):
        with pytest.raises(ad.DTypeError):
            ad.tensor(np.array(["a"]))
        assert ad.tensor(np.arange(3.0).astype(">f8")).dtype == np.dtype("f8")

    class Own(np.ndarray):
        pass

    assert type(ad.tensor(np.arange(3.0).view(Own)).node.value) is np.ndarray


def test_a_trace_meets_what_the_array_holds_at_each_call(way):
    a = np.arange(3.0)
    for _ in range(3):
        ad.tensor(a)
    f = ad.jit(lambda x: x + ad.tensor(a))
    assert f(np.ones(3)).tolist() == [1.0, 2.0, 3.0]
    a += 1.0
    assert f(np.ones(3)).tolist() == [2.0, 3.0, 4.0]


def test_nothing_is_left_behind(way):
    a = RNG.normal(size=9)
    kind = ad.tensor(a).node.kind
    count, of_array = sys.getrefcount(kind), sys.getrefcount(a)
    for _ in range(100):
        ad.tensor(a)
    assert (sys.getrefcount(kind), sys.getrefcount(a)) == (count, of_array)


def test_in_threads(way):
    wrong = []

    def make(k):
        for n in range(200):
            a = np.full(n % 50, float(k))
            if ad.tensor(a).tolist() != a.tolist():
                wrong.append((k, n))

    threads = [threading.Thread(target=make, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


@pytest.mark.parametrize("data", [1.5, 2, True, 1j, [1.0, 2], [[1], [2]], [], (1.0, 2.0), [True, False], [1.5, 2j]])
def test_numbers_and_lists_are_what_numpy_makes_of_them(way, data):
    for _ in range(2):
        t = ad.tensor(data)
        assert (t.dtype, t.shape, t.tolist()) == ((a := np.array(data)).dtype, a.shape, a.tolist())
        assert not t.requires_grad and not t.node.value.flags.writeable
        if t.dtype.kind in "fc":
            assert ad.tensor(data, requires_grad=True).requires_grad
        else:
            with pytest.raises(ad.DTypeError):
                ad.tensor(data, requires_grad=True)


@pytest.mark.parametrize("data", [2**70, "a", ["a"], [1, [2]], None, [None], [2**63]])
def test_what_is_no_number_is_refused(way, data):
    for _ in range(2):
        with pytest.raises(ad.Error):
            ad.tensor(data)
