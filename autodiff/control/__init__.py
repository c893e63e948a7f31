"""Control flow that stays in the graph: loops, branches, and what is computed again.

    body         a body, to be run again and again
    trace        from functions to their bodies; bodies made of bodies: pullbacks, pushforwards, those of many examples
    regions      operations that run bodies, and what they have in common
    choices      cond, checkpoint: bodies that run once
    loops        scan, fori_loop
    repeats      while_loop
"""

from .choices import checkpoint, cond
from .loops import fori_loop, scan
from .repeats import while_loop

__all__ = ["checkpoint", "cond", "fori_loop", "scan", "while_loop"]
