"""Structured arrays: types that hold a few tensors and stand for an array with more elements.

    diagonal    Diagonal, UniformScaling     matrices   Symmetric, LowerTriangular, UpperTriangular, Cholesky
    selecting   OneHot, Permutation          linear     common methods of these types, and projection of gradients
    fill        Fill

Generic functions have methods for these types; an argument that fits no method is converted by `ad.dense`.
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
