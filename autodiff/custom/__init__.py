"""Custom functions: a pair of forward and backward methods that replaces differentiation.

    function   `Function`: a generic function whose pairs make boundaries;  `@function`
    forward    a call, from its arguments to the results behind its boundary
    outputs    what a forward gave
    host       forwards that need Python and values each time
    context    what forward and backward see as `ctx`
    boundary   one node per call, which carries the rule; Python as an operation of a graph
    call       what a boundary knows of its call, and the keys of its rule
    reads      what a function reads without being given it, and which tensors are among that
    keys       the same as keys;  watching: the same with numbers that know who looks
"""

from .function import Function, function

__all__ = ["Function", "function"]
