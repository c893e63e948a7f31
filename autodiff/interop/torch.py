"""Functions of this library as differentiable functions of PyTorch, and the other way round.

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
    """A function of PyTorch tensors that runs f, compiled, and is differentiable there.

    f    a function of arrays, written with functions of `ad`.  It is compiled for each new shape, as by `ad.jit`

    Arguments and results are any nesting of tensors in tuples, lists, dicts and dataclasses.  Tensors must be dense and
    lie in the memory of the CPU; they are not copied.  Other arguments go to f as they are.

    Derivatives of any order flow through `backward`, `torch.autograd.grad` and `torch.func`; `torch.vmap` maps with
    `ad.vmap`; `torch.compile` leaves its graph for the call.  Where a result is one float and a gradient may be asked
    for, both are computed by one program.  Of other results the reductions and products that the gradient reads are
    kept for the first backward, elementwise operations are computed again; a backward after it, or one that is
    differentiated itself (`create_graph`), computes f again.

    Raises DTypeError for a dtype that `ad` has not, DispatchError for other tensors that it cannot read.
    """
    return torch_calls.wrap(f)


def from_torch(f: Callable) -> Callable:
    """A function of PyTorch's as a custom function of `ad`, with derivatives of any order.

    f    a function of PyTorch tensors that PyTorch differentiates, as a module is

    Arguments and results are any nesting of arrays in tuples, lists, dicts and dataclasses; floats become tensors of no
    dimension.  The function runs in PyTorch, between compiled parts, on copies of its arguments; `ad.vmap` calls it
    once for each example.  Gradients
    flow to its arguments, not to parameters that it holds: make those arguments by `torch.func.functional_call`.
    """
    return torch_calls.from_torch(f)
