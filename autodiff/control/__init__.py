"""Control flow that stays in the graph: loops, branches, and what is computed again.

    body         a function recorded once, to be run again and again
    packing      several results of one operation
    loops        scan, fori_loop
    repeats      while_loop
    branch       cond
    checkpoint   computed again in the backward pass instead of kept
"""

from .branch import cond
from .checkpoint import checkpoint
from .loops import fori_loop, scan
from .repeats import while_loop

__all__ = ["checkpoint", "cond", "fori_loop", "scan", "while_loop"]
