"""The process of one peer, started by measure.py: `worker.py ROW CASE PEER RESULT`.

The worker builds the program, calls it with several draws of its inputs, saves the results, and prints that it is
ready.  For each number of seconds that it reads from stdin, it calls the program for about that time, and prints the
seconds of one call.  The program of a row with FIGURES is called once, and its figures are printed.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path[0:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import draws  # noqa: E402  the folders above come first
from absence import Absent  # noqa: E402  the folders above come first
from peers import GENERIC  # noqa: E402  the folders above come first

__all__ = ["leaves", "program_of", "timed"]

#: Constants of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def leaves(value: object) -> list[np.ndarray]:
    """The arrays of a result, in order."""
    if isinstance(value, (tuple, list)):
        return [a for part in value for a in leaves(part)]
    if isinstance(value, dict):
        return [a for part in value.values() for a in leaves(part)]
    return [np.asarray(value)]


def program_of(row: str, peer: str, arrays: Sequence[Any]) -> Callable[[], Any]:
    """The function to measure, on these inputs.  Raises Absent or ImportError if the peer cannot take part.

    The peer "ours without NAME" is our program with a mechanism switched off.
    """
    if peer.startswith("ours without "):
        importlib.import_module("switches").switch_off(peer.removeprefix("ours without "))
        peer = "ours"
    module = importlib.import_module(f"rows.{row}")
    own = getattr(module, peer, None)
    return own(*arrays) if own else GENERIC[peer](module.program, module.ARGNUMS, arrays)


def arrays_in(value: object) -> list[np.ndarray]:
    """The arrays among a program's inputs, in order."""
    if isinstance(value, (tuple, list)):
        return [a for part in value for a in arrays_in(part)]
    return [value] if isinstance(value, np.ndarray) else []


def keep_freed_memory() -> None:
    """Let malloc reuse freed memory without page faults, as a careful C programmer would."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def timed(program: Callable[[], Any], seconds: float, once: float) -> float:
    """The mean seconds of a call, over calls that take at least half of `seconds`; `once` is an estimate of them."""
    while True:
        calls = max(1, int(seconds / max(once, 1e-8)))
        start = time.perf_counter()
        for _ in range(calls):
            program()
        elapsed = time.perf_counter() - start
        once = elapsed / calls
        if elapsed >= seconds / 2:
            return once


def main(row: str, case: str, peer: str, result: str) -> None:
    module = importlib.import_module(f"rows.{row}")
    if peer in ("c", "plain_c") and not hasattr(module, "FIGURES"):
        keep_freed_memory()
    inputs = module.inputs(case)
    try:
        program = program_of(row, peer, inputs)
        start = time.perf_counter()
        first = program()
    except ImportError as error:
        return say(absent=f"not installed ({error.name})")
    except Absent as error:
        return say(absent=str(error))
    except Exception as error:
        if peer.startswith("ours"):
            raise
        return say(absent=f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
    if isinstance(first, dict):
        return say(figures=first)
    once = time.perf_counter() - start
    drawn = [leaves(first)]
    if not getattr(module, "IS_COLD", False):  # in a cold row each call begins anew, so no warm-up is needed
        start = time.perf_counter()
        first = program()
        once = time.perf_counter() - start
        again, spent, longest_s = program, once, draws.LONGEST_S
        if peer == "reference" or getattr(module, "COPIES", False):  # the program copies its inputs, or widens them

            def again() -> Any:
                return program_of(row, peer, inputs)()

            start = time.perf_counter()
            first = again()
            spent = time.perf_counter() - start
            longest_s = draws.LONGEST_REFERENCE_S if peer == "reference" else draws.LONGEST_COPIES_S
        drawn = draws.results(again, first, spent, arrays_in(inputs), leaves, longest_s)
    np.savez(result, **{f"{d} {i}": a for d, one in enumerate(drawn) for i, a in enumerate(one)})
    del first, drawn
    say(ready=once)
    for line in sys.stdin:
        once = timed(program, float(line), once)
        say(seconds=once)


if __name__ == "__main__":
    main(*sys.argv[1:])
