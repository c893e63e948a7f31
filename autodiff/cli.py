"""The command line: `autodiff`, also `python -m autodiff`.

    demo      train a classifier on real handwriting, and what was compiled for it
    inspect   every stage of a function, or the graphs that a script compiled
    rules     the methods and rules of a generic function
    doctor    what this installation can do

Every command takes --json; the exit code is not zero on failure.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import platform
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import typer

from codegen import compiler
from codegen.ir import DTYPES, Aval

from .errors import Error
from .inspection import STAGES, inspect

__all__ = ["app", "main", "parse_arguments"]

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Automatic differentiation whose gradients you can read."
)

_JSON = typer.Option(False, "--json", help="Print JSON.")


def main() -> None:
    """Entry of the console command: errors of this library are one message, not a trace."""
    try:
        app()
    except Error as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(1)


def _print(data: dict[str, Any], text: str, as_json: bool) -> None:
    typer.echo(json.dumps(data, indent=2, default=str) if as_json else text)


# ---------------------------------------------------------------- inspect


@app.command("inspect")
def inspect_(
    target: str = typer.Argument(help="FILE.py:FUNCTION, or FILE.py to run it and list the graphs it compiled."),
    args: str = typer.Option("", help="What it is called with: 'f64[256,10], f64[10], 0.5, {\"w\": f32[3]}'."),
    stage: str = typer.Option("fused", help=f"One of {', '.join(STAGES)}."),
    which: str = typer.Option("forward", "--pass", help="forward or backward."),
    argnums: str = typer.Option("0", help="Arguments to differentiate: '0' or '0,2'."),
    graph: int = typer.Option(-1, help="With FILE.py alone: the number of the graph to show."),
    as_json: bool = _JSON,
) -> None:
    """Show one stage of a function, from tape to assembly.  Nothing is run but the tracing."""
    path, _, name = target.partition(":")
    if stage not in STAGES:
        raise typer.BadParameter(f"no stage {stage!r}: there are {', '.join(STAGES)}")
    if not name:
        _inspect_script(path, stage, graph, as_json)
        return
    if which not in ("forward", "backward"):
        raise typer.BadParameter("--pass is forward or backward")
    function = _function_of(path, name)
    given = parse_arguments(args)
    try:
        numbers = tuple(int(n) for n in argnums.split(","))
    except ValueError:
        raise typer.BadParameter(f"--argnums takes numbers such as 0 or 0,2, not {argnums!r}") from None
    if which == "backward" and any(not -len(given) <= n < len(given) for n in numbers):
        raise typer.BadParameter(f"--argnums {argnums}, but --args gives {len(given)} arguments")
    seen = inspect(function, *given, backward=which == "backward", argnums=numbers)
    text = seen.stage(stage)
    _print({"target": target, "pass": which, "stage": stage, "text": text}, text, as_json)


def _function_of(path: str, name: str) -> Any:
    module = _module_of(path)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_") and
                 getattr(v, "__module__", None) == module.__name__]
        raise Error(f"{path} has no function {name!r}: there are {', '.join(names) or 'none'}")
    return found


def _module_of(path: str) -> Any:
    """Import a file by path (its `__main__` block does not run), or a module by name."""
    file = Path(path)
    if file.suffix != ".py":
        try:
            return importlib.import_module(path)
        except ImportError as error:
            raise Error(f"cannot import {path!r}: {error}\n  give a file that ends in .py, or a module's name") from None
    if not file.is_file():
        raise Error(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def parse_arguments(text: str) -> tuple:
    """Read `f64[256,10], {"w": f32[3]}, 0.5`: avals and Python literals, in any nesting.

    Raises typer.BadParameter saying what cannot be read.

    >>> parse_arguments("f64[2,3], (1, f32[])")
    (f64[2,3], (1, f32[]))
    """
    if not text.strip():
        return ()
    spelled = re.sub(rf"\b({'|'.join(DTYPES)})\[\s*\]", r"\1[()]", text)
    try:
        tree = ast.parse(f"({spelled},)", mode="eval").body
        return tuple(_value(part) for part in tree.elts)  # type: ignore[attr-defined]
    except (SyntaxError, ValueError) as error:
        raise typer.BadParameter(f"--args {text!r}: {error}\n  write avals as f64[3,4], and Python literals") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in DTYPES:
        shape = ast.literal_eval(node.slice)
        return Aval(shape if isinstance(shape, tuple) else (shape,), DTYPES[node.value.id])
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.List):
        return list(map(_value, node.elts))
    if isinstance(node, ast.Dict):
        return {ast.literal_eval(k): _value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    return ast.literal_eval(node)


def _inspect_script(path: str, stage: str, number: int, as_json: bool) -> None:
    """Run a script and list the graphs that it compiled, or show one of them."""
    if not Path(path).is_file():
        raise Error(f"there is no file {path}")
    with compiler.recorded() as graphs:
        before, sys.argv = sys.argv, [path]
        sys.path.insert(0, str(Path(path).parent.resolve()))
        try:
            runpy.run_path(path, run_name="__main__")
        finally:
            sys.argv = before
            sys.path.pop(0)
    if number >= 0:
        if number >= len(graphs):
            raise Error(f"{path} compiled {len(graphs)} graphs: --graph takes 0 to {len(graphs) - 1}")
        text = _stage_of(graphs[number], stage)
        _print({"target": path, "graph": number, "stage": stage, "text": text}, text, as_json)
        return
    rows = [
        {"graph": i, "name": g.name, "inputs": [str(n.aval) for n in g.inputs],
         "outputs": [str(n.aval) for n in g.outputs], "operations": len(g.nodes)}
        for i, g in enumerate(graphs)
    ]
    lines = [f"{len(rows)} graphs compiled; --graph N --stage X shows one"]
    lines += [f"{r['graph']:4d}  {r['operations']:4d} operations  ({_short(r['inputs'])}) -> ({_short(r['outputs'])})"
              for r in rows]
    _print({"target": path, "graphs": rows}, "\n".join(lines), as_json)


def _short(avals: Any) -> str:
    return ", ".join(avals) if len(avals) <= 6 else ", ".join(avals[:5]) + f", ... {len(avals) - 5} more"


def _stage_of(graph: Any, stage: str) -> str:
    if stage == "tape":
        raise Error("the tape of a graph that a script compiled is gone; look at its graph")
    return str(getattr(compiler.stages(graph), {"llvm-opt": "llvm_optimized"}.get(stage, stage)))


# ---------------------------------------------------------------- rules


@app.command()
def rules(
    name: str = typer.Argument(help="A function of this library (matmul), or FILE.py:FUNCTION."),
    as_json: bool = _JSON,
) -> None:
    """The methods of a generic function, and its rules, with where they were written."""
    import autodiff

    path, _, attribute = name.rpartition(":")
    function: Any = _function_of(path, attribute) if path else getattr(autodiff, name, None)
    if not getattr(function, "is_generic_function", False):
        raise Error(f"{name!r} is no generic function: give a name such as matmul, or FILE.py:FUNCTION")
    listed = [repr(m) for m in autodiff.methods(function)]
    registered = {kind: [repr(r) for r in table] for kind, table in function.rules.items()}
    lines = [f"{function.__name__}: {len(listed)} methods", *[f"  {m}" for m in listed]]
    for kind, found in registered.items():
        lines += [f"{kind}: {len(found)} registered", *[f"  {r}" for r in found]]
    primitive = getattr(function, "primitive", None)
    if primitive is not None:
        has = [what for what, rule in (("reverse", primitive.pull), ("forward", primitive.push)) if rule]
        lines.append(f"operation {primitive.name}: its own derivative in {' and '.join(has) or 'no'} mode")
    _print({"function": function.__name__, "methods": listed, **registered}, "\n".join(lines), as_json)


# ---------------------------------------------------------------- demo, doctor


@app.command()
def demo(as_json: bool = _JSON) -> None:
    """Train a classifier on real handwritten digits with a custom loss; what was compiled, and how fast it runs."""
    from .demo import run

    report = run(quiet=as_json)
    if as_json:
        typer.echo(json.dumps(report, indent=2))


@app.command()
def doctor(as_json: bool = _JSON) -> None:
    """What this installation can do: versions, CPU, BLAS, native call path, and a gradient that is checked."""
    facts = _facts()
    failed = [name for name, value in facts.items() if str(value).startswith("FAILS")]
    width = max(map(len, facts))
    text = "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())
    _print({**facts, "ok": not failed}, text, as_json)
    if failed:
        raise typer.Exit(1)


def _facts() -> dict[str, str]:
    from importlib.metadata import version

    import numpy

    import autodiff

    facts = {
        "autodiff": autodiff.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "llvmlite": version("llvmlite"),
        **compiler.facts(),
    }
    try:
        value, gradient = autodiff.value_and_grad(lambda x: (x * x).sum())(numpy.array([1.0, 2.0, 3.0]))
        right = value == 14.0 and list(gradient) == [2.0, 4.0, 6.0]
        facts["a gradient"] = "right" if right else f"FAILS: {value}, {gradient}"
    except Exception as error:  # whatever it is: a doctor reports it
        facts["a gradient"] = f"FAILS: {type(error).__name__}: {error}"
    return facts
