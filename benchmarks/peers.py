"""Value and gradient of `program(lib, *arrays)` by each library: NumPy arrays in, NumPy arrays out.

`lib` is the library's own namespace of array functions.  An ImportError says that it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["GENERIC"]

Program = Callable[..., Any]


def ours(program: Program, argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    import autodiff as ad

    f = ad.jit(ad.value_and_grad(lambda *a: program(ad, *a), argnums=tuple(argnums)))
    return lambda: f(*arrays)


def jax(program: Program, argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    import jax as j

    j.config.update("jax_enable_x64", True)
    f = j.jit(j.value_and_grad(lambda *a: program(j.numpy, *a), argnums=tuple(argnums)))

    def run() -> Any:
        value, gradients = f(*arrays)
        return np.asarray(value), [np.asarray(g) for g in gradients]

    return run


def torch(program: Program, argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    import torch as t

    def run() -> Any:
        tensors = [t.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arrays]
        leaves = [tensors[i].requires_grad_() for i in argnums]
        value = program(t, *tensors)
        value.backward()
        return value.detach().numpy(), [leaf.grad.numpy() for leaf in leaves]

    return run


def autograd(program: Program, argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    import autograd as hips
    import autograd.numpy as anp

    f = hips.value_and_grad(lambda *a: program(anp, *a), argnum=tuple(argnums))
    return lambda: f(*arrays)


#: Peers that need nothing but the program.
GENERIC = {"ours": ours, "jax": jax, "torch": torch, "autograd": autograd}
