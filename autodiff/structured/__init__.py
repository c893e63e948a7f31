"""Structured arrays: types that hold few tensors and stand for an array of more.

    diagonal     Diagonal, UniformScaling             symmetric   Symmetric
    triangular   LowerTriangular, UpperTriangular     cholesky    Cholesky, factorised once
    selecting    OneHot, Permutation                  fill        Fill
    linear       what these have in common            projection  of gradients onto any of them

Each takes part by methods of the generic functions; where none fits, `ad.dense` writes it out.
"""

from . import attributes as attributes
from . import linear as linear
from . import projection as projection
from .cholesky import Cholesky
from .diagonal import Diagonal, UniformScaling
from .fill import Fill
from .selecting import OneHot, Permutation
from .symmetric import Symmetric
from .triangular import LowerTriangular, UpperTriangular

__all__ = [
    "Cholesky", "Diagonal", "Fill", "LowerTriangular", "OneHot", "Permutation", "Symmetric", "UniformScaling",
    "UpperTriangular",
]
