"""What elements are sorted by, as LLVM IR text.

Of a float it is the float itself, its sign changed for a falling order: comparisons of floats are the fastest.  nan is
the largest float, -0.0 is 0.0; neither comes back.  Of an integer it is that of `order_key_ir`.

    key @next(key)                the least key above this one
    key @halfway(least, most)     one above the least with as many keys below it as above
"""

from __future__ import annotations

from ..emit.types import splat, vector_type
from ..records import record
from .order_key_ir import TYPES, key_ir
from .template import Template

__all__ = ["Key", "key_of", "steps_ir"]

_INFINITY = "0x7FF0000000000000"

_OF_FLOAT = Template("""
  %plain = fadd $element %given, $zero
  %is.nan = fcmp uno $element %given, %given
  %number = select $bit %is.nan, $element $infinity, $element %plain
  %raw = bitcast $element %number to $bits
  %sign = and $bits $flip, $top
  %turned = xor $bits %raw, %sign
  %key = bitcast $bits %turned to $element""")

_OF_INTEGER = Template("""$rising
  %key = xor $bits %rising, $flip""")

_FLOAT_BACK = Template("""
  %key.bits$j = bitcast $element $key to $bits
  %sign$j = and $bits $flip, $top
  %bits$j = xor $bits %key.bits$j, %sign$j""")

_INTEGER_BACK = Template("""
  %turned$j = xor $bits $key, $flip
  %bits$j = xor $bits %turned$j, $top""")

_SPECIAL = Template("""
  %unordered = fcmp uno $element %given, %given
  %given.bits = bitcast $element %given to $bits
  %is.negative.zero = icmp eq $bits %given.bits, $top
  %is.special = or $bit %unordered, %is.negative.zero""")

_NEVER_SPECIAL = Template("""
  %is.special = and $bit $no, $no""")

_OF_INTEGERS = Template("""
define internal $K @next($K %key) alwaysinline {
  %next = add $K %key, 1
  ret $K %next
}

define internal $K @halfway($K %least, $K %most) alwaysinline {
  %span = sub $K %most, %least
  %half = lshr $K %span, 1
  %below = add $K %least, %half
  %halfway = add $K %below, 1
  ret $K %halfway
}
""")

_OF_FLOATS = Template("""
define internal $bits @number($bits %bits) alwaysinline {
  %sign = ashr $bits %bits, $last
  %turned = and $bits %sign, $below_top
  %number = xor $bits %bits, %turned
  ret $bits %number
}

define internal $K @next($K %key) alwaysinline {
  %bits = bitcast $K %key to $bits
  %number = call $bits @number($bits %bits)
  %above = add $bits %number, 1
  %next.bits = call $bits @number($bits %above)
  %next = bitcast $bits %next.bits to $K
  ret $K %next
}

define internal $K @halfway($K %least, $K %most) alwaysinline {
  %least.bits = bitcast $K %least to $bits
  %most.bits = bitcast $K %most to $bits
  %low = call $bits @number($bits %least.bits)
  %high = call $bits @number($bits %most.bits)
  %span = sub $bits %high, %low
  %half = lshr $bits %span, 1
  %below = add $bits %low, %half
  %above = add $bits %below, 1
  %bits = call $bits @number($bits %above)
  %halfway = bitcast $bits %bits to $K
  ret $K %halfway
}
""")

_IN_ALL = Template("""
  %$name.first = insertelement $vector poison, $type $value, i64 0
  %$name = shufflevector $vector %$name.first, $vector poison, <$lanes x i32> zeroinitializer""")


@record(frozen=True)
class Key:
    """element    the type of elements in memory          less       what compares two
    type       that of keys                            largest    no key is above it
    bits       the integer type of as many bits        bytes      of a key
    lanes      of a vector of keys
    """

    element: str
    type: str
    bits: str
    lanes: int
    less: str
    largest: str

    @property
    def is_float(self) -> bool:
        return self.type == self.element != self.bits

    @property
    def bytes(self) -> int:
        return int(self.bits[1:]) // 8

    @property
    def vector(self) -> str:
        return vector_type(self.type, self.lanes)

    @property
    def named(self) -> str:
        """How intrinsics call the vector."""
        return f"v{self.lanes}{'f' if self.is_float else 'i'}{self.bits[1:]}"

    def of(self, flip: str, lanes: int) -> str:
        """Instructions that make %key of %given."""
        words = self._words(lanes)
        if self.is_float:
            zero, infinity = [splat(self.type, text, lanes) for text in ("0.0", _INFINITY)]
            return _OF_FLOAT.substitute(words, flip=flip, zero=zero, infinity=infinity)
        return _OF_INTEGER.substitute(words, flip=flip, rising=key_ir(self.element, self.bits, lanes))

    def back(self, key: str, flip: str, lanes: int, j: str = "") -> str:
        """Instructions that make %bits, those of the element, of a key."""
        template = _FLOAT_BACK if self.is_float else _INTEGER_BACK
        return template.substitute(self._words(lanes), key=key, flip=flip, j=j)

    def special(self, lanes: int) -> str:
        """Instructions that say in %is.special whether %given is no more what it was when it comes back."""
        template = _SPECIAL if self.is_float else _NEVER_SPECIAL
        return template.substitute(self._words(lanes), no=splat("i1", "false", lanes))

    def in_all_lanes(self, name: str, type: str, value: str) -> str:
        """Instructions that make a vector of one value."""
        return _IN_ALL.substitute(
            name=name, type=type, value=value, vector=vector_type(type, self.lanes), lanes=self.lanes
        )

    def _words(self, lanes: int) -> dict[str, str]:
        return {
            "element": vector_type(self.element, lanes), "bits": vector_type(self.bits, lanes),
            "bit": vector_type("i1", lanes), "top": splat(self.bits, str(-1 << 8 * self.bytes - 1), lanes),
        }  # fmt: skip


def key_of(dtype: str, vector_bytes: int) -> Key:
    """The key of elements of this dtype."""
    element, bits = TYPES[dtype], "i64" if dtype.endswith("64") else "i32"
    lanes = 8 * vector_bytes // int(bits[1:])
    if element in ("float", "double"):
        return Key(element, element, bits, lanes, "fcmp olt", _INFINITY)
    return Key(element, bits, bits, lanes, "icmp ult", "-1")


def steps_ir(key: Key) -> str:
    """`next` and `halfway` of such keys."""
    size = 8 * key.bytes
    words = {"K": key.type, "bits": key.bits, "last": size - 1, "below_top": (1 << size - 1) - 1}
    return (_OF_FLOATS if key.is_float else _OF_INTEGERS).substitute(words)
