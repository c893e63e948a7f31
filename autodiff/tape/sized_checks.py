"""Checks for any size: a recording that is a known one at another size is answered without its key.

As `check`, straight-line code that walks a recording from its roots.  Of each node it compares what is left of a key
without numbers (`sizes`); then it reads the unknown numbers where they stand, and compares all others with what
follows from them:

    def check(root0, live):
        v9 = root0
        k9 = v9.kind
        if k9.op is not c1 or k9.out.requires_grad is not True or ...: return None
        ...
        n0 = o2.shape[0]
        if n0 < 2 or not is_fit(n0): return None
        if o2.shape != (n0, 8,) or k7.params != (c3, (n0, 8,),): return None
        return what `check` gives, and (n0,)

It accepts only what has the key of the plan for these numbers.  A size that was met twice is left to keys and their
plans, so that what is run in a loop comes to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.records import NamedTuple, record
from codegen.runtime.launcher import OutOfRange
from codegen.symbols import LEAST

from .check import Check, Gathered, Recipe
from .expected import Expected, python_check
from .misses import ANOTHER_SIZE, note
from .natively import native_finish
from .node import CONSTANT, Kind, Node, Out, leaf_kind, out_of, released
from .plan import COUNTS, Plan, located
from .streak import note_repeated, note_spent, prices
from .walk import still_true

__all__ = ["Numbers", "add", "clear_sized_checks", "find"]

#: Purposes, and checks of each, the latest first.
_KEYS, _PER_KEY = 128, 4


@record(frozen=True)
class Numbers:
    """The numbers of a key, and what plans there are for them.

    texts      of each its formula in the names of the unknown ones, or itself where it is known
    names, positions   of the unknown ones      is_fit   whether plans are right for these
    plan_at    the plan for a size that was met once at the most; None for others, and where plans are not for any size
    is_fixed   of each result of these plans, whether its shape is the same for any size
    run_at     what runs the plan for a size in machine code for any; None where there is none, or for this size
    """

    texts: Sequence[str | int]
    names: Sequence[str]
    positions: Sequence[int]
    is_fit: Callable[..., bool]
    plan_at: Callable[[tuple[int, ...]], Plan | None]
    is_fixed: Sequence[bool]
    run_at: Callable[[tuple[int, ...]], Callable[[tuple[int, ...], tuple], tuple] | None]


class _Once(Check):
    """What answers one recording: nothing is known of this size yet."""

    __slots__ = ("_since", "_what")

    def __init__(self, accepts: Callable, plan: Plan, what: str, since: float) -> None:
        super().__init__(accepts, plan, None)
        self._what, self._since = what, since

    def results(self, gathered: Gathered) -> tuple:
        """Run the plan."""
        COUNTS.misses += 1
        results = self.run_on(gathered[0])
        note(self._what, ANOTHER_SIZE)
        note_spent(self.plan, self._since)
        return results


class _AnySize(Check):
    """What answers one recording by machine code for any size."""

    __slots__ = ("_run", "_values")

    def __init__(self, accepts: Callable, plan: Plan, finish: Any, run: Callable, values: tuple[int, ...]) -> None:
        super().__init__(accepts, plan, finish)
        self._run, self._values = run, values

    def results(self, gathered: Gathered) -> tuple:
        """Run the plan."""
        COUNTS.hits += 1
        COUNTS.runs += 1
        try:
            results: tuple = self._run(self._values, gathered[0])
            return results
        except OutOfRange as error:
            raise located(error) from None


class _Sort(NamedTuple):
    """A check for any size, what it needs to know, the plan it was made with, and what follows a run (see `Check`)."""

    accepts: Callable
    numbers: Numbers
    plan: Plan
    finish: Any


#: By purpose, with what is left of kinds.
_found: dict[tuple, list[_Sort]] = {}


def find(purpose: tuple, roots: Sequence[Node], live: Sequence[Node]) -> tuple[Check, Gathered] | None:
    """What answers a recording of a new size, and what a check gathered in it; None when none accepts it."""
    known = _found.get(_without_sizes(purpose))
    for accepts, numbers, plan, finish in list(known) if known else ():
        since = prices.now()
        gathered = accepts(*roots, live)
        if gathered is not None:
            *_, values = gathered
            run = numbers.run_at(values)
            if run is not None:
                return _AnySize(accepts, plan, finish, run, values), gathered[:-1]
            once = numbers.plan_at(values)
            return None if once is None else (_Once(accepts, once, purpose[0], since), gathered[:-1])
    return None


def add(purpose: tuple, recipe: Recipe, numbers: Numbers) -> None:
    """Make the check of a recipe whose plan is one for any size; nothing where it does more than to run and store."""
    plan = recipe.plan
    note_repeated()  # that sizes differ does not matter to who records it
    if plan.copies or not all([p is None or c for p, c in zip(plan.grads, plan.computed, strict=True)]):
        return
    expected = Expected(recipe)
    if not (expected.is_complete() and still_true(recipe.parts, recipe.order)):
        return
    sized = _Sized(recipe, numbers)
    accepts = python_check(expected, sized)
    if not sized.is_complete():
        return
    if len(_found) >= _KEYS:
        _found.clear()
    key = _without_sizes(purpose)
    finish = None
    if all([p is None or numbers.is_fixed[p] for p in plan.grads]):  # then their kinds are the same for any size
        kinds = [leaf_kind(out_of(nodes[0].kind.out.aval)) for nodes, _ in recipe.groups]
        finish = native_finish(expected, kinds)
    _found[key] = [_Sort(accepts, numbers, plan, finish), *_found.get(key, ())][:_PER_KEY]


def _without_sizes(purpose: tuple) -> tuple:
    return tuple([(p.op, p.out.cls) if type(p) is Kind else p for p in purpose])


def clear_sized_checks() -> None:
    """Forget all of them."""
    _found.clear()


class _Sized:
    """Writes what a check compares instead of kinds and Outs."""

    def __init__(self, recipe: Recipe, numbers: Numbers) -> None:
        self._numbers = numbers
        #: Of each node where its numbers begin.
        self._first: list[int] = []
        self._things: list[Any] = [part[0] if type(part) is tuple else part for part in recipe.parts]
        count = 0
        for thing in self._things:
            self._first.append(count)
            count += len(_numbers_of(thing))
        assert count == len(numbers.texts), "the numbers of another recording"
        #: Nodes whose numbers follow from the unknown ones, that are yet to be compared.
        self._open = {i for i in range(len(self._things)) if any([type(t) is str for t in self._texts(i)])}
        self._seen: set[int] = set()

    def is_complete(self) -> bool:
        """Whether all numbers were compared."""
        return self._open <= self._seen

    def _texts(self, i: int) -> Sequence[str | int]:
        first = self._first[i]
        return self._numbers.texts[first : first + len(_numbers_of(self._things[i]))]

    def compare(self, i: int, thing: Any, pending: bool, env: dict[str, Any]) -> str:
        """The line that compares a node's kind or Out, but for what follows from unknown numbers."""
        assert type(thing) is type(self._things[i]), "a recipe whose parts are of another order"
        self._seen.add(i)
        is_known = i not in self._open
        if type(thing) is Out:
            if is_known:
                differs = f"v{i}.kind.out is not {_constant(env, thing)}"
            else:
                differs = f"(o{i} := v{i}.kind.out).cls is not {_constant(env, thing.cls)} or {_flags(f'o{i}', thing)}"
        elif thing.op is CONSTANT and is_known:
            differs = f"v{i}.kind is not {_constant(env, thing)}"
        else:
            differs = (
                f"(k{i} := v{i}.kind).op is not {_constant(env, thing.op)} or k{i}.released is not {thing.released}"
                f" or {_flags(f'k{i}.out', thing.out)}"
            )
            if is_known and thing.params:
                differs += f" or k{i}.params != {_constant(env, thing.params)}"
        return f"if {differs} or v{i}.value is {'not' if pending else ''} None: return None"

    def last(self, env: dict[str, Any]) -> list[str]:
        """The lines that read unknown numbers, and compare the others."""
        given = self._numbers
        env["is_fit"], env["released"] = given.is_fit, released
        lines = []
        for name, position in zip(given.names, given.positions, strict=True):
            i = max([i for i, first in enumerate(self._first) if first <= position and self._texts(i)])
            lines.append(f"{name} = {self._place(i, position - self._first[i])}")
            lines.append(f"if {name} < {LEAST}: return None")
        lines.append(f"if not is_fit({', '.join(given.names)}): return None")
        for i in sorted(self._open & self._seen):
            thing, texts = self._things[i], iter(self._texts(i))
            if type(thing) is Out:
                lines.append(f"if o{i}.shape != {_tuple_of(thing.shape, texts)}: return None")
            elif thing.op is CONSTANT:
                count, dtype = next(texts), thing.params[1]
                lines.append(f"if k{i}.params != (float({count}), {dtype!r}): return None")
                lines.append(f"if type(k{i}.params[0]) is not float: return None")
            else:
                lines.append(f"if k{i}.params != {_tuple_of(thing.params, texts, env)}: return None")
        return lines

    def _place(self, i: int, which: int) -> str:
        """Where a number of a node stands."""
        thing = self._things[i]
        if type(thing) is Out:
            return f"o{i}.shape[{which}]"
        if thing.op is CONSTANT:
            return f"int(k{i}.params[0])"
        path = _paths(thing.params)[which]
        return f"k{i}.params{''.join([f'[{place}]' for place in path])}"

    def values(self) -> str:
        """The unknown numbers."""
        return f"({', '.join([*self._numbers.names, ''])})"


def _flags(out: str, like: Out) -> str:
    return f"{out}.requires_grad is not {like.requires_grad} or {out}.weak is not {like.weak}"


def _constant(env: dict[str, Any], value: Any) -> str:
    env[f"c{len(env)}"] = value
    return f"c{len(env) - 1}"


def _numbers_of(thing: Any) -> Sequence[tuple]:
    """The places of the numbers that `sizes` takes out of a part of a key, a kind or an Out."""
    if type(thing) is Out:
        return _paths(thing.shape)
    if thing.op is CONSTANT:
        value = thing.params[0]
        return [()] if type(value) is float and value.is_integer() and value != 0 else []
    return _paths(thing.params)


def _paths(value: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    if type(value) is int:
        return [path]
    return [p for k, v in enumerate(value) for p in _paths(v, (*path, k))] if type(value) is tuple else []


def _tuple_of(value: Any, texts: Any, env: dict[str, Any] | None = None) -> str:
    """A value with formulas for its numbers."""
    if type(value) is int:
        return str(next(texts))
    if type(value) is tuple:
        return f"({', '.join([*[_tuple_of(v, texts, env) for v in value], ''])})"
    assert env is not None
    return _constant(env, value)
