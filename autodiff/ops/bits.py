"""Operations on the bits of integers, and on truth values, which are integers of one bit."""

from __future__ import annotations

from ..custom.function import Function
from .declare import binary, unary

__all__ = ["bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor"]

bitwise_and: Function = binary("bitwise_and", accepts="ib", partials=None, lower="bit_and", traits=("commutative",),
    doc="""x1 & x2: bit by bit; of bool, logical and.   i[...], i[...]  →  i[...]

    >>> import autodiff as ad
    >>> ad.bitwise_and(0b1100, 0b1010)
    i64[] 8
    >>> ad.bitwise_and([True, True], [True, False])
    bool[2] [ True False]
    """)
bitwise_or: Function = binary("bitwise_or", accepts="ib", partials=None, lower="bit_or", traits=("commutative",),
    doc="""x1 | x2: bit by bit; of bool, logical or.   i[...], i[...]  →  i[...]

    >>> import autodiff as ad
    >>> ad.bitwise_or(0b1100, 0b1010)
    i64[] 14
    """)
bitwise_xor: Function = binary("bitwise_xor", accepts="ib", partials=None, lower="bit_xor", traits=("commutative",),
    doc="""x1 ^ x2: bit by bit; of bool, exclusive or.   i[...], i[...]  →  i[...]

    >>> import autodiff as ad
    >>> ad.bitwise_xor(0b1100, 0b1010)
    i64[] 6
    """)
bitwise_invert: Function = unary("bitwise_not", called="bitwise_invert", accepts="ib", partials=None, lower="bit_not",
    doc="""All bits inverted, ~x; of bool, logical not.   i[...]  →  i[...]

    >>> import autodiff as ad
    >>> ad.bitwise_invert([0, 5])
    i64[2] [-1 -6]
    >>> ad.bitwise_invert(True)
    bool[] False
    """)
bitwise_left_shift = binary("left_shift", called="bitwise_left_shift", accepts="i", partials=None, lower="shift_left",
    doc="""x1 << x2.   i[...], i[...]  →  i[...]     0 when x2 is no number of bits (negative, or too many)

    >>> import autodiff as ad
    >>> ad.bitwise_left_shift(1, [3, 64, -1])
    i64[3] [8 0 0]
    """)
bitwise_right_shift = binary("right_shift", called="bitwise_right_shift", accepts="i", partials=None,
    lower="shift_right",
    doc="""x1 >> x2, keeping the sign.   i[...], i[...]  →  i[...]     0 or -1 when x2 is no number of bits

    >>> import autodiff as ad
    >>> ad.bitwise_right_shift([-8, -8], [1, 64])
    i64[2] [-4 -1]
    """)
