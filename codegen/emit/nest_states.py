"""States of a loop in text: small ones on the stack of the function, large ones at places that they change."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Aval
from ..program import Place
from .nest_text import SMALL, Text

__all__ = ["Flip", "Moving", "Near", "Turning"]


class Moving:
    """A pointer that goes on after each run."""

    def __init__(self, start: str, stride: str) -> None:
        self.start, self.stride = start, stride
        self.now = self.next = ""


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
            first, on = writer.fresh("first"), writer.fresh("kept")
            writer.choose(writer.let("is.first", f"icmp eq i64 {after}, 1"), first, on)
            writer.begin(first)
            writer.copy_elements(before.now, self.read, self.aval)
            writer.go(on)
            writer.begin(on)
            then = writer.let("kept", f"getelementptr i8, ptr {before.now}, i64 {before.stride}")
        self.written = writer.let("to", f"select i1 {is_final}, ptr {self.last}, ptr {then}")

    def hand_on(self, writer: Text) -> None:
        """After a run."""

    def leave(self, writer: Text, length: str) -> None:
        """After the last: of no runs the first value is the last."""
        if self.is_wanted:
            none, on = writer.fresh("none"), writer.fresh("left")
            writer.choose(writer.let("is.none", f"icmp eq i64 {length}, 0"), none, on)
            writer.begin(none)
            writer.copy_elements(self.last, self.start, self.aval)
            writer.go(on)
            writer.begin(on)


class Flip:
    """A state of a while loop, at two places in turn (a large one), or at the first between runs."""

    def __init__(self, aval: Aval, first: str, second: str) -> None:
        self.aval, self.two = aval, (first, second)
        self.is_small = aval.nbytes <= SMALL
        self.read, self.written = self.two
