"""vmap: from what a function records for one example to the same for many.

    mapping    `ad.vmap`: arguments in, results out
    axes       in_axes, out_axes
    walk       the nodes of one example -> those of all
    calls      the rules of custom functions, applied to each example
    passes     many passes over one recording at once: Jacobians
"""

from .mapping import vmap

__all__ = ["vmap"]
