"""The work that the library has done, and what it holds meanwhile: for tests which say that something was done once."""

from __future__ import annotations

from typing import NamedTuple

import autodiff as ad
from autodiff.tape.loans import FEW, LENT
from autodiff.tape.plan import COUNTS
from autodiff.tape.record import PENDING_LIMIT
from codegen import compiler
from codegen.program import observers

#: The number of operations that may wait for their values; in a longer recording some are computed meanwhile.
WAITING = PENDING_LIMIT
#: Arrays of so many elements are copied when they are recorded; larger ones may be lent.
COPIED = FEW


class Work(NamedTuple):
    """Since the start: derivative rules that Python ran, programs that were compiled or run, modules that LLVM made."""

    rules: int
    compiles: int
    runs: int
    modules: int


def work() -> Work:
    """All work of this process so far.  A program that is known adds to `runs` alone."""
    return Work(COUNTS.rules, ad.cache_info().compiles, COUNTS.runs, compiler.counts().modules)


def lent() -> int:
    """The number of arrays of callers that are locked, until what was recorded of them has been computed."""
    return len(LENT)


def is_watched() -> bool:
    """True while somebody takes the time of what is run: a profile, or the command that lists a script's graphs."""
    return bool(observers)
