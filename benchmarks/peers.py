"""Value and gradient of `program(lib, *arrays)` by each library, from NumPy arrays to NumPy arrays.

`lib` is the library's namespace of array functions.  An ImportError means that the library is not installed.
"""

from __future__ import annotations

import ctypes.util
import glob
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from absence import Absent

__all__ = ["GENERIC", "LABELS", "drjit"]

Program = Callable[..., Any]

#: All peers that a table may show, in the order of its columns, with the labels of the columns.
LABELS = {
    "numpy": "numpy", "numba": "numba", "c": "c", "plain_c": "plain c", "dense": "dense", "jax": "jax",
    "torch": "torch", "torch_compile": "torch.compile", "drjit": "Dr.Jit", "autograd": "autograd",
    "functools": "functools", "multipledispatch": "multipledispatch", "limit": "limit",
}  # fmt: skip


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

    return _by_torch(lambda *tensors: program(t, *tensors), argnums, arrays)


def torch_compile(program: Program, argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    import torch as t

    return _by_torch(t.compile(lambda *tensors: program(t, *tensors), fullgraph=True), argnums, arrays)


def _by_torch(f: Callable[..., Any], argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    import torch as t

    def run() -> Any:
        tensors = [t.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arrays]
        leaves = [tensors[i].requires_grad_() for i in argnums]
        value = f(*tensors)
        value.backward()
        return value.detach().numpy(), [leaf.grad.numpy() for leaf in leaves]

    return run


def autograd(program: Program, argnums: Sequence[int], arrays: Sequence[Any]) -> Callable[[], Any]:
    import autograd as hips
    import autograd.numpy as anp

    f = hips.value_and_grad(lambda *a: program(anp, *a), argnum=tuple(argnums))
    return lambda: f(*arrays)


def drjit(program: Program, argnums: Sequence[int], arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    """The peer Dr.Jit, for programs on vectors (it has no matrices).  The function is frozen, so only traced once."""
    if "DRJIT_LIBLLVM_PATH" not in os.environ:
        os.environ["DRJIT_LIBLLVM_PATH"] = _libllvm()
    import drjit as dr
    from drjit.llvm import ad

    real = {np.dtype(np.float32): ad.Float32, np.dtype(np.float64): ad.Float64}[arrays[0].dtype]
    lib = SimpleNamespace(
        exp=dr.exp, sin=dr.sin, tanh=dr.tanh, log=dr.log, sqrt=dr.sqrt, erf=dr.erf, sum=dr.sum,
        log1p=lambda x: dr.log(1 + x),
    )  # fmt: skip

    @dr.freeze
    def value_and_gradients(*given: Any) -> Any:
        leaves = [real(x) for x in given]
        for i in argnums:
            dr.enable_grad(leaves[i])
        value = program(lib, *leaves)
        dr.backward(value)
        return dr.detach(value), [dr.grad(leaves[i]) for i in argnums]

    def run() -> Any:
        value, gradients = value_and_gradients(*[real(a.reshape(-1)) for a in arrays])
        return value.numpy()[0], [g.numpy() for g in gradients]

    return run


def _libllvm() -> str:
    """The newest shared library of LLVM on this machine."""
    found = [f for place in ("/usr/lib/*/", "/usr/lib/llvm-*/lib/") for f in glob.glob(f"{place}libLLVM*.so*")]
    if name := ctypes.util.find_library("LLVM"):
        found.append(name)
    if not found:
        raise Absent("no shared library of LLVM (DRJIT_LIBLLVM_PATH)")
    return max(found, key=_version)


def _version(library: str) -> int:
    """The version in a file's name: 19 for libLLVM-19.so and libLLVM.so.19.1; 0 if the name has none."""
    number = re.search(r"LLVM\D*(\d+)", Path(library).name)
    return int(number[1]) if number else 0


#: The peers that can run a row's `program` without code written for them.
GENERIC = {"ours": ours, "jax": jax, "torch": torch, "torch_compile": torch_compile, "autograd": autograd}
