"""Long straight code in pieces: functions that are called one after the other and pass values through memory.

    loop.1:                                        loop.1:
      %i.1 = phi i64 ...                             %i.1 = phi i64 ...
      %t.1 = ...              10,000 lines           call void @k.body.0(ptr %frame, i64 %i.1, ptr %x)
      ...                                            call void @k.body.1(ptr %frame, i64 %i.1, ptr %y)
      %t.9999 = ...                                  %t.9999 = load i1, ptr %t.9999.at
      br i1 %t.9999, ...                             br i1 %t.9999, ...

LLVM's time grows with the square of the length of a function, since more values are live at once: it allocates
registers and stack slots for all of them.  There are more of them than registers anyway, so a value that one piece
leaves for another would be in memory without pieces, too.

A value that another piece or block reads has a place in the frame, which another value takes after the last piece that
reads it.  Values of other blocks are arguments of the piece.  Addresses are computed again; so is a product that LLVM
joins with the addition that reads it, so that results have the bits of one function.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ..kernel.nest import Status
from ..records import NamedTuple

#: Straight code of more than this many lines is written in pieces of about the second number of lines.
LONGEST, PIECE = 3000, 125

_NAME = re.compile(r"%[\w.]+")
_FLAGS = r"(?:(?:contract|reassoc|nsw|nuw|inbounds) )*"
_TYPE = r"(<\d+ x \w+>|\{[^}]*\}|\w+)"
_MASK = r"(?:i1|<\d+ x i1>) (?:<[^>]*>|splat \([^)]*\)|[%\w.]+)"

#: Patterns of instructions whose first group is the type of the result.
_RESULT = re.compile("|".join((
    rf"\w+ .* to {_TYPE}$",
    rf"load {_TYPE},",
    rf"call {_FLAGS}{_TYPE} @",
    rf"select {_FLAGS}{_MASK}, {_TYPE} ",
    r"extractelement <\d+ x (\w+)>",
    r"extractvalue \{ (<\d+ x \w+>|\w+),",  # the fields of a struct are of one type
    rf"(?:f?add|f?sub|f?mul|[fsu]div|[fsu]rem|shl|[al]shr|and|x?or|fneg|freeze|phi|insertelement) {_FLAGS}{_TYPE} ",
)))  # fmt: skip
#: The type in a lane of the result of other instructions.
_ELEMENTS = {"icmp": "i1", "fcmp": "i1", "getelementptr": "ptr", "alloca": "ptr"}
_LANES = re.compile(r"<(\d+) x ")
#: LLVM joins the first instructions with one of the second, if nothing else reads their result.
_JOINED, _JOINING = ("fmul contract ", "fneg contract "), ("fadd ", "fsub ")
#: The mask of an iteration, which stays with the function, where it is a register; it is among the first lines.
_MASK_MADE, _MOST_FOR_MASK = re.compile(r"  %[\w.]+ = icmp ugt <\d+ x i32> "), 16

#: The declarations of the functions that allocate and free memory.
ALLOCATION = {
    "PyMem_RawRealloc": "declare ptr @PyMem_RawRealloc(ptr, i64)", "PyMem_RawFree": "declare void @PyMem_RawFree(ptr)"
}  # fmt: skip
_ALIGNED = 64
#: The lines that allocate a frame.
_FRAME = """\
  %heap = call ptr @PyMem_RawRealloc(ptr null, i64 {0})
  %heap.is.none = icmp eq ptr %heap, null
  br i1 %heap.is.none, label %no.memory, label %framed
no.memory:
  ret i32 {3}
framed:
  %heap.place = ptrtoint ptr %heap to i64
  %heap.end = add i64 %heap.place, {1}
  %frame.place = and i64 %heap.end, {2}
  %frame = inttoptr i64 %frame.place to ptr"""


class Piece(NamedTuple):
    """A function: the text up to its opening brace, without attributes, and its lines."""

    head: str
    lines: list[str]


def result_type(instruction: str) -> str:
    """The type of the result of an instruction, as in the text "fadd <4 x double> %a, %b".

    >>> from codegen.emit.pieces import result_type
    >>> result_type("fadd contract <4 x double> %a, %b"), result_type("icmp slt i64 %i, %n")
    ('<4 x double>', 'i1')
    """
    found = _RESULT.match(instruction)
    if found is not None:
        return next(filter(None, found.groups()))
    word, lanes = instruction.split(" ", 1)[0], _LANES.findall(instruction)
    if word == "shufflevector":
        return f"<{lanes[-1]} x {instruction.split('>', 1)[0].rpartition(' ')[2]}>"
    element = _ELEMENTS[word]
    return f"<{lanes[0]} x {element}>" if lanes and word != "alloca" else element


def in_pieces(name: str, lines: Sequence[str], parameters: Mapping[str, str]) -> tuple[Sequence[str], list[Piece]]:
    """The lines of a function with its long straight code in pieces, and the pieces.

    parameters    the type, with attributes, of each parameter of the function
    """
    long = [block for block in _blocks(lines) if len(block) > LONGEST] if len(lines) > LONGEST else []
    return _Cutter(name, lines, parameters, long).cut() if long else (lines, [])


def _blocks(lines: Sequence[str]) -> list[range]:
    """The places of each block's instructions, after its phis, allocas and mask and before its last instruction."""
    starts = [k for k, line in enumerate(lines) if not line.startswith(" ")]
    found = []
    for label, end in pairwise([*starts, len(lines)]):
        first = label + 1
        while " = phi " in lines[first] or " = alloca " in lines[first]:
            first += 1
        masks = [k for k in range(first, min(first + _MOST_FOR_MASK, end)) if _MASK_MADE.match(lines[k])]
        found.append(range(masks[-1] + 1 if masks else first, end - 1))
    return found


class _Cutter:
    """The lines of a function, and where each value is made and read: in a piece (its number), or outside (None)."""

    def __init__(self, name: str, lines: Sequence[str], parameters: Mapping[str, str], long: Sequence[range]) -> None:
        self.name, self.lines, self.parameters = name, lines, parameters
        self.pieces = [(k, piece) for k, block in enumerate(long) for piece in _cut(block, lines)]
        number: list[int | None] = [None] * len(lines)
        for k, (_, piece) in enumerate(self.pieces):
            number[piece.start : piece.stop] = [k] * len(piece)
        self.made_in: dict[str, int | None] = dict.fromkeys(parameters)
        self.types = {one: type.split(" ", 1)[0] for one, type in parameters.items()}
        self.again: dict[str, str] = {}
        self.read_in: dict[str, set[int | None]] = defaultdict(set)
        products: dict[str, str] = {}
        readers: dict[str, list[str]] = defaultdict(list)
        for place, line in zip(number, lines, strict=True):
            made, is_value, instruction = line.strip().partition(" = ")
            if is_value:
                self.made_in[made] = place
                self.types[made] = result_type(instruction)
                if instruction.startswith("getelementptr "):
                    self.again[made] = line
                elif instruction.startswith(_JOINED):
                    products[made] = line
            for one in _read(line):
                self.read_in[one].add(place)
                readers[one].append(line)
        for one, line in reversed(products.items()):
            reader, *others = readers[one] or [""]
            made, _, instruction = reader.strip().partition(" = ")
            if not others and (instruction.startswith(_JOINING) or ("fneg" in instruction and made in self.again)):
                self.again[one] = line
        for one in reversed(self.made_in):
            for operand in _read(self.again.get(one, "")):
                self.read_in[operand] |= self.read_in[one]
        self.places: dict[str, int] = {}
        self.size = 0

    def cut(self) -> tuple[list[str], list[Piece]]:
        """The lines of the function, and the pieces."""
        self._place()
        pieces: list[Piece] = []
        found: list[str] = []
        known: dict[str, None] = {}
        done = 0
        for k, (block, piece) in enumerate(self.pieces):
            found += self.lines[done : piece.start]
            made, given = self._piece(k, piece)
            pieces.append(made)
            found.append(f"  call void @{self.name}.{k}({', '.join(['ptr %frame', *given])})")
            if k + 1 == len(self.pieces) or self.pieces[k + 1][0] != block:
                for name, made_in in self.made_in.items():
                    if made_in is not None and self.pieces[made_in][0] == block and None in self.read_in[name]:
                        found += self._get(name, None, known)
            done = piece.stop
        return self._framed([*found, *self.lines[done:]]), pieces

    def _framed(self, lines: Sequence[str]) -> list[str]:
        """The lines with the frame: it is allocated at the start, as stacks of threads may be small."""
        allocas = sum([" = alloca " in line for line in lines])
        frame = _FRAME.format(self.size + _ALIGNED - 1, _ALIGNED - 1, -_ALIGNED, int(Status.NO_MEMORY))
        found = [*lines[: 1 + allocas], *frame.split("\n")]
        for line in lines[1 + allocas :]:
            if line.startswith("  ret "):
                found.append("  call void @PyMem_RawFree(ptr %heap)")
            found.append(line.replace(", %entry ]", ", %framed ]") if " = phi " in line else line)
        return found

    def _place(self) -> None:
        """Give a place in the frame to each value that is read elsewhere than in its piece."""
        free: dict[int, list[int]] = defaultdict(list)
        ending: dict[int, list[str]] = defaultdict(list)
        made: dict[int, list[str]] = defaultdict(list)
        for name, k in self.made_in.items():
            if k is not None and self.read_in[name] - {k} and name not in self.again:
                made[k].append(name)
        for k, (block, _) in enumerate(self.pieces):
            for name in made[k]:
                size = _size(self.types[name])
                if free[size]:
                    self.places[name] = free[size].pop()
                else:
                    self.places[name] = -(-self.size // min(size, _ALIGNED)) * min(size, _ALIGNED)
                    self.size = self.places[name] + size
                readers = [self.pieces[j] if j is not None else None for j in self.read_in[name]]
                if all([reader is not None and reader[0] == block for reader in readers]):
                    ending[max(filter(None, self.read_in[name]))].append(name)
            for name in ending[k]:
                free[_size(self.types[name])].append(self.places[name])

    def _piece(self, k: int, piece: range) -> tuple[Piece, list[str]]:
        """One piece, and the arguments of its call after the frame."""
        lines: list[str] = []
        known: dict[str, None] = {}
        for line in self.lines[piece.start : piece.stop]:
            for name in _read(line):
                lines += self._get(name, k, known)
            lines.append(line)
            name = line.strip().partition(" = ")[0]
            known[name] = None
            if name in self.places:
                lines.append(self._address(name))
                lines.append(f"  store {self.types[name]} {name}, ptr {name}.at, align {self._alignment(name)}")
        given = [one for one in known if one in self.made_in and self.made_in[one] is None and one not in self.again]
        taken = [f"{self.parameters.get(one, self.types[one])} {one}" for one in given]
        head = f"define internal void @{self.name}.{k}({', '.join(['ptr noalias %frame', *taken])})"
        return Piece(head, ["entry:", *lines, "  ret void"]), [f"{self.types[one]} {one}" for one in given]

    def _get(self, name: str, k: int | None, known: dict[str, None]) -> list[str]:
        """The lines by which piece k, or the function itself, gets a value that it does not make."""
        if name in known or self.made_in.get(name, k) == k:
            return []
        known[name] = None
        if name in self.again:
            line = self.again[name]
            return [*[before for one in _read(line) for before in self._get(one, k, known)], line]
        if self.made_in[name] is None:
            return []
        text = f"  {name} = load {self.types[name]}, ptr {name}.at, align {self._alignment(name)}"
        return [self._address(name), text]

    def _address(self, name: str) -> str:
        return f"  {name}.at = getelementptr i8, ptr %frame, i64 {self.places[name]}"

    def _alignment(self, name: str) -> int:
        return min(_size(self.types[name]), _ALIGNED)


def _read(line: str) -> list[str]:
    """The names that an instruction reads."""
    return _NAME.findall(line.partition(" = ")[2] or line)


def _cut(block: range, lines: Sequence[str]) -> list[range]:
    """The pieces of a block.  A value of a struct is read where it is made."""
    count = -(-len(block) // PIECE)
    cuts = [block.start + len(block) * k // count for k in range(count + 1)]
    for k, cut in enumerate(cuts[1:-1], start=1):
        while " = extractvalue " in lines[cut]:
            cut += 1
        cuts[k] = cut
    return [range(a, b) for a, b in pairwise(cuts)]


def _size(type: str) -> int:
    """The bytes of a value's place: a power of two."""
    lanes = _LANES.match(type)
    element = type.rstrip(">").rpartition(" ")[2]
    bits = {"ptr": 64, "double": 64, "float": 32}.get(element) or int(element.removeprefix("i"))
    size = -(-bits * int(lanes[1] if lanes else 1) // 8)
    return 1 << (size - 1).bit_length()
