"""Functions of this library as differentiable JAX functions, and JAX functions as custom functions here.

JAX is imported by the first call; an ImportError says what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from codegen.lazily import later

if TYPE_CHECKING:
    from . import jax_calls
else:
    jax_calls = later("autodiff.interop.jax_calls")

__all__ = ["from_jax", "wrap"]


def wrap(f: Callable) -> Callable:
    """A function of JAX arrays that runs f, compiled, and that JAX can differentiate.

    f    a function of arrays, written with functions of `ad`.  It is compiled for each new shape, as by `ad.jit`

    Arguments and results are pytrees of arrays and numbers.  `jax.jit`, `jax.grad`, `jax.jvp`, `jax.vmap` and their
    combinations, such as `jax.hessian`, apply in any order and number.  Arrays that f reads from outside are frozen
    at its first call, as in JAX.  The function runs on the CPU.

    Raises DTypeError for a dtype that `ad` does not have, DispatchError for an argument that is no array.
    """
    return jax_calls.wrap(f)


def from_jax(f: Callable) -> Callable:
    """A JAX function as a custom function of `ad`, with derivatives of any order.

    f    a function of JAX arrays that JAX can compile and differentiate

    Arguments and results are arrays, in any nesting of tuples, lists, dicts and dataclasses.  JAX compiles and runs
    the function, in the dtypes of its arguments, between compiled parts of `ad`; `ad.vmap` calls it for each example.
    """
    return jax_calls.from_jax(f)
