"""Write the text of a function piece by piece: values, blocks, space on the stack, numbers passed at run time.

States of a loop: small ones are on the stack of the function, large ones alternate between two places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..ir import Aval
from ..kernel.nest import Status
from ..program import Place
from .body import Needs
from .pieces import ALLOCATION

#: The largest value on the stack of the function, in bytes; LLVM promotes such values to registers.
SMALL = 64

#: The work after which a loop reports the work that it has done.  Some 0.1 ms.
CHUNK = 1 << 20


class Text:
    """Lines of a function; `entry` has those of the first block, which reads all numbers and reserves all space."""

    def __init__(self) -> None:
        self.needs = Needs()
        self.needs.declarations["llvm.memcpy"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.numbers: list[Any] = []
        self.block = "start"
        self.span: tuple[str, str] | None = None  # (begin, end) of elements, inside a loop over blocks of them
        self._count = 0
        self.cells: list[str] = []  # cells with addresses of memory that is freed at the ends
        account = self.number("account")
        self.entry.append(f"  %account = inttoptr i64 {account} to ptr")
        self.left, self.status = self.space(8), self.space(4)
        self.entry.append(f"  store i64 {CHUNK}, ptr {self.left}")

    def fresh(self, word: str) -> str:
        """A new name that begins with a word."""
        self._count += 1
        return f"{word}.{self._count}"

    def let(self, word: str, text: str) -> str:
        """Define a value; return its name."""
        name = f"%{self.fresh(word)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def begin(self, label: str) -> None:
        """Begin a new block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self.lines.append(f"  br label %{label}")

    def is_true(self, answer: str) -> str:
        """Load a bool from memory as an i1."""
        return self.let("goes.on", f"icmp ne i8 {self.let('said', f'load i8, ptr {answer}')}, 0")

    def choose(self, condition: str, yes: str, no: str) -> None:
        """End the block with a branch."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def only_if(self, condition: str, word: str) -> Iterator[None]:
        """A context whose lines run only if a condition holds."""
        inside, on = self.fresh(word), self.fresh("on")
        self.choose(condition, inside, on)
        self.begin(inside)
        yield
        self.jump(on)
        self.begin(on)

    @contextmanager
    def repeated(self, word: str, condition: Callable[[], str]) -> Iterator[list[tuple[str, str, str, str]]]:
        """A context whose lines are the body of a loop that runs while a condition holds.

        Yields the list of carried values, to be filled with (name, type, first value, next value).
        """
        label, inside, done = (self.fresh(part) for part in (word, "inside", "done"))
        entered = self.block
        self.jump(label)
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
        self.jump(label)
        self.begin(done)

    def number(self, value: Any) -> str:
        """Read a number at run time, so that it is not part of the text; return its name."""
        name, place = f"%n{len(self.numbers)}", len(self.numbers)
        self.numbers.append(value)
        self.entry.append(f"  {name}.at = getelementptr inbounds i64, ptr %numbers, i64 {place}")
        self.entry.append(f"  {name} = load i64, ptr {name}.at, align 8")
        return name

    def space(self, size: int) -> str:
        """Reserve bytes on the stack; return their address."""
        name = f"%{self.fresh('space')}"
        self.entry.append(f"  {name} = alloca [{size} x i8], align 64")
        return name

    def beyond(self, base: str, offset: int) -> str:
        """The address `offset` bytes after `base`."""
        return self.let("p", f"getelementptr i8, ptr {base}, i64 {self.number(offset)}") if offset else base

    def at(self, place: Place, aval: Aval, pointers: Sequence[str]) -> str:
        """The address at which a value begins."""
        buffer, start = place
        return self.beyond(pointers[buffer], start * aval.dtype.itemsize)

    def copy(self, to: str, source: str, aval: Aval) -> None:
        """Copy all bytes of a value."""
        size = str(aval.nbytes) if aval.nbytes <= SMALL else self.number(aval.nbytes)
        self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")

    def copy_elements(self, to: str, source: str, aval: Aval) -> None:
        """Copy the elements of a value that are in the current block of elements."""
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

    def on_stack(self, pointer: str, aval: Aval) -> str:
        """The address of a value that does not change: of a copy on the stack if it is small."""
        if not 0 < aval.nbytes <= SMALL:
            return pointer
        space = self.space(aval.nbytes)
        self.copy(space, pointer, aval)
        return space

    def unless_failed(self, status: str) -> None:
        """Continue if a call returned status 0; otherwise return its status."""
        on = self.fresh("ok")
        self.lines.append(f"  store i32 {status}, ptr {self.status}")
        self.choose(self.let("fine", f"icmp eq i32 {status}, 0"), on, "failed")
        self.begin(on)

    def account(self, work: int) -> None:
        """Count the work of one run, and report it whenever CHUNK is reached."""
        before = self.let("before", f"load i64, ptr {self.left}")
        left = self.let("left", f"sub i64 {before}, {self.number(work)}")
        self.lines.append(f"  store i64 {left}, ptr {self.left}")
        with self.only_if(self.let("much", f"icmp slt i64 {left}, 0"), "look"):
            self.lines.append(f"  store i64 {CHUNK}, ptr {self.left}")
            self._spent(left)

    def account_rest(self) -> None:
        """Report the work that has not been reported."""
        self._spent(self.let("left", f"load i64, ptr {self.left}"))

    def _spent(self, left: str) -> None:
        spent = self.let("spent", f"sub i64 {CHUNK}, {left}")
        self.unless_failed(self.let("signal", f"call i32 %account(i64 {spent})"))

    # ---- memory that the function allocates ----

    def record(self, records: str, number: str, each: str) -> str:
        """The address of the record of states with a number."""
        offset = self.let("offset", f"mul i64 {number}, {each}")
        return self.let("p", f"getelementptr i8, ptr {self.let('records', f'load ptr, ptr {records}')}, i64 {offset}")

    def memory(self) -> str:
        """A cell for the address of memory that the function allocates, and frees at its ends."""
        self.cells.append(cell := self.space(8))
        self.entry.append(f"  store ptr null, ptr {cell}")
        self.needs.declarations |= ALLOCATION
        return cell

    def grown(self, cell: str, size: str) -> str:
        """Reallocate the memory of a cell to `size` bytes, which keeps its contents; return the address."""
        old = self.let("old", f"load ptr, ptr {cell}")
        found = self.let("grown", f"call ptr @PyMem_RawRealloc(ptr {old}, i64 {size})")
        is_none = self.let("is.none", f"icmp eq ptr {found}, null")
        self.unless_failed(self.let("status", f"select i1 {is_none}, i32 {int(Status.NO_MEMORY)}, i32 0"))
        self.lines.append(f"  store ptr {found}, ptr {cell}")
        return found

    def free_lines(self) -> list[str]:
        """Lines that free the memory of all cells."""
        found = []
        for cell in self.cells:
            name = f"%{self.fresh('kept')}"
            found += [f"  {name} = load ptr, ptr {cell}", f"  call void @PyMem_RawFree(ptr {name})"]
        return found


# ---------------------------------------------------------------- states of a loop


class Cursor:
    """A pointer that advances by `stride` bytes after each run."""

    def __init__(self, writer: Text, start: str, stride: str) -> None:
        self.start, self.stride = start, stride
        self.now = f"%{writer.fresh('x')}"


class StackState:
    """A small state, on the stack; it is copied to each place that must have it."""

    is_pointer = False
    start = ""

    def __init__(self, writer: Text, aval: Aval, first: str, last: str | None, before: Place | None) -> None:
        self.aval, self.last, self.before = aval, last, before
        self.read, self.written = (writer.space(max(aval.nbytes, 1)) for _ in range(2))
        writer.copy(self.read, first, aval)

    def before_run(self, writer: Text, after: str, is_final: str, before: Cursor | None) -> None:
        """Before a run: copy the state to its place among the states that are kept, if there is one."""
        if before is not None:
            writer.copy(before.now, self.read, self.aval)

    def after_run(self, writer: Text) -> None:
        """After a run: make the new state the one that is read."""
        writer.copy(self.read, self.written, self.aval)

    def after_loop(self, writer: Text, length: str) -> None:
        """After the last run: copy the state to its final place."""
        if self.last is not None:
            writer.copy(self.last, self.read, self.aval)


class AlternatingState:
    """A large state: a run reads it at one place and writes it to another; the last run writes to the final place."""

    is_pointer = True

    def __init__(
        self, writer: Text, aval: Aval, first: str, last: str, is_wanted: bool, two_places: Sequence[str],
        before: Place | None,
    ) -> None:  # fmt: skip
        self.aval, self.start, self.last, self.is_wanted = aval, first, last, is_wanted
        self.two_places, self.before = two_places, before
        self.read, self.written = f"%{writer.fresh('s')}", ""

    def before_run(self, writer: Text, after: str, is_final: str, before: Cursor | None) -> None:
        """Before a run: choose where it writes: if states are kept, the place of the next one.  The first is copied."""
        if before is None:
            odd = writer.let("odd", f"trunc i64 {after} to i1")
            then = writer.let("turn", f"select i1 {odd}, ptr {self.two_places[1]}, ptr {self.two_places[0]}")
        else:
            with writer.only_if(writer.let("is.first", f"icmp eq i64 {after}, 1"), "first"):
                writer.copy_elements(before.now, self.read, self.aval)
            then = writer.let("kept", f"getelementptr i8, ptr {before.now}, i64 {before.stride}")
        self.written = writer.let("to", f"select i1 {is_final}, ptr {self.last}, ptr {then}")

    def after_run(self, writer: Text) -> None:
        """After a run: nothing, because the loop carries the pointer."""

    def after_loop(self, writer: Text, length: str) -> None:
        """After the last run; without any run the first state is copied to the final place."""
        if self.is_wanted:
            with writer.only_if(writer.let("is.none", f"icmp eq i64 {length}, 0"), "none"):
                writer.copy_elements(self.last, self.start, self.aval)


class WhileState:
    """A state of a while loop: a large one alternates between two places, a small one is at the first between runs."""

    def __init__(self, writer: Text, aval: Aval, first: str, second: str) -> None:
        self.aval, self.two = aval, (first, second)
        self.is_small = aval.nbytes <= SMALL
        self.read, self.written = self.two if self.is_small else [f"%{writer.fresh('s')}" for _ in range(2)]
