"""Values that a context has, by name, by attribute and by position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["Fields"]


class Fields(Sequence):
    """Values by name, by attribute and by position; read only.

    Names win over anything a sequence has of its own, so a saved `index` or `count` is read as such.
    """

    __slots__ = ("__guard", "__names", "__values", "__what")

    def __init__(
        self,
        names: Sequence[str | None],
        values: Sequence[Any],
        what: str,
        guard: Callable[[str], Any] | None = None,
    ) -> None:
        """`guard(what)` is called before every reading, and may refuse it."""
        object.__setattr__(self, "_Fields__names", tuple(names))
        object.__setattr__(self, "_Fields__values", tuple(values))
        object.__setattr__(self, "_Fields__what", what)
        object.__setattr__(self, "_Fields__guard", guard)

    def __read(self) -> tuple[Any, ...]:
        if self.__guard is not None:
            self.__guard(self.__what)
        return self.__values

    def __getattribute__(self, name: str) -> Any:
        names = object.__getattribute__(self, "_Fields__names")
        if name in names:
            return object.__getattribute__(self, "_Fields__read")()[names.index(name)]
        return object.__getattribute__(self, name)

    @property
    def _fields(self) -> tuple[str | None, ...]:
        """The names in order, as named tuples have them; None for a value that was saved without a name."""
        return self.__names

    def _asdict(self) -> dict[str, Any]:
        """The values that have a name, by name."""
        return {n: v for n, v in zip(self.__names, self.__read(), strict=True) if n is not None}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(self.__what, name, self.__names))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self.__what} is read only")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.__names:
                raise KeyError(_unknown(self.__what, key, self.__names))
            return self.__read()[self.__names.index(key)]
        values = self.__read()
        try:
            return values[key]
        except IndexError:
            raise IndexError(f"{self.__what} has {len(values)} values, none of number {key}") from None

    def __len__(self) -> int:
        return len(self.__values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__read())

    def __repr__(self) -> str:
        parts = [f"{n}={v!r}" if n else repr(v) for n, v in zip(self.__names, self.__read(), strict=True)]
        return f"{self.__what}({', '.join(parts)})"


def _unknown(what: str, name: str, names: Sequence[str | None]) -> str:
    valid = [n for n in names if n]
    from difflib import get_close_matches  # for this message only

    close = get_close_matches(name, valid, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    mend = ""
    if what == "saved_variables" and not close:
        mend = f"\n  forward saves it: ctx.save_for_backward({name}={name})"
    return f"{what} has no {name!r}: there are {', '.join(map(repr, valid)) or 'no names'}{hint}{mend}"
