"""`autodiff inspect`: each stage of a function, or of a graph that a script compiled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from codegen import compiler
from codegen.lazily import imported
from codegen.program import observers

from .. import explorer
from ..api import clear_cache
from ..config import config
from ..errors import Error, amount, caller, writing
from ..inspection import STAGES, Inspection, inspect
from ..profiling.steps import Clock, Steps, StepTimes
from ..tape.misses import explain
from ..tape.modes import keeping_lines
from .app import AsJson, say, user_errors
from .targets import parse_argnums, parse_call, run_script

_DIFF = typer.Option(("", ""), metavar="STAGE STAGE", help="Two stages to compare.", show_default=False)

#: The most avals that a line of the list of graphs shows.
_SHOWN = 6


def inspect_(
    target: str = typer.Argument(help="FILE.py:FUNCTION; or FILE.py, to run it and list the graphs it compiled."),
    args: str = typer.Option("", help="The arguments of the call: 'f64[256,10], f64[10], 0.5, {\"w\": f32[3]}'."),
    stage: str = typer.Option(
        "",
        help=f"One of {', '.join(STAGES)}; passes: what each of them changed; or one: simplify.1.  By default fused.",
        show_default=False,
    ),
    diff: tuple[str, str] = _DIFF,
    kernel: int | None = typer.Option(None, min=0, help="A step of the program, from 0: its part of the stage."),
    output: str = typer.Option("", help="A file to write to, instead of stdout.", show_default=False),
    which: str = typer.Option("forward", "--pass", help="forward or backward."),
    argnums: str = typer.Option("0", help="Arguments to differentiate: '0' or '0,2'."),
    graph: int | None = typer.Option(None, min=0, help="With FILE.py alone: the number of the graph to show."),
    as_json: bool = AsJson,
    page: str = typer.Option("", "--html", metavar="FILE", help="Write the explorer: all stages on one page."),
    time: bool = typer.Option(False, "--time", help="With --html: run the program, and say what each kernel takes."),
    svg: str = typer.Option("", "--svg", metavar="FILE", help="Write a drawing, by Graphviz's program dot."),
    code: str = typer.Option("", "--object", metavar="FILE", help="Write the object file with your lines, for gdb."),
    dot: bool = typer.Option(False, "--dot", help="Print the graph in Graphviz's language."),
) -> None:
    """Show one stage of a function or method, from tape to assembly.  The function is traced, not run on values."""
    path, _, name = target.partition(":")
    if time and not page:
        raise typer.BadParameter("--time is for --html: the times stand on its page")
    said, stage = stage or diff[0], stage or "fused"
    for one in (stage, *(diff if diff[0] else ())):
        _check_stage(one)
    if which not in ("forward", "backward"):
        raise typer.BadParameter(f"--pass is forward or backward, not {which!r}")
    if not name and (args, which, argnums) != ("", "forward", "0"):
        raise typer.BadParameter(f"--args, --pass, --argnums are for FILE.py:FUNCTION, which is traced; {path} is run")
    if not name and graph is None and not (said or page or svg or dot or code):
        _list_graphs(path, output, as_json)
        return
    if name:
        if graph is not None:
            raise typer.BadParameter(f"--graph is for FILE.py alone, which is run; {target} is traced, by --args")
        path, function, given = parse_call(target, args)
        numbers = parse_argnums(argnums, len(given)) if which == "backward" or argnums != "0" else (0,)
        with user_errors(path):
            seen = inspect(function, *given, backward=which == "backward", argnums=numbers)
        head: dict[str, Any] = {"target": target, "pass": which}
    else:
        graph, seen = _graph_of_script(path, graph)
        head = {"target": target, "graph": graph}
        if "tape" in (stage, *diff):
            raise Error("the tape of a graph that a script compiled is gone; look at its graph")
    if page or svg or dot or code:
        _draw(seen, page, time, svg, dot, code)
        if not (said or as_json):
            return
    if as_json and not said:
        say(head | seen.data, "", True, output)
        return
    if diff[0]:
        head, text, kind = head | {"diff": diff}, seen.diff(*diff), "diff"
    else:
        text = seen.stage(stage) if kernel is None else seen.of_step(stage, kernel)
        head, kind = head | {"stage": stage}, "diff" if stage == "passes" else stage
    say(head | {"text": text}, text.rstrip("\n"), as_json, output, kind)


def _check_stage(name: str) -> None:
    """Raise BadParameter for a name that cannot be a stage, before the user's file is run."""
    rewrites = [*dict(imported("codegen.passes.plan").REWRITES), "prepare"]
    if name not in (*STAGES, "passes", *rewrites) and not re.fullmatch(r"[a-z]+\.\d+", name):
        raise typer.BadParameter(
            f"no stage {name!r}: there are {', '.join(STAGES)}\n"
            f"  passes shows what each pass changed; one of them is simplify.1, or {', '.join(rewrites)}"
        )


def _draw(seen: Inspection, page: str, time: bool, svg: str, dot: bool, code: str) -> None:
    """Write the page, the drawing and the object file, and print the drawing's text, as far as options ask for them."""
    if page:
        seen.save_html(page, time=time)
    for path, of in ((svg, lambda: explorer.svg(seen.dot).encode()), (code, lambda: seen.stages.object_file)):
        if path:
            made = of()
            with writing("", path):
                Path(path).write_bytes(made)
    for written in filter(None, (page, svg, code)):
        typer.echo(f"wrote {written}", err=True)
    if dot:
        typer.echo(seen.dot)


def _list_graphs(path: str, output: str, as_json: bool) -> None:
    rows = [
        {
            "graph": i, "name": g.name, "place": place,
            "inputs": [str(n.aval) for n in g.inputs], "outputs": [str(n.aval) for n in g.outputs],
            "operations": len(g.nodes), "seconds": g.seconds,
            "runs": max([s.calls for s in steps], default=0), "running": sum([s.seconds for s in steps]),
            "reason": reason,
        }
        for i, (g, place, reason, steps) in enumerate(_compiled_by(path))
    ]  # fmt: skip
    longest = [max([len(r[key]) for r in rows], default=0) for key in ("name", "place")]
    lines = [f"{amount(len(rows), 'graph')} compiled; --graph N --stage X shows one"]
    lines += [
        f"{r['graph']:4d}  {r['name']:{longest[0]}}  {r['place']:{longest[1]}}  {r['operations']:4d} operations"
        f"  {1e3 * r['seconds']:7.1f} ms, {amount(r['runs'], 'run')} in"
        f" {1e3 * r['running']:{'.3g' if r['running'] < 0.1 else '.0f'}} ms"
        f"  ({_short(r['inputs'])}) -> ({_short(r['outputs'])})" + (f"\n      {r['reason']}" if r["reason"] else "")
        for r in rows
    ]
    say({"target": path, "graphs": rows}, "\n".join(lines), as_json, output)


def _short(avals: Any) -> str:
    more = len(avals) - _SHOWN
    return ", ".join([*avals[:_SHOWN], *([f"... {more} more"] if more > 0 else [])])


def _graph_of_script(path: str, number: int | None) -> tuple[int, Inspection]:
    """(number, graph) of a graph that a script compiled; `number` may be None if there is only one."""
    graphs = _compiled_by(path)
    if number is None and len(graphs) == 1:
        number = 0
    told = f"{path} compiled {amount(len(graphs), 'graph')}"
    if number is None:
        raise Error(f"{told}: say which one by --graph N; without --stage they are listed")
    if number >= len(graphs):
        raise Error(f"{told}, numbered from 0: there is no --graph {number}")
    return number, Inspection.of_graph(graphs[number].graph)


class _FoundGraph(NamedTuple):
    """A graph that a script compiled, the user's line that caused this, the reason, and the times of its steps."""

    graph: Any
    place: str
    reason: str
    steps: list[StepTimes]


class _Graphs(list):
    """The compiled graphs.  The steps of a graph are known before it is appended, its reason (`explain`) after it."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._known = self._seen = 0
        self._steps = steps
        self._compiles = {miss[:3]: miss.compiles for miss in explain()}

    def append(self, graph: Any) -> None:
        self.give_reasons()
        own, self._seen = self._steps.found[self._seen :], len(self._steps.found)
        super().append(_FoundGraph(graph, caller(), "", own))

    def give_reasons(self) -> None:
        """Give the latest graphs the reason that was noted since they were compiled."""
        before, self._compiles = self._compiles, {miss[:3]: miss.compiles for miss in explain()}
        told = [f"{key[0]}: {key[2]}" for key, n in self._compiles.items() if n > before.get(key, 0)]
        self[self._known :] = [g._replace(reason=told[-1]) if told else g for g in self[self._known :]]
        self._known = len(self)


class _Runs(Steps):
    """An observer of a script's programs.  Not of class `Steps` itself, so that the script may take a profile too."""


def _compiled_by(path: str) -> Sequence[_FoundGraph]:
    """Run a script as `__main__`, with empty caches, and return the graphs that it compiled."""
    clear_cache()
    patience, config.patience = config.patience, 0  # so that programs that run once are compiled and listed too
    steps = _Runs(Clock())
    graphs = _Graphs(steps)
    observers.append(steps)
    try:
        with compiler.recorded(graphs), keeping_lines():
            run_script(path)
            graphs.give_reasons()
    finally:
        observers.remove(steps)
        config.patience = patience
    return graphs
