"""vmap: from what a function records for one example to the same for many.

    mapping    `ad.vmap`: arguments in, results out; in_axes, out_axes
    walk       the nodes of one example -> those of all; the rules of custom functions, applied to each example

What holds under vmap(f), each a test in tests/semantics/test_vmap*.py:

    f                     is called once, on one example: tensors of one axis less, without values
    in_axes               a number (negative: from the last), None, or a prefix of the nesting of the positional
                          arguments; keyword arguments have their examples along axis 0
    out_axes              likewise; None only for what does not differ; what does not differ is repeated otherwise
    text, None, objects   are handed on, in and out; numbers are shared (None) and stay numbers
    NumPy arrays          in from plain code: NumPy arrays out, finished; with any tensor: tensors
    structured values     are mapped leaf by leaf, as containers are: f gets one, and the methods of its type run for
                          one.  A result holds many: its leaves have the axis of examples, and only vmap takes it apart
    no examples           results of no examples
    what does not differ  is left as it was recorded: computed once, and it has a value where it has one outside
    asking for a value    of what differs: ConcretizationError, as under `jit`
    in place              changes what f made itself, and its own view of an argument; of anything captured: an error
    gradients             flow to arguments and to captured tensors; hooks see the gradient of each example
    no_grad, detach       hold where f has them
    custom functions      keep their rule, in every order: it is recorded once, for one example, and applied to each.
                          `ctx.needs_input_grad` says what is wanted; the gradient of what is shared is the sum
    host rules            are called for each example in turn, inside of one host call; a forward whose outputs are not
                          known is run on the first example, as `jit` does it
    scan, fori_loop       are one loop for all; checkpoint is kept
    cond                  one choice where all share it; else both branches are run and each example takes its own,
                          so an error in the branch that it does not take is raised all the same
    while_loop            steps until no example wants another; those that are done keep their state
    matmul                is one plain product where only one factor differs and the other is a matrix
    solve                 factors what is shared once
"""

from .mapping import vmap

__all__ = ["vmap"]
