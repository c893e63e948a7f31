"""Sessions: the memory of programs that were run, which can be emptied, or exchanged for another one.

    with Session():       programs are new here: they are traced, compiled and counted once more
        ...

One session is current in the process, for all its threads; results never depend on which, and any entry may be
forgotten at any time.  The tables are the same objects in every session, so that modules import them and machine code
has their addresses; what they hold is exchanged when another session becomes current.  A module that remembers
something of its own declares it: `owned`.

Sessions share what says the same in each of them: kinds of nodes, rules of kinds, methods, machine code by text.  The
entries of a `jit` function are its own, and of no session.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from codegen import compiler
from codegen.garbage import Paused
from codegen.records import NamedTuple
from codegen.runtime.cache import LRU, Namespace, all_locked


class _Belonging(NamedTuple):
    """An object of which each session has the contents; `make` gives a new one, `forget` empties one."""

    owner: Any
    make: Callable[[], Any]
    forget: Callable[[Any], object]


_owned: list[_Belonging] = []
_shared: list[Callable[[], object]] = []


def owned(make: Callable[[], Any], forget: Callable[[Any], object] = lambda _owner: None) -> Any:
    """An object whose attributes belong to the current session.

    forget    empties it when the session is reset; counts are not emptied
    """
    owner = make()
    _owned.append(_Belonging(owner, make, forget))
    return owner


def at_reset(forget: Callable[[], object]) -> None:
    """Call this, too, when any session is reset: it empties what all of them share."""
    _shared.append(forget)


def _contents(owner: Any) -> dict[str, Any]:
    names = getattr(type(owner), "__slots__", None) or vars(owner)
    return {name: getattr(owner, name) for name in names}


def _fill(owner: Any, contents: dict[str, Any]) -> None:
    for name, value in contents.items():
        setattr(owner, name, value)


#: A plan holds its executable, some 80 KB with its machine code: as many as the compiler keeps.  It may have two names
#: here, an exact key and a hash.
plans: LRU = owned(lambda: LRU(512), LRU.clear)

#: By namespace and key; recordings of so many nodes in all, some 300 bytes each.
programs: LRU = owned(lambda: LRU(3072, most=384_000), LRU.clear)


def namespace(word: str) -> Namespace:
    """The entries of `programs` that one module has there."""
    return Namespace(programs, word)


#: By what they compute; with what evaluating it needs, a program takes a KB an operation: it weighs `OPERATION`.
tiers = namespace("tier")
OPERATION = 3

_owned.append(_Belonging(compiler.store, compiler.Store, compiler.Store.clear))


class Session:
    """A memory of programs, empty at first.

    entries    the most of each table; None: as many as is usual.  Fewer are for tests
    """

    def __init__(self, entries: int | None = None) -> None:
        self._entries = entries
        #: While it is not current, by `id` of their owners.
        self._contents: dict[int, dict[str, Any]] = {}
        _sessions.add(self)

    def __enter__(self) -> Session:
        with Paused(), compiler.lock:
            _open.append(self)
            _make_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        with Paused(), compiler.lock:
            # Another thread may have opened one meanwhile, which stays.
            del _open[max(place for place, session in enumerate(_open) if session is self)]
            _make_current(_open[-1])

    def reset(self) -> None:
        """Forget all that is remembered of programs.  Counts and explanations go on."""
        for forget in _shared:
            forget()
        for what in list(_owned):
            owner = what.owner if self is _now else self._filled(what)
            what.forget(owner)
            if owner is not what.owner:
                self._contents[id(what.owner)] = _contents(owner)

    def _filled(self, what: _Belonging) -> Any:
        """A copy of an owner with the contents that this session has put away, or new ones."""
        made = what.make()
        for table in (made, *_contents(made).values()):
            if type(table) is LRU and self._entries is not None:
                table.maxsize = self._entries
        _fill(made, self._contents.get(id(what.owner), {}))
        return made


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
_open = [Session()]
_now = _open[0]


def current() -> Session:
    """The session that is current in this process."""
    return _now


def _make_current(session: Session) -> None:
    """Put the contents of the current session away, and those of another one into their places."""
    global _now
    if session is _now:
        return
    owners = list(_owned)
    with all_locked():
        found = [_contents(session._filled(what)) for what in owners]
        for what, contents in zip(owners, found, strict=True):
            _now._contents[id(what.owner)] = _contents(what.owner)
            _fill(what.owner, contents)
        session._contents = {}
        _now = session


def reset_all() -> None:
    """Forget all programs in every session."""
    for session in list(_sessions):
        session.reset()
