"""One peer in a process of its own: `worker.py ROW CASE PEER RESULT`.  Started by measure.py.

It builds the program, calls it twice, saves what it returned, says that it is ready; then for each number of seconds
that it reads it calls the program for about so long, and says how long one call took.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path[0:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from peers import GENERIC  # noqa: E402  the folders above come first


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def leaves(value: object) -> list[np.ndarray]:
    """The arrays of a result, in order."""
    if isinstance(value, (tuple, list)):
        return [a for part in value for a in leaves(part)]
    if isinstance(value, dict):
        return [a for part in value.values() for a in leaves(part)]
    return [np.asarray(value)]


def main(row: str, case: str, peer: str, result: str) -> None:
    module = importlib.import_module(f"rows.{row}")
    try:
        arrays = module.inputs(case)
        own = getattr(module, peer, None)
        program = own(*arrays) if own else GENERIC[peer](module.program, module.ARGNUMS, arrays)
    except ImportError as error:
        say(absent=f"not installed ({error.name})")
        return
    except FileNotFoundError as error:
        say(absent=f"no {error.filename}")
        return
    program()
    np.savez(result, *leaves(program()))
    start = time.perf_counter()
    program()
    once = time.perf_counter() - start
    say(ready=once)
    for line in sys.stdin:
        calls = max(1, int(float(line) / max(once, 1e-8)))
        start = time.perf_counter()
        for _ in range(calls):
            program()
        once = (time.perf_counter() - start) / calls
        say(seconds=once)


if __name__ == "__main__":
    main(*sys.argv[1:])
