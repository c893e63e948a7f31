"""Arrays as operands are recorded natively as in Python: copied."""

import gc
import sys
import weakref

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(5)
KINDS = {
    "vector": lambda: RNG.normal(size=3), "matrix": lambda: RNG.normal(size=(2, 3)), "0-d": lambda: np.array(2.5),
    "strided": lambda: RNG.normal(size=(2, 6))[:, ::-2],
    "by columns": lambda: np.asfortranarray(RNG.normal(size=(2, 3))),
    "f32": lambda: RNG.normal(size=3).astype(np.float32), "i64": lambda: np.arange(3), "bool": lambda: np.arange(3) > 1,
    "empty": lambda: np.zeros((0, 3)), "rank 5": lambda: RNG.normal(size=(1, 2, 1, 2, 3)),
    "read-only": lambda: np.broadcast_to(np.arange(3.0), (2, 3)), "swapped": lambda: np.arange(3.0).astype(">f8"),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("operation", [np.multiply, np.subtract], ids=["mul", "sub"])
def test_an_array_of_any_kind_takes_part_on_either_side(way, x, name, operation):
    for _ in range(4):
        a = KINDS[name]()
        was_writeable, before = a.flags.writeable, a.copy()
        left, right = operation(x, a), operation(a, x)
        assert a.flags.writeable == was_writeable
        if was_writeable:
            a += a.dtype.type(1)
        for y, expected in ((left, (x.detach(), before)), (right, (before, x.detach()))):
            assert y.requires_grad and y.dtype == np.float64
            np.testing.assert_array_equal(y.detach().numpy(), operation(*map(np.asarray, expected)))


def test_natively_from_the_second_time_on(native, x, monkeypatch):
    a = np.arange(1.0, 4.0)
    for _ in range(3):
        x * a
        a * x
    b = np.arange(3.0)
    monkeypatch.setattr(type(ad.multiply), "adopt", None)  # what Python would call
    for y in (x * b, b * x):
        assert y.tolist() == [0.0, 10.0, 200.0]


def test_what_was_learnt_last_is_known_natively_however_much_was_before(native, x, monkeypatch):
    for n in range(1, 700):
        for y in (ad.ones(n) * np.ones(n), np.ones(n) * ad.ones(n)):
            assert y.shape == (n,)
    a = np.arange(1.0, 4.0)
    for _ in range(2):
        x * a, a * x
    monkeypatch.setattr(type(ad.multiply), "adopt", None)
    for y in (x * a, a * x):
        assert y.tolist() == [1.0, 20.0, 300.0]


def test_a_product_with_a_view_holds_what_it_held(way, x):
    for _ in range(4):
        a = np.ones((2, 3))
        y = x * a[1]
        a[:] = 7.0
        assert y.tolist() == [1.0, 10.0, 100.0]


def test_what_lives_on_after_an_ask_has_memory_of_its_own(way, x):
    for _ in range(4):
        a = np.array([1.0, 2.0, 3.0])
        y = (x * a).sum()
        assert y.item() == 321.0
        a[:] = 0.0
        x.grad = None
        y.backward()
        assert x.grad.tolist() == [1.0, 2.0, 3.0]
        gone = weakref.ref(a)
        del a
        assert gone() is None, "and nobody holds the array"


def test_what_a_transformation_returned_does_not_follow_the_array(way):
    for _ in range(4):
        w, a = np.array([1.0, 2.0]), np.array([3.0, 4.0])
        _, pullback = ad.vjp(lambda w: (w * w * a).sum(), w)  # noqa: B023  # called here
        assert w.flags.writeable and a.flags.writeable
        w[:] = a[:] = 100.0
        assert pullback(1.0)[0].tolist() == [6.0, 16.0]


def test_an_array_in_a_list_of_tensors(way, x):
    for _ in range(4):
        a = np.zeros(3)
        y = ad.concatenate([x, a])
        z = ad.stack((a, x), axis=1)
        a[0] = 1.0
        assert y.tolist() == [1.0, 10.0, 100.0, 0.0, 0.0, 0.0]
        assert z.tolist() == [[0.0, 1.0], [0.0, 10.0], [0.0, 100.0]]


def test_a_method_that_names_arrays_gets_them(way, x):
    a = np.ones(3)

    for _ in range(3):
        assert (x * a).tolist() == [1.0, 10.0, 100.0]

    @ad.multiply.method(ad.Tensor, np.ndarray)
    def own(x1, x2):
        assert type(x2) is np.ndarray
        return -x1

    try:
        for _ in range(3):
            assert (x * a).tolist() == [-1.0, -10.0, -100.0]
            assert (a * x).tolist() == [1.0, 10.0, 100.0]
            assert (x * ad.tensor(a)).tolist() == [1.0, 10.0, 100.0]
    finally:
        own.delete()
    for _ in range(3):
        assert (x * a).tolist() == [1.0, 10.0, 100.0]


def test_shapes_that_do_not_fit_are_refused(way):
    x = ad.tensor(np.ones((2, 3)), requires_grad=True)
    for _ in range(4):
        a = np.ones((2, 3))
        with pytest.raises(ad.ShapeError, match=r"f64\[2,3\] @ f64\[2,3\]"):
            x @ a


def test_nothing_is_left_behind(way, x):
    a = np.ones(3)
    for _ in range(3):
        x * a
    kind = (x * a).node.inputs[1].kind
    counts = sys.getrefcount(a), sys.getrefcount(kind), sys.getrefcount(x.node)
    for _ in range(1000):
        x * a
    assert (sys.getrefcount(a), sys.getrefcount(kind), sys.getrefcount(x.node)) == counts


def test_the_collector_may_run_at_any_allocation(way, x):
    class Chain:
        """Garbage that holds a product of the same array, which goes when the collector finds it."""

        def __init__(self, a):
            self.me, self.y = self, x * a

    threshold = gc.get_threshold()
    a = np.ones(3)
    try:
        for every in (1, 2, 3, 5, 7):
            gc.set_threshold(every)
            for _ in range(200):
                Chain(a)
                x * a + a
            gc.set_threshold(*threshold)
            gc.collect()
            assert (x * a).tolist() == [1.0, 10.0, 100.0]
    finally:
        gc.set_threshold(*threshold)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("join", [lambda s: ad.stack(s), lambda s: ad.stack(tuple(s)), lambda s: ad.stack(s, axis=0)])
def test_numbers_in_a_list_of_tensors(way, dtype, join):
    for step in range(5):
        s = ad.tensor(1.5 + step, dtype=dtype, requires_grad=True)
        for items in ([s, 2.0, s], [3, s], [s, -0.0, 7, s * s], [2.5] + 10 * [s]):
            y = join(items)
            expected = np.stack([np.asarray(float(i), dtype) for i in items])
            assert y.dtype == dtype and y.requires_grad
            np.testing.assert_array_equal(y.detach().numpy(), expected)
            np.testing.assert_array_equal(np.signbit(y.detach().numpy()), np.signbit(expected))
            s.grad = None
            y.sum().backward()
            slope = sum([0 if isinstance(i, (int, float)) else 1 if i is s else 2 * (1.5 + step) for i in items])
            assert s.grad.item() == slope


def test_numbers_beside_tensors_of_several_dtypes_are_promoted_as_by_numpy(way):
    single, double = ad.tensor(1.0, dtype=ad.float32), ad.tensor(2.0)
    whole = ad.tensor(3)
    for _ in range(5):
        assert ad.stack([single, 1.5, double]).dtype == np.float64
        assert ad.stack([single, whole, 2]).dtype == np.float64
        assert ad.stack([whole, 2]).dtype == np.int64
        assert ad.stack([whole, 2.5]).tolist() == [3.0, 2.5]
        assert ad.stack([single, np.float64(1.5)]).dtype == np.float64
        assert ad.stack([single, True]).dtype == np.float32
