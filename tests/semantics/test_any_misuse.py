"""SEMANTICS 9 over all public functions: a call with something else in the place of one argument ends in an error with
the user's line, or is a call."""

import inspect

import numpy as np
import pytest

import autodiff as ad

SPACES = {"ad": ad, "linalg": ad.linalg, "fft": ad.fft, "random": ad.random, "special": ad.special}
#: Things that are no array, no axis, no shape, no function, no list of arrays: each is none of something.
THINGS = {
    "None": None, "text": "a", "a float": 3.5, "an object": object(), "an empty list": [], "a dict": {}, "-1": -1,
    "a pair": (1, 2), "a tensor": ad.tensor(np.arange(6.0).reshape(2, 3)),
}  # fmt: skip
#: Functions that take no arguments, or hand them on to a function of the user's.
LEFT_OUT = {"cache_info", "checkpoint", "clear_cache", "explain", "function", "jit", "max_compiles"}


def _functions():
    for space, module in SPACES.items():
        for name in module.__all__:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type) and name not in LEFT_OUT:
                yield pytest.param(function, id=f"{space}.{name}")


@pytest.mark.parametrize("function", [*_functions()])
@pytest.mark.filterwarnings("ignore")
def test_a_thing_in_the_place_of_an_argument_is_refused_with_the_users_line(function):
    given = [p for p in inspect.signature(function).parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
    needed = max(1, sum([p.default is p.empty for p in given]))
    first = {"key": ad.random.key(0)}
    right = [first.get(p.name, THINGS["a tensor"] if not i else ad.tensor([1.0, 2.0])) for i, p in enumerate(given)]
    for place, parameter in enumerate(given):
        if isinstance(parameter.default, bool):
            continue  # of a flag the truth counts
        behind = [p.default for p in given[needed:place]]
        for what, thing in THINGS.items():
            arguments = [*right[:needed], *behind, thing] if place >= needed else [*right[:place], thing]
            arguments += right[len(arguments) : needed]
            try:
                function(*arguments)
            except Exception as error:
                told = str(error) + "".join(getattr(error, "__notes__", ()))
                assert "test_any_misuse.py" in told, f"{parameter.name} is {what}: {type(error).__name__}: {error}"
