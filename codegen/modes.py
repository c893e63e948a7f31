"""Two choices of the user's about numbers: what compiled arithmetic may loosen, and that BLAS gives the same bits.

    modes.fast_math        read where kernels are written, and part of every key under which code is found again
    modes.deterministic    read where NumPy is called, and by machine code that calls LAPACK

The compiler sets `fast_math` (`compiler.set_fast_math`), with its lock: nothing is half compiled in one way.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["Modes", "modes"]


class Modes:
    """fast_math      sums and products of a function in another order, division by what a loop does not change as
                      multiplication by its reciprocal, the sign of zero free (AUTODIFF_FAST_MATH=1)
    deterministic     NumPy's products and decompositions run on one thread (AUTODIFF_DETERMINISTIC=1)
    """

    __slots__ = ("_deterministic", "fast_math")

    def __init__(self) -> None:
        self.fast_math = is_set("AUTODIFF_FAST_MATH")
        self._deterministic = ctypes.c_int64(is_set("AUTODIFF_DETERMINISTIC"))

    @property
    def deterministic(self) -> bool:
        return bool(self._deterministic.value)

    @deterministic.setter
    def deterministic(self, flag: bool) -> None:
        self._deterministic.value = flag

    @property
    def deterministic_at(self) -> int:
        """Where machine code reads it, a word."""
        return ctypes.addressof(self._deterministic)

    def of_code(self) -> str:
        """What code depends on of these, in words: part of its key."""
        return "fast math" if self.fast_math else ""


def is_set(variable: str) -> bool:
    """Whether an environment variable switches something on."""
    return os.environ.get(variable, "0") not in ("", "0")


modes = Modes()
