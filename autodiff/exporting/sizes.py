"""Programs to export, for known sizes and for any size, as in `f64[batch,3]`.

    parse_sized("f64[4 * batch,3]")      SizedAval, with the name batch
    sized_program(f, ...)                the object file, for sizes that symbols stand for (`codegen.symbols`)

Errors name the user's line whose operations are not the same for every size.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from codegen import compiler
from codegen.export import Disagreement, Exported, ExportedSizes, NotExportable, exported, exported_sized
from codegen.ir import DTYPES, Aval, dtype_name
from codegen.records import NamedTuple
from codegen.symbols import NotSymbolic, Symbol, SymbolicFloat, formula, symbol, watched

from ..custom.host import Unlearnt
from ..entry import SignatureEntry, present
from ..errors import Error
from ..frames import UserLine, is_ours
from ..jit import jit
from ..tape.modes import keeping_lines
from ..tape.node import Node as TapeNode

#: The most names of sizes in one program.
MOST_SIZES = 4


class SizedAval:
    """The shape and dtype of an argument of any size.

    extents   numbers, or expressions of names      names   the names in these
    """

    __slots__ = ("dtype", "extents", "names")

    def __init__(self, dtype: np.dtype, extents: Sequence[str], names: Sequence[str]) -> None:
        self.dtype, self.extents, self.names = dtype, tuple(extents), tuple(names)

    def at(self, sizes: Mapping[str, int]) -> Aval:
        """The aval for these sizes, which may be symbols."""
        shape = [_value(ast.parse(text, mode="eval").body, sizes) for text in self.extents]
        return Aval(tuple(shape), self.dtype)

    def __repr__(self) -> str:
        return f"{dtype_name(self.dtype)}[{','.join(self.extents)}]"


def parse_sized(text: str) -> SizedAval | None:
    """Read `f64[4 * batch,3]`; None for a text that describes no array.  Raises ValueError for a wrong extent."""
    found = re.fullmatch(r"\s*(\w+)\[(.*)\]\s*", text, re.DOTALL)
    if found is None or found[1] not in DTYPES:
        return None
    try:
        extents = ast.parse(f"({found[2]},)" if found[2].strip() else "()", mode="eval").body
    except SyntaxError:
        raise ValueError(f"{text!r} is no array of a dtype and shape") from None
    assert isinstance(extents, ast.Tuple)
    met = sorted([n for n in ast.walk(extents) if isinstance(n, ast.Name)], key=lambda n: (n.lineno, n.col_offset))
    names = dict.fromkeys([n.id for n in met], 2)
    for extent in extents.elts:
        _value(extent, names)
    return SizedAval(DTYPES[found[1]], [ast.unparse(e) for e in extents.elts], list(names))


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(n)) if type(n) is int and n >= 0:
            return n
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() as op, right=right):
            a, b = _value(left, sizes), _value(right, sizes)
            return a + b if isinstance(op, ast.Add) else a * b
    raise ValueError(f"an extent is a number, a name, or a sum or product of them, not {ast.unparse(node)!r}")


# ---------------------------------------------------------------- programs


class BuiltProgram(NamedTuple):
    """A program to export."""

    made: Exported
    outputs: Sequence[int | None]  # for each result of the function its place among the results of the program
    avals: Sequence[Aval | SizedAval]  # those of the results of the program


def program(f: Callable, name: str, avals: Sequence[Aval | SizedAval]) -> BuiltProgram:
    """The program of a function of flat arguments.  Raises NotExportable, and the errors of f."""
    entry = _entry_at(f, avals, {})
    entry.graph.name = name
    stages = compiler.stages(entry.graph)
    made = exported(stages.program, name, [np.asarray(present(h)) for h in entry.hidden], stages.mlir)
    return BuiltProgram(made, entry.outputs, [n.aval for n in entry.graph.outputs])


def sized_program(
    f: Callable, name: str, avals: Sequence[Aval | SizedAval], names: Sequence[str], results: Sequence[str]
) -> BuiltProgram:
    """The program of a function of flat arguments, for any sizes of these names.

    results    a list into which f writes the names of its results when it is traced

    Raises NotExportable; Error, with the line, for a program that is not the same for every size; the errors of f.
    """

    def record(sizes: Sequence[int]) -> ExportedSizes:
        entry = _entry_at(f, avals, dict(zip(names, sizes, strict=True)))
        return ExportedSizes(entry.graph, [_contents(h) for h in entry.hidden], (tuple(entry.outputs), tuple(results)))

    try:
        made, found = exported_sized(name, names, record)
    except Disagreement as error:
        pairs = [zip(names, sizes, strict=True) for sizes in (error.one, error.other)]
        one, other = (", ".join([f"{n} = {x}" for n, x in pair]) for pair in pairs)
        line = _line_of_difference(f, avals, names, error)
        raise _asked(name, names, f"for {one} it is another than for {other}", line) from None
    except NotSymbolic as error:
        raise _asked(name, names, str(error), where(error.__traceback__)) from None
    except Unlearnt:
        raise NotExportable([("host", "Python")]) from None
    except (Error, IndexError, TypeError, ValueError) as error:
        raise _told(error, names) from None
    outputs, _ = found.results
    result_avals = [SizedAval(n.aval.dtype, [plain_text(formula(e), names) for e in n.aval.shape], names)
                    for n in found.graph.outputs]  # fmt: skip
    return BuiltProgram(made, outputs, result_avals)


def _entry_at(f: Callable, avals: Sequence[Aval | SizedAval], sizes: Mapping[str, int]) -> SignatureEntry:
    """The trace of a function of flat arguments, for these sizes."""
    given = [a.at(sizes) if isinstance(a, SizedAval) else a for a in avals]
    found: SignatureEntry = jit(f).traced.frozen(given)  # type: ignore[attr-defined]  # of Jitted, not of its protocol
    return found


def _contents(hidden: Any) -> Any:
    """The value of a hidden input: an array, or a number computed from sizes."""
    value = hidden.value if isinstance(hidden, TapeNode) else hidden
    return value if type(value) in (Symbol, SymbolicFloat) else np.asarray(present(hidden))


# ---------------------------------------------------------------- messages


def plain_text(text: str, names: Sequence[str]) -> str:
    """The text with symbols replaced by the user's names of sizes."""
    for name in names:
        text = re.sub(rf"(?<![\w.])(?:1 \* )?e\d+_{name}\b", name, text)
    return text


def where(traceback: TracebackType | None) -> str:
    """The innermost line of the user's code in a traceback."""
    found = "an unknown line"
    while traceback is not None:
        frame = traceback.tb_frame
        if not is_ours(frame.f_globals.get("__name__")):
            found = str(UserLine(frame.f_code, traceback.tb_lasti))
        traceback = traceback.tb_next
    return found


def _told(error: Exception, names: Sequence[str]) -> Exception:
    """An error that the program raised, with the user's names of sizes in it."""
    several = " and ".join(names)
    stand = "stands for any number" if len(names) == 1 else "stand for any numbers, and for different ones"
    text = plain_text(str(error), names)
    if text == str(error):
        return error
    return type(error)(f"{text}\n  {several} {stand}; f64[4 * {names[0]}] describes a multiple")


_WAYS_OUT = """\
  a number of Python's is one size's: write x.shape[0] in arithmetic with arrays (ad.sum(x) / x.shape[0]), not len(x),
  float(n), 1.0 / n or math.sqrt(n); in place of a loop over rows ad.vmap, ad.scan or ad.fori_loop"""


def _asked(name: str, names: Sequence[str], what: str, line: str) -> Error:
    return Error(f"export: {name} is not one program for every {' and '.join(names)}: {plain_text(what, names)}\n"
                 f"  at {line}\n{_WAYS_OUT}")  # fmt: skip


def _line_of_difference(f: Callable, avals: Sequence, names: Sequence[str], error: Disagreement) -> str:
    """The user's line of the first node that differs between two sizes; preferably one of the forward half."""
    traces = []
    for sizes in (error.one, error.other):
        given = {name: symbol(f"e_{name}", n) for name, n in zip(names, sizes, strict=True)}
        with keeping_lines(), watched(with_equality=True):
            entry = _entry_at(f, avals, given)
            entry.graph.set_origins()
        hidden = dict(zip(entry.graph.inputs[len(entry.arguments) :], map(_contents, entry.hidden), strict=True))
        nodes = [*hidden, *entry.graph.nodes]
        place = {node: i for i, node in enumerate((*entry.graph.inputs, *nodes))}
        traces.append([(node, (node.op.name, repr(node.params), repr(node.aval), repr(hidden.get(node)),
                               *[place[i] for i in node.inputs])) for node in nodes])  # fmt: skip
    differ = [(a, b) for (a, of_a), (b, of_b) in zip(*traces, strict=False) if of_a != of_b]
    origins = [origin for pair in differ[:1] for node in pair for origin in node.origins if origin.lines]
    origins.sort(key=lambda origin: origin.half == "backward")
    return str(origins[0].lines[0]) if origins else "an unknown line"
