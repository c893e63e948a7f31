"""vmap: from the recording of a function on one example to the recording for all examples.

    mapping    `ad.vmap`: arguments in, results out; in_axes, out_axes
    walk       the nodes of one example -> the nodes of all; the rules of custom functions, applied to each example

Each property of vmap(f) has a test in tests/semantics/test_vmap*.py.  f is called once, on one example: a tensor
without the axis of examples and without a value.  A node that all examples share stays as recorded.  The rule of a
custom function is recorded once, for one example, and applied to each; host rules are called for each in turn.  A loop
becomes one loop for all examples; `cond` takes one branch if all examples share the choice, else it runs both.
"""

from .mapping import vmap

__all__ = ["vmap"]
