"""The warm path: a call of a generic function whose types have been met before.

Python's general call, `f(*args, **keywords)` with `tuple(map(type, args))` as key, costs about
0.36 µs over a direct call.  Written out for one, two and three parameters it costs 0.15 to 0.3
(measured with `timeit`, Python 3.11, Zen 4).  So a generic function belongs to a
subclass of its class that has the call for its number of parameters; everything unusual goes to
`_call`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from ..tracebacks import shorten
from .declaration import Parameters

__all__ = ["OMITTED", "completed", "with_arity"]

#: The value of a parameter that a call leaves out.
OMITTED: Any = object()

#: Parameters up to which the call is written out.
_MOST = 8


@cache  # one for all classes
def _written_out(count: int) -> Callable:
    """`__call__` for a declaration with this many parameters before `*`, written out.

    def call(self, a0=OMITTED, a1=OMITTED, /, *rest, **keywords):
        try:
            if rest or keywords: return self._call(given(a0, a1) + rest, keywords)
            if a1 is not OMITTED:
                run = self._cache.get((type(a0), type(a1)))
                return self._call((a0, a1), keywords) if run is None else run(a0, a1)
            if a0 is not OMITTED: ...
        except Exception as error:
            shorten(error)
            raise
    """
    names = [f"a{i}" for i in range(count)]
    lines = [f"def call(self, {', '.join([f'{n}=OMITTED' for n in names])}, /, *rest, **keywords):",
             " try:",
             f"  if rest or keywords: return self._call(given({', '.join(names)}) + rest, keywords)"]
    for k in range(count, 0, -1):
        listed = ", ".join(names[:k])
        types = ", ".join([f"type({n})" for n in names[:k]])
        lines += [
            f"  if {names[k - 1]} is not OMITTED:",
            f"   run = self._cache.get({f'({types})' if k > 1 else types})",
            f"   return self._call(({listed},), keywords) if run is None else run({listed})",
        ]
    lines += ["  return self._call((), keywords)", " except Exception as error:", "  shorten(error)", "  raise"]
    env: dict[str, Any] = {"__name__": __name__, "OMITTED": OMITTED, "given": _given, "shorten": shorten}
    exec("\n".join(lines), env)  # our own text; nothing of the user's is in it
    return env["call"]


def _given(*arguments: Any) -> tuple:
    return tuple([a for a in arguments if a is not OMITTED])


def completed(full: Callable, count: int, tail: tuple) -> Callable:
    """`full(*args, *tail)` as a function of `count` arguments."""
    names = ", ".join([f"a{i}" for i in range(count)])
    rest = ", ".join([f"t{i}" for i in range(len(tail))])
    env: dict[str, Any] = {"__name__": __name__, "full": full} | {f"t{i}": t for i, t in enumerate(tail)}
    joint = ", " if names else ""
    exec(f"def run({names}): return full({names}{joint}{rest})", env)  # our own text
    return env["run"]


def with_arity(cls: type, source: Callable | inspect.Signature) -> type:
    """The subclass of `cls` whose instances are called fast with the parameters of this function or signature.

    `cls` itself when there is no shorter way: no parameters, very many, or `*xs`.
    """
    found = Parameters.of(source)
    return cls if found.variadic is not None else _specialised(cls, len(found.fixed))


@cache
def _specialised(cls: type, count: int) -> type:
    if not 0 < count <= _MOST:
        return cls
    call = _written_out(count)
    return type(cls.__name__, (cls,), {"__call__": call, "__module__": cls.__module__, "__doc__": cls.__doc__})
