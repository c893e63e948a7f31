"""`x[key]` and static values that are made anew are recorded natively as Python records them."""

import numpy as np
import pytest

import autodiff as ad


def matrix():
    return ad.tensor(np.arange(1.0, 13.0).reshape(3, 4), requires_grad=True)


KEYS = {
    "int": 1,
    "negative int": -1,
    "slice": slice(1, 3),
    "open slice": slice(1, None),
    "whole": slice(None),
    "step": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "empty": slice(2, 2),
    "beyond": slice(2, 99),
    "from the end": slice(-2, None),
    "pair": (1, 2),
    "int and slice": (slice(None), 1),
    "slices": (slice(0, 2), slice(1, 3)),
    "new axis": None,
    "new axis in front": (None, 1),
    "new axis behind": (slice(None), None),
    "two new axes": (None, slice(1, 3), None),
    "rest": Ellipsis,
    "rest and int": (..., 1),
    "int and rest": (1, ...),
    "rest between": (1, ..., 2),
    "rest of nothing": (1, 2, ...),
    "rest and new axis": (..., None),
    "all of it": (0, ..., None, 1),
    "five entries": (None, None, None, 1, 2),
    "large step": slice(0, 3, 5),
    "no entries": (),
    "bool": True,
    "list": [0, 2],
    "array": np.array([0, 2]),
    "NumPy int": np.int64(1),
    "mask": np.array([True, False, True]),
    "int beyond 64 bits": slice(0, 2**70),
}


@pytest.mark.parametrize("name", KEYS)
def test_every_key_reads_what_numpy_reads(name, way):
    key, x = KEYS[name], matrix()
    expected = x.detach().numpy()[key]
    for _ in range(5):
        y = x[key]
        assert y.requires_grad and y.shape == expected.shape
        np.testing.assert_array_equal(y.detach().numpy(), expected)
        other = x.detach()[key]
        np.testing.assert_array_equal(other.numpy(), expected)
    for _ in range(3):
        x.grad = None
        (x[key] * x[key]).sum().backward()
    weight = np.zeros((3, 4))
    np.add.at(weight, key, 1.0)
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * (weight if name != "bool" else 1.0))


@pytest.mark.parametrize(
    "key", [3, -4, (0, 4), (0, 1, 2), (..., 1, 2, 3), (1, 2, 3, ...), "a", 1.0, slice(0.5, 2), (..., ...)]
)
def test_keys_that_do_not_fit_are_refused(key, way):
    x = matrix()
    for _ in range(3):
        x[1], x[0, 1], x[..., 1], x[0:2]
    for _ in range(3):
        with pytest.raises((IndexError, TypeError)):
            x[key]


def test_a_bound_may_run_code(way):
    x, seen = matrix(), []

    class One:
        def __index__(self):
            seen.append(1)
            return 1

    for _ in range(4):
        x[1:3]
        np.testing.assert_array_equal(x[One() : 3].detach().numpy(), x.detach().numpy()[1:3])
        np.testing.assert_array_equal(x[One()].detach().numpy(), x.detach().numpy()[1])
    assert len(seen) >= 8


def test_a_slice_that_gets_longer_is_another(way):
    x = matrix()
    for _ in range(3):
        for stop in (1, 2, 3):
            assert x[0:stop].shape == (stop, 4)


def test_zero_and_minus_zero_are_not_one_static_value(way):
    x = matrix()
    for _ in range(4):
        plus, minus = ad.pad(x, 1, constant_values=0.0), ad.pad(x, 1, constant_values=-0.0)
        assert not np.signbit(plus.detach().numpy()[0, 0]) and np.signbit(minus.detach().numpy()[0, 0])
