"""`ad.config.fast_math` and `ad.config.deterministic`: what they change, what they leave, and that they go back."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from command_line import autodiff

import autodiff as ad

pytestmark = pytest.mark.usefixtures("modes_as_before")

X = np.linspace(0.5, 9.5, 1000)
#: Some elements are another float when they are multiplied by a reciprocal.
EXACT, LOOSE = X / 3.7, X * (1.0 / 3.7)


def over(x, s):
    return x / s


def test_the_two_ways_of_dividing_differ():
    assert (EXACT != LOOSE).any() and np.allclose(EXACT, LOOSE, rtol=3e-16)


def test_fast_math_divides_by_a_reciprocal_and_going_back_divides_again():
    call = ad.jit(over)
    for flag in (False, True, False, True):
        ad.config.fast_math = flag
        for _ in range(3):  # the first, the second, and by machine code alone
            assert (call(X, 3.7) == (LOOSE if flag else EXACT)).all(), flag


def test_a_recorded_loop_follows_fast_math():
    def step(w):
        loss = ad.sum(w / 3.7)
        loss.backward()
        return (w.detach() / 3.7).numpy(), w.grad.numpy()

    for flag in (False, True, False):
        ad.config.fast_math = flag
        for _ in range(4):
            value, gradient = step(ad.tensor(X, requires_grad=True))
            assert (value == (LOOSE if flag else EXACT)).all()
            np.testing.assert_allclose(gradient, 1 / 3.7)


def test_fast_math_shows_in_every_stage(fast):
    found = ad.inspect(lambda x, y, s: (x + y) * s, "f64[1000]", "f64[1000]", "f64[]")
    assert "fastmath<reassoc,nsz,contract>" in found.mlir
    assert "fadd nsz contract reassoc" in found.llvm
    assert "fast math" in found.stats
    ad.config.fast_math = False
    found = ad.inspect(lambda x, y, s: (x + y) * s, "f64[1000]", "f64[1000]", "f64[]")
    assert "nsz" not in found.mlir and "nsz" not in found.llvm and "fast math" not in found.stats


def test_llvm_factors_out_what_default_mode_multiplies_twice(fast):
    def products():
        found = ad.inspect(lambda x, y, z: x * y + x * z, "f64[1000]", "f64[1000]", "f64[1000]")
        return found.llvm_optimized.count("fmul")

    loose = products()
    ad.config.fast_math = False
    assert 2 * loose == products()


def test_fast_math_keeps_what_is_not_finite(fast):
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e308])
    for f in (lambda x: 1.0 / x, lambda x: x * 0.0, lambda x: x - x, lambda x: x / x, lambda x: 1.0 / ad.sqrt(x),
              lambda x: ad.where(ad.isnan(x), 0.0, x), lambda x: x / 2.0, lambda x: x * 2.0):
        for dtype in (np.float64, np.float32):
            with np.errstate(all="ignore"):
                x = special.astype(dtype)
                wanted = _numpy(f, x)
            np.testing.assert_allclose(ad.jit(f)(x), wanted, rtol=1e-6)


def _numpy(f, x):
    ad.config.eager = True  # each operation by its NumPy reference
    try:
        return ad.jit(f)(x)
    finally:
        ad.config.eager = False


def test_the_gradient_of_an_extreme_finds_it_in_fast_math_too(fast):
    x = np.random.default_rng(0).normal(size=(40, 30))
    found = ad.grad(lambda x: ad.sum(ad.max(x * 0.1 + x / 3.0, axis=1)))(x)
    assert ((found != 0).sum(axis=1) == 1).all()


def test_fast_math_keeps_what_rounding_takes_from_long_sums(fast):
    x = np.random.default_rng(0).uniform(0.5, 1.5, (100_000, 8)).astype(np.float32)
    right = x.astype(np.float64).sum(axis=0)
    assert np.max(np.abs(ad.jit(lambda x: ad.sum(x, axis=0))(x) / right - 1)) < 6e-8


def test_random_numbers_are_the_same_in_fast_math():
    key = ad.random.key(3)

    def draw(key):
        return ad.random.uniform(key, (500,)), ad.random.gumbel(key, (500,)), ad.random.normal(key, (500,))

    exact = ad.jit(draw)(key)
    ad.config.fast_math = True
    for a, b in zip(ad.jit(draw)(key), exact, strict=True):
        np.testing.assert_array_equal(a, b)


def test_programs_err_hardly_more_in_fast_math(fast, rng):
    def f(x, y, s):
        mean = (x + y) / s
        return (x - mean) * (x - mean) / s + (y * 0.25 + (x + 1.0) + 2.0) / (s + 1.0)

    x, y = rng.uniform(0.5, 2.0, (2, 1000))
    right = f(x.astype(np.longdouble), y.astype(np.longdouble), np.longdouble(3.7))
    assert np.max(np.abs(ad.jit(f)(x, y, 3.7) / right - 1)) < 8 * np.finfo(np.float64).eps


@pytest.mark.parametrize("name", ["fast_math", "deterministic"])
def test_modes_take_true_or_false_and_say_so(name):
    with pytest.raises(ValueError, match=f"config.{name} is True or False, not 'no'"):
        setattr(ad.config, name, "no")
    assert f"{name}=False" in repr(ad.config)


def test_the_environment_sets_modes_and_the_doctor_lists_them():
    program = "import autodiff as ad; print(ad.config.fast_math, ad.config.deterministic)"
    for value, wanted in (("1", "True False"), ("0", "False False"), ("", "False False")):
        environment = {**os.environ, "AUTODIFF_FAST_MATH": value}
        run = [sys.executable, "-c", program]
        said = subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout
        assert said.strip() == wanted
    facts = json.loads(autodiff("doctor", "--json").stdout)
    assert facts["fast math"] == "off" and facts["deterministic"].startswith("off; ")


def test_a_setting_that_there_is_not_is_told_beside_those_that_there_are():
    with pytest.raises(AttributeError, match="no setting 'patiense': there are eager, patience, threads"):
        ad.config.patiense = 3


def test_what_becomes_deterministic_has_the_bits_of_what_was_so_from_the_start():
    def loss(n):
        w = ad.tensor(np.resize([0.3, 0.7, 1.1, 2.0], n), requires_grad=True)
        total = ad.sum(ad.sin(w) * w + w / 7)
        total.backward()
        return total.item()

    before = ad.config.patience
    try:
        ad.config.deterministic = True
        expected = loss(17)
        ad.config.deterministic = False
        ad.config.patience = 8
        ad.clear_cache()
        for n in (3, 5, 9, 17, 17, 17):  # by NumPy, then by code of any size
            loss(n)
        ad.config.deterministic = True
        assert loss(17) == expected
    finally:
        ad.config.patience = before
