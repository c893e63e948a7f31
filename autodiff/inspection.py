"""`ad.inspect`: every stage of one function, forward or backward, from tape to assembly.

    tape            the recorded nodes, each with the user's line
    graph           the frozen graph;  `optimized` after the passes
    fused           kernels, buffers, steps
    mlir            the kernels as MLIR
    llvm, llvm_optimized, asm
    stats           operations, kernels, bytes

Texts are byte-stable: fixed names, no addresses.  Nothing is run.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from codegen import compiler
from codegen.ir import Aval, Graph, print_dot

from . import explorer, tree
from .argument_leaves import aval_of
from .errors import DispatchError, Error, check_callable, check_path, in_short, located, writing
from .frames import user_frame
from .inspection_data import STAGES, GraphText, data_of, lines_of_step, tape_text
from .ops import as_tensor
from .stand_ins import standing
from .tape.leaves import leaf
from .tape.lines import Lines, variable_of
from .tape.modes import tracing_with_lines
from .tape.node import Node, new_number
from .tape.plan import freeze, is_number, source
from .tape.record import argument
from .tape.walk import needed
from .tensor import AbstractTensor, Tensor
from .tracebacks import border
from .transforms.arguments import applied, argument_names, checked_numbers
from .transforms.functional import vjp


def _told(stage: str, doc: str) -> property:
    """A property for a stage of the compiler."""
    return property(lambda seen: getattr(seen.stages, stage), doc=doc)


class Inspection:
    """The stages of one recording.  Each stage is a text, which is made when it is accessed.

    str() shows the stages that a person reads first: tape, fused, stats.  A notebook shows the explorer: all stages
    side by side, with a drawing of the graph.

    >>> import autodiff as ad
    >>> print(ad.inspect(lambda x: x.sum(), "f64[3]").dot)
    digraph "f" {
      rankdir = TB
      node [fontname = "monospace"]
      x [shape = ellipse, label = "x: f64[3]"]
      a [shape = box, style = bold, label = "a: f64[]\\nsum(x, axis=(0,))"]
      x -> a
    }
    """

    def __init__(
        self,
        name: str,
        roots: Sequence[Node],
        arguments: Sequence[Node] = (),
        seeds: Sequence[Node] = (),
        lines: Lines | None = None,
        given: Mapping[Node, Any] | None = None,
    ) -> None:
        self.name = name
        self._given = given or {}
        self._roots = [source(r) for r in roots]
        self._arguments = list(arguments)
        self._seeds = list(seeds)
        self._lines = lines or Lines()
        self._stages: Any = None

    def _frozen(self) -> Graph:
        roots = list(dict.fromkeys(self._roots))
        numbers = {n for n in needed(roots) if self._arguments and is_number(n)}
        graph, self._inputs = freeze(roots, self._arguments, numbers, self._lines, self._seeds)
        graph.name = self.name
        return graph

    @classmethod
    def of_graph(cls, graph: Graph) -> Inspection:
        """The stages of a graph that was frozen before; there is no tape of it."""
        seen = cls(graph.name, [])
        seen._stages = compiler.stages(graph)
        seen._inputs = []
        return seen

    @property
    def stages(self) -> Any:
        """The compiler's own view: `codegen.compiler.stages`."""
        if self._stages is None:
            self._stages = compiler.stages(self._frozen())
        return self._stages

    @property
    def tape(self) -> str:
        """The nodes, by creation: `a = mul(x, w): f64[3]`, each with the user's line."""
        if not self._roots:
            return ""
        _ = self.stages  # gives the values their names
        return tape_text(self._roots, self._arguments, self._seeds, self._lines)

    @property
    def graph(self) -> GraphText:
        """The graph as it was recorded and frozen: its text, and `nodes` to walk."""
        return GraphText(self.stages.recorded)

    @property
    def optimized(self) -> GraphText:
        """The graph after the passes: its text, and `nodes` to walk."""
        return GraphText(self.stages.program.graph)

    fused = _told("fused", "Kernels, buffers and steps.")
    mlir = _told("mlir", "The kernels in MLIR's func, scf, memref, arith and math.")
    llvm = _told("llvm", "LLVM IR as it is emitted.")
    llvm_optimized = _told("llvm_optimized", "LLVM IR after LLVM's own passes.")
    asm = _told("asm", "Assembly for this machine.")
    stats = _told("stats", "Counts and sizes.")

    @property
    def data(self) -> dict[str, Any]:
        """Nodes, kernels, buffers, sources and texts as plain data: the output of `autodiff inspect --json`.

        The page "Inspection data" of the reference lists the fields.
        """
        return data_of(self)

    @property
    def dot(self) -> str:
        """The graph as it was recorded, in Graphviz's language: `graphviz.Source(ad.inspect(f, "f64[3]").dot)`."""
        return print_dot(self.stages.recorded.set_origins())

    @property
    def html(self) -> str:
        """Every stage as a piece of a web page; all stages but the graph are folded."""
        parts = [f"<details{' open' if name == 'graph' else ''}><summary>{name}</summary>\n"
                 f"<pre>{html.escape(self.stage(name))}</pre></details>" for name in STAGES]  # fmt: skip
        return "\n".join([f"<div><b>{html.escape(self.name)}</b>", *parts, "</div>"])

    def save_html(self, path: str | os.PathLike[str], *, time: bool = False) -> None:
        """Write the explorer: one HTML file with source, graph, kernels, MLIR, LLVM IR and assembly side by side.

        The page fetches nothing: it works from a file, and without a network.  `time` measures the time of each kernel:
        the program runs several times, on the arrays that `inspect` was given, or on random numbers for a given type.

        Raises Error if `path` is not a path, or the file cannot be written.
        """
        check_path(path, "save_html")
        data = self.data
        if time:
            values = [self._given.get(n, n.value) for n in self._inputs]
            data = explorer.timed(data, self.stages, values or [None] * len(self.stages.recorded.inputs))
        with writing("save_html: ", path):
            Path(path).write_text(explorer.page(data), encoding="utf-8")

    def _repr_html_(self) -> str:
        text = f"<details><summary>{html.escape(self.name)}</summary><pre>{html.escape(str(self))}</pre></details>"
        return f"<div>{explorer.frame(explorer.page(self.data))}{text}</div>"

    def stage(self, name: str) -> str:
        """A stage by the name that the command line uses.  Raises Error for another name.

        Besides the stages of `STAGES` there is one for each pass, `simplify.1` say, and "passes", which shows all
        changes that passes made.
        """
        if name in STAGES:
            return str(getattr(self, name.replace("llvm-opt", "llvm_optimized")))
        if name == "passes":
            return self._changes()
        if name not in self.passes:
            raise Error(located(f"no stage {in_short(name)}: there are {', '.join([*STAGES, 'passes', *self.passes])}"))
        return str(self.passes[name])

    def of_step(self, stage: str, number: int) -> str:
        """The lines of a stage that belong to one step of the program, by its number in `data`.

        Raises Error for a stage without steps, and for a number that no step has.
        """
        steps = len(self.stages.program.steps)
        if not isinstance(number, int) or not 0 <= number < steps:
            counted = f"{steps} step{'s, numbered from 0' if steps != 1 else ', number 0'}"
            raise Error(located(f"{self.name} has {counted}: there is no kernel {in_short(number)}"))
        if stage not in STAGES or stage in ("tape", "stats"):
            is_known = stage in (*STAGES, "passes", *self.passes)
            of_all = f"{stage!r} says nothing of single steps" if is_known else f"there is no stage {in_short(stage)}"
            raise Error(located(f"{of_all}: look at graph, fused, mlir, llvm or asm"))
        return lines_of_step(self.data, stage, number)

    @property
    def passes(self) -> dict[str, GraphText]:
        """The graph after each pass of the compiler, by the pass and the round in which it ran."""
        return {name: GraphText(graph) for name, graph in self.stages.passes.items()}

    def _changes(self) -> str:
        """The changes that passes made, each as a difference to the graph before."""
        pairs = pairwise({"graph": self.graph, **self.passes}.items())
        found = [_difference(before, text, last, name) for (last, before), (name, text) in pairs if text != before]
        return "\n".join(found) or "no pass changed anything\n"

    def diff(self, one: str, other: str) -> str:
        """The difference between two stages, line by line."""
        return _difference(self.stage(one), self.stage(other), one, other)

    def __reduce__(self) -> tuple:
        return _Texts, (self.name, {"dot": self.dot, **{name: self.stage(name) for name in STAGES}})

    def __str__(self) -> str:
        return "\n\n".join(f"-- {name} --\n{self.stage(name)}" for name in ("tape", "fused", "stats"))

    __repr__ = __str__


def _difference(before: str, after: str, one: str, other: str) -> str:
    """Two texts as a unified difference."""
    lines = unified_diff(before.splitlines(), after.splitlines(), one, other, lineterm="", n=2)
    return "".join([f"{line}\n" for line in lines])


class _Texts(Inspection):
    """An inspection from a pickle, which has its texts, but no nodes."""

    def __init__(self, name: str, texts: dict[str, str]) -> None:
        self.name, self._texts = name, texts

    def __reduce__(self) -> tuple:
        return _Texts, (self.name, self._texts)

    def __getattribute__(self, name: str) -> Any:
        texts = super().__getattribute__("__dict__").get("_texts", {})
        text = texts.get(name.replace("llvm_optimized", "llvm-opt"))
        return super().__getattribute__(name) if text is None else text

    @property
    def data(self) -> dict[str, Any]:
        raise Error("this inspection came out of a pickle, with its texts alone: save its page before it is sent")

    def _repr_html_(self) -> str:
        return self.html


@border
def inspect(f: Any, *args: Any, backward: bool = False, argnums: int | Sequence[int] = 0, **kwargs: Any) -> Inspection:
    """Every stage of a function on arguments like these, or of a recorded tensor.

    f          a function; or a tensor, whose pending operations are shown
    args       arrays, tensors, numbers, or descriptions of them: `ad.inspect(f, "f64[256,10]")`
    backward   the program of the gradient with respect to `argnums`; for a result that is no scalar it has the result's
               cotangent as a further input

    Nothing is computed.

    >>> import autodiff as ad
    >>> print(ad.inspect(lambda x: x * x, "f64[3]").graph)
    f(x: f64[3]) {
      a: f64[3] = mul(x, x)...
      return a
    }
    """
    if isinstance(f, Tensor):
        if args or kwargs or backward:
            raise DispatchError(located(
                "inspect: a recorded tensor is looked at as it is, and takes nothing more",
                "for other arguments, or the gradient, give the function: ad.inspect(f, x, backward=True)",
            ))
        return Inspection("f", [f.node], lines=_variables_of(f.node))
    check_callable(f, "inspect")
    arguments: list[Node] = []
    since = new_number()

    def traced(x: Any) -> Any:
        aval = aval_of(x, "inspect")
        if aval is None:
            return x
        number = isinstance(x, np.generic)
        t = argument(aval, weak=type(x) in (bool, int, float, complex), number=number)
        arguments.append(t.node)
        return standing(t, x)

    name = getattr(f, "__name__", "f")
    name = name if name.isidentifier() else "f"
    leaves, structure = tree.flatten((args, kwargs))
    made = [traced(x) for x in leaves]
    named = [(n, x) for n, x, t in zip(argument_names(f, structure), leaves, made, strict=True) if t is not x]
    given = {n: x for n, (_, x) in zip(arguments, named, strict=True) if not isinstance(x, (str, Aval))}
    args, kwargs = tree.unflatten(structure, made)
    with tracing_with_lines(since) as lines:
        lines.name([*arguments], [label for label, _ in named], f)
        if backward:
            return _backward(f, args, kwargs, argnums, arguments, name, lines, given)
        result = applied(f, args, kwargs)
    roots = [as_tensor(x).node for x in _arrays(name, result)]
    return Inspection(name, roots, arguments, lines=lines, given=given)


def _variables_of(node: Node) -> Lines:
    """The names of the inputs of a recorded value, by the variables of the caller."""
    lines, frame = Lines(), user_frame()
    for n in needed([node]):
        if frame is not None and not n.inputs and n.value is not None and (label := variable_of(n, frame)):
            lines.labels[n.number] = label
    return lines


def _backward(
    f: Callable, args: tuple, kwargs: dict, argnums: Any, arguments: list[Node], name: str, lines: Lines,
    given: Mapping[Node, Any],
) -> Inspection:  # fmt: skip
    numbers = checked_numbers(argnums, len(args), name)

    def chosen(*primals: Any) -> Any:
        out = f(*tree.exchanged(args, numbers, primals), **kwargs)
        _arrays(name, out)
        return out

    chosen.__name__ = name
    out, pullback = vjp(chosen, *[args[i] for i in numbers])
    leaves, structure = tree.flatten(out)
    bars = []
    for t in leaves:
        bar = argument(t.aval) if t.shape else leaf(np.ones((), t.dtype))
        arguments += [bar.node] if t.shape else []
        lines.labels[bar.node.number] = "seed"
        bars.append(bar)
    gradients = pullback(tree.unflatten(structure, bars))
    roots = [t.node for t in [*leaves, *tree.leaves(gradients)] if isinstance(t, Tensor)]
    return Inspection(f"{name}_gradient", roots, arguments, [bar.node for bar in bars], lines, given)


def _arrays(name: str, result: Any) -> list[Any]:
    """The arrays and tensors that a function returned.  Raises Error if there are none."""
    found = [x for x in tree.leaves(result) if isinstance(x, (AbstractTensor, np.ndarray))]
    if not found:
        raise Error(located(
            f"{name} returned {type(result).__name__}, with no tensor in it: there is nothing to look at"
        ))
    return found
