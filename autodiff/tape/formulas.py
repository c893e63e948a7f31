"""Formulas: what a plan reads of numbers, computed again from those that are there now.

A rule that was run with watched numbers leaves steps behind (`watched`).  Those that the graph reads are
written out once as straight-line code, one block per call:

    def values(n0):
        t0_0 = n0[3]
        t0_1 = t0_0 * k0[0]
        return (f0(t0_1),)

It is Python's own arithmetic, as the rule did it, with Python's own exceptions: so what the rule computed and
did not use is computed as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .node import Node
from .watched import Watch

__all__ = ["Formulas", "Misfit"]


class Misfit(Exception):
    """A number that a rule computed before cannot be computed from the present ones: the rule itself has to run."""


class Formulas:
    """What a plan reads of the numbers of its calls.

    calls     canonical numbers of the calls' nodes
    places    which inputs of the plan are meant
    values    values(numbers of a call, numbers of the next, ...) -> a value for each place.  Raises Misfit
    """

    __slots__ = ("calls", "places", "values")

    def __init__(self, gathered: Sequence[Any], watches: Mapping[int, Watch]) -> None:
        """`gathered`: the plan's inputs, some of them leaves of `watches`, which are given by the calls' numbers."""
        calls: list[int] = []
        places: list[int] = []
        lines: list[str] = []
        results: list[str] = []
        env: dict[str, Any] = {"__name__": __name__, "Misfit": Misfit}
        for number, watch in watches.items():
            made = [step for step, how in enumerate(watch.steps) if how.steps]
            if not made and not watch.leaves:
                continue
            c = len(calls)
            calls.append(number)
            env[f"k{c}"] = tuple(watch.constants)
            lines += _written_out(watch, [*made, *[step for step, _ in watch.leaves.values()]], c)
            inputs = {x: i for i, x in enumerate(gathered) if isinstance(x, Node)}
            for k, (node, (step, convert)) in enumerate(watch.leaves.items()):
                env[f"f{c}_{k}"] = convert
                if node in inputs:
                    results.append(f"f{c}_{k}(t{c}_{step})")
                    places.append(inputs[node])
                else:
                    lines.append(f"f{c}_{k}(t{c}_{step})")
        self.calls, self.places = tuple(calls), tuple(places)
        self.values = _function(lines, results, len(calls), env)

    def __bool__(self) -> bool:
        return bool(self.calls)


def _function(lines: Sequence[str], results: Sequence[str], n_calls: int, env: dict[str, Any]) -> Callable[..., tuple]:
    body = "\n  ".join([*lines, f"return ({', '.join(results)}{',' if results else ''})"])
    text = (
        f"def values({', '.join([f'n{c}' for c in range(n_calls)])}):\n try:\n  {body}\n"
        " except (ArithmeticError, TypeError, ValueError) as error:\n  raise Misfit from error\n"
    )
    exec(text, env)  # our own text; nothing of the user's is in it
    return env.pop("values")  # not left in its own globals: that would be a cycle


def _written_out(watch: Watch, wanted: Sequence[int], c: int) -> list[str]:
    """The steps that lead to `wanted`, in order, with the names of call c."""
    needed: set[int] = set()
    waiting = list(wanted)
    while waiting:
        step = waiting.pop()
        if step not in needed:
            needed.add(step)
            waiting += watch.steps[step].steps
    return [f"t{c}_{step} = {watch.steps[step].text.format(c=c)}" for step in sorted(needed)]
