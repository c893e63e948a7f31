"""The session: the memory of programs that were run, which can be emptied.

    plans       how a recording is answered: by exact key, and by the hash that machine code finds it by
    programs    findings about programs: bodies of loops, what differs with sizes, what classes read; each kind of
                finding in a `namespace`
    tiers       programs and recordings that have no machine code yet, with the time that was spent on them
    store       executables by graph (`codegen.compiler.store`)

Any entry may be forgotten at any time: it is made again.  `reset` forgets all of them, in the midst of a recording too;
counts, explanations and the learnt price of compiling go on.  A module that remembers programs in a table of its own
makes it by `table`.  The entries of a `jit` function are its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from codegen import compiler
from codegen.runtime.cache import LRU, Namespace

__all__ = ["at_reset", "namespace", "plans", "programs", "reset", "table", "tiers"]

_forgetting: list[Callable[[], object]] = [compiler.store.clear]


def at_reset(forget: Callable[[], object]) -> None:
    """Call this, too, when the session is reset."""
    _forgetting.append(forget)


def reset() -> None:
    """Forget all that is remembered of programs.  Counts and explanations go on."""
    for forget in _forgetting:
        forget()


def table(maxsize: int, most: float = math.inf) -> LRU:
    """A table that is empty after a reset: see `LRU`."""
    made = LRU(maxsize, most)
    at_reset(made.clear)
    return made


#: A plan holds its executable, some 80 KB with its machine code: as many as the compiler keeps.  It may have two names
#: here, an exact key and a hash.
plans = table(512)

#: By namespace and key; recordings of so many nodes in all.
programs = table(2048, most=200_000)

#: By what they compute; with what evaluating it needs, a program takes a KB an operation.
tiers = table(1024, most=100_000)


def namespace(word: str) -> Namespace:
    """The entries of `programs` that one module has there."""
    return Namespace(programs, word)
