"""Resolution: which method serves a call.

Candidates are ordered by multipledispatch; refusing an ambiguous call is ours, because
multipledispatch picks one silently when two signatures meet only in a common subclass (a diamond).

    f(A, B) and f(B, A) called with two C, where C is below A and B: ambiguous, until f(C, C) is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from multipledispatch.conflict import ordering

from codegen.records import NamedTuple

from ..errors import AmbiguityError, DispatchError, caller
from .late import complete
from .method import Method
from .signature import Choice, Signature, type_name

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["Ambiguity", "Table", "ambiguity_error", "most_specific", "not_found"]

#: How many near misses an error shows.
_SHOWN = 3


class Table:
    """The methods of one function, one for each signature, in the order of registration."""

    def __init__(self) -> None:
        self._methods: dict[Signature, Method] = {}

    def add(self, method: Method) -> Method | None:
        """Add a method; the one of the same signature that it replaces, if any."""
        old = self._methods.pop(method.signature, None)
        self._methods[method.signature] = method
        return old

    def remove(self, method: Method) -> bool:
        """Whether the method was there, and has been removed."""
        if self._methods.get(method.signature) is not method:
            return False
        del self._methods[method.signature]
        return True

    def find(self, classes: Sequence[type]) -> Method | None:
        """The most specific method for arguments of these classes.  Raises AmbiguityError."""
        return most_specific(list(self._methods.values()), classes)

    def ordered(self) -> list[Method]:
        """All methods, each before those that are less specific."""
        return _ordered(list(self._methods.values()))

    def ambiguities(self) -> list[Ambiguity]:
        """All pairs that some call cannot choose between, with the signatures that would settle it."""
        methods = self.ordered()
        signatures = [m.signature for m in methods]
        found = []
        for a, b in combinations(methods, 2):
            meet = _unordered_meet(a.signature, b.signature)
            if meet is None:
                continue
            below = [s for s in signatures if s <= a.signature and s <= b.signature]
            single = list(meet.single())
            unsettled = [call for call in single if not any(call <= s for s in below)]
            if unsettled:
                # One signature of unions says it shorter, where it says no more.
                found.append(Ambiguity(a, b, (meet,) if unsettled == single else tuple(unsettled)))
        return found

    def __iter__(self):
        return iter(list(self._methods.values()))

    def __len__(self) -> int:
        return len(self._methods)


class Ambiguity(NamedTuple):
    """Two methods that some calls cannot choose between, and the signatures of those calls."""

    first: Method
    second: Method
    calls: tuple[Signature, ...]

    def __repr__(self) -> str:
        calls = ", ".join(map(str, self.calls))
        return f"{calls}: both of\n  {self.first}\n  {self.second}"


def _ordered(methods: Sequence[Method]) -> list[Method]:
    by_choices = {m.signature.choices: m for m in methods}
    return [by_choices[choices] for choices in ordering(by_choices)]


def most_specific(methods: Iterable[Method], classes: Sequence[type]) -> Method | None:
    """The most specific of the methods that take these classes; None when none does.

    Raises AmbiguityError when several fit and none is below all the others.
    """
    fits = [m for m in methods if m.signature.takes(classes)]
    if len(fits) > 1:
        fits = _ordered(fits)
        lowest = [m for m in fits if not any(other.signature < m.signature for other in fits)]
        if len(lowest) > 1:
            raise ambiguity_error(lowest, classes)
        return lowest[0]
    return fits[0] if fits else None


def _unordered_meet(a: Signature, b: Signature) -> Signature | None:
    """The meet of two signatures when neither is below the other."""
    return None if a <= b or b <= a else a.meet(b)


def ambiguity_error(lowest: Sequence[Method], classes: Sequence[type]) -> AmbiguityError:
    """What to say when none of several methods is the most specific."""
    function, kind = lowest[0].function, lowest[0].kind
    meet: Signature | None = lowest[0].signature
    for method in lowest[1:]:
        meet = meet and meet.meet(method.signature)
    # The classes of the call itself settle it when the methods have no meet that we know of.
    settling = meet if meet is not None else Signature([Choice((c,)) for c in classes])
    what = "method" if kind in ("method", "forward") else kind
    return AmbiguityError(
        f"{function.__name__}{_listed(classes)} is ambiguous: none of these is the most specific\n"
        + "".join(f"  {m}\n" for m in lowest)
        + f"  called at {caller()}\n"
        f"  to settle it: @{function.__name__}.{what}{_as_types(settling)}"
    )


def _listed(classes: Iterable[type]) -> str:
    return f"({', '.join(map(type_name, classes))})"


def _as_types(signature: Signature) -> str:
    return f"({', '.join(map(str, signature.choices))})"


def not_found(
    function: Registry, methods: Iterable[Method], classes: Sequence[type], what: str
) -> DispatchError:
    """What to say when no method (or rule) takes these classes: the nearest, and what did not fit."""
    complete()
    ranked = sorted(((_misfits(m, classes), m) for m in methods), key=lambda pair: len(pair[0]))
    lines = [f"{function.__name__} has no {what} for {_listed(classes)}"]
    for misfits, method in ranked[:_SHOWN]:
        lines.append(f"  near: {method}")
        lines += [f"    {misfit}" for misfit in misfits]
    if not ranked:
        lines.append(f"  it has none at all; declared at {function.declaration.place}")
    lines.append(f"  called at {caller()}")
    lines.append(f"  to add one: @{function.__name__}.{what}{_listed(classes[: len(function.declaration.names)])}")
    return DispatchError("\n".join(lines))


def _misfits(method: Method, classes: Sequence[type]) -> list[str]:
    """For each argument that does not fit: `weight is str, not Matrix`."""
    declaration = method.function.declaration
    names = list(declaration.fixed) + [f"*{declaration.variadic}"] * (len(classes) - len(declaration.fixed))
    return [
        f"{name} is {type_name(cls)}, not {choice}"
        for name, cls, choice in zip(names, classes, method.signature.spread(len(classes)), strict=True)
        if not choice.takes(cls)
    ]
