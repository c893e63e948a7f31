"""Signatures: the types that a method takes, the order of methods, and the most specific method for a call.

    (Matrix, Matrix, Vector | None)

A signature has one `Choice` for each parameter of the generic function's declaration that may be given by
position, and for `*xs` one last choice, for each of them.  All signatures of one function therefore have equal
length, and are compared position by position.

The package multipledispatch orders methods by signature.  This module refuses an ambiguous call itself, because
multipledispatch silently picks a method if two signatures meet only in a common subclass (a diamond).

    f(A, B) and f(B, A) called with two C, where C is below A and B: ambiguous, unless there is an f(C, C).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from multipledispatch.conflict import ordering

from codegen.records import NamedTuple

from ..errors import AmbiguityError, caller

if TYPE_CHECKING:
    from .method import Method

NoneType = type(None)


def type_name(cls: type) -> str:
    """The name of a type in messages: `Tensor[float32, 2]`, `None` for the type of None."""
    cls = dispatched(cls)
    return "None" if cls is NoneType else cls.__name__


def pasted(cls: type) -> str:
    """The text of a type to paste into a program that imports the library as `ad` and NumPy as `np`."""
    cls = dispatched(cls)
    name, home = type_name(cls), cls.__module__.partition(".")[0]
    if home == "autodiff":
        return "ad." + re.sub(r"\[(\w+)", lambda found: f"[ad.{_with_bool(found[1])}", name)
    return f"np.{_with_bool(name)}" if home == "numpy" else name


def _with_bool(name: str) -> str:
    """The name of a dtype or NumPy type.  That of bool is `bool_`, which all versions of NumPy have."""
    return "bool_" if name == "bool" else name


def dispatched(cls: type) -> type:
    """The class that instances of `cls` dispatch as: a tensor that stands for a number may dispatch as a number."""
    return getattr(cls, "__dispatches_as__", cls)


class Choice:
    """The types that one parameter takes: a class, or the members of a union that no other member contains.

    The empty choice, `typing.Never`, takes no argument: for `*xs` it means "no further arguments".  `issubclass`
    works between choices, as multipledispatch's ordering needs it.
    """

    __slots__ = ("_hash", "members")

    def __init__(self, members: Iterable[type]) -> None:
        self.members = _largest(tuple(dict.fromkeys(members)))
        self._hash = hash(frozenset(self.members))

    def takes(self, cls: type) -> bool:
        """True if an argument of this class fits."""
        cls = dispatched(cls)
        return any(issubclass(cls, member) for member in self.members)

    def names(self, cls: type) -> bool:
        """True if an argument of this class fits a member other than `object`."""
        cls = dispatched(cls)
        return any(member is not object and issubclass(cls, member) for member in self.members)

    def within(self, other: Choice) -> bool:
        """True if the other choice takes every class that this one takes."""
        return all(map(other.takes, self.members))

    def __subclasscheck__(self, other: Choice) -> bool:
        return other.within(self)

    def meet(self, other: Choice) -> Choice:
        """The choice of the classes that both take; empty if there is no such known class."""
        return Choice(m for a, b in product(self.members, other.members) for m in meets(a, b))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and set(self.members) == set(other.members)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return _NAMES.get(self) or " | ".join(map(type_name, self.members)) or "Never"

    def pasted(self) -> str:
        """The text of the union to paste into a program: see `pasted`."""
        name = _NAMES.get(self)
        return f"ad.{name}" if name else " | ".join(map(pasted, self.members)) or "typing.Never"


def _largest(classes: Sequence[type]) -> tuple[type, ...]:
    """The classes that are not strictly below another of them.  Some ABCs contain each other: both stay."""
    return tuple(a for a in classes if not any(issubclass(a, b) and not issubclass(b, a) for b in classes))


#: The names of unions that have one.
_NAMES: dict[Choice, str] = {}


class NamedUnion(type):
    """The metaclass of a class that stands for several others, its `members`: `Number`.

    Signatures treat the class as the union of its members, messages show its name; it has no instances of its own.
    """

    members: tuple[type, ...]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        _NAMES[Choice(cls.members)] = name

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.members)

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, cls.members)

    def __call__(cls, *_args: Any, **_keywords: Any) -> Any:
        raise TypeError(f"ad.{cls.__name__} stands for {', '.join(map(type_name, cls.members))}: call one of these")


#: The choice of a parameter without a type: any object.
ANY = Choice((object,))


def meets(a: type, b: type) -> tuple[type, ...]:
    """The largest known classes below both: one of the two, the result of a metaclass's hook, or common subclasses.

    The hook `__meet__(a, b) -> type | None` makes Tensor[float32, 2] from Tensor[float32] and Tensor[..., 2].
    """
    if issubclass(a, b):
        return (a,)
    if issubclass(b, a):
        return (b,)
    for cls, other in ((a, b), (b, a)):
        hook = getattr(type(cls), "__meet__", None)
        found = hook(cls, other) if hook else None
        if found is not None:
            return (found,)
    return _largest([cls for cls in _subclasses(a) if issubclass(cls, b)])


def _subclasses(cls: type) -> dict[type, None]:
    """All existing subclasses of a class."""
    direct: list[type] = type.__subclasses__(cls)
    found = dict.fromkeys(direct)
    for sub in direct:
        found |= _subclasses(sub)
    return found


class Signature:
    """A choice of types for each parameter that dispatches; `variadic` if the last is for `*xs`.

    Immutable and hashable.  `a <= b`: a is at least as specific as b.
    """

    __slots__ = ("choices", "variadic")

    def __init__(self, choices: Iterable[Choice], variadic: bool = False) -> None:
        self.choices = tuple(choices)
        self.variadic = variadic

    def spread(self, count: int) -> tuple[Choice, ...]:
        """One choice for each of `count` arguments."""
        if not self.variadic:
            return self.choices
        fixed = self.choices[:-1]
        return fixed + self.choices[-1:] * (count - len(fixed))

    def takes(self, classes: Sequence[type]) -> bool:
        """True if arguments of these classes fit."""
        choices = self.spread(len(classes))
        return len(choices) == len(classes) and all(map(Choice.takes, choices, classes))

    def deciding_classes(self) -> list[tuple[int, type]]:
        """(position, class) for classes at one position, of which a fitting argument inherits one; else `_ANYWHERE`.

        Abstract base classes and tensor classes do not count: their own `__subclasscheck__` decides, not inheritance.
        """
        for i, choice in enumerate(self.choices[: len(self.choices) - self.variadic]):
            if all([m is not object and type(m).__subclasscheck__ is type.__subclasscheck__ for m in choice.members]):
                return [(i, member) for member in choice.members]
        return [_ANYWHERE]

    def __le__(self, other: Signature) -> bool:
        return all(map(Choice.within, self.choices, other.choices))

    def __lt__(self, other: Signature) -> bool:
        return self <= other and not other <= self

    def meet(self, other: Signature) -> Signature | None:
        """The signature of all calls that fit both; None if no known types do.

        An empty choice for `*xs` is allowed: the call without further arguments fits both.
        """
        choices = [*map(Choice.meet, self.choices, other.choices)]
        fixed = choices[:-1] if self.variadic else choices
        return Signature(choices, self.variadic) if all(c.members for c in fixed) else None

    def single(self) -> Iterator[Signature]:
        """Signatures without unions that together take the same calls."""
        for members in product(*[choice.members or (None,) for choice in self.choices]):
            yield Signature([Choice(() if m is None else (m,)) for m in members], self.variadic)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.choices == other.choices

    def __hash__(self) -> int:
        return hash(self.choices)

    def __repr__(self) -> str:
        texts = [str(choice) for choice in self.choices]
        if self.variadic:
            texts[-1] = f"*{texts[-1]}"
        return f"({', '.join(texts)})"


# ---------------------------------------------------------------- the most specific method for a call


#: The key for methods that no class at one position can rule out: they are tried for all arguments.
_ANYWHERE = -1, object
#: A table with this many methods looks up the candidates for a call by the classes of its arguments.
_MANY = 12


class MethodTable:
    """The methods of one function, one for each signature, in the order of registration."""

    def __init__(self) -> None:
        self.methods: dict[Signature, Method] = {}
        #: Methods by (position, class), see `Signature.deciding_classes`; each with the number of its registration.
        self._by_class: defaultdict[tuple[int, type], dict[Method, int]] = defaultdict(dict)
        self._count = 0

    def add(self, method: Method) -> Method | None:
        """Add a method; returns the method of the same signature that it replaces, if any."""
        old = self.methods.pop(method.signature, None)
        self.methods[method.signature] = method
        self._count += 1
        for key in method.signature.deciding_classes():
            self._by_class[key][method] = self._count
            if old is not None:
                del self._by_class[key][old]
        return old

    def remove(self, method: Method) -> None:
        """Remove a method."""
        del self.methods[method.signature]
        for key in method.signature.deciding_classes():
            del self._by_class[key][method]

    def find(self, classes: Sequence[type]) -> Method | None:
        """The method for a call's arguments, by their exact classes, without conversion.  Raises AmbiguityError."""
        if len(self.methods) < _MANY:
            return most_specific(list(self.methods.values()), classes)
        candidates = self._by_class[_ANYWHERE].copy()
        for i, cls in enumerate(classes):
            for base in dispatched(cls).__mro__:
                candidates.update(self._by_class.get((i, base), ()))
        return most_specific(sorted(candidates, key=candidates.__getitem__), classes)

    def ordered(self) -> list[Method]:
        """All methods, more specific ones first."""
        return _ordered(list(self.methods.values()))

    def ambiguities(self) -> list[Ambiguity]:
        """All pairs of methods that some call cannot choose between, with signatures that would settle them."""
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
                # If all of them are unsettled, one signature with unions says so more briefly.
                found.append(Ambiguity(a, b, (meet,) if unsettled == single else tuple(unsettled)))
        return found

    def __iter__(self):
        return iter(list(self.methods.values()))

    def __len__(self) -> int:
        return len(self.methods)


class Ambiguity(NamedTuple):
    """Two methods that some calls cannot choose between, and the signatures of these calls."""

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
    """The most specific of the methods that take these classes; None if no method does.

    Raises AmbiguityError if several methods fit and none is below all others.
    """
    fits = [m for m in methods if m.signature.takes(classes)]
    if len(fits) < 2:
        return fits[0] if fits else None
    lowest = [m for m in _ordered(fits) if not any(other.signature < m.signature for other in fits)]
    if len(lowest) > 1:
        raise _ambiguity(lowest, classes)
    return lowest[0]


def _ambiguity(lowest: Sequence[Method], classes: Sequence[type]) -> AmbiguityError:
    """The error for several methods of which none is the most specific."""
    function, kind = lowest[0].function, lowest[0].kind
    meet: Signature | None = lowest[0].signature
    for method in lowest[1:]:
        meet = meet and meet.meet(method.signature)
    # If the methods have no known meet, a method for the classes of this call would settle it.
    settling = meet if meet is not None else Signature([Choice((c,)) for c in classes])
    what = "method" if kind in ("method", "forward") else kind
    return AmbiguityError(
        f"{function.__name__}{listed(classes)} is ambiguous: none of these is the most specific\n"
        + "".join(f"  {m}\n" for m in lowest)
        + f"  called at {caller()}\n"
        f"  to settle it: @{function.__name__}.{what}{as_types(settling.choices)}"
    )


def listed(classes: Iterable[type]) -> str:
    return f"({', '.join(map(type_name, classes))})"


def as_types(choices: Iterable[Choice]) -> str:
    return f"({', '.join(choice.pasted() for choice in choices)})"
