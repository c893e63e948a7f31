"""Keys in the order of elements, as LLVM IR text: unsigned numbers, of single elements or of vectors.

Of a float its bits, the sign turned round; nan is above all, -0.0 is 0.0.  Of an integer what it is above the least.
"""

from __future__ import annotations

from ..emit.types import splat, vector_type
from .template import Template

__all__ = ["TYPES", "key_ir"]

#: Of what type the elements are in memory, by the name of the dtype.
TYPES = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "bool": "i8"}

_FLOAT_KEY = Template("""
  ; -0.0 and 0.0 are equal
  %x = fadd $type %given, $zero
  %bits = bitcast $type %x to $word
  %sign = ashr $word %bits, $last
  %turned = or $word %sign, $top
  %ordered = xor $word %bits, %turned
  %is.nan = fcmp uno $type %x, %x
  %rising = select $bit %is.nan, $word $ones, $word %ordered""")

_INTEGER_KEY = Template("""
  %bits = sext $type %given to $word
  %rising = xor $word %bits, $top""")

_SAME_KEY = Template("""
  %rising = xor $word %given, $top""")


def key_ir(element: str, word: str, lanes: int) -> str:
    """Instructions that make %rising of %given."""
    is_float = element in ("float", "double")
    template = _FLOAT_KEY if is_float else _SAME_KEY if element == word else _INTEGER_KEY
    bits = int(word[1:])
    constants = {"last": bits - 1, "top": -(1 << bits - 1), "ones": -1}
    spelled = {name: splat(word, str(value), lanes) for name, value in constants.items()}
    return template.substitute(
        spelled, zero=splat(element, "0.0", lanes),
        type=vector_type(element, lanes), word=vector_type(word, lanes), bit=vector_type("i1", lanes),
    )  # fmt: skip
