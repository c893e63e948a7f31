"""Control flow that stays in the graph: loops, branches, and parts that a backward pass computes again.

    body         a function recorded once, to be run many times
    trace        from functions to their bodies; bodies derived from bodies: pullbacks, pushforwards, batched bodies
    regions      the common part of operations that run bodies
    choices      cond, checkpoint: bodies that run once
    loops        scan, fori_loop
    repeats      while_loop
"""

from .choices import checkpoint, cond
from .loops import fori_loop, scan
from .repeats import while_loop

__all__ = ["checkpoint", "cond", "fori_loop", "scan", "while_loop"]
