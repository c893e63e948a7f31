"""Text of a function piece by piece: values, blocks, space on the stack, numbers that are no part of it."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Aval
from ..program import Place
from .body import Needs

__all__ = ["CHUNK", "SMALL", "SPACE", "Text"]

#: Bytes of a value that lies on the stack of the function, where registers are made of it.
SMALL = 64

#: Bytes of a temporary that does; larger ones stay in the workspace, so that their size is no part of the text.
SPACE = 256

#: Work after which a loop notes what it has done.  Some 0.1 ms.
CHUNK = 1 << 20


class Text:
    """Lines of a function, its `entry` apart: there stand all numbers, and all space on the stack."""

    def __init__(self) -> None:
        self.needs = Needs()
        self.needs.declarations["llvm.memcpy"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.numbers: list[int] = []
        self.block = "start"
        self.span: tuple[str, str] | None = None  # of elements, where a loop goes over some of them at a time
        self._count = 0
        account = self.number(0)
        self.entry.append(f"  %account = inttoptr i64 {account} to ptr")
        self.left, self.status = self.space(8), self.space(4)
        self.entry.append(f"  store i64 {CHUNK}, ptr {self.left}")

    def fresh(self, word: str) -> str:
        """A name that is not taken."""
        self._count += 1
        return f"{word}.{self._count}"

    def let(self, word: str, text: str) -> str:
        """A value, by its name."""
        name = f"%{self.fresh(word)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def begin(self, label: str) -> None:
        """A new block."""
        self.lines.append(f"{label}:")
        self.block = label

    def go(self, label: str) -> None:
        """End the block."""
        self.lines.append(f"  br label %{label}")

    def choose(self, condition: str, yes: str, no: str) -> None:
        """End the block."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    def number(self, value: int) -> str:
        """A number that is no part of the text."""
        name, place = f"%n{len(self.numbers)}", len(self.numbers)
        self.numbers.append(value)
        self.entry.append(f"  {name}.at = getelementptr inbounds i64, ptr %numbers, i64 {place}")
        self.entry.append(f"  {name} = load i64, ptr {name}.at, align 8")
        return name

    def space(self, size: int) -> str:
        """Reserve so many bytes on the stack."""
        name = f"%{self.fresh('space')}"
        self.entry.append(f"  {name} = alloca [{size} x i8], align 64")
        return name

    def beyond(self, base: str, offset: int) -> str:
        """The address so many bytes after another."""
        return self.let("p", f"getelementptr i8, ptr {base}, i64 {self.number(offset)}") if offset else base

    def at(self, place: Place, aval: Aval, pointers: Sequence[str]) -> str:
        """The address at which a value begins."""
        buffer, start = place
        return self.beyond(pointers[buffer], start * aval.dtype.itemsize)

    def copy(self, to: str, source: str, aval: Aval) -> None:
        """All bytes of a value."""
        size = str(aval.nbytes) if aval.nbytes <= SMALL else self.number(aval.nbytes)
        self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")

    def copy_elements(self, to: str, source: str, aval: Aval) -> None:
        """The elements of a value that the loop is at."""
        if self.span is None:
            self.copy(to, source, aval)
            return
        begin, end = self.span
        first, count = (
            self.let("bytes", f"mul nsw i64 {n}, {aval.dtype.itemsize}")
            for n in (begin, self.let("count", f"sub nsw i64 {end}, {begin}"))
        )
        to, source = (self.let("p", f"getelementptr i8, ptr {x}, i64 {first}") for x in (to, source))
        self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {count}, i1 false)")

    def near(self, pointer: str, aval: Aval) -> str:
        """A value that does not change, on the stack if it is small."""
        if not 0 < aval.nbytes <= SMALL:
            return pointer
        space = self.space(aval.nbytes)
        self.copy(space, pointer, aval)
        return space

    def unless_failed(self, status: str) -> None:
        """Go on if a call gave 0."""
        on = self.fresh("ok")
        self.lines.append(f"  store i32 {status}, ptr {self.status}")
        self.choose(self.let("fine", f"icmp eq i32 {status}, 0"), on, "failed")
        self.begin(on)

    def account(self, work: int) -> None:
        """Note the work of one run, every now and then."""
        look, on = self.fresh("look"), self.fresh("on")
        before = self.let("before", f"load i64, ptr {self.left}")
        left = self.let("left", f"sub i64 {before}, {self.number(work)}")
        self.lines.append(f"  store i64 {left}, ptr {self.left}")
        self.choose(self.let("much", f"icmp slt i64 {left}, 0"), look, on)
        self.begin(look)
        self.lines.append(f"  store i64 {CHUNK}, ptr {self.left}")
        spent = self.let("spent", f"sub i64 {CHUNK}, {left}")
        self.unless_failed(self.let("signal", f"call i32 %account(i64 {spent})"))
        self.go(on)
        self.begin(on)

    def account_rest(self) -> None:
        """Note what has not been."""
        left = self.let("left", f"load i64, ptr {self.left}")
        spent = self.let("spent", f"sub i64 {CHUNK}, {left}")
        self.unless_failed(self.let("signal", f"call i32 %account(i64 {spent})"))
