"""Sessions: all that is remembered of programs that were run, which can be emptied, or replaced for a while.

    with Session():       all programs are new here: they are traced, compiled and counted anew
        ...

One session is current in the process, for all its threads.  Results do not depend on the session, and any entry may be
dropped at any time.  The tables are the same objects in every session, so that modules can import them and machine code
can use their addresses; their contents are exchanged when another session becomes current.  A module that remembers
something else about programs declares it by `per_session`.

Sessions share tables that would be equal in each of them: kinds of nodes, rules of kinds, methods, machine code by
text.  The entries of a `jit` function belong to the function, and to no session.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from codegen import compiler
from codegen.garbage import Paused
from codegen.records import NamedTuple
from codegen.runtime.cache import LRU, Namespace, all_locked


class _SessionState(NamedTuple):
    """An object whose contents belong to the session; `make` gives a new object, `forget` empties it."""

    owner: Any
    make: Callable[[], Any]
    forget: Callable[[Any], object]


_states: list[_SessionState] = []
_shared: list[Callable[[], object]] = []


def per_session(make: Callable[[], Any], forget: Callable[[Any], object] = lambda _owner: None) -> Any:
    """An object whose attributes belong to the current session.

    forget    empties the object when the session is reset; by default nothing is emptied (counts)
    """
    owner = make()
    _states.append(_SessionState(owner, make, forget))
    return owner


def at_reset(forget: Callable[[], object]) -> None:
    """Register a function to call when any session is reset: it empties a table that all sessions share."""
    _shared.append(forget)


def _contents(owner: Any) -> dict[str, Any]:
    names = getattr(type(owner), "__slots__", None) or vars(owner)
    return {name: getattr(owner, name) for name in names}


def _fill(owner: Any, contents: dict[str, Any]) -> None:
    for name, value in contents.items():
        setattr(owner, name, value)


#: Plans by exact key and by hash.  A plan holds its executable, some 80 KB with the machine code, so there are as many
#: plans as executables (256), with two keys each.
plans: LRU = per_session(lambda: LRU(512), LRU.clear)

#: Findings about programs, by namespace and key: for recordings of this many nodes in all, some 300 bytes a node.
programs: LRU = per_session(lambda: LRU(3072, most=384_000), LRU.clear)


def namespace(word: str) -> Namespace:
    """The part of `programs` for one kind of entries, whose keys get this word."""
    return Namespace(programs, word)


tiers = namespace("tier")  # by what they compute
#: The nodes that an operation of an evaluated program weighs: it takes a KB.
NODES_PER_OPERATION = 3

_states.append(_SessionState(compiler.store, compiler.Store, compiler.Store.clear))


class Session:
    """All that is remembered of programs; empty at first.

    entries    the most entries of each table; None: the usual number.  Tests use fewer
    """

    def __init__(self, entries: int | None = None) -> None:
        self._entries = entries
        #: The contents of owned objects while the session is not current, by `id` of the objects.
        self._contents: dict[int, dict[str, Any]] = {}
        _sessions.add(self)

    def __enter__(self) -> Session:
        with Paused(), compiler.lock:
            _open.append(self)
            _make_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        with Paused(), compiler.lock:
            # A session that another thread has opened meanwhile stays open.
            del _open[max(place for place, session in enumerate(_open) if session is self)]
            _make_current(_open[-1])

    def reset(self) -> None:
        """Forget all that is remembered of programs.  Counts and explanations stay."""
        for forget in _shared:
            forget()
        for what in list(_states):
            owner = what.owner if self is _now else self._filled(what)
            what.forget(owner)
            if owner is not what.owner:
                self._contents[id(what.owner)] = _contents(owner)

    def _filled(self, what: _SessionState) -> Any:
        """A copy of an owned object with the contents that this session has put away, or with new contents."""
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
    owners = list(_states)
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
