"""Random programs give the same results and gradients on every route, and those of a pure function in NumPy."""

import numpy as np
import pytest
from random_routes import Oracle, function, shown, written
from test_routes import (
    BATCH,
    FIRST,
    INSIDE,
    SECOND,
    SECOND_TRACED,
    TRACED,
    V,
    X,
    backward,
    check_first,
    check_inside,
    check_kept,
    check_repeated,
    check_second,
    close,
    eagerly,
    slope,
)

import autodiff as ad


def sized(oracle):
    """True where values and slopes are small enough to compare second differences."""
    return np.max(np.abs(slope(oracle, X, X))) < 1e3 and abs(oracle(X, X)) < 1e3


def told(seed, check):
    """Run a check; a failure shows the program."""
    program = written(seed)
    oracle = Oracle(program)
    if not sized(oracle):
        return
    try:
        check(program, oracle)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{shown(program)}") from error


def check_some(program, oracle):
    """The routes that differ most, once."""
    run, wanted = function(program), slope(oracle, X, X)
    close(run(ad.tensor(X)).detach(), np.real(oracle(X, X)), "value")
    for i in range(2):
        close(backward(function(program, i == 1), X), wanted, f"backward, {i + 1} times")
    close(ad.grad(run)(X), wanted, "grad")
    close(eagerly(lambda: ad.grad(run)(X)), wanted, "eager grad")
    close(ad.jvp(run, (X,), (V,))[1], wanted @ V, "jvp")
    close(ad.grad(ad.jit(run))(X), wanted, "grad of jit")
    close(ad.jit(ad.grad(run))(X), wanted, "jit of grad")
    slopes = np.stack([slope(oracle, x, x) for x in BATCH])
    close(ad.vmap(ad.grad(run))(BATCH), slopes, "vmap of grad")


def check_all(program, oracle):
    """All routes, recorded with and without reads."""
    run, reading = function(program), function(program, True)
    check_repeated(run, oracle, False)
    check_repeated(reading, oracle, True)
    check_kept(run, oracle)
    for check, f, names in (
        (check_first, run, FIRST | TRACED), (check_first, reading, FIRST), (check_second, run, SECOND | SECOND_TRACED),
        (check_inside, run, INSIDE),
    ):
        for name in names:
            check(f, oracle, name)


@pytest.fixture(autouse=True)
def patient():
    """A program met a few times is interpreted, one met more often is compiled, as users have it."""
    before, ad.config.patience = ad.config.patience, 2
    yield
    ad.config.patience = before


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_give_the_same_on_the_main_routes(seed):
    told(seed, check_some)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1400, 10))
def test_random_programs_give_the_same_on_every_route(start):
    for seed in range(start, start + 10):
        told(seed, check_all)
