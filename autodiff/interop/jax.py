"""Functions of this library as differentiable functions of JAX, and the other way round.

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
    """A function of JAX arrays that runs f, compiled, and is differentiable there.

    f    a function of arrays, written with functions of `ad`.  It is compiled for each new shape, as by `ad.jit`

    Arguments and results are pytrees of arrays and numbers.  `jax.jit`, `jax.grad`, `jax.jvp`, `jax.vmap` and what is
    made of them, such as `jax.hessian`, apply in any order and number.  Arrays that f reads from outside are frozen
    when it is first called, as in JAX.  It runs on the CPU.

    Raises DTypeError for a dtype that `ad` has not, DispatchError for an argument that is no array.
    """
    return jax_calls.wrap(f)


def from_jax(f: Callable) -> Callable:
    """A function of JAX's as a custom function of `ad`, with derivatives of any order.

    f    a function of JAX arrays that JAX can compile and differentiate

    Arguments and results are any nesting of arrays in tuples, lists, dicts and dataclasses.  The function runs in JAX,
    compiled and with the dtypes that it is given, between compiled parts; `ad.vmap` calls it once for each example.
    """
    return jax_calls.from_jax(f)
