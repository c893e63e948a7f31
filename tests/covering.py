"""Products of parameters: all of one under --slow, and by default a part in which every value occurs."""

import itertools

import pytest

__all__ = ["covering", "part"]


def covering(times=1, **parameters):
    """`@covering(name=PROGRAMS, route=ROUTES)`: parametrize a test over the product of what these iterables hold.

    The time of a law is that of its product, and grows with each value that is added to any parameter; a fault is
    mostly one of a value (a function that is wrong on every route, a route that is wrong for every function), seldom
    one of a pair alone.  So a run by default takes a part of the product in which each value of each parameter occurs,
    with as many pairs as there is room for, at least `times` as often as the longest parameter is long; the rest is
    marked slow.  The part is the same in each run.
    """
    lists = [list(values) for values in parameters.values()]
    chosen = part([len(values) for values in lists], times)
    sets = [
        pytest.param(
            *[values[i] for values, i in zip(lists, combination, strict=True)],
            id="-".join([_told(values[i]) for values, i in zip(lists, combination, strict=True)]),
            marks=() if combination in chosen else pytest.mark.slow,
        )
        for combination in itertools.product(*[range(len(values)) for values in lists])
    ]
    return pytest.mark.parametrize([*parameters], sets)


def _told(value):
    """A value in the name of a test."""
    if isinstance(value, tuple):
        return "-".join(map(_told, value))
    return getattr(value, "__name__", str(value))


def part(lengths, times=1):
    """Combinations of indices below these lengths: each index of each occurs, and few pairs occur twice."""
    met, chosen, starts = set(), set(), [0] * len(lengths)
    for _ in range(times * max(lengths)):
        combination = ()
        for j, n in enumerate(lengths):
            # In turn, but first those with the fewest pairs so far.
            turn = [(starts[j] + i) % n for i in range(n)]
            repeats = [sum([(i, u, j, v) in met for i, u in enumerate(combination)]) for v in turn]
            combination += (turn[repeats.index(min(repeats))],)
            starts[j] = (combination[j] + 1) % n
        met |= {(i, combination[i], j, combination[j]) for i, j in itertools.combinations(range(len(lengths)), 2)}
        chosen.add(combination)
    return chosen
