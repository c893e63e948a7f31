"""A loop or branch with the kernels that it runs, as one function of LLVM IR.

    define i32 @name(ptr %pointers, ptr %numbers)         as any kernel's: buffers of the step; lengths, strides, ...
    define internal i32 @name.body(ptr noalias ...)
      loop.1:
        %t.2 = phi i64 [ 0, %entry ], [ %next.3, %on.9 ]
        %x.4 = phi ptr ...                                an element of each array, which goes on
        ...
        %status = call i32 @name.k0.body(ptr %cur, ptr %x.4, ptr %next)
        ...                                               what was written is read next
    define internal i32 @name.k0.body(...) { a kernel }

Small states, and small values that every run gets, are copied to the stack of the function: there LLVM makes
registers of them.  Large states are pointers, which change places after each run.  A kernel that is alone in a body
becomes part of the function; several are called, so that each computes to the bit what it does elsewhere (a
multiplication and an addition in two kernels are not contracted).

A large elementwise loop takes some elements through all steps, then the next: they stay in the first cache.

Nothing in the text depends on how long a loop is, where values lie, or on large extents: all that is in `numbers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..ir import Aval
from ..kernel.nest import MemRef, NestFunction, every
from ..program import Branch, BufferProgram, Kernel, Loop, Place, Run, While, aligned, bodies
from ..symbols import is_sure
from .debug import PlaceOf, Places
from .llvm import Emitted, internal, nameless
from .nest_text import SMALL, SPACE, Flip, Moving, Near, Text, Turning
from .target import Target

__all__ = ["NestText", "emit_nest", "kernels_in"]

#: Of each part of a kernel: its function, which of the kernel's buffers it works on, its numbers.
Parts = Callable[[Kernel], Sequence[tuple[NestFunction, tuple[int, ...], tuple[int, ...]]]]
#: The work of one run of a program.
Work = Callable[[BufferProgram], int]

#: Of a loop whose steps are elementwise: how many elements to take through all steps at a time, and of how many.
Blocks = Callable[[Loop], tuple[int, int] | None]


class NestText(NamedTuple):
    """A whole loop or branch as text, and the numbers that it reads; the first is for the caller to fill in."""

    emitted: Emitted
    numbers: tuple[int, ...]


def kernels_in(work: object) -> list[Kernel] | None:
    """The kernels that a loop or branch runs, those of nests in it too; None where it does not run kernels only."""
    found: list[Kernel] = []
    for _, body, _ in bodies(work):
        for step in body.steps:
            if isinstance(step.work, Kernel):
                found.append(step.work)
                continue
            inside = kernels_in(step.work)
            if inside is None:
                return None
            found += inside
    is_nest = isinstance(work, Loop | Branch) or (isinstance(work, While) and work.back is None)
    return found if is_nest else None


def emit_nest(
    work: Loop | Branch | While, buffers: int, parts: Parts, blocks: Blocks, work_of: Work, target_features: str,
    place_of: PlaceOf | None = None,
) -> NestText:  # fmt: skip
    """The function for a step on so many buffers; its kernels have debug info where places are known."""
    writer = _NestEmitter("kernel", parts, blocks, work_of, Target.of(target_features))
    writer.needs.place_of = place_of
    writer.nest(work, [f"%b{j}" for j in range(buffers)])
    return writer.finished(buffers)


class _NestEmitter(Text):
    """Writes the function."""

    def __init__(self, name: str, parts: Parts, blocks: Blocks, work_of: Work, target: Target) -> None:
        super().__init__()
        self.name, self.parts, self.blocks, self.work_of, self.target = name, parts, blocks, work_of, target
        self.kernels: dict[int, tuple[NestFunction, str, bool]] = {}

    def finished(self, buffers: int) -> NestText:
        """The function with its kernels."""
        self.account_rest()
        inner = ", ".join(
            [*[f"ptr noalias nofree %b{j}" for j in range(buffers)], "ptr noalias nofree readonly %numbers"]
        )
        end = ["  ret i32 0", "failed:", f"  %code = load i32, ptr {self.status}", "  ret i32 %code", "}\n"]
        lines, told = [*self.entry, "  br label %start", "start:", *self.lines, *end], ""
        if self.needs.place_of is not None:  # or else what is inlined into it loses its lines
            places = Places(self.name, self.needs.place_of)
            nodes = (o.node for function, _, _ in self.kernels.values() for o in every(function.body.operations))
            *lines, told = places.among(self.needs.metadata, places.around(lines, nodes))
        head = f"define internal i32 @{self.name}.body({inner}) noinline nounwind{told} {{\nentry:"
        text = "\n".join([head, *lines])
        kernels = [
            internal(nameless(function, name), self.needs, self.target, is_part=is_part)
            for function, name, is_part in self.kernels.values()
        ]
        return NestText(
            Emitted(self.name, "\n".join([_entrance(self.name, buffers), text, *kernels]), self.needs),
            tuple(self.numbers),
        )

    # ------------------------------------------------------------ what runs

    def nest(self, work: object, pointers: Sequence[str]) -> None:
        """A loop or branch on these buffers."""
        match work:
            case Loop():
                self.loop(work, pointers)
            case While():
                self.repeat(work, pointers)
            case Branch():
                self.branch(work, pointers)

    def run(
        self, program: BufferProgram, inputs: Sequence[str], outputs: Sequence[str], temporaries: dict[int, str]
    ) -> None:
        """The steps of a body."""
        of_role = {"input": dict(enumerate(inputs)), "output": dict(enumerate(outputs))}
        places = [of_role.get(b.role, {}).get(b.place) or temporaries[j] for j, b in enumerate(program.buffers)]
        for step in program.steps:
            pointers = [places[b] for b in step.buffers]
            if isinstance(step.work, Kernel):
                parts = self.parts(step.work)
                for function, own, extents in parts:
                    memory = [pointers[j] for j in own]
                    self.call(function, memory, extents, is_part=len(parts) == len(program.steps) == 1)
            else:
                self.nest(step.work, pointers)

    def call(self, function: NestFunction, pointers: Sequence[str], extents: Sequence[int], *, is_part: bool) -> None:
        """One kernel, which becomes part of the function or is called."""
        _, name, _ = self.kernels.setdefault(id(function), (function, f"{self.name}.k{len(self.kernels)}", is_part))
        memory = [f"ptr {p}" for p in pointers]
        numbers = [*map(self.number, extents[:-2]), *self.span] if self.span else map(self.number, extents)
        given = {True: iter(memory), False: iter([f"i64 {n}" for n in numbers])}
        passed = [next(given[isinstance(a.type, MemRef)]) for a in function.arguments]
        self.unless_failed(self.let("status", f"call i32 @{name}.body({', '.join(passed)})"))

    def temporaries(self, program: BufferProgram, workspace: str) -> dict[int, str]:
        """The places of a body's temporaries, by the number of the buffer."""
        return {
            j: self.space(max(b.aval.nbytes, 1)) if is_sure(b.aval.nbytes, SPACE) else self.beyond(workspace, b.place)
            for j, b in enumerate(program.buffers)
            if b.role == "temporary"
        }

    # ------------------------------------------------------------ branches

    def branch(self, branch: Branch, pointers: Sequence[str]) -> None:
        """One of two bodies."""
        yes, no, done = self.fresh("yes"), self.fresh("no"), self.fresh("done")
        buffer, start = branch.chosen
        answer = self.let("answer", f"load i8, ptr {self.beyond(pointers[buffer], start)}")
        self.choose(self.let("is.yes", f"icmp ne i8 {answer}, 0"), yes, no)
        for label, run in ((yes, branch.yes), (no, branch.no)):
            self.begin(label)
            self.side(run, pointers)
            self.go(done)
        self.begin(done)

    def side(self, run: Run, pointers: Sequence[str]) -> None:
        """A body where its values lie."""
        body = run.body
        inputs = [self.at(p, a, pointers) for p, a in zip(run.inputs, body.inputs, strict=True)]
        outputs = [self.at(p, a, pointers) for p, a in zip(run.outputs, body.outputs, strict=True)]
        self.run(body, inputs, outputs, self.temporaries(body, pointers[-1]))

    # ------------------------------------------------------------ a known number of steps

    def loop(self, loop: Loop, pointers: Sequence[str]) -> None:
        """All steps of a scan: of all elements, or of those of one block after the other, which stay in the cache."""
        blocks = self.blocks(loop)
        if blocks is None:
            self.steps(loop, pointers, self.work_of(loop.body))
            return
        block, total = blocks
        label, inside, done = (self.fresh(word) for word in ("blocks", "block", "all"))
        begin, end, count = f"%{self.fresh('begin')}", f"%{self.fresh('end')}", self.number(total)
        entered = self.block
        self.go(label)
        self.begin(label)
        head = len(self.lines)
        self.choose(self.let("more", f"icmp slt i64 {begin}, {count}"), inside, done)
        self.begin(inside)
        most = self.let("most", f"add nsw i64 {begin}, {block}")
        is_whole = self.let("is.whole", f"icmp slt i64 {most}, {count}")
        self.lines.append(f"  {end} = select i1 {is_whole}, i64 {most}, i64 {count}")
        self.span = begin, end
        self.steps(loop, pointers, self.work_of(loop.body) * block // total)
        self.span = None
        self.lines.insert(head, f"  {begin} = phi i64 [ 0, %{entered} ], [ {end}, %{self.block} ]")
        self.go(label)
        self.begin(done)

    def steps(self, loop: Loop, pointers: Sequence[str], work: int) -> None:
        """All steps of a scan, each of so much work."""
        body, workspace = loop.body, pointers[-1]
        length = self.number(loop.length)
        states = [self.state(loop, k, pointers) for k in range(loop.carried)]
        first = loop.carried + len(loop.scanned)
        hidden = [self.near(self.at(p, a, pointers), a) for p, a in zip(loop.hidden, body.inputs[first:], strict=True)]
        temporaries = self.temporaries(body, workspace)
        rows = [*zip(loop.scanned, loop.elements, strict=True), *zip(loop.stacks, loop.stacked, strict=True)]
        rows += [(s.before, s.aval) for s in states if s.before is not None]
        moving = [Moving(*self.moves(loop, place, aval, pointers)) for place, aval in rows]
        label, inside, done = (self.fresh(word) for word in ("loop", "run", "done"))
        entered = self.block
        self.go(label)
        self.begin(label)
        heads = len(self.lines)  # phis are put here at the end
        t = f"%{self.fresh('t')}"
        for one in moving:
            one.now = f"%{self.fresh('x')}"
        for state in states:
            state.enter(self)
        self.choose(self.let("more", f"icmp slt i64 {t}, {length}"), inside, done)
        self.begin(inside)
        after = self.let("next", f"add nuw nsw i64 {t}, 1")
        is_final = self.let("is.final", f"icmp eq i64 {after}, {length}")
        elements, stacks = moving[: len(loop.scanned)], moving[len(loop.scanned) :][: len(loop.stacks)]
        befores = iter(moving[len(loop.scanned) + len(loop.stacks) :])
        for state in states:
            state.aim(self, after, is_final, next(befores) if state.before is not None else None)
        inputs = [*[s.read for s in states], *[m.now for m in elements], *hidden]
        self.run(body, inputs, [*[s.written for s in states], *[m.now for m in stacks]], temporaries)
        for state in states:
            state.hand_on(self)
        self.account(work)
        for one in moving:
            one.next = self.let("x", f"getelementptr i8, ptr {one.now}, i64 {one.stride}")
        phis = [(t, "i64", "0", after), *[(m.now, "ptr", m.start, m.next) for m in moving]]
        phis += [(s.read, "ptr", s.start, s.written) for s in states if s.is_pointer]
        self.lines[heads:heads] = [
            f"  {name} = phi {type} [ {start}, %{entered} ], [ {then}, %{self.block} ]"
            for name, type, start, then in phis
        ]
        self.go(label)
        self.begin(done)
        for state in states:
            state.leave(self, length)

    def moves(self, loop: Loop, place: Place, aval: Aval, pointers: Sequence[str]) -> tuple[str, str]:
        """The place of the first run's element, and the bytes from run to run."""
        buffer, start = place
        begin, size = start * aval.dtype.itemsize, aval.nbytes
        if loop.is_reversed:
            begin, size = begin + max(loop.length - 1, 0) * size, -size
        # A number even where it is 0: whether it is depends on the length.
        first = self.let("p", f"getelementptr i8, ptr {pointers[buffer]}, i64 {self.number(begin)}")
        return first, self.number(size)

    def state(self, loop: Loop, k: int, pointers: Sequence[str]) -> Near | Turning:
        """The way of a state from run to run."""
        aval, last, before = loop.states[k], loop.lasts[k], loop.befores[k]
        first = self.at(loop.firsts[k], aval, pointers)
        end = None if last is None else self.at(last, aval, pointers)
        if aval.nbytes <= SMALL:
            return Near(self, aval, first, end, before)
        turns, at_last = loop.room()[0][k]
        last_place = end or self.beyond(pointers[-1], at_last)
        in_turn = [self.beyond(pointers[-1], turns + j * aligned(aval.nbytes)) for j in (0, 1) if before is None]
        return Turning(aval, first, last_place, end is not None, in_turn, before)

    # ------------------------------------------------------------ steps while a condition holds

    def repeat(self, loop: While, pointers: Sequence[str]) -> None:
        """All steps of a while loop."""
        workspace, carried = pointers[-1], len(loop.states)
        _, records, _ = loop.room()
        offsets, size = loop.record()
        answer = self.space(1)
        states = []
        for aval, offset, place in zip(loop.states, offsets, loop.firsts, strict=True):
            first = self.at(place, aval, pointers)
            if aval.nbytes <= SMALL:
                two = [self.space(max(aval.nbytes, 1)) for _ in range(2)]
            else:
                two = [self.beyond(workspace, records + offset + j * size) for j in range(2)]
            self.copy(two[0], first, aval)
            states.append(Flip(aval, *two))
        inputs = loop.step.inputs[carried:]
        hidden = [self.near(self.at(p, a, pointers), a) for p, a in zip(loop.hidden, inputs, strict=True)]
        firsts = [s.two[0] for s in states]
        self.run(loop.condition, [*firsts, *hidden], [answer], self.temporaries(loop.condition, workspace))
        temporaries = self.temporaries(loop.step, workspace)
        label, inside, done = (self.fresh(word) for word in ("while", "step", "done"))
        entered = self.block
        self.go(label)
        self.begin(label)
        heads = len(self.lines)
        for s in states:
            if not s.is_small:
                s.read, s.written = (f"%{self.fresh('s')}" for _ in range(2))
        said = self.let("said", f"load i8, ptr {answer}")
        self.choose(self.let("goes.on", f"icmp ne i8 {said}, 0"), inside, done)
        self.begin(inside)
        self.run(loop.step, [*[s.read for s in states], *hidden], [*[s.written for s in states], answer], temporaries)
        for s in states:
            if s.is_small:
                self.copy(s.read, s.written, s.aval)
        self.account(self.work_of(loop.step))
        large = [s for s in states if not s.is_small]
        self.lines[heads:heads] = [
            f"  {name} = phi ptr [ {start}, %{entered} ], [ {then}, %{self.block} ]"
            for s in large
            for name, start, then in ((s.read, s.two[0], s.written), (s.written, s.two[1], s.read))
        ]
        self.go(label)
        self.begin(done)
        for s, last in zip(states, loop.lasts, strict=True):
            if last is not None:
                self.copy(self.at(last, s.aval, pointers), s.read, s.aval)


def _entrance(name: str, buffers: int) -> str:
    """The function that the runtime calls: it unpacks the pointers."""
    lines = [f"define i32 @{name}(ptr %.pointers, ptr %.numbers) nounwind {{"]
    for j in range(buffers):
        lines.append(f"  %.at{j} = getelementptr inbounds ptr, ptr %.pointers, i64 {j}")
        lines.append(f"  %b{j} = load ptr, ptr %.at{j}, align 8")
    passed = ", ".join([*[f"ptr %b{j}" for j in range(buffers)], "ptr %.numbers"])
    return "\n".join([*lines, f"  %.status = call i32 @{name}.body({passed})", "  ret i32 %.status", "}\n"])
