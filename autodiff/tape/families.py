"""Recordings without their numbers: one that is known at another size is found by a hash of families.

The family of a kind is what is left of it without numbers; so is that of an Out.  A key with families in the place of
kinds says which program was recorded; the numbers beside it say at which size:

    without_numbers(key)    of an exact key
    described(ask, ...)     by machine code (`codegen.runtime.recording_families`): a hash, the numbers

`sizes` has plans for any numbers.  Where machine code finds the family of an ask in `SIZED`, that says what is run at
these numbers, and the ask is answered as a known one is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codegen.records import NamedTuple, record
from codegen.runtime.cache import LRU

from ..session import owned
from . import known
from .known import BACKWARD, EXACT_KEYS, VALUE, Ask, Known
from .loans import give_back
from .machine import asks
from .node import CONSTANT, Kind, Node, Out, kept, leaf_kind, out_of, released
from .record import Recording

__all__ = ["SIZED", "Described", "SizedAnswer", "answered", "described", "is_count", "without_numbers"]


@record(frozen=True)
class SizedAnswer:
    """The way asks of one family are answered.

    answer    for machine code;  leaves: the places of those that get gradients
    at        at(numbers) -> what is run; None where the plan would be wrong, or the size gets a name of its own
    form      the key without numbers: it holds what the hash knows by its address;  plans: those that it is of
    """

    answer: Any
    leaves: Sequence[int]
    at: Callable[[tuple[int, ...]], Any]
    form: tuple
    plans: Any


#: By hash; recordings of so many nodes in all.
SIZED: LRU = owned(lambda: LRU(256, most=50_000), LRU.clear)


class Described(NamedTuple):
    """A recording without its numbers, as machine code describes it; and as it is."""

    key: bytes
    numbers: tuple[int, ...]
    known: Known

    def without_nodes(self) -> Described:
        """A copy without the nodes of the recording: see `Known`."""
        return self._replace(known=self.known.without_nodes())


def without_numbers(key: tuple) -> tuple[tuple, tuple[int, ...]]:
    """An exact key without its numbers, and these in order."""
    purpose, parts, *rest = key
    numbers: list[int] = []
    left = tuple([_without_numbers(part, numbers) for part in parts])
    return (purpose, left, *rest), tuple(numbers)


def _without_numbers(part: Any, numbers: list[int]) -> tuple:
    """A part of a key without its numbers.   part: an Out, or (kind, or Out of a leaf; pending; ...; wiring)"""
    if type(part) is not tuple:
        numbers += part.shape
        return part.cls, part.requires_grad, part.weak
    kind, *others = part
    if type(kind) is Out:
        numbers += kind.shape
        return kind.cls, kind.requires_grad, kind.weak, *others
    out = kind.out
    left = _constant(kind.params, numbers) if kind.op is CONSTANT else _left(kind.params, numbers)
    return kind.op, left, out.requires_grad, out.weak, kind.released, *others


#: Stand-ins for numbers: of no class that a parameter is of.
_INT, _FLOAT = int, float
#: A constant that is larger is no count.
_MOST_COUNT = 2.0**53


def _left(value: Any, numbers: list[int]) -> Any:
    if type(value) is int:
        numbers.append(value)
        return _INT
    return tuple([_left(v, numbers) for v in value]) if type(value) is tuple else value


def is_count(value: Any) -> bool:
    """True for the value of a constant that may be a count, as that of a mean: a float that is a whole number."""
    return type(value) is float and value.is_integer() and 0 < abs(value) <= _MOST_COUNT


def _constant(params: tuple, numbers: list[int]) -> tuple:
    value, dtype = params
    if is_count(value):
        numbers.append(int(value))
        return _FLOAT, dtype
    return repr(value), dtype  # -0.0 is another constant than 0.0


def described(
    ask: Ask, live: Sequence[Node], tracks: bool, exact_key: Callable[[], tuple] | None = None
) -> Described | None:
    """Ask machine code about a recording; None without it, or where no plan is for any size.

    exact_key   gives the exact key, where hashes are compared with it
    """
    if known.IS_COMPARED and exact_key is not None and asks() is not None:
        known.compare(ask, live, tracks, int(ask.purpose != VALUE), exact_key)
    found = _described(ask, None, live, tracks, int(ask.purpose != VALUE))
    if found is None:
        return None
    key, numbers, (exact, order, _, states) = found
    return Described(key, numbers, Known(exact, order, [], states))


def _described(ask: Ask, small: list | None, live: Sequence[Node], tracks: bool, held: int) -> Any:
    native = asks()
    if native is None:
        return None
    purpose, results, seeds, also, targets = ask
    return native.family_of(purpose, small, results, seeds, (*also, *live), targets, tracks, held)


def answered(ask: Ask, now: Recording | None, small: list | None, tracks: bool, is_released: bool = False) -> Any:
    """Answer an ask, if it is known how at this size, or at any: see `known.answered`."""
    found = known.answered(ask, now, small, tracks, is_released)
    if found is not None or not SIZED:
        return found
    found = _answered_at_any_size(ask, now, small, tracks, is_released)
    if found is not None and now is not None and now.lent:
        give_back(now.lent)
    return found


def _answered_at_any_size(ask: Ask, now: Recording | None, small: list | None, tracks: bool, is_released: bool) -> Any:
    exact = EXACT_KEYS[ask.purpose == VALUE](ask, known.live_of(ask, small), tracks) if known.IS_COMPARED else None
    found = _described(ask, small, (), tracks, 0)
    sized: SizedAnswer | None = None if found is None else SIZED.get(found[0])
    if sized is None:
        return None
    assert exact is None or without_numbers(exact) == (sized.form, found[1]), "the hash of a family stands for two"
    given = _given(sized, ask.purpose, found)
    del found  # what is held counts as something that may be asked for
    if given is None:
        return None
    purpose, results, seeds, also, targets = ask
    return asks().ask(purpose, now, small, results, seeds, also, targets, tracks, is_released, given)


def _given(sized: SizedAnswer, purpose: int, found: Any) -> tuple | None:
    """The arguments of machine code for an ask at these numbers."""
    _, numbers, (exact, order, past, _) = found
    run = sized.at(numbers)
    if run is None:
        return None
    for node in past:
        released(node.kind)  # machine code finds it there
    leaves = sized.leaves if purpose == BACKWARD else ()
    kinds = tuple([_kind_of_gradient(order[place].kind.out) for place in leaves])
    return sized.answer, exact, (), run, kinds


#: By what a leaf is, of what kind its gradient is.
_gradients: dict[Out, Kind] = {}


def _kind_of_gradient(out: Out) -> Kind:
    return _gradients.get(out) or kept(_gradients, out, leaf_kind(out_of(out.aval)))
