"""Text of a function piece by piece: values, blocks, space on the stack, numbers that are no part of it.

States of a loop in text: small ones on the stack of the function, large ones at places that they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..ir import Aval
from ..kernel.nest import Status
from ..program import Place
from .body import Needs

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
        self.numbers: list[Any] = []
        self.block = "start"
        self.span: tuple[str, str] | None = None  # of elements, where a loop goes over some of them at a time
        self._count = 0
        self.kept: list[str] = []  # places of memory that is given back at the ends
        account = self.number("account")
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

    def is_true(self, answer: str) -> str:
        """The bit of a truth in memory."""
        return self.let("goes.on", f"icmp ne i8 {self.let('said', f'load i8, ptr {answer}')}, 0")

    def choose(self, condition: str, yes: str, no: str) -> None:
        """End the block."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def only_if(self, condition: str, word: str) -> Iterator[None]:
        """A part that is written meanwhile, and runs where a condition holds."""
        inside, on = self.fresh(word), self.fresh("on")
        self.choose(condition, inside, on)
        self.begin(inside)
        yield
        self.go(on)
        self.begin(on)

    @contextmanager
    def repeated(self, word: str, condition: Callable[[], str]) -> Iterator[list[tuple[str, str, str, str]]]:
        """A loop while a condition holds, whose body is written meanwhile.

        Gives the list of what it carries, to be filled: name, type, first value, next value.
        """
        label, inside, done = (self.fresh(part) for part in (word, "inside", "done"))
        entered = self.block
        self.go(label)
        self.begin(label)
        head = len(self.lines)
        self.choose(condition(), inside, done)
        self.begin(inside)
        carried: list[tuple[str, str, str, str]] = []
        yield carried
        self.lines[head:head] = [
            f"  {name} = phi {type} [ {first}, %{entered} ], [ {then}, %{self.block} ]"
            for name, type, first, then in carried
        ]
        self.go(label)
        self.begin(done)

    def number(self, value: Any) -> str:
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
        before = self.let("before", f"load i64, ptr {self.left}")
        left = self.let("left", f"sub i64 {before}, {self.number(work)}")
        self.lines.append(f"  store i64 {left}, ptr {self.left}")
        with self.only_if(self.let("much", f"icmp slt i64 {left}, 0"), "look"):
            self.lines.append(f"  store i64 {CHUNK}, ptr {self.left}")
            self._spent(left)

    def account_rest(self) -> None:
        """Note what has not been."""
        self._spent(self.let("left", f"load i64, ptr {self.left}"))

    def _spent(self, left: str) -> None:
        spent = self.let("spent", f"sub i64 {CHUNK}, {left}")
        self.unless_failed(self.let("signal", f"call i32 %account(i64 {spent})"))

    # ---- memory that the function takes ----

    def record(self, records: str, number: str, each: str) -> str:
        """The address of a record of the states."""
        offset = self.let("offset", f"mul i64 {number}, {each}")
        return self.let("p", f"getelementptr i8, ptr {self.let('records', f'load ptr, ptr {records}')}, i64 {offset}")

    def memory(self) -> str:
        """A place for the address of memory that the function takes, and gives back at its ends."""
        self.kept.append(cell := self.space(8))
        self.entry.append(f"  store ptr null, ptr {cell}")
        self.needs.declarations["PyMem_RawRealloc"] = "declare ptr @PyMem_RawRealloc(ptr, i64)"
        self.needs.declarations["PyMem_RawFree"] = "declare void @PyMem_RawFree(ptr)"
        return cell

    def grown(self, cell: str, size: str) -> str:
        """A larger memory in a cell, of so many bytes, which begins as the one before."""
        old = self.let("old", f"load ptr, ptr {cell}")
        found = self.let("grown", f"call ptr @PyMem_RawRealloc(ptr {old}, i64 {size})")
        is_none = self.let("is.none", f"icmp eq ptr {found}, null")
        self.unless_failed(self.let("status", f"select i1 {is_none}, i32 {int(Status.NO_MEMORY)}, i32 0"))
        self.lines.append(f"  store ptr {found}, ptr {cell}")
        return found

    def let_go(self) -> list[str]:
        """Lines that give the memory back."""
        found = []
        for cell in self.kept:
            name = f"%{self.fresh('kept')}"
            found += [f"  {name} = load ptr, ptr {cell}", f"  call void @PyMem_RawFree(ptr {name})"]
        return found


# ---------------------------------------------------------------- states of a loop


class Moving:
    """A pointer that goes on after each run."""

    def __init__(self, start: str, stride: str) -> None:
        self.start, self.stride = start, stride
        self.now = ""


class Near:
    """A small state, on the stack: it is copied to where it is wanted."""

    is_pointer = False
    start = ""

    def __init__(self, writer: Text, aval: Aval, first: str, last: str | None, before: Place | None) -> None:
        self.aval, self.last, self.before = aval, last, before
        self.read, self.written = (writer.space(max(aval.nbytes, 1)) for _ in range(2))
        writer.copy(self.read, first, aval)

    def enter(self, writer: Text) -> None:
        """At the head of the loop."""

    def aim(self, writer: Text, after: str, is_final: str, before: Moving | None) -> None:
        """Before a run."""
        if before is not None:
            writer.copy(before.now, self.read, self.aval)

    def hand_on(self, writer: Text) -> None:
        """After a run."""
        writer.copy(self.read, self.written, self.aval)

    def leave(self, writer: Text, length: str) -> None:
        """After the last."""
        if self.last is not None:
            writer.copy(self.last, self.read, self.aval)


class Turning:
    """A large state: a run reads it at one place and writes it to another, the last one where it is wanted."""

    is_pointer = True

    def __init__(
        self, aval: Aval, first: str, last: str, is_wanted: bool, in_turn: Sequence[str], before: Place | None
    ) -> None:
        self.aval, self.start, self.last, self.is_wanted = aval, first, last, is_wanted
        self.in_turn, self.before = in_turn, before
        self.read = self.written = ""

    def enter(self, writer: Text) -> None:
        """At the head of the loop."""
        self.read = f"%{writer.fresh('s')}"

    def aim(self, writer: Text, after: str, is_final: str, before: Moving | None) -> None:
        """Before a run.  Where all values are kept, each is written to its place, but for the first."""
        if before is None:
            odd = writer.let("odd", f"trunc i64 {after} to i1")
            then = writer.let("turn", f"select i1 {odd}, ptr {self.in_turn[1]}, ptr {self.in_turn[0]}")
        else:
            with writer.only_if(writer.let("is.first", f"icmp eq i64 {after}, 1"), "first"):
                writer.copy_elements(before.now, self.read, self.aval)
            then = writer.let("kept", f"getelementptr i8, ptr {before.now}, i64 {before.stride}")
        self.written = writer.let("to", f"select i1 {is_final}, ptr {self.last}, ptr {then}")

    def hand_on(self, writer: Text) -> None:
        """After a run."""

    def leave(self, writer: Text, length: str) -> None:
        """After the last: of no runs the first value is the last."""
        if self.is_wanted:
            with writer.only_if(writer.let("is.none", f"icmp eq i64 {length}, 0"), "none"):
                writer.copy_elements(self.last, self.start, self.aval)


class Flip:
    """A state of a while loop, at two places in turn (a large one), or at the first between runs."""

    def __init__(self, aval: Aval, first: str, second: str) -> None:
        self.aval, self.two = aval, (first, second)
        self.is_small = aval.nbytes <= SMALL
        self.read, self.written = self.two
