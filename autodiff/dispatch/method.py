"""Methods: one implementation, for arguments of certain types; and which of them serves a call.

Candidates are ordered by multipledispatch; refusing an ambiguous call is ours, because
multipledispatch picks one silently when two signatures meet only in a common subclass (a diamond).

    f(A, B) and f(B, A) called with two C, where C is below A and B: ambiguous, until f(C, C) is there.

Some stand in modules that are imported late (`late`): no call needs such a method before, since it takes values of
types that its own module defines.  A list of methods needs all of them (`complete`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from multipledispatch.conflict import ordering

from codegen.lazily import imported
from codegen.records import NamedTuple

from ..errors import AmbiguityError, DispatchError, caller
from ..tracebacks import shorten
from .declaration import place_of
from .signature import Choice, Signature, dispatched, type_name

if TYPE_CHECKING:
    from .registry import Registry

#: The kinds of methods that are no programs but rules of one.
RULES = ("backward", "jvp")
#: The number of near misses that an error shows.
_SHOWN = 3


class Method:
    """One implementation of a generic function, or one rule of it.

    function        the generic function
    implementation  what the user wrote
    signature       the types it takes; for a rule, those of the call's *inputs*
    kind            "method"    a program: differentiated by what it is made of
                    "forward"   half of a pair, takes `ctx` first
                    "backward"  "jvp"   rules
    host            whether it wants NumPy arrays and Python, each time
    out             avals of a host forward's outputs, if given
    place           `linear.py:12`
    rules           rules attached to it: they serve it and nothing else

    Calling it runs it, whatever dispatch would choose.
    """

    def __init__(
        self, function: Any, implementation: Callable, signature: Signature, kind: str, *, host: bool = False,
        out: Any = None, attached_to: Method | None = None,
    ) -> None:
        self.function, self.implementation, self.signature, self.kind = function, implementation, signature, kind
        self.host, self.out, self.attached_to = host, out, attached_to
        self.place = place_of(implementation)
        self.rules: dict[str, Method] = {}
        self.__doc__ = implementation.__doc__

    def backward(self, implementation: Callable | None = None, /, *, host: bool = False) -> Any:
        """Attach the rule that pulls cotangents back through this method: `@scale.backward`."""
        return self.function._attach(self, "backward", implementation, host)

    def jvp(self, implementation: Callable | None = None, /) -> Any:
        """Attach the rule that pushes tangents forward through this method: `@scale.jvp`."""
        return self.function._attach(self, "jvp", implementation, False)

    def delete(self) -> None:
        """Take it out of its function; calls are resolved again.  Deleting twice does nothing."""
        self.function._remove(self)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run this method.  Raises DispatchError when the arguments are not of its types."""
        try:
            return self.function._call_method(self, args, keywords)
        except Exception as error:
            shorten(error)
            raise

    @property
    def source(self) -> tuple[str, str]:
        """The file and module that it was written in."""
        written = inspect.unwrap(self.implementation)
        code = getattr(written, "__code__", None)
        return (code.co_filename if code else "", getattr(written, "__module__", None) or "")

    def heading(self) -> str:
        """`linear(input: Matrix, weight: Matrix, bias: Vector | None)`."""
        choices = self.signature.choices
        told = ["" if repr(choice) == "object" else f": {choice}" for choice in choices]
        names = self.function.declaration.names_of(len(choices))
        return f"{self.function.__name__}({', '.join(map(str.__add__, names, told))})"

    def __repr__(self) -> str:
        kind = "" if self.kind == "method" else f"  {'host ' if self.host else ''}{self.kind}"
        return f"{self.heading()}{kind}  {self.place}"


# ---------------------------------------------------------------- methods that come late

_LIBRARY = __name__.partition(".")[0] + "."

_modules: list[str] = []


def late(module: str) -> None:
    """A module registers methods when it is imported, which may be later."""
    _modules.append(module)


def complete() -> None:
    """Import what was announced."""
    while _modules:
        name = _modules[0]
        imported(name)
        _modules[:] = [module for module in _modules if module != name]


def is_own(thing: Any) -> bool:
    """True if a function or class is written in the library itself."""
    return (getattr(thing, "__module__", None) or "").startswith(_LIBRARY)


# ---------------------------------------------------------------- the method of a call


class MethodTable:
    """The methods of one function, one for each signature, in the order of registration."""

    def __init__(self) -> None:
        self.methods: dict[Signature, Method] = {}

    def add(self, method: Method) -> Method | None:
        """Add a method; the one of the same signature that it replaces, if any."""
        old = self.methods.pop(method.signature, None)
        self.methods[method.signature] = method
        return old

    def find(self, classes: Sequence[type]) -> Method | None:
        """The method for arguments of exactly these classes, all given, none converted.  Raises AmbiguityError."""
        return most_specific(self, classes)

    def ordered(self) -> list[Method]:
        """All methods, each before those that are less specific."""
        return _ordered(list(self.methods.values()))

    def ambiguities(self) -> list[Ambiguity]:
        """All pairs that some call cannot choose between, with the signatures that would settle it."""
        methods = self.ordered()
        signatures = [m.signature for m in methods]
        found = []
        for a, b in combinations(methods, 2):
            first, second = a.signature, b.signature
            meet = None if first <= second or second <= first else first.meet(second)
            if meet is None:
                continue
            below = [s for s in signatures if s <= first and s <= second]
            single = list(meet.single())
            unsettled = [call for call in single if not any(call <= s for s in below)]
            if unsettled:
                # One signature of unions says it shorter, where it says no more.
                found.append(Ambiguity(a, b, (meet,) if unsettled == single else tuple(unsettled)))
        return found

    def __iter__(self):
        return iter(list(self.methods.values()))

    def __len__(self) -> int:
        return len(self.methods)


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
    if len(fits) < 2:
        return fits[0] if fits else None
    lowest = [m for m in _ordered(fits) if not any(other.signature < m.signature for other in fits)]
    if len(lowest) > 1:
        raise _ambiguity(lowest, classes)
    return lowest[0]


def _ambiguity(lowest: Sequence[Method], classes: Sequence[type]) -> AmbiguityError:
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
    names = method.function.declaration.names_of(len(classes))
    return [
        f"{name} is {type_name(cls)}, not {choice}"
        + (f": np.array({name}) is an array of its numbers" if cls in (list, tuple) and "Tensor" in str(choice) else "")
        for name, cls, known, choice in zip(names, classes, forms, method.signature.spread(len(classes)), strict=True)
        if not any(map(choice.takes, known))
    ]
