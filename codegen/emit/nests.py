"""A loop or branch with the kernels that it runs, as one function of LLVM IR.

    define i32 @name(ptr %pointers, ptr %numbers)         as for any kernel: buffers of the step; lengths, strides, ...
    define internal i32 @name.body(ptr noalias ...)
      loop.1:
        %t.2 = phi i64 [ 0, %entry ], [ %next.3, %on.9 ]
        %x.4 = phi ptr ...                                the current element of each array; the pointer advances
        ...
        %status = call i32 @name.k0.body(ptr %cur, ptr %x.4, ptr %next)
        ...                                               what was written is read next
    define internal i32 @name.k0.body(...) { a kernel }

Small states, and small values that every run gets, are copied to the stack of the function, where LLVM promotes
them to registers.  Large states are pointers, which are swapped after each run.  The only kernel of a body is
inlined; several kernels are called, so that each gives the same bits as elsewhere (a multiplication and an addition
in two kernels are not contracted).

A large elementwise loop takes one block of elements through all steps, then the next: a block stays in the first cache.

A step of a body that is not in this code, a product or a kernel that threads divide, is run by `run_steps`; the
addresses of that function and of the step's words are in `numbers`.

The text does not depend on the length of a loop, on places of values or on large extents: these are in `numbers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..ir import Aval
from ..kernel.nest import MemRef, NestFunction, every
from ..program import Branch, BufferProgram, Kernel, Loop, Place, Run, Step, While, aligned, bodies
from .debug import PlaceOf, Places
from .llvm import Emitted, entrance, internal, nameless
from .nest_text import SMALL, AlternatingState, Cursor, StackState, Text, WhileState
from .target import Target

#: For each part of a kernel: its function, the numbers of the kernel's buffers that it uses, its extents; None for a
#: kernel that is compiled apart from the loop.
Parts = Callable[[Kernel], Sequence[tuple[NestFunction, tuple[int, ...], tuple[int, ...]]] | None]
#: The work of one run of a program.
Work = Callable[[BufferProgram], int]

#: For a loop of elementwise steps: the elements that go through all steps at a time, and their total; else None.
Blocks = Callable[[Loop], tuple[int, int] | None]


class NestText(NamedTuple):
    """A whole loop or branch as text, and the numbers that it reads.

    numbers   "account" and "run_steps" stand for the addresses of these functions; (k, 0) stands for the address of
              the words of the k-th of `leaves`, (k, 1) for the number of these words
    outside   the numbers of the leaves that are not in this code, which `run_steps` runs
    """

    emitted: Emitted
    numbers: tuple[Any, ...]
    outside: tuple[int, ...]

    def filled(self, addresses: Mapping[str, Any], words: Mapping[int, tuple[Any, int]]) -> tuple[Any, ...]:
        """The numbers, with these addresses and the words of each leaf filled in."""
        known: dict[Any, Any] = {(k, j): x for k, found in words.items() for j, x in enumerate(found)}
        known.update(addresses)
        return tuple([known[x] if isinstance(x, str | tuple) else x for x in self.numbers])


def leaves(work: object) -> list[Step]:
    """The steps that a loop or branch runs; a loop or branch among them is replaced by its own steps."""
    steps = [step for _, body, _ in bodies(work) for step in body.steps]
    return [leaf for step in steps for leaf in (leaves(step.work) if bodies(step.work) else [step])]


def emit_nest(
    work: Loop | Branch | While, buffers: int, parts: Parts, blocks: Blocks, work_of: Work, target_features: str,
    place_of: PlaceOf | None = None,
) -> NestText:  # fmt: skip
    """The function for a loop or branch on `buffers` buffers; its kernels have debug info if `place_of` is given."""
    writer = _NestEmitter("kernel", parts, blocks, work_of, Target.of(target_features))
    writer.needs.place_of = place_of
    writer.places = {id(step): k for k, step in enumerate(leaves(work))}
    writer.nest(work, [f"%b{j}" for j in range(buffers)])
    return writer.finished(buffers)


class _NestEmitter(Text):
    """Writes the function of a loop or branch."""

    def __init__(self, name: str, parts: Parts, blocks: Blocks, work_of: Work, target: Target) -> None:
        super().__init__()
        self.name, self.parts, self.blocks, self.work_of, self.target = name, parts, blocks, work_of, target
        self.kernels: dict[int, tuple[NestFunction, str, bool]] = {}
        self.places: dict[int, int] = {}
        self.outside: dict[int, None] = {}

    def finished(self, buffers: int) -> NestText:
        """The finished function, with its kernels."""
        self.account_rest()
        inner = ", ".join(
            [*[f"ptr noalias nofree %b{j}" for j in range(buffers)], "ptr noalias nofree readonly %numbers"]
        )
        end = [*self.free_lines(), "  ret i32 0", "failed:", *self.free_lines()]
        end += [f"  %code = load i32, ptr {self.status}", "  ret i32 %code", "}\n"]
        lines, mark = [*self.entry, "  br label %start", "start:", *self.lines, *end], ""
        if self.needs.place_of is not None:  # or else the kernels inlined into it lose theirs
            places = Places(self.name, self.needs.place_of)
            nodes = (o.node for function, _, _ in self.kernels.values() for o in every(function.body.operations))
            *lines, mark = places.among(self.needs.metadata, places.around(lines, nodes))
        head = f"define internal i32 @{self.name}.body({inner}) noinline nounwind{mark} {{\nentry:"
        text = "\n".join([head, *lines])
        wrapper = entrance(self.name, [("ptr", f"%b{j}") for j in range(buffers)], ["ptr %.extents"])
        kernels = [
            internal(nameless(function, name), self.needs, self.target, is_part=is_part)
            for function, name, is_part in self.kernels.values()
        ]
        return NestText(
            Emitted(self.name, "\n".join([wrapper, text, *kernels]), self.needs),
            tuple(self.numbers), tuple(self.outside),
        )  # fmt: skip

    # ------------------------------------------------------------ what runs

    def nest(self, work: object, pointers: Sequence[str]) -> None:
        """Write a loop or branch on these buffers."""
        match work:
            case Loop():
                self.loop(work, pointers)
            case While(back=None):
                self.while_loop(work, pointers)
            case While():
                self.while_with_gradient(work, pointers)
            case Branch():
                self.branch(work, pointers)

    def run(
        self, program: BufferProgram, inputs: Sequence[str], outputs: Sequence[str], temporaries: dict[int, str]
    ) -> None:
        """Write the steps of a body."""
        of_role = {"input": dict(enumerate(inputs)), "output": dict(enumerate(outputs))}
        places = [of_role.get(b.role, {}).get(b.place) or temporaries[j] for j, b in enumerate(program.buffers)]
        for step in program.steps:
            pointers = [places[b] for b in step.buffers]
            parts = self.parts(step.work) if isinstance(step.work, Kernel) else None
            if bodies(step.work):
                self.nest(step.work, pointers)
            elif parts is None:
                self.call_outside(step, pointers)
            for function, own, extents in parts or ():
                memory = [pointers[j] for j in own]
                self.call(function, memory, extents, is_part=len(parts or ()) == len(program.steps) == 1)

    def call(self, function: NestFunction, pointers: Sequence[str], extents: Sequence[int], *, is_part: bool) -> None:
        """Write the call of a kernel; LLVM inlines a kernel that `is_part` of the function."""
        _, name, _ = self.kernels.setdefault(id(function), (function, f"{self.name}.k{len(self.kernels)}", is_part))
        memory = [f"ptr {p}" for p in pointers]
        numbers = [*map(self.number, extents[:-2]), *self.span] if self.span else map(self.number, extents)
        given = {True: iter(memory), False: iter([f"i64 {n}" for n in numbers])}
        passed = [next(given[isinstance(a.type, MemRef)]) for a in function.arguments]
        self.unless_failed(self.let("status", f"call i32 @{name}.body({', '.join(passed)})"))

    def call_outside(self, step: Step, pointers: Sequence[str]) -> None:
        """Write the call that runs a step which is not in this code."""
        if not self.outside:
            self.entry.append(f"  %run.steps = inttoptr i64 {self.number('run_steps')} to ptr")
        k = self.places[id(step)]
        self.outside[k] = None
        slots = self.space(16 * len(pointers))  # the second half is scratch, for the pointers of a piece
        for j, pointer in enumerate(pointers):
            at = self.let("at", f"getelementptr ptr, ptr {slots}, i64 {j}")
            self.lines.append(f"  store ptr {pointer}, ptr {at}")
        scratch = self.let("scratch", f"getelementptr ptr, ptr {slots}, i64 {len(pointers)}")
        passed = f"ptr {self.let('words', f'inttoptr i64 {self.number((k, 0))} to ptr')}, i64 {self.number((k, 1))}"
        status = self.let("status", f"call i64 %run.steps({passed}, ptr {slots}, ptr {scratch})")
        self.unless_failed(self.let("status", f"trunc i64 {status} to i32"))

    def temporaries(self, program: BufferProgram, workspace: str) -> dict[int, str]:
        """The places of a body's temporaries, by the number of the buffer."""
        return {j: self.beyond(workspace, b.place) for j, b in enumerate(program.buffers) if b.role == "temporary"}

    # ------------------------------------------------------------ branches

    def branch(self, branch: Branch, pointers: Sequence[str]) -> None:
        """Write a branch, which runs one of two bodies."""
        yes, no, done = self.fresh("yes"), self.fresh("no"), self.fresh("done")
        buffer, start = branch.chosen
        self.choose(self.is_true(self.beyond(pointers[buffer], start)), yes, no)
        for label, run in ((yes, branch.yes), (no, branch.no)):
            self.begin(label)
            self.side(run, pointers)
            self.jump(done)
        self.begin(done)

    def side(self, run: Run, pointers: Sequence[str]) -> None:
        """Write a body of a branch, which reads and writes values in their places."""
        body = run.body
        inputs = [self.at(p, a, pointers) for p, a in zip(run.inputs, body.inputs, strict=True)]
        outputs = [self.at(p, a, pointers) for p, a in zip(run.outputs, body.outputs, strict=True)]
        self.run(body, inputs, outputs, self.temporaries(body, pointers[-1]))

    # ------------------------------------------------------------ a known number of steps

    def loop(self, loop: Loop, pointers: Sequence[str]) -> None:
        """Write all steps of a scan: for all elements, or for one block after another, which stays in the cache."""
        blocks = self.blocks(loop)
        if blocks is None:
            self.steps(loop, pointers, self.work_of(loop.body))
            return
        block, total = blocks
        begin, count = f"%{self.fresh('begin')}", self.number(total)
        with self.repeated("blocks", lambda: self.let("more", f"icmp slt i64 {begin}, {count}")) as carried:
            most = self.let("most", f"add nsw i64 {begin}, {block}")
            is_whole = self.let("is.whole", f"icmp slt i64 {most}, {count}")
            end = self.let("end", f"select i1 {is_whole}, i64 {most}, i64 {count}")
            self.span = begin, end
            self.steps(loop, pointers, self.work_of(loop.body) * block // total)
            self.span = None
            carried.append((begin, "i64", "0", end))

    def steps(
        self, loop: Loop, pointers: Sequence[str], work: int, length: str = "", scanned: Sequence[Cursor] = ()
    ) -> None:
        """Write all steps of a scan, each of `work`; `length` and `scanned` are given if known only at run time."""
        body, workspace = loop.body, pointers[-1]
        length = length or self.number(loop.length)
        states = [self.state(loop, k, pointers) for k in range(loop.carried)]
        avals = body.inputs[loop.carried + len(loop.scanned) :]
        hidden = [self.on_stack(self.at(p, a, pointers), a) for p, a in zip(loop.hidden, avals, strict=True)]
        temporaries = self.temporaries(body, workspace)
        rows = [] if scanned else [*zip(loop.scanned, loop.elements, strict=True)]
        rows += [*zip(loop.stacks, loop.stacked, strict=True)]
        rows += [(s.before, s.aval) for s in states if s.before is not None]
        moving = [*scanned, *[self.cursor(loop, place, aval, pointers) for place, aval in rows]]
        t = f"%{self.fresh('t')}"
        with self.repeated("loop", lambda: self.let("more", f"icmp slt i64 {t}, {length}")) as carried:
            after = self.let("next", f"add nuw nsw i64 {t}, 1")
            is_final = self.let("is.final", f"icmp eq i64 {after}, {length}")
            elements, stacks = moving[: len(loop.scanned)], moving[len(loop.scanned) :][: len(loop.stacks)]
            befores = iter(moving[len(loop.scanned) + len(loop.stacks) :])
            for state in states:
                state.before_run(self, after, is_final, next(befores) if state.before is not None else None)
            inputs = [*[s.read for s in states], *[m.now for m in elements], *hidden]
            self.run(body, inputs, [*[s.written for s in states], *[m.now for m in stacks]], temporaries)
            for state in states:
                state.after_run(self)
            self.account(work)
            carried.append((t, "i64", "0", after))
            for one in moving:
                then = self.let("x", f"getelementptr i8, ptr {one.now}, i64 {one.stride}")
                carried.append((one.now, "ptr", one.start, then))
            carried += [(s.read, "ptr", s.start, s.written) for s in states if s.is_pointer]
        for state in states:
            state.after_loop(self, length)

    def cursor(self, loop: Loop, place: Place, aval: Aval, pointers: Sequence[str]) -> Cursor:
        """A pointer to the element of each run, of values that begin at a place."""
        buffer, start = place
        begin, size = start * aval.dtype.itemsize, aval.nbytes
        if loop.is_reversed:
            begin, size = begin + max(loop.length - 1, 0) * size, -size
        # Passed as a number even if it is 0, because that depends on the length.
        first = self.let("p", f"getelementptr i8, ptr {pointers[buffer]}, i64 {self.number(begin)}")
        return Cursor(self, first, self.number(size))

    def state(self, loop: Loop, k: int, pointers: Sequence[str]) -> StackState | AlternatingState:
        """The writer of a state: `StackState` for a small state, else `AlternatingState`."""
        aval, last, before = loop.states[k], loop.lasts[k], loop.befores[k]
        first = self.at(loop.firsts[k], aval, pointers)
        end = None if last is None else self.at(last, aval, pointers)
        if aval.nbytes <= SMALL:
            return StackState(self, aval, first, end, before)
        turns, at_last = loop.room()[0][k]
        last_place = end or self.beyond(pointers[-1], at_last)
        two_places = [self.beyond(pointers[-1], turns + j * aligned(aval.nbytes)) for j in (0, 1) if before is None]
        return AlternatingState(self, aval, first, last_place, end is not None, two_places, before)

    # ------------------------------------------------------------ steps while a condition holds

    def while_loop(self, loop: While, pointers: Sequence[str]) -> None:
        """Write all steps of a while loop."""
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
            states.append(WhileState(self, aval, *two))
        inputs = loop.step.inputs[carried:]
        hidden = [self.on_stack(self.at(p, a, pointers), a) for p, a in zip(loop.hidden, inputs, strict=True)]
        firsts = [s.two[0] for s in states]
        self.run(loop.condition, [*firsts, *hidden], [answer], self.temporaries(loop.condition, workspace))
        temporaries = self.temporaries(loop.step, workspace)
        with self.repeated("while", lambda: self.is_true(answer)) as phis:
            written = [*[s.written for s in states], answer]
            self.run(loop.step, [*[s.read for s in states], *hidden], written, temporaries)
            for s in states:
                if s.is_small:
                    self.copy(s.read, s.written, s.aval)
                else:
                    phis += [(s.read, "ptr", s.two[0], s.written), (s.written, "ptr", s.two[1], s.read)]
            self.account(self.work_of(loop.step))
        for s, last in zip(states, loop.lasts, strict=True):
            if last is not None:
                self.copy(self.at(last, s.aval, pointers), s.read, s.aval)

    def while_with_gradient(self, loop: While, pointers: Sequence[str]) -> None:
        """Write a while loop that keeps the states before each step in growing memory, and the loop back over them."""
        assert loop.back is not None
        carried, (offsets, size) = len(loop.states), loop.record()
        each, answer, records = self.number(size), self.space(1), self.memory()
        first = self.grown(records, each)
        states = [self.beyond(first, offset) for offset in offsets]
        for to, aval, place in zip(states, loop.states, loop.firsts, strict=True):
            self.copy(to, self.at(place, aval, pointers), aval)
        inputs = loop.step.inputs[carried:]
        hidden = [self.on_stack(self.at(p, a, pointers), a) for p, a in zip(loop.hidden, inputs, strict=True)]
        self.run(loop.condition, [*states, *hidden], [answer], self.temporaries(loop.condition, pointers[-1]))
        temporaries = self.temporaries(loop.step, pointers[-1])
        t = f"%{self.fresh('t')}"
        with self.repeated("while", lambda: self.is_true(answer)) as phis:
            after = self.let("next", f"add nuw nsw i64 {t}, 1")
            # The memory has room for the next power of two of records: it is full if `after` is a power of two.
            bits = self.let("bits", f"and i64 {after}, {t}")
            with self.only_if(self.let("is.full", f"icmp eq i64 {bits}, 0"), "full"):
                self.grown(records, self.let("bytes", f"mul i64 {self.let('room', f'shl i64 {after}, 1')}, {each}"))
            before = self.record(records, t, each)
            behind = self.let("p", f"getelementptr i8, ptr {before}, i64 {each}")
            read, written = ([self.beyond(base, offset) for offset in offsets] for base in (before, behind))
            self.run(loop.step, [*read, *hidden], [*written, answer], temporaries)
            self.account(self.work_of(loop.step))
            phis.append((t, "i64", "0", after))
        last = self.record(records, self.let("last", f"sub i64 {t}, 1"), each)
        back = self.number(-size)
        scanned = [Cursor(self, self.beyond(last, offset), back) for offset in offsets]
        self.steps(loop.back, pointers, self.work_of(loop.back.body), t, scanned)
