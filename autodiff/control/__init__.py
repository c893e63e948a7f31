"""Control flow that stays in the graph: loops, branches, and what is computed again.

    trace        from a function to its body
    body         a body, to be run again and again
    derived      bodies made of bodies: pullbacks, pushforwards, those of many examples
    known        products of a step that are known when it goes back
    regions      operations that run bodies, and what they have in common
    loops        scan, fori_loop, as users call them; recurrence: their operation; fission: what needs no loop
    repeats      while_loop
    branch       cond
    checkpoint   computed again in the backward pass instead of kept
"""

from .branch import cond
from .checkpoint import checkpoint
from .loops import fori_loop, scan
from .repeats import while_loop

__all__ = ["checkpoint", "cond", "fori_loop", "scan", "while_loop"]
