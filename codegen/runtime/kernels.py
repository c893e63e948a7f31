"""Machine code of kernels: equal text, equal code.

A kernel's text without its name is its identity, so graphs share kernels, and another graph of the
same shape of loops costs no LLVM.  What a graph misses is compiled as one module, because a module
costs a link and three memory maps however small it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..kernel.nest import Function
from . import engine
from .cache import LRU

__all__ = ["VERSION", "KernelTable", "NativeKernel", "kernel_key"]

#: Counts up when the meaning of a kernel's text changes (the calling convention, say).
VERSION = 1

#: emit(functions, target features) -> LLVM IR text that exports each by its name
Emit = Callable[..., str]


def kernel_key(text: str) -> str:
    """The identity of a kernel: its text, the version of the code generator, LLVM's, the target's."""
    parts = (text, str(VERSION), *engine.target_key())
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class NativeKernel:
    """A kernel's entry point; `code` keeps it loaded."""

    address: int
    code: engine.Code


class KernelTable:
    """Kernels by text.  Evicted code lives on in the executables that use it."""

    def __init__(self, emit: Emit, maxsize: int) -> None:
        self._emit = emit
        self._table = LRU(maxsize)
        self.compiled_modules = 0

    def load(self, functions: Iterable[Function]) -> dict[int, NativeKernel]:
        """The native kernel of each function, by `id(function)`; what is missing is compiled together."""
        features = engine.target_features()
        keys: dict[int, str] = {}
        found: dict[str, NativeKernel] = {}
        missing: dict[str, Function] = {}
        for function in functions:
            nameless = _nameless(function)
            key = keys[id(function)] = kernel_key(self._emit([nameless], features))
            if key in found or key in missing:
                continue
            native = self._table.get(key)
            if native is None:
                missing[key] = replace(nameless, name=f"k{key}")
            else:
                found[key] = native
        if missing:
            code = engine.compile(self._emit(list(missing.values()), features), passes=engine.Passes.VECTORS)
            self.compiled_modules += 1
            for key, function in missing.items():
                found[key] = NativeKernel(code.address(function.name), code)
                self._table.put(key, found[key])
        return {number: found[key] for number, key in keys.items()}

    def clear(self) -> None:
        """Forget all kernels."""
        self._table.clear()

    @property
    def code_bytes(self) -> int:
        """Bytes of the objects that the table keeps."""
        codes: dict[int, Any] = {id(kernel.code): kernel.code for kernel in self._table.values()}
        return sum(len(code.object_bytes) for code in codes.values())

    @property
    def counts(self) -> LRU:
        """The table itself, for its counters."""
        return self._table

    def __len__(self) -> int:
        return len(self._table)


def _nameless(function: Function) -> Function:
    """The function under names that say nothing: what its text is compared by."""
    return replace(function, name="kernel", names=tuple([f"a{i}" for i in range(len(function.names))]))
