"""Functions of this library in PyTorch and JAX, and theirs in this library.  PyTorch and JAX are imported on first use.

    ad.interop.torch.wrap(f)         a differentiable function of PyTorch tensors
    ad.interop.torch.from_torch(f)   a PyTorch function as a custom function here
    ad.interop.jax.wrap(f)           a differentiable function of JAX arrays
    ad.interop.jax.from_jax(f)       a JAX function as a custom function here

    ad.interop.entry(f, *args)       a compiled program as a C function

    program.py   a function of this library, its derivatives and its batches, compiled
    foreign.py   a function of another library, and its derivatives of any order, as custom functions
"""

from typing import TYPE_CHECKING

from codegen.lazily import lazily

if TYPE_CHECKING:
    from . import jax, torch
    from .program import Entry, entry

__all__ = ["Entry", "entry", "jax", "torch"]

__getattr__, __dir__ = lazily(globals(), {"Entry": "program", "entry": "program", "jax": "jax", "torch": "torch"})
