"""Structured arrays: types that hold few tensors and stand for an array of more.

    diagonal    Diagonal, UniformScaling     matrices   Symmetric, LowerTriangular, UpperTriangular, Cholesky
    selecting   OneHot, Permutation          linear     what these have in common, and projection of gradients
    fill        Fill

Each takes part by methods of the generic functions; where none fits, `ad.dense` writes it out.
"""

from . import linear as linear
from .diagonal import Diagonal, UniformScaling
from .fill import Fill
from .matrices import Cholesky, LowerTriangular, Symmetric, UpperTriangular
from .selecting import OneHot, Permutation

__all__ = [
    "Cholesky", "Diagonal", "Fill", "LowerTriangular", "OneHot", "Permutation", "Symmetric", "UniformScaling",
    "UpperTriangular",
]
