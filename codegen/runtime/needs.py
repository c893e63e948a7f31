"""Code that steps need besides kernels, the same for many programs: it is made while they are planned and compiled.

    begin(works)        products, orders, transforms: LLVM is at it in threads of their own
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..lazily import later
from ..program import Gemm, HostCall

if TYPE_CHECKING:
    from . import fourier, orders, products
else:
    fourier = later("codegen.runtime.fourier")
    orders = later("codegen.runtime.orders")
    products = later("codegen.runtime.products")

__all__ = ["begin"]


def begin(works: Iterable[Gemm | HostCall]) -> None:
    """Make what these will need and is not there, beside what the caller does next if there is a second processor."""
    works = list(works)
    if gemms := [work for work in works if isinstance(work, Gemm)]:
        products.begin(gemms)
    for work in works:
        if isinstance(work, HostCall):
            for room in (orders, fourier):
                if room.is_native(work.node):
                    room.begin(work.node)
