"""Control flow that stays in the graph: loops, branches, and what is computed again.

    body         a body, to be run again and again
    trace        from a function to its body; bodies made of bodies: pullbacks, pushforwards, those of many examples
    regions      operations that run bodies, and what they have in common; cond
    loops        scan, fori_loop, as users call them; recurrence: their operation; fission: what needs no loop
    repeats      while_loop
    checkpoint   computed again in the backward pass instead of kept
"""

from .checkpoint import checkpoint
from .loops import fori_loop, scan
from .regions import cond
from .repeats import while_loop

__all__ = ["checkpoint", "cond", "fori_loop", "scan", "while_loop"]
