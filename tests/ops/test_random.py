"""Random numbers: those that are known, those that JAX draws, their distributions, and what is refused."""

import math

import mpmath
import numpy as np
import pytest

import autodiff as ad

from .cases import eager
from .threefry import words

r = ad.random
KEY = r.key(7)


def u32(*numbers):
    return np.array(numbers, np.uint32).view(np.int32)


# ---------------------------------------------------------------- known answers


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_words_are_those_that_the_authors_of_threefry_publish(key, counter, answer):
    """The known answers for threefry2x32 with 20 rounds in Random123, `kat_vectors`."""
    threefry = ad.ops.random_keys.threefry
    inputs = [ad.tensor(n) for n in (*u32(*key), *u32(*counter))]
    for run in (lambda *n: threefry(*n, dtype="i64"), ad.jit(lambda *n: threefry(*n, dtype="i64"))):
        assert run(*inputs).item() & (2**64 - 1) == answer[0] << 32 | answer[1]
    assert words(key, counter) == answer


@pytest.mark.slow
def test_keys_bits_and_uniform_numbers_are_jaxs():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        for seed in (0, 42, -3, 2**40 + 17):
            theirs, ours = jax.random.PRNGKey(seed), r.key(seed)
            np.testing.assert_array_equal(ours, np.asarray(theirs).view(np.int32))
            np.testing.assert_array_equal(r.split(ours, 3), np.asarray(jax.random.split(theirs, 3)).view(np.int32))
            np.testing.assert_array_equal(r.fold_in(ours, 5), np.asarray(jax.random.fold_in(theirs, 5)).view(np.int32))
            for dtype in (np.float32, np.float64):
                shape, near = (3, 70), 64 * np.finfo(dtype).eps
                np.testing.assert_array_equal(r.uniform(ours, shape, dtype), jax.random.uniform(theirs, shape, dtype))
                wanted = jax.random.normal(theirs, shape, dtype)
                np.testing.assert_allclose(r.normal(ours, shape, dtype), wanted, rtol=near, atol=near)


# ---------------------------------------------------------------- the inverse of erf


@pytest.mark.parametrize(("dtype", "ulps"), [(np.float32, 4), (np.float64, 4)])
def test_erfinv_is_within_ulps_everywhere_up_to_the_last_number_below_one(dtype, ulps, rng):
    one, eps = dtype(1), np.finfo(dtype).eps
    x = np.concatenate([
        rng.uniform(-1, 1, 300).astype(dtype), (one - 2.0 ** -rng.uniform(1, -math.log2(eps), 300)).astype(dtype),
        10.0 ** rng.uniform(-30, 0, 100).astype(dtype), [np.nextafter(one, dtype(0)), dtype(0), np.finfo(dtype).tiny],
    ]).astype(dtype)  # fmt: skip
    x = x[np.abs(x) < 1]
    with mpmath.workdps(60):
        exact = [mpmath.erfinv(mpmath.mpf(float(v))) for v in x]
        unit = np.spacing(np.abs(np.array([float(e) for e in exact], dtype)))
        for found in (np.asarray(ad.erfinv(x)), ad.jit(ad.erfinv)(x)):
            off = [abs(mpmath.mpf(float(f)) - e) for f, e in zip(found, exact, strict=True)]
            assert max(o / float(u) for o, u in zip(off, unit, strict=True)) <= ulps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erfinv_ends_in_infinities(dtype):
    x = np.array([1, -1, 1.5, -np.inf, np.nan, -0.0], dtype)
    wanted = np.array([np.inf, -np.inf, np.nan, np.nan, np.nan, -0.0], dtype)
    with eager():
        evaluated = ad.erfinv(x).numpy()
    for found in (evaluated, ad.jit(ad.erfinv)(x)):
        np.testing.assert_array_equal(found, wanted)
        assert np.signbit(found[-1])


# ---------------------------------------------------------------- distributions

#: (name, mean, variance)
MOMENTS = [
    ("uniform", 0.5, 1 / 12), ("normal", 0.0, 1.0), ("exponential", 1.0, 1.0), ("laplace", 0.0, 2.0),
    ("gumbel", 0.5772156649015329, math.pi**2 / 6), ("logistic", 0.0, math.pi**2 / 3),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "mean", "variance"), MOMENTS)
def test_means_and_variances_are_those_of_the_distribution(name, mean, variance, dtype):
    n = 200_000
    x = ad.jit(lambda key: getattr(r, name)(key, (n,), dtype))(KEY.numpy())
    assert x.dtype == dtype
    assert np.isfinite(x).all()
    assert abs(x.mean(dtype=np.float64) - mean) < 5 * math.sqrt(variance / n)
    assert abs(x.var(dtype=np.float64) / variance - 1) < 0.03


def test_choices_come_as_often_as_their_weights_say():
    n, p = 100_000, np.array([0.1, 0.0, 0.6, 0.3])
    drawn = {
        "choice": r.choice(KEY, 4, (n,), p=3 * p),
        "categorical": r.categorical(KEY, np.log(p + 1e-300), shape=(n,)),
        "randint": r.randint(KEY, (n,), 0, 4),
        "bernoulli": r.bernoulli(KEY, 0.3, (n,)),
    }
    often = {name: np.bincount(np.asarray(x).astype(int), minlength=4) / n for name, x in drawn.items()}
    even = np.full(4, 0.25)
    for name, wanted in {"choice": p, "categorical": p, "randint": even, "bernoulli": [0.7, 0.3, 0, 0]}.items():
        np.testing.assert_allclose(often[name], wanted, atol=0.01)


def test_without_replacement_nothing_comes_twice():
    for p in (None, np.arange(1.0, 51.0)):
        assert len(set(r.choice(KEY, 50, (5, 10), replace=False, p=p).numpy().ravel())) == 50
    x = np.arange(12.0).reshape(3, 4)
    moved = r.permutation(KEY, x, axis=1).numpy()
    np.testing.assert_array_equal(np.sort(moved, axis=1), x)
    assert (moved - moved[:1] == x - x[:1]).all()  # rows stay together


# ---------------------------------------------------------------- keys are arguments


def test_another_key_is_no_other_graph():
    f = ad.jit(ad.value_and_grad(lambda w, key: ad.sum(w * r.normal(key, (4,)))))
    w = np.ones(4)
    f(w, r.key(0).numpy())
    before = ad.cache_info().compiles
    found = [f(w, r.key(seed).numpy())[1] for seed in range(1, 30)]
    assert ad.cache_info().compiles == before
    assert len({tuple(g) for g in found}) == 29
    np.testing.assert_allclose(found[4], r.normal(r.key(5), (4,)), rtol=1e-12)


def test_recorded_traced_mapped_and_evaluated_draws_are_equal():
    keys = r.split(KEY, 5)
    mapped = ad.vmap(lambda k: r.uniform(k, (3,), np.float32))(keys.numpy())
    traced = ad.jit(lambda k: r.uniform(k, (3,), np.float32))
    with eager():
        evaluated = [r.uniform(ad.tensor(k), (3,), np.float32).numpy() for k in keys.numpy()]
    for i, k in enumerate(keys.numpy()):
        np.testing.assert_array_equal(mapped[i], evaluated[i])
        np.testing.assert_array_equal(traced(k), evaluated[i])


def test_a_loop_folds_its_step_into_the_key():
    def walk(key, x):
        return ad.fori_loop(0, 5, lambda i, x: x + r.normal(r.fold_in(key, i), (3,)), x)

    wanted = sum(r.normal(r.fold_in(KEY, i), (3,)).numpy() for i in range(5))
    np.testing.assert_allclose(ad.jit(walk)(KEY.numpy(), np.zeros(3)), wanted, rtol=1e-12)


def test_gradients_reach_bounds_but_no_key():
    low, high = ad.tensor(-1.0, requires_grad=True), ad.tensor(3.0, requires_grad=True)
    u = r.uniform(KEY, (4,)).numpy()
    r.uniform(KEY, (4,), minval=low, maxval=high).sum().backward()
    np.testing.assert_allclose([low.grad, high.grad], [(1 - u).sum(), u.sum()])
    assert not r.normal(KEY, (4,)).requires_grad


def test_draws_do_not_depend_on_threads():
    drawn = []
    for threads in (1, 2):
        with _threads(threads):
            drawn.append(ad.jit(lambda k: r.normal(k, (300_000,)))(KEY.numpy()))
    np.testing.assert_array_equal(*drawn)


class _threads:
    def __init__(self, number):
        self.number = number

    def __enter__(self):
        self.before, ad.config.threads = ad.config.threads, self.number

    def __exit__(self, *_):
        ad.config.threads = self.before


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("draw", [r.randint, ad.jit(r.randint, static_argnames=("shape", "dtype"))])
def test_bounds_in_arrays_are_brought_into_the_range_of_the_dtype(draw, dtype):
    info = np.iinfo(dtype)
    for bounds in [(-(2**62), 2**62), (-(2**62) - 5, 2**62 + 5), (info.min, 3), (2**62, -(2**62)), (-5, 2**40)]:
        least, end = np.array([bounds]).T
        for of_type in (np.asarray, ad.tensor):
            found = np.asarray(draw(KEY, (1000,), of_type(least), of_type(end), dtype=dtype))
            low, high = max(bounds[0], info.min), min(bounds[1], info.max + 1)
            assert found.dtype == dtype
            if low >= high:
                np.testing.assert_array_equal(found, np.clip(least, info.min, info.max)[0])
                continue
            assert (found >= low).all() and (found < high).all()
            assert abs(found.astype(float).mean() - (low + min(high, low + 2**63)) / 2) < (high - low) / 20


@pytest.mark.parametrize(
    "bounds",
    [(9, 10), (-10, -9), (4.5, 6), (20, np.inf), (-np.inf, -20), (37, 40), (7, 7.0000001), (-9, -8.5), (8, np.inf),
     (1e4, 2e4), (-1, 1), (3.9, 4.1)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncated_normal_numbers_are_those_of_the_shares_that_they_are_drawn_by_in_the_tails_too(bounds, dtype):
    a, b = (dtype(bound) for bound in bounds)
    u = r.uniform(KEY, (40,), dtype).numpy()
    found = r.truncated_normal(KEY, a, b, (40,), dtype).numpy()
    assert found.dtype == dtype and (found >= a).all() and (found <= b).all()
    with mpmath.workdps(60):
        # The smaller tail of two, so that nothing cancels.
        sign = -1 if b < 0 else 1

        def tail(x):
            return mpmath.erfc(sign * mpmath.mpf(float(x)) / mpmath.sqrt(2)) / 2

        for x, share in zip(found, u, strict=True):
            away = tail(a) + (tail(b) - tail(a)) * float(share) - tail(x)
            density = mpmath.exp(-mpmath.mpf(float(x)) ** 2 / 2) / mpmath.sqrt(2 * mpmath.pi)
            assert abs(away / density) <= 40 * np.finfo(dtype).eps * max(abs(float(x)), 1) * (30 if abs(x) < 4.2 else 1)


def test_gradients_of_truncated_normal_numbers_are_right_in_the_tails():
    for a, b in [(9.0, 10.0), (-10.0, -9.0), (5.0, 5.5), (-1.0, 0.5)]:
        u = r.uniform(KEY, (20,)).numpy()
        x = r.truncated_normal(KEY, a, b, (20,)).numpy()
        by_a, by_b = ad.jacobian(lambda a, b: r.truncated_normal(KEY, a, b, (20,)), argnums=(0, 1))(a, b)
        np.testing.assert_allclose(by_a, (1 - u) * np.exp((x * x - a * a) / 2), rtol=1e-7)
        np.testing.assert_allclose(by_b, u * np.exp((x * x - b * b) / 2), rtol=1e-7)
    slopes = ad.grad(lambda a, b: r.truncated_normal(KEY, a, b, (20,)).sum(), argnums=(0, 1))(9.0, np.inf)
    assert np.isfinite(slopes[0]) and slopes[1] == 0


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: r.normal(0, (3,)), TypeError, "make one of a seed: ad.random.key"),
        (lambda: r.normal(np.zeros(2), (3,)), ad.ShapeError, "a key is an i32"),
        (lambda: r.normal(r.split(KEY), (3,)), ad.ShapeError, "ad.vmap"),
        (lambda: r.key(0.5), TypeError, "a seed is an integer"),
        (lambda: r.uniform(KEY, (3,), np.int32), ad.DTypeError, "float32 or float64"),
        (lambda: r.bits(KEY, (3,), np.float32), ad.DTypeError, "int32 or int64"),
        (lambda: r.randint(KEY, (3,), 0, 5, np.float64), ad.DTypeError, "int32 or int64"),
        (lambda: r.uniform(KEY, (3,), minval=np.zeros((2, 1))), ad.ShapeError, "do not fit shape"),
        (lambda: r.bernoulli(KEY, np.full((2, 3), 0.5), (3,)), ad.ShapeError, "do not fit shape"),
        (lambda: r.categorical(KEY, np.zeros((2, 3)), shape=(3,)), ad.ShapeError, "does not end in"),
        (lambda: r.choice(KEY, 3, (4,), replace=False), ad.ShapeError, "cannot be chosen"),
        (lambda: r.choice(KEY, 0, (1,)), ad.ShapeError, "cannot be chosen"),
        (lambda: r.choice(KEY, 3, (2,), p=[0.5, 0.5]), ad.ShapeError, "a weight for each"),
        (lambda: r.normal(KEY, (-1,)), ad.ShapeError, "not negative"),
        (lambda: r.normal(KEY, "ab"), TypeError, "made of integers"),
        (lambda: r.permutation(KEY, np.float64(3)), ad.ShapeError, "no axes"),
    ],
)
def test_a_misuse_is_told_with_a_way_out(call, error, text):
    with pytest.raises(error, match=text) as told:
        call()
    assert "test_random.py" in str(told.value)


@pytest.mark.parametrize(
    ("least", "end", "dtype"),
    [(0, 2**31 + 1, np.int32), (-(2**31) - 1, 0, np.int32), (-(2**63), 0, np.int64), (-(2**63), 2**63 - 1, np.int64)],
)
def test_a_range_that_the_dtype_does_not_have_is_refused(least, end, dtype):
    with pytest.raises(OverflowError, match=r"randint: int.*\n.*test_random\.py.*\n.*random\.bits"):
        ad.random.randint(ad.random.key(0), (3,), least, end, dtype)
    end = min(end, 2**31) if dtype is np.int32 else -1
    least = max(least, -(2**31)) if dtype is np.int32 else least
    found = np.asarray(ad.random.randint(ad.random.key(0), (100,), least, end, dtype))
    assert found.dtype == dtype and (found >= least).all() and (found < end).all() and found.std() > (end - least) / 5
