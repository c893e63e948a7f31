"""Every stage of one graph as text, made on access.

Texts are the same in every process: they have no addresses, no times, and fixed names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

from ..emit import emit_function, module_of
from ..emit.debug import PlaceOf
from ..ir import Graph, Node, node_names, print_graph
from ..kernel.mlir import print_module
from ..modes import modes
from ..passes import pipeline as passes
from ..passes import plan
from ..program import (
    Branch,
    BufferProgram,
    Gemm,
    HostCall,
    Kernel,
    Loop,
    Place,
    While,
    bodies,
    bytes_moved,
    every_step,
)
from . import engine
from .cost import operations_of
from .executable import coded
from .told import (
    Names,
    ProgramDescription,
    StepDescription,
    kind_of_step,
    located,
    place_of_node,
    shown_assembly,
    shown_llvm,
)


def _text_of(stage: str) -> property:
    """A property: the text of a stage of which `Stages.told` gives the lines."""
    return property(lambda stages: "".join([f"{line}\n" for line in stages.told(stage)[0]]))


class Stages:
    """The stages of a graph on its way to machine code.

    graph           the graph as recorded           llvm            the kernels as LLVM IR
    optimized       the graph after the passes      llvm_optimized  the same after LLVM's passes
    fused           kernels, buffers, steps         asm             assembly for this machine
    mlir            the kernels as MLIR             stats           counts of operations, steps, bytes
    """

    def __init__(self, graph: Graph, make_program: Callable[[Graph], BufferProgram]) -> None:
        self.recorded = graph.set_origins()
        self._make_program = make_program

    @cached_property
    def program(self) -> BufferProgram:
        """The program as data."""
        return self._make_program(self.recorded)

    @property
    def graph(self) -> str:
        return print_graph(self.recorded)

    @cached_property
    def passes(self) -> dict[str, Graph]:
        """The graph after each pass: `fold.1`, `simplify.1`, ..., `fold.2`, ..., then `separate`, ..., `prepare`."""
        found: dict[str, Graph] = {}
        rounds: Counter[str] = Counter()
        for name, graph in passes.stages(self.recorded):
            rounds[name] += 1
            found[f"{name}.{rounds[name]}"] = graph
        last = self.program.graph
        return found | dict(plan.rewritten(last))

    @property
    def optimized(self) -> str:
        return print_graph(self.program.graph)

    @property
    def fused(self) -> str:
        return print_program(self.program)

    mlir, llvm = _text_of("mlir"), _text_of("llvm")
    llvm_optimized, asm = _text_of("llvm-opt"), _text_of("asm")

    def told(self, stage: str) -> tuple[list[str], list[str]]:
        """The lines of stage mlir, llvm, llvm-opt or asm, and for each line the name of its value, or ""."""
        if stage == "mlir":
            known = _names(self.program)
            lines = print_module(self.program, Names(known).location).splitlines()
            return lines, located(lines, set(known.values()))
        text, names = self._told_module
        if stage == "llvm":
            return shown_llvm(text, names)
        if stage == "llvm-opt":
            return shown_llvm(engine.optimized_text(text), names)
        return shown_assembly(engine.assembly_text(text), names)

    @cached_property
    def _told_module(self) -> tuple[str, Names]:
        """The LLVM module with numbers of values as debug info, and the names for these numbers."""
        names = Names(_names(self.program))
        return self.module(names.number), names

    def module(self, place_of: PlaceOf | None = place_of_node) -> str:
        """The LLVM module of the kernels, with debug info of the places that `place_of` returns; None: without any."""
        features = engine.target_features()
        found = [*coded(self.program, place_of)]
        kernels = {step.work.function.name: step.work.function for step, _ in found if isinstance(step.work, Kernel)}
        emitted = [emit_function(f, features, place_of) for f in kernels.values()]
        emitted += [nest.emitted.named(f"nest{j}") for j, nest in enumerate(filter(None, [nest for _, nest in found]))]
        return module_of(emitted, features) if emitted else "; no kernels\n"

    @property
    def functions(self) -> dict[int, str]:
        """The name of the function of each loop or branch that is compiled as one, by `id` of the step's work."""
        nests = [step for step, nest in coded(self.program, None) if nest is not None]
        return {id(step.work): f"nest{j}" for j, step in enumerate(nests)}

    @property
    def object_file(self) -> bytes:
        """The kernels' object file, with the user's lines: `gdb -batch -ex 'disassemble /s NAME.body' FILE`."""
        return engine.object_of(self.module())[0]

    @property
    def stats(self) -> str:
        program = self.program
        kinds = Counter([kind_of_step(step.work) for step, _, _ in every_step(program, with_nests=True)])
        roles = Counter(buffer.role for buffer in program.buffers)
        temporaries = sum([b.aval.nbytes for b in program.buffers if b.role == "temporary"])
        given, made = (sum([a.nbytes for a in avals]) for avals in (program.inputs, program.outputs))
        rows = {
            "operations recorded": len(self.recorded.nodes),
            "operations optimized": len(program.graph.nodes),
            "steps": len(program.steps),
            "kernels": kinds["kernel"],
            "products": kinds["gemm"],
            "loops": kinds["loop"] + kinds["while"],
            "branches": kinds["branch"],
            "orders": kinds["order"],
            "transforms": kinds["fourier"],
            "host calls": kinds["host"],
            "inputs": f"{roles['input']}, {given} bytes",
            "outputs": f"{roles['output']}, {made} bytes",
            "temporaries": f"{roles['temporary']}, {temporaries} bytes in {program.workspace_bytes} of workspace",
            "peak memory": f"{given + made + program.workspace_bytes} bytes",
            "bytes moved": bytes_moved(program),
            "scalar operations": operations_of(program),
        }
        if modes.fast_math:
            rows["fast math"] = "on"
        return "".join(f"{name:<21} {value}\n" for name, value in rows.items())


def print_program(program: BufferProgram) -> str:
    """A program as text: its signature, buffers, steps, notes.

        f(f64[8], f64[8]) -> (f64[]) {
          x0: f64[8]   input
          t0: f64[8]   temporary at 0
          y0: f64[]    output
          k0(x0, x1) -> t0
          gemm f64 1x8x1 (t0, x1) -> y0
        }

    A loop is followed by the program of its body.  Each run of it reads or makes one element of x1[t]; x2 -> y0 names
    the first and last value of a state: `loop 8 times (x2 -> y0, x1[t], x0) -> t0[t], before each: t1[t], with t2`.
    Likewise `while (x2 -> y0) ...` is followed by its condition and step, and `if x0 ...` by both of its bodies.  If
    origins of nodes are known, comments name the values that a buffer holds in turn, those of a step, and their lines.
    """
    description = ProgramDescription(program)
    names = description.buffers
    signature = ", ".join(map(str, program.inputs)), ", ".join(map(str, program.outputs))
    width = max([len(f"{n}: {b.aval}") for n, b in zip(names, program.buffers, strict=True)], default=0)
    lines = [f"{program.name}({signature[0]}) -> ({signature[1]}) {{"]
    for k, (name, buffer) in enumerate(zip(names, program.buffers, strict=True)):
        place = f" at {buffer.place}" if buffer.role == "temporary" else ""
        lines.append(f"  {f'{name}: {buffer.aval}':<{width}}   {buffer.role}{place}{description.of_buffer(k)}")
    for step in description.steps:
        lines.append(f"  {_step_text(step, names)}{description.of_step(step)}")
        for role, body, _ in bodies(step.step.work):
            lines += [f"    {role}:"] if role else []
            lines += [f"    {line}" for line in print_program(body).splitlines()]
    lines.append("}")
    for title, text in program.notes.items():
        first, *rest = text.splitlines() or [""]
        lines += [f"{title}: {first}", *[f"  {line}" for line in rest]]
    return "\n".join(lines) + "\n"


def _step_text(description: StepDescription, names: list[str]) -> str:
    used = [names[b] for b in description.step.buffers]
    reads, writes = (", ".join([names[b] for b in numbers]) for numbers in (description.reads, description.writes))
    match description.step.work:
        case Kernel(function):
            return f"{function.name}({reads}) -> {writes}"
        case Gemm() as gemm:
            flags = ("a" if gemm.transpose_a else "") + ("b" if gemm.transpose_b else "")
            batch = f" {gemm.batch} times, strides {gemm.strides}" if gemm.batch != 1 else ""
            transposed = f" transposed {flags}" if flags else ""
            return f"gemm {gemm.dtype} {gemm.m}x{gemm.n}x{gemm.k}{batch}{transposed} ({reads}) -> {writes}"
        case Loop() as loop:
            return _loop_text(loop, used)
        case Branch() as branch:
            return _branch_text(branch, used)
        case While() as loop:
            return _while_text(loop, used)
        case HostCall(node) as call:
            params = "".join(f", {name}={_param_text(value)}" for name, value in node.keywords.items())
            return f"{kind_of_step(call)} {node.op.name}({reads}{params}) -> {writes}"
    raise AssertionError(f"a step of unknown work {description.step.work!r}")


def _at(place: Place | None, used: list[str]) -> str:
    """The name of the buffer of a value, with its offset."""
    return "nothing" if place is None else used[place[0]] + (f"+{place[1]}" if place[1] else "")


def _listed(places: Sequence[Place | None], used: list[str], after: str = "") -> list[str]:
    return [_at(place, used) + (after if place is not None else "") for place in places]


def _states_text(firsts: Sequence[Place], lasts: Sequence[Place | None], used: list[str]) -> list[str]:
    return [f"{_at(x, used)} -> {_at(y, used)}" for x, y in zip(firsts, lasts, strict=True)]


def _loop_text(loop: Loop, used: list[str]) -> str:
    order = ", last element first" if loop.is_reversed else ""
    reads = [*_states_text(loop.firsts, loop.lasts, used), *_listed(loop.scanned, used, "[t]")]
    text = f"loop {loop.length} times{order} ({', '.join([*reads, *_listed(loop.hidden, used)])})"
    if loop.stacks:
        text += f" -> {', '.join(_listed(loop.stacks, used, '[t]'))}"
    if any(place is not None for place in loop.befores):
        text += f", before each: {', '.join(_listed(loop.befores, used, '[t]'))}"
    return f"{text}, with {used[-1]}"


def _branch_text(branch: Branch, used: list[str]) -> str:
    yes, no = (", ".join(_listed(run.inputs, used)) for run in (branch.yes, branch.no))
    results = ", ".join(_listed(branch.yes.outputs, used))
    return f"if {_at(branch.chosen, used)} ({yes}) else ({no}) -> {results}, with {used[-1]}"


def _while_text(loop: While, used: list[str]) -> str:
    states = ", ".join(_states_text(loop.firsts, loop.lasts, used))
    text = f"while ({states}) do ({', '.join(_listed(loop.hidden, used))})"
    if loop.back:
        values = _states_text(loop.back.firsts, loop.back.lasts, used)
        text += f", then back over the states before each ({', '.join([*values, *_listed(loop.back.hidden, used)])})"
    return f"{text}, with {used[-1]}"


def _param_text(value: object) -> str:
    """The text of a parameter; of a function its name, without the address that `repr` prints."""
    return f"<{getattr(value, '__name__', type(value).__name__)}>" if callable(value) else repr(value)


def _names(program: BufferProgram) -> dict[Node, str]:
    """The names of the values of a program, and of the programs inside its steps."""
    found: dict[Node, str] = {}
    for step in program.steps:
        for _, body, _ in bodies(step.work):
            found.update(_names(body))
    return found | node_names(program.drawn or program.graph)
