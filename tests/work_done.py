"""The work that the library has done, and what it holds meanwhile: for tests which say that something was done once."""

from __future__ import annotations

from typing import NamedTuple

import autodiff as ad
from autodiff.tape.plan import COUNTS
from autodiff.tape.record import PENDING_LIMIT
from codegen import compiler
from codegen.program import observers

#: The number of operations that may wait for their values; in a longer recording some are computed meanwhile.
WAITING = PENDING_LIMIT


class Work(NamedTuple):
    """Since the start: derivative rules that Python ran, programs that were compiled or run, modules that LLVM made."""

    rules: int
    compiles: int
    runs: int
    modules: int


def work() -> Work:
    """All work of this process so far.  A program that is known adds to `runs` alone."""
    return Work(COUNTS.rules, ad.cache_info().compiles, COUNTS.runs, compiler.counts().modules)


def is_watched() -> bool:
    """True while somebody takes the time of what is run: a profile, or the command that lists a script's graphs."""
    return bool(observers)
