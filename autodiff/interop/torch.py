"""Functions of this library as differentiable PyTorch functions, and PyTorch functions as custom functions here.

PyTorch is imported by the first call; an ImportError says what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from codegen.lazily import later

if TYPE_CHECKING:
    from . import torch_calls
else:
    torch_calls = later("autodiff.interop.torch_calls")

__all__ = ["from_torch", "wrap"]


def wrap(f: Callable) -> Callable:
    """A function of PyTorch tensors that runs f, compiled, and that PyTorch can differentiate.

    f    a function of arrays, written with functions of `ad`.  It is compiled for each new shape, as by `ad.jit`

    Arguments and results are tensors, in any nesting of tuples, lists, dicts and dataclasses.  Tensors must be dense
    and in the memory of the CPU; they are not copied.  Arguments that are no tensors go to f as they are.

    Derivatives of any order flow through `backward`, `torch.autograd.grad` and `torch.func`; `torch.vmap` maps with
    `ad.vmap`; `torch.compile` leaves its graph for the call.  If the result is one float and an argument requires
    grad, one program computes value and gradient.  For other results the reductions and products that the gradient
    reads are kept for the first backward, and elementwise operations are computed again; a later backward, or one
    that is differentiated itself (`create_graph`), computes f again.

    Raises DTypeError for a dtype that `ad` does not have, DispatchError for other tensors that it cannot read.
    """
    return torch_calls.wrap(f)


def from_torch(f: Callable) -> Callable:
    """A PyTorch function as a custom function of `ad`, with derivatives of any order.

    f    a function of PyTorch tensors that PyTorch can differentiate, such as a module

    Arguments and results are arrays, in any nesting of tuples, lists, dicts and dataclasses; floats become tensors
    without dimensions.  PyTorch runs the function on copies of its arguments, between compiled parts of `ad`;
    `ad.vmap` calls it once for each example.  Gradients flow to its arguments, not to parameters that it holds:
    `torch.func.functional_call` makes parameters arguments.
    """
    return torch_calls.from_torch(f)
