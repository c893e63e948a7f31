"""The origins of the nodes of a trace: the user's lines, and the rules that recorded them.

While a function is traced, `state.now.lines` holds the lines of nodes, by the numbers of the nodes; the nodes have no
lines.  `freeze` passes the lines to the compiler's graph as origins (`codegen.ir.origin`), which every stage prints.

    y = ad.sin(x)              # the user's line, of the node sin
    ad.grad(f)                 # the rule of sin records cos and mul: `RulePlace`, of the node sin
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from codegen import ir
from codegen.ir import Origin
from codegen.records import NamedTuple

from ..frames import UserLine, nearest_line, short_name, user_frames, user_lines
from ..tensor import AbstractTensor, Tensor
from .node import Node, Primitive

#: The most places that are kept at a time: nobody inspects the trace of a larger program.
_MOST = 200_000

#: The number of entries of a container that are searched for a name.
_ENTRIES = 64

#: The most lines that are kept for nested calls.
_DEPTH = 8

#: Operations that only give a value another node.
_NO_WORK = ("identity", "same")

#: The variables by which rules that `ops.primitive` makes refer to the functions of a declaration.
_GIVEN = ("rule", "transpose", "vjp", "pull", "jvp", "push")


class Rule(NamedTuple):
    """A rule ("backward", "jvp" or "batch"): its function, the types of the operands, and its place in the source."""

    kind: str
    function: str
    types: tuple[str, ...]
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({short_name(self.file)}:{self.line})"


class RulePlace:
    """The place of a node that a rule recorded: the rule, its kind, the number of the node `of` which it is the rule,
    and the user's lines.   is_users: True for a user's rule, in which lines are noted too
    """

    __slots__ = ("_rule", "is_users", "kind", "lines", "of")

    def __init__(self, kind: str, rule: Any, of: float, lines: tuple[UserLine, ...], is_users: bool) -> None:
        self.kind, self._rule, self.of, self.lines, self.is_users = kind, rule, of, lines, is_users

    @classmethod
    def from_node(cls, kind: str, node: Node, lines: tuple[UserLine, ...]) -> RulePlace:
        """The place of nodes that the rule of a node records."""
        if node.call is not None:
            return cls(kind, _rule_of_call(node.call, kind), node.number, lines, True)
        return cls(kind, (node.kind.op, [i.kind.out for i in node.inputs]), node.number, lines, False)

    @property
    def rule(self) -> Rule | None:
        """The rule that recorded the node; None if it has no Python code."""
        if type(self._rule) is tuple:
            op, operands = self._rule
            code = rule_code(op, self.kind)
            types = tuple([str(out.aval) for out in operands])
            self._rule = code and Rule(self.kind, op.name, types, code.co_filename, code.co_firstlineno)
        found: Rule | None = self._rule
        return found

    def at(self, own: tuple[UserLine, ...]) -> RulePlace:
        """A copy with further lines, inside of the rule."""
        return RulePlace(self.kind, self._rule, self.of, (*own, *self.lines), True)


class Lines:
    """The places of nodes, by number, while a function is traced: each is a line, several lines, or a `RulePlace`.

    is_whole  True: rules run even if their programs are known, and the lines of all nested calls are kept
    is_lasting  True for the lines of all that a thread records, not of one trace: they hold no node, and do not end
    labels    the user's names of nodes;  origins: those of the latest graph
    trace     an object for the trace, if `is_whole`: the bodies of its loops are recorded for this trace alone
    at        the place of nodes that are recorded now; None: the present line
    stop      the frame at which the traced part of the user's program ends
    """

    __slots__ = ("at", "is_lasting", "is_whole", "labels", "origins", "places", "stop", "trace")

    def __init__(self, stop: FrameType | None = None, *, is_whole: bool = False, is_lasting: bool = False) -> None:
        self.places: dict[float, Any] = {}
        self.labels: dict[float, str] = {}
        self.origins: Mapping[float, Origin] = {}
        self.trace = object() if is_whole else None
        self.is_whole = is_whole
        self.is_lasting = is_lasting
        self.at: Any = None
        self.stop: FrameType | None = None if is_lasting else stop or sys._getframe(1)

    def note(self, node: Node) -> None:
        """Keep the place of a node that is recorded now."""
        at = self.at
        if len(self.places) >= _MOST:
            self.places.clear()
        if self.is_whole:
            self._look_for_names(node)
        if at is None:
            self.places[node.number] = user_lines(self.stop, _DEPTH) if self.is_whole else nearest_line(3)
        elif type(at) is RulePlace and at.is_users and (own := user_lines(self.stop, _DEPTH)):
            self.places[node.number] = at.at(own)
        else:
            self.places[node.number] = at

    def name(self, arguments: Sequence[Node], names: Iterable[str], f: Any) -> None:
        """Set the names of the arguments of f; their place is the definition of f."""
        while hasattr(f, "__wrapped__"):  # `ad.grad(f)`, say, wraps the user's function
            f = f.__wrapped__
        code = getattr(f, "__code__", None)
        self.labels.update(zip([n.number for n in arguments], names, strict=True))
        self.places.update(dict.fromkeys([n.number for n in arguments], UserLine(code, -1) if code else ()))

    def of(self, nodes: Iterable[Node]) -> Lines:
        """A copy with the places of some nodes only, to be kept with these nodes."""
        found = Lines(is_whole=self.is_whole)
        found.end()
        for node in nodes:
            if (place := place_of(self, node)) is not None:
                found.places[node.number] = place
        return found

    def _look_for_names(self, node: Node) -> None:
        """Label the inputs of a node that come from outside of the trace by the variables that hold them."""
        unknown = [i for i in node.inputs if not i.inputs and i.value is not None and i.number not in self.labels]
        for frame in user_frames(sys._getframe(2), self.stop) if unknown else ():
            self.labels.update({i.number: label for i in unknown if (label := variable_of(i, frame))})
            unknown = [i for i in unknown if i.number not in self.labels]
            if not unknown:
                break

    def end(self) -> None:
        """Drop the reference to the frame, after the end of the trace."""
        self.stop = None

    def copy(self, new: Node, node: Node) -> None:
        """Give a new node the place and the label of the node that it stands for."""
        if (place := self.places.get(node.number)) is not None:
            self.places.setdefault(new.number, place)
        if (label := self.labels.get(node.number)) is not None:
            self.labels.setdefault(new.number, label)


def line_of(place: Any) -> tuple[UserLine, ...]:
    """The user's lines of a place."""
    if type(place) is RulePlace:
        return place.lines
    return (place,) if type(place) is UserLine else place or ()


def place_of(lines: Lines | None, node: Node) -> Any:
    """The place of a node; None if it is not known."""
    if lines is None:
        return node.line
    found = lines.places.get(node.number)
    while found is None and node.line is None and node.inputs and node.kind.op.name in _NO_WORK:
        node = node.inputs[0]  # a node that gradients are taken with respect to stands for an argument
        found = lines.places.get(node.number)
    return node.line if found is None else found


class at_place_of:
    """A context in which recorded nodes get the place of a given node; lines of a user's rule inside it are added.

    lines   those of the present trace
    known   the lines of the trace in which the node was recorded, if it was another trace
    """

    __slots__ = ("_at", "_before", "_lines")

    def __init__(self, lines: Lines | None, node: Node, known: Lines | None = None) -> None:
        self._lines, self._at = lines, None if lines is None else place_of(known or lines, node)

    def __enter__(self) -> None:
        lines = self._lines
        if lines is not None:
            self._before = lines.at, lines.stop
            if self._at is not None:
                lines.at, lines.stop = self._at, sys._getframe(1)

    def __exit__(self, *_: object) -> None:
        if self._lines is not None:
            self._lines.at, self._lines.stop = self._before


def visit_rules(
    lines: Lines, order: Sequence[Node], places: Iterable[int], visit: Callable[[int], Any], kind: str = "backward"
) -> None:
    """Call `visit` with places of nodes in `order`; nodes that it records belong to the rule of the visited node."""
    before, stop = lines.at, lines.stop
    is_inside = type(before) is RulePlace and before.kind == "jvp"  # then the place is that of the jvp's node
    try:
        for at in places:
            if not is_inside:
                lines.stop, node = sys._getframe(1), order[at]
                lines.at = RulePlace.from_node(kind, node, line_of(place_of(lines, node)))
            visit(at)
    finally:
        lines.at, lines.stop = before, stop


# ---------------------------------------------------------------- rules


def _rule_of_call(call: Any, kind: str) -> Rule | None:
    rule = (None if call.transparent else call.rule(kind)) or call.method
    code = getattr(rule.implementation, "__code__", None)
    if code is None:
        return None
    types = tuple([getattr(t, "__name__", str(t)) for t in call.types])
    return Rule(kind, call.function.__name__, types, code.co_filename, code.co_firstlineno)


def rule_code(op: Primitive, kind: str = "backward") -> CodeType | None:
    """The code object of the Python function that has an operation's derivative; None if there is none."""
    function = rule_function(op, kind)
    return None if function is None else function.__code__


def rule_function(op: Primitive, kind: str = "backward") -> FunctionType | None:
    """The Python function in which the derivative of an operation is written; None if there is none."""
    function: Any = op.push if kind == "jvp" and op.push is not None else op.batch if kind == "batch" else op.pull
    return _written(function)


def _written(function: Any) -> FunctionType | None:
    while isinstance(function, partial):
        function = function.func
    if not isinstance(function, FunctionType):
        return None
    held: Mapping[str, Any] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name in _GIVEN:
        try:
            inner = held[name].cell_contents if name in held else None
        except ValueError:  # an empty cell
            continue
        if inner is not None and (written := _written(inner)) is not None:
            return written
    return function


# ---------------------------------------------------------------- for the compiler


def give_origins(
    lines: Lines | None, made: Mapping[Node, ir.Node], arguments: Sequence[Node], seeds: Sequence[Node], graph: ir.Graph
) -> None:
    """Set the origins of the nodes of a new graph.

    made        the graph's node for each recorded node
    arguments   the recorded nodes that are arguments;  seeds: the inputs, arguments or not, that are cotangents
    """
    first = set(arguments)
    by_number: dict[float, Origin] = {}
    if lines is not None:
        lines.origins = by_number
    for node in sorted(made, key=lambda n: n.number):
        found = made[node]
        if not found.origins:
            found.origins = (_origin(lines, node, found, node in first, node in seeds, by_number),)
        by_number[node.number] = found.origins[0]
    for reader in reversed(graph.nodes):  # if an operation is several nodes, all get the origin of the last one
        for i in reader.inputs:
            i.origins = i.origins or reader.origins
    for reader in graph.nodes:  # a number gets the line of its first reader
        told = reader.origins[0]
        for i in reader.inputs:
            if not (origin := i.origins[0]).lines and not i.inputs:
                origin.lines = told.lines
                if origin.half == "constant":
                    origin.rule, origin.of = told.rule, told.of
    ir.name_origins(graph)


def _origin(
    lines: Lines | None, node: Node, found: ir.Node, is_argument: bool, is_seed: bool, known: Mapping[float, Origin]
) -> Origin:
    place = place_of(lines, node)
    label = "" if lines is None else lines.labels.get(node.number, "")
    derived = place if type(place) is RulePlace else None
    rule, of = (derived.rule, known.get(derived.of)) if derived else (None, None)
    if is_seed:
        half = "seed"
    elif found.op is ir.INPUT:
        half = "input" if is_argument or isinstance(node.value, np.ndarray) else "constant"
    elif found.op is ir.CONSTANT:
        half = "constant"
    else:
        half = "backward" if derived and derived.kind == "backward" else "forward"
    return Origin(half, line_of(place), rule, of, label)


# ---------------------------------------------------------------- names of the user's


def variable_of(node: Node, frame: FrameType) -> str:
    """The name of a variable that has the value of a node, in the frame that reads the value; "" if there is none.

    A number gets the name of a variable only if the function has no literal of the same value.
    """
    value = node.value
    if not isinstance(value, np.ndarray) and any([_is_same(node, c) for c in frame.f_code.co_consts]):
        return ""
    near = list(_variables(frame))
    inside = ((name + inner, found) for name, held in near for inner, found in _inside(held))
    return next((name for name, held in chain(near, inside) if _is_same(node, held)), "")


def _variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    code, near = frame.f_code, frame.f_locals
    for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        if name in near:
            yield name, near[name]
    for name in near if code.co_name == "<module>" else code.co_names:
        if name in near or name in frame.f_globals:
            yield name, near.get(name, frame.f_globals.get(name))


def _inside(held: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a container, and the attributes of an object of the user's."""
    if isinstance(held, dict):
        yield from [(f"[{key!r}]", x) for key, x in [*held.items()][:_ENTRIES]]
    elif isinstance(held, (list, tuple)):
        yield from [(f"[{k}]", x) for k, x in enumerate(held[:_ENTRIES])]
    elif not isinstance(held, (ModuleType, type, AbstractTensor)) and (own := getattr(held, "__dict__", None)):
        yield from [(f".{name}", x) for name, x in [*own.items()][:_ENTRIES]]


def _is_same(node: Node, held: Any) -> bool:
    """True if a variable holds the value of a node."""
    value = node.value
    if isinstance(held, Tensor):
        return held.node is node
    if isinstance(held, np.ndarray) and isinstance(value, np.ndarray):
        is_like = held.size > 0 and held.shape == value.shape and held.dtype == value.dtype
        return is_like and held.__array_interface__["data"] == value.__array_interface__["data"]
    return type(held) in (bool, int, float, complex) and type(held) is type(value) and held == value
