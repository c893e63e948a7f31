"""Stand-ins for arguments where dispatch needs another class than their own.

    adopt     before dispatch: an array is a constant tensor, unless a method names arrays
    convert   after it found no method: as few arguments as some method needs, the least change first

What is done to which classes the floors above say, by overriding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from .method import Method, not_found
from .registry import Registry

__all__ = ["Converting", "remember"]

#: Combinations of types that one function remembers before it starts again.
_CACHE_LIMIT = 4096
#: Conversions of one call's arguments that are tried one after the other.
_CONVERSIONS = 8


class Converting(Registry):
    """A function's methods, and which of the forms of its arguments they take."""

    # ------------------------------------------------------------ hooks for the floors above

    #: Classes whose instances may dispatch as something else: see `adopt`.
    adopted: tuple[type, ...] = ()

    def adopt(self, argument: Any) -> Any:
        """The stand-in for an argument of one of the classes `adopted`: a constant tensor for an array.

        Dispatch is on the type of what is returned, which may be the argument itself.  Not asked
        where a method names the argument's own class.
        """
        return argument

    def give_back(self, given: Sequence[Any], adopted: Sequence[Any]) -> None:
        """A method has run with the arguments `adopted` in the place of those given."""

    def convert(self, arguments: tuple, classes: tuple[type, ...]) -> Sequence | None:
        """Other arguments to try where no method takes these; None when there is nothing to convert.

        Asked again with what it returned, until a method fits: numbers first, say, then structures.
        An argument is passed on converted only where the method that runs does not take it as it was.
        """
        return None

    def tell_converted(self, given: tuple, args: tuple) -> None:
        """A call is about to run with `args`, converted from what was given."""

    def by(self, cls: type) -> str:
        """The name of the conversion of a class, in a sentence about it: ` by ad.dense`."""
        return ""

    def converts_inside(self, method: Method, cls: type) -> str:
        """The conversion, in words, that a method makes of arguments of a class before anything else; "" as a rule."""
        return ""

    # ------------------------------------------------------------ choosing

    @abstractmethod
    def _run(self, classes: tuple[type, ...]) -> Callable | None:
        """The function that runs arguments of exactly these classes; None: no method does."""

    @abstractmethod
    def ask(self, *question: Any) -> Any:
        """The answer of dispatch to a question: see `reliance`."""

    def adopt_all(self, args: tuple) -> tuple:
        """All arguments, those of the classes `adopted` adopted.

        One whose own class a method names at its place stays as it is, if that method then fits.
        """
        fresh, keeps = list(args), False
        for place, argument in enumerate(args):
            if isinstance(argument, self.adopted):
                if self.names_class(place, type(argument)):
                    keeps = True
                else:
                    fresh[place] = self.adopt(argument)
        if keeps and self._run(tuple(map(type, fresh))) is None:
            return tuple(map(self._adopted, fresh))
        return tuple(fresh)

    def _adopted(self, argument: Any) -> Any:
        return self.adopt(argument) if isinstance(argument, self.adopted) else argument

    def names_class(self, place: int, cls: type) -> bool:
        """True if some method says more than `object` about this class at this place."""
        named: bool = self.ask("named", place, cls)
        return named

    def _names(self, place: int, cls: type) -> bool:
        place = min(place, len(self.declaration.names) - 1)
        return any(m.signature.choices[place].names(cls) for m in self.table)

    def converted(self, args: tuple) -> tuple:
        """All arguments, as few of them converted as some method needs.  Raises DispatchError when none fits."""
        forms = [[a] for a in args]
        latest = args
        for _ in range(_CONVERSIONS):
            found = self.convert(latest, tuple(map(type, latest)))
            if found is None:
                break
            latest = tuple(found)
            for known, new in zip(forms, latest, strict=True):
                if type(new) is not type(known[-1]):
                    known.append(new)
            picks = self.ask("pick", tuple([tuple(map(type, known)) for known in forms]))
            if picks is not None:
                return tuple([known[pick] for known, pick in zip(forms, picks, strict=True)])
        classes = [tuple(map(type, known)) for known in forms]
        raise not_found(self, self.table, tuple(map(type, args)), "method", classes)

    def _pick(self, forms: tuple[tuple[type, ...], ...]) -> list[int] | None:
        """The form of each argument for the method that needs the fewest conversions; None: no method."""
        fits = []
        for method in self.table.ordered():
            choices = method.signature.spread(len(forms))
            taken = [
                [i for i, cls in enumerate(classes) if choice.takes(cls)]
                for choice, classes in zip(choices, forms, strict=True)
            ]
            if all(taken):
                fits.append([first for first, *_ in taken])
        # Of equally many conversions, those for the most specific method: it comes first.
        return min(fits, key=sum) if fits else None


def remember(table: dict, key: Any, value: Any) -> Any:
    """The value, after putting it into a table that starts again when it is full."""
    if len(table) >= _CACHE_LIMIT:
        table.clear()
    table[key] = value
    return value
