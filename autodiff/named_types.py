"""Named types for signatures and annotations: Scalar, Vector, Matrix, Number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .dispatch import NamedUnion
from .tensor import Tensor


def _of_rank(rank: int, axes: str, example: str) -> type:
    """The lattice class of a rank, with a docstring."""
    cls: type = Tensor[..., rank]
    cls.__doc__ = f"""A tensor with {axes}, of any dtype: `ad.Tensor[..., {rank}]`.

    A type for signatures and annotations; made by `ad.tensor` and by operations, never by calling the class.

    >>> import autodiff as ad
    >>> {example}
    True
    """
    return cls


if TYPE_CHECKING:
    Scalar = Tensor
    Vector = Tensor
    Matrix = Tensor
else:
    Scalar = _of_rank(0, "no axes", "isinstance(ad.tensor(2.0), ad.Scalar)")
    Vector = _of_rank(1, "one axis", "isinstance(ad.ones(3), ad.Vector)")
    Matrix = _of_rank(2, "two axes", "isinstance(ad.ones((3, 2)), ad.Matrix)")


class Number(metaclass=NamedUnion):
    """A Python or NumPy scalar, bool included: bool, int, float, complex or np.generic.

    A type for signatures and annotations: such arguments dispatch as numbers, not as tensors, also where `jit` makes
    run-time values of them.  A 0-d array or tensor is an `ad.Scalar`.  Raises TypeError when it is called.

    >>> import autodiff as ad, numpy as np
    >>> isinstance(2, ad.Number), isinstance(np.float32(2), ad.Number), isinstance(ad.tensor(2), ad.Number)
    (True, True, False)
    >>> @ad.function
    ... def times(x, c): ...
    >>> @times.method
    ... def _(x: ad.Tensor, c: ad.Number):
    ...     return x * c
    >>> times(ad.tensor([1.0, 2.0]), 3)
    f64[2] [3. 6.]
    """

    members = (bool, int, float, complex, np.generic)
