"""Checks for any size: a recording that is a known one at another size is answered without its key.

As `check`, it walks a recording from its roots, natively where that is set up.  Of each node it compares what is left
of a key without numbers (`sizes`): the operation, not the kind.  Then straight-line code reads the unknown numbers
where they stand, and compares all others with what follows from them:

    def numbers(v2, v7):
        o2, k7 = v2.kind.out, v7.kind
        n0 = o2.shape[0]
        if n0 < 2 or not is_fit(n0): return None
        if o2.shape != (n0, 8,) or k7.params != (c3, (n0, 8,),): return None
        return (n0,)

It accepts only what has the key of the plan for these numbers.  A size that was met twice is left to keys and their
plans, so that what is run in a loop comes to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.ir import OutOfRange
from codegen.records import NamedTuple, record
from codegen.symbols import LEAST

from .check import Check, Gathered, Recipe
from .expected import Expected, python_check
from .misses import ANOTHER_SIZE, note
from .natively import native_check, native_finish
from .node import CONSTANT, Kind, Node, Out, kept, leaf_kind, out_of, released
from .plan import COUNTS, Plan, located_at
from .streak import note_repeated, note_spent, prices
from .walk import still_true

__all__ = ["Numbers", "add", "age", "clear_sized_checks", "find"]

#: Purposes, and checks of each, the latest first.
_KEYS, _PER_KEY = 128, 4


@record(frozen=True)
class Numbers:
    """The numbers of a key, and what plans there are for them.

    texts      of each its formula in the names of the unknown ones, or itself where it is known
    names, positions   of the unknown ones      is_fit   whether plans are right for these
    plan_at    the plan for a size that was met once at the most; None for others, and where plans are not for any size
    run_at     what runs the plan for a size in machine code for any; None where there is none, or for this size
    """

    texts: Sequence[str | int]
    names: Sequence[str]
    positions: Sequence[int]
    is_fit: Callable[..., bool]
    plan_at: Callable[[tuple[int, ...]], Plan | None]
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
        results = self.run_on(gathered[0], gathered[1])
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
            raise located_at(error, gathered[1]) from None


class _Sort(NamedTuple):
    """A check for any size.

    accepts   what a recording that is alike holds, as `check` says; behind the nodes of old gradients there are those
              of leaves, of which gradients have the size, and those that numbers are read of
    read      read(*nodes) -> the unknown numbers, None where others do not follow from them
    olds, leaves   how many of the former there are
    given     what it needs to know        plan   that it was made with       finish   what follows a run (see `Check`)
    """

    accepts: Callable
    read: Callable[..., tuple[int, ...] | None]
    olds: int
    leaves: int
    given: Numbers
    plan: Plan
    finish: Any


#: By purpose, with what is left of kinds.
_found: dict[tuple, list[_Sort]] = {}
#: How often they were forgotten.
_age = 0


def find(purpose: tuple, roots: Sequence[Node], live: Sequence[Node]) -> tuple[Check, Gathered] | None:
    """What answers a recording of a new size, and what a check gathered in it; None when none accepts it."""
    known = _found.get(_without_sizes(purpose))
    for accepts, read, count, leaves, given, plan, finish in list(known) if known else ():
        gathered = accepts(*roots, live)
        if gathered is None:
            continue
        arguments, stored, owners, olds, past, _ = gathered
        first = count + leaves
        values = read(*olds[first:])
        if values is None:
            continue
        freed = tuple([node.kind.freed or released(node.kind) for node in past])
        run = given.run_at(values)
        if run is not None:
            kinds = tuple([None if n is None else _kind_of_gradient(n.kind.out) for n in olds[count:first]])
            check = _AnySize(accepts, plan, finish, run, values)
            return check, (arguments, stored, owners, olds[:count], past, freed, kinds)  # type: ignore[return-value]
        since = prices.now()
        once = given.plan_at(values)
        if once is None:
            return None
        return _Once(accepts, once, purpose[0], since), (arguments, stored, owners, olds[:count], past, freed)
    return None


#: By what a leaf is, of what kind its gradient is.
_gradients: dict[Out, Kind] = {}


def _kind_of_gradient(out: Out) -> Kind:
    return _gradients.get(out) or kept(_gradients, out, leaf_kind(out_of(out.aval)))


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
    expected.instructions = [sized.loosened(*instruction) for instruction in expected.instructions]
    if not sized.is_complete():
        return
    first = [nodes[0] for nodes, _ in recipe.groups]
    olds, leaves = len(expected.olds), [expected.number[n] if n in expected.bound else -1 for n in first]
    expected.olds += [*leaves, *sized.asked]
    accepts = native_check(expected) or python_check(expected)
    finish = native_finish(expected, [None] * len(leaves))
    if len(_found) >= _KEYS:
        clear_sized_checks()
    key = _without_sizes(purpose)
    made = _Sort(accepts, sized.reader(), olds, len(leaves), numbers, plan, finish)
    _found[key] = [made, *_found.get(key, ())][:_PER_KEY]


def _without_sizes(purpose: tuple) -> tuple:
    return tuple([(p.op, p.out.cls) if type(p) is Kind else p for p in purpose])


def clear_sized_checks() -> None:
    """Forget all of them."""
    global _age
    _found.clear()
    _gradients.clear()
    _age += 1


def age() -> int:
    """How often all were forgotten: from then on they are made again."""
    return _age


class _Sized:
    """Says what a check compares instead of kinds and Outs."""

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
        #: Nodes whose parameters are known.
        self._compared: list[int] = []

    def is_complete(self) -> bool:
        """Whether all numbers were compared."""
        return self._open <= self._seen

    def _texts(self, i: int) -> Sequence[str | int]:
        first = self._first[i]
        return self._numbers.texts[first : first + len(_numbers_of(self._things[i]))]

    def loosened(self, opcode: str, *operands: Any) -> tuple:
        """An instruction that compares a kind or an Out, without its numbers where some are unknown."""
        if opcode not in ("kind", "out"):
            return opcode, *operands
        i, thing, pending = operands
        assert type(thing) is type(self._things[i]), "a recipe whose parts are of another order"
        self._seen.add(i)
        is_known = i not in self._open
        if is_known and (type(thing) is Out or thing.op is CONSTANT):
            return opcode, *operands
        if type(thing) is Out:
            return "of_class", i, thing.cls, thing.requires_grad, thing.weak, pending
        if is_known and thing.params:
            self._compared.append(i)
        return "like", i, thing.op, thing.released, thing.out.requires_grad, thing.out.weak, pending

    @property
    def asked(self) -> list[int]:
        """The nodes that numbers are read of, and that parameters are compared of."""
        return sorted({*self._open & self._seen, *self._compared})

    def reader(self) -> Callable[..., tuple[int, ...] | None]:
        """What reads the unknown numbers of those nodes, and compares the others."""
        given, asked = self._numbers, self.asked
        env: dict[str, Any] = {"__name__": __name__, "is_fit": given.is_fit}
        is_out = {i: type(self._things[i]) is Out for i in asked}
        lines = [f"o{i} = v{i}.kind.out" if is_out[i] else f"k{i} = v{i}.kind" for i in asked]
        for name, position in zip(given.names, given.positions, strict=True):
            i = max([i for i, first in enumerate(self._first) if first <= position and self._texts(i)])
            lines.append(f"{name} = {self._place(i, position - self._first[i])}")
            lines.append(f"if {name} < {LEAST}: return None")
        lines.append(f"if not is_fit({', '.join(given.names)}): return None")
        for i in asked:
            thing, texts = self._things[i], iter(self._texts(i))
            if is_out[i]:
                lines.append(f"if o{i}.shape != {_tuple_of(thing.shape, texts)}: return None")
            elif thing.op is CONSTANT:
                count, dtype = next(texts), thing.params[1]
                lines.append(f"if k{i}.params != (float({count}), {dtype!r}): return None")
                lines.append(f"if type(k{i}.params[0]) is not float: return None")
            elif i in self._compared:
                lines.append(f"if k{i}.params != {_constant(env, thing.params)}: return None")
            else:
                lines.append(f"if k{i}.params != {_tuple_of(thing.params, texts, env)}: return None")
        lines.append(f"return ({', '.join([*given.names, ''])})")
        head = f"def read({', '.join([f'v{i}' for i in asked])}):\n try:\n  "
        # Another thread may give a node up between two lines, or what is a number here is none there.
        tail = "\n except (ValueError, IndexError, AttributeError, TypeError): return None\n"
        exec(head + "\n  ".join(lines) + tail, env)  # our own templates
        return env.pop("read")  # not left in its own globals: that would be a cycle

    def _place(self, i: int, which: int) -> str:
        """Where a number of a node stands."""
        thing = self._things[i]
        if type(thing) is Out:
            return f"o{i}.shape[{which}]"
        if thing.op is CONSTANT:
            return f"int(k{i}.params[0])"
        path = _paths(thing.params)[which]
        return f"k{i}.params{''.join([f'[{place}]' for place in path])}"


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
