"""The code that records what a template records, whose extents are symbols: `any_shape` says what for.

    Writer(template, names, operands, number_kind).put(unknown, conditions)  ->  put(now, *operands)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from codegen.ir import Aval
from codegen.symbols import LEAST, NotSymbolic, Symbol, SymbolicFloat, checked, formula
from codegen.written import defined

from ..mode import MODE
from ..tape.leaves import constant_kind
from ..tape.node import CONSTANT, LEAF, Kind, Node, Out, data_node, kind_of, new_number
from ..tape.record import look_at_size
from ..tensor import Tensor
from .template import Template

__all__ = ["Put", "TemplateWriter"]

#: What the code names.
_NAMES = {
    "Node": Node, "__name__": __name__, "constant_kind": constant_kind, "data_node": data_node,
    "look_at_size": look_at_size, "new": object.__new__, "new_number": new_number,
}  # fmt: skip

#: put(now, *operands): the handle, and the kinds of the steps where these were there before; None: they do not fit.
Put = Callable[..., tuple[Tensor, tuple[Kind, ...] | None] | None]


class TemplateWriter:
    """Writes the code that records a template whose extents are symbols."""

    def __init__(self, template: Template, names: Sequence[str | int], xs: Sequence[Any], number_kind: Any) -> None:
        self._env: dict[str, Any] = {**_NAMES}
        #: What the constants of the code are.
        self._words: list[Any] = []
        self.steps: list[tuple[Any, tuple[int, ...]]] = [step[1:] for step in template.steps]
        operands = [f"x{i}" for i in range(len(xs))]
        like = {name: x.node.kind.out for name, x in zip(operands, xs, strict=True) if isinstance(x, Tensor)}
        #: Of operands and steps the names of nodes and of their Outs.
        self._nodes = [f"a{x}" for x in operands]
        self._outs = [f"o{x}" if x in like else self._constant(number_kind.out) for x in operands]
        self._tests = [*self._look(like), *self._read(names, like)]
        self._lines: list[str] = []
        for name in operands:
            if name not in like:
                self._lines.append(f"a{name} = data_node({self._constant(number_kind)}, float({name}))")
        for kind, value, picks in template.steps:
            self._step(kind, value, picks)
        if template.steps[-1][0].op in (CONSTANT, LEAF):
            raise NotSymbolic("nothing is computed")
        self._given = ", ".join(operands)
        #: What two examples must agree in.
        self.text = self._tests, self._lines, self._words

    def _constant(self, value: Any, word: Any = None) -> str:
        self._words.append(word or id(value))
        name = f"c{len(self._words)}"
        self._env[name] = value
        return name

    @staticmethod
    def _look(like: dict[str, Out]) -> list[str]:
        """The lines that look at operands: at all that is not in their classes but shapes."""
        lines = []
        for x, out in like.items():
            lines.append(f"a{x} = {x}.node")
            lines.append(f"o{x} = a{x}.kind.out")
            lines.append(
                f"if {x}.masked or o{x}.requires_grad is not {out.requires_grad} or o{x}.weak "
                f"or o{x}.cls is not type({x}) or (a{x}.value is None and a{x}.number < now.start): return None"
            )
        return lines

    @staticmethod
    def _read(names: Sequence[str | int], like: dict[str, Out]) -> list[str]:
        """The lines that read extents, and compare those that are known."""
        lines: list[str] = []
        bound: set[str] = set()
        left = iter(names)
        for x, out in like.items():
            targets, tests = [], []
            for axis in range(len(out.shape)):
                name = next(left)
                if type(name) is str and name not in bound:
                    bound.add(name)
                    targets.append(name)
                    tests.append(f"{name} < {LEAST}")
                else:
                    targets.append(f"s{axis}")
                    tests.append(f"s{axis} != {name}")
            if targets:
                lines.append(f"{', '.join(targets)}, = o{x}.shape")
                lines.append(f"if {' or '.join(tests)}: return None")
        return lines

    def _step(self, kind: Kind, value: Any, picks: Sequence[int]) -> None:
        """The lines that put a node down."""
        if value is not None and (type(value) not in (int, float, bool) or picks):
            raise NotSymbolic("a value that the body made")
        number = len(self._nodes)
        self._find(f"k{number}", kind, picks)
        self._lines += [
            f"n{number} = new(Node)",
            f"n{number}.kind = k{number}",
            f"n{number}.inputs = ({''.join([f'{self._nodes[i]}, ' for i in picks])})",
            f"n{number}.value = {None if value is None else self._constant(value, (type(value), repr(value)))}",
            f"n{number}.number = new_number()",
        ]
        self._nodes.append(f"n{number}")
        self._outs.append(f"k{number}.out")

    def _find(self, name: str, kind: Kind, picks: Sequence[int]) -> None:
        """The lines that find a step's kind."""
        if kind.op is CONSTANT and type(kind.params[0]) is SymbolicFloat:
            value, dtype = kind.params
            self._lines.append(f"{name} = constant_kind(float({formula(value.count)}), {dtype!r})")
        elif kind.op is CONSTANT or kind.op is LEAF:
            if any([type(n) is Symbol for n in kind.out.shape]):
                raise NotSymbolic("a leaf")
            self._lines.append(f"{name} = {self._constant(kind)}")
        else:
            op, mode, aval = kind.op, MODE.get().tracks, kind.out.aval
            outs = "".join([f"{self._outs[i]}, " for i in picks])
            memo = self._constant(op.memo[mode])
            made = self._constant(partial(_made, op, mode, aval.dtype), (op, mode, aval.dtype))
            self._lines += [
                f"w = ({outs}), {self._text(kind.params)}",
                f"{name} = {memo}.get(w)",
                f"is_new = {name} is None",
                f"if is_new: {name} = {made}(*w, {self._text(aval.shape)})",
            ]

    def _text(self, value: Any) -> str:
        """A parameter with formulas for its numbers."""
        if type(value) in (int, Symbol):
            return formula(value)
        if type(value) is tuple:
            return f"({', '.join([*map(self._text, value), ''])})" if value else "()"
        if value is None or type(value) in (bool, str):
            return repr(value)
        raise NotSymbolic("a parameter that is no number")

    def put(self, unknown: Sequence[str], conditions: Any) -> Put:
        """The function."""
        lines = [*self._tests]
        if conditions:
            self._env["is_fit"] = checked(conditions, [*unknown])
            lines.append(f"if not is_fit({', '.join(unknown)}): return None")
        last = len(self._nodes) - 1
        kinds = "".join([f"k{k}, " for k in range(len(self._nodes) - len(self.steps), len(self._nodes))])
        lines += [
            *self._lines,
            f"out = k{last}.out",
            "y = new(out.cls)",
            f"y.node = n{last}",
            "y.masked = False",
            "if out.small: now.note_small(y)",
            f"if n{last}.number > now.look_at: look_at_size(now, n{last}.inputs)",
            f"return y, None if is_new else ({kinds})",
        ]
        put: Put = defined("put", f"def put(now, {self._given}):\n " + "\n ".join(lines), self._env)
        return put


def _made(op: Any, mode: bool, dtype: Any, outs: tuple[Out, ...], params: tuple, shape: tuple[int, ...]) -> Kind:
    return kind_of(op, params, outs, mode, Aval(shape, dtype))
