"""Custom functions: a pair of forward and backward methods that replaces differentiation.

    context    what forward and backward see as `ctx`
    boundary   one node per call, which carries the rule
    reads      what a rule reads besides tensors, as a key
    function   `Function`: a generic function whose pairs make boundaries;  `@function`
"""

from .function import Function, function

__all__ = ["Function", "function"]
