"""Custom functions: a pair of forward and backward methods that replaces differentiation.

    function   `Function`: a generic function whose pairs make boundaries;  `@function`
    forward    one call, from its arguments to the results behind its boundary
    outputs    the results of a forward method
    host       forwards that need Python and values at each run
    context    `ctx`, as forward and backward see it
    boundary   one node per call, which carries the rule; a Python function as an operation of a graph
    call       the data of a call that its boundary holds, and the keys of its rule
    reads      values that a function reads from closure, globals and defaults, and the tensors among them
    keys       keys of these values;  watching: runs of a rule with numbers that note if the rule looks at them
"""

from .function import Function, function

__all__ = ["Function", "function"]
