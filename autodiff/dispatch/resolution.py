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
from .method import Method, complete
from .signature import Choice, Signature, dispatched, type_name

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["Ambiguity", "MethodTable", "ambiguity_error", "most_specific", "not_found", "types_of_call"]

#: The number of near misses that an error shows.
_SHOWN = 3


class MethodTable:
    """The methods of one function, one for each signature, in the order of registration."""

    def __init__(self) -> None:
        self._methods: dict[Signature, Method] = {}

    def add(self, method: Method) -> Method | None:
        """Add a method; the one of the same signature that it replaces, if any."""
        old = self._methods.pop(method.signature, None)
        self._methods[method.signature] = method
        return old

    def remove(self, method: Method) -> bool:
        """Remove a method; True if it was there."""
        if self._methods.get(method.signature) is not method:
            return False
        del self._methods[method.signature]
        return True

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
    """The error for methods of which none is the most specific."""
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
        f"  to settle it: @{function.__name__}.{what}{_as_types(settling.choices)}"
    )


def _listed(classes: Iterable[type]) -> str:
    return f"({', '.join(map(type_name, classes))})"


def _as_types(choices: Iterable[Choice]) -> str:
    return f"({', '.join(choice.pasted() for choice in choices)})"


def not_found(
    function: Registry,
    methods: Iterable[Method],
    classes: Sequence[type],
    what: str,
    forms: Sequence[Sequence[type]] = (),
) -> DispatchError:
    """The error for classes that no method (or rule) takes: the nearest ones, and the arguments that do not fit.

    forms   for each argument all classes that it can be converted to, its own among them
    """
    complete()
    forms = forms or [(cls,) for cls in classes]
    ranked = sorted(((_misfits(m, classes, forms), m) for m in methods), key=lambda pair: len(pair[0]))
    lines = [f"{function.__name__} has no {what} for {_listed(classes)}"]
    for misfits, method in ranked[:_SHOWN]:
        lines.append(f"  near: {method}")
        lines += [f"    {misfit}" for misfit in misfits]
    if not ranked:
        lines.append(f"  it has none at all; declared at {function.declaration.place}")
    lines.append(f"  called at {caller()}")
    lines.append(f"  to add one: @{function.__name__}.{what}{types_of_call(function, classes)}")
    return DispatchError("\n".join(lines))


def types_of_call(function: Registry, classes: Sequence[type]) -> str:
    """The types to register a method with that takes a call: those of all `*xs` are one union."""
    fixed = len(function.declaration.fixed)
    rest = [Choice(map(dispatched, classes[fixed:]))] if len(classes) > fixed else []
    return _as_types([*[Choice((dispatched(c),)) for c in classes[:fixed]], *rest])


def _misfits(method: Method, classes: Sequence[type], forms: Sequence[Sequence[type]]) -> list[str]:
    """For each argument that does not fit, converted or not: `weight is str, not Matrix`."""
    declaration = method.function.declaration
    names = list(declaration.fixed) + [f"*{declaration.variadic}"] * (len(classes) - len(declaration.fixed))
    return [
        f"{name} is {type_name(cls)}, not {choice}"
        + (f": np.array({name}) is an array of its numbers" if cls in (list, tuple) and "Tensor" in str(choice) else "")
        for name, cls, known, choice in zip(names, classes, forms, method.signature.spread(len(classes)), strict=True)
        if not any(map(choice.takes, known))
    ]
