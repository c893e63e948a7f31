"""Custom functions: a pair of forward and backward methods that replaces differentiation.

    function   `Function`: a generic function whose pairs make boundaries;  `@function`
    forward    a call, from its arguments to the results behind its boundary;  straight: the usual ones, shorter
    host       forwards that need Python and values each time
    context    what forward and backward see as `ctx`
    boundary   one node per call, which carries the rule;  call: what it knows of its call, and the keys of its rule
    reads      what a rule reads besides tensors, as a key;  watching: the same with numbers that know who looks
    closures   tensors that a forward or a rule reads without being given them
"""

from .function import Function, function

__all__ = ["Function", "function"]
