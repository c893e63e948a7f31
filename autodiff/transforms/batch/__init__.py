"""vmap: from what a function records for one example to the same for many.

    mapping    `ad.vmap`: arguments in, results out; in_axes, out_axes
    walk       the nodes of one example -> those of all; the rules of custom functions, applied to each example

What holds under vmap(f) is a test each in tests/semantics/test_vmap*.py.  f is called once, on one example, a tensor of
one axis less without a value; what does not differ between examples is left as it was recorded.  The rule of a custom
function is recorded once, for one example, and applied to each; host rules are called for each in turn.  Loops are one
loop for all; `cond` is one choice where all share it, else both branches are run.
"""

from .mapping import vmap

__all__ = ["vmap"]
