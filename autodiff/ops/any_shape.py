"""Operations on operands of any shape: what a site records for shapes that it never met, without its body.

A batch that grows at each step, sequences of every length: all operands are new, so no template and no table knows
them, and the body checks, promotes and dispatches as if nothing were known.  But what it records is the same but for
numbers.  So after some new shapes the body is run with symbols for extents (`codegen.symbols`), and what it records
becomes straight-line code that reads the extents, tests what the body compared, and gives the kinds:

    x @ w    x: f64[a,b], w: f64[b,c]

    def put(now, x0, x1):
        a0, a1 = x0.node, x1.node
        o0, o1 = a0.kind.out, a1.kind.out
        if x0.masked or o0.requires_grad is not False or ...: return None
        e0, e1, = o0.shape
        s0, e2, = o1.shape
        if s0 != e1 or e0 < 2 or ...: return None
        k2 = memo2.get(w := ((o0, o1), ())); is_new = k2 is None
        if is_new: k2 = made2(*w, (e0, e2,))
        ...                                           the node, and the handle on it

Which extents are one symbol, samples say: those that were the same in all of them.  An extent of 0 or 1, which
broadcasts or leaves nothing, is a symbol nowhere.  It is sound because every comparison of a symbol is kept as a
condition; because what takes the number itself differs between two examples, which must agree; and because all that
was sampled must come out as the body recorded it.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from codegen.ir import Aval
from codegen.runtime.record_table import MOST_NODES
from codegen.symbols import LEAST, Symbol, symbol, watched

from ..dispatch import Choices, observed
from ..mode import MODE
from ..tape.node import LEAF, Kind, Node, Out, data_node, leaf_kind, new_number, out_of
from ..tape.record import state
from ..tape.walk import reached
from ..tensor import Tensor, handle, tensor_class
from .any_shape_code import Put, TemplateWriter
from .template import Template, kinds_of_static

__all__ = ["AnyShape", "is_real"]

#: After so many new shapes of a form it is tried for any, and after so many more again.
_TRIED = (8, 16, 64, 256)

#: Shapes that are kept as samples beside the first, forms of a site, and programs of a form.
_SAMPLES, _FORMS, _PROGRAMS = 7, 64, 4

#: Where two examples of unknown extents begin: primes, so that no product of some is another's.
_EXAMPLES = (
    (101, 211, 307, 401, 503, 601, 701, 809), (1009, 1213, 1409, 1601, 1801, 2003, 2203, 2411)
)  # fmt: skip

_serial = itertools.count()

#: What runs a body on these operands.
Body = Callable[[Sequence[Any]], Tensor]


class AnyShape:
    """Programs that a site records for operands of any shape, by form: their classes, grad mode, and what is static."""

    __slots__ = ("_age", "_forms", "programs")

    def __init__(self) -> None:
        self._forms: dict[tuple, _Form] = {}
        #: Those that are known, by what `_form` gives.
        self.programs: dict[tuple, list[_AnyShapeProgram]] = {}
        self._age = 0

    def put(
        self, age: int, xs: Sequence[Any], statics: Sequence[tuple[Any, Any]]
    ) -> tuple[Tensor, Template | None] | None:
        """The result for these operands; where such were recorded before, with the template of it.

        None: the body is to record it.      age   of the site's table: what was learnt before it was emptied is gone
        """
        if age != self._age:
            self._forms, self.programs, self._age = {}, {}, age
        if not self.programs:
            return None
        form, now = _form(xs, statics), state.now
        found = None if form is None else self.programs.get(form)
        for program in list(found) if found and not (now.body or now.literal) else ():
            made = program.put(now, *xs)
            if made is not None:
                y, kinds = made
                return y, None if kinds is None else program.template(kinds)
        return None

    def learn(
        self, age: int, xs: Sequence[Any], statics: Sequence[tuple[Any, Any]], forget: Callable[[], None], body: Body
    ) -> None:
        """The body has recorded these operands, which were unknown; after several, try to know all like them.

        forget   empties the site's table
        """
        key = _form(xs, statics)
        outs = tuple([x.node.kind.out for x in xs if isinstance(x, Tensor)])
        if key is None or age != self._age or any([o.weak for o in outs]):
            return
        flags = key, *[o.requires_grad for o in outs]
        form = self._forms.get(flags)
        if form is None:
            if len(self._forms) >= _FORMS:
                self._forms, self.programs = {}, {}
            form = self._forms[flags] = _Form()
        known = self.programs.get(key, [])
        if form.note(outs) in _TRIED and len(known) < _PROGRAMS:
            found = _found(form.alike(), xs, body)
            if found is not None:
                found.choices.on_change(forget)
                self.programs[key] = [found, *known]


def is_real(xs: Sequence[Any]) -> bool:
    """True if no operand has a symbol for an extent."""
    return not any([Symbol in map(type, x.node.kind.out.shape) for x in xs if isinstance(x, Tensor)])


class _Form:
    """Shapes that came with a form."""

    __slots__ = ("count", "first", "latest")

    def __init__(self) -> None:
        self.first: tuple[Out, ...] | None = None
        self.latest: deque[tuple[Out, ...]] = deque(maxlen=_SAMPLES)
        self.count = 0

    def note(self, outs: tuple[Out, ...]) -> int:
        """Count these among the shapes that were new since a program was learnt."""
        if self.first is None:
            self.first = outs
        elif outs not in self.latest:
            self.latest.append(outs)
            self.count += 1
        return self.count

    def alike(self) -> list[tuple[Out, ...]]:
        """The samples that are as the latest one where extents are 0 or 1."""
        small = _small(self.latest[-1])
        return [s for s in (self.first, *self.latest) if s is not None and _small(s) == small]


def _small(outs: Sequence[Out]) -> list[int | None]:
    return [n if n < LEAST else None for n in _numbers(outs)]


def _numbers(outs: Sequence[Out]) -> list[int]:
    return [n for out in outs for n in out.shape]


def _form(xs: Sequence[Any], statics: Sequence[tuple[Any, Any]]) -> tuple | None:
    """The key of a call, but for shapes and flags; None where a static argument is not compared."""
    form = (MODE.get().tracks, *map(type, xs))
    if statics:
        kinds = tuple([kinds_of_static(value) for _, value in statics])
        return None if None in kinds else (*form, *statics, *kinds)
    return form


# ---------------------------------------------------------------- with symbols


class _AnyShapeProgram:
    """The program of operands of some form, for any extents that fit.

    put      what records it
    steps    of each its value, and which earlier nodes are its inputs
    number_kind   of the leaf of an operand that is a number
    """

    __slots__ = ("_steps", "choices", "number_kind", "put")

    def __init__(
        self, put: Put, steps: Sequence[tuple[Any, tuple[int, ...]]], number_kind: Any, choices: Choices
    ) -> None:
        self.put, self._steps, self.number_kind, self.choices = put, steps, number_kind, choices

    def template(self, kinds: Sequence[Kind]) -> Template:
        """The template in which the steps have these kinds."""
        template = Template([(k, *step) for k, step in zip(kinds, self._steps, strict=True)], self.choices)
        template.number_kind = self.number_kind
        return template


def _found(samples: Sequence[tuple[Out, ...]], xs: Sequence[Any], body: Body) -> _AnyShapeProgram | None:
    """The program of operands like the samples; None where no formula says it, or a sample shows another."""
    tensors = [x for x in xs if isinstance(x, Tensor)]
    if any([x.dtype.kind == "i" or type(x) is not tensor_class(x.aval) for x in tensors]):
        return None  # the body may look at indices; a number of a trace is another class
    if len(xs) > len(tensors) + 1 or any([type(x) not in (int, float) for x in xs if not isinstance(x, Tensor)]):
        return None
    for knows_constants in (False, True):
        try:
            program = _program(_names(samples, knows_constants), xs, body)
        except Exception:  # whatever wants the very number
            continue
        if program is not None and all([_agrees(program, outs, xs, body) for outs in samples]):
            return program
    return None


def _names(samples: Sequence[tuple[Out, ...]], knows_constants: bool) -> list[str | int]:
    """For each extent its name, or itself: those that were the same in all samples have one name."""
    serial = next(_serial)
    columns = [*zip(*map(_numbers, samples), strict=True)]
    names: dict[tuple[int, ...], str | int] = {}
    for column in columns:
        is_known = column[0] < LEAST or (knows_constants and len(set(column)) == 1)
        names.setdefault(column, column[0] if is_known else f"e{serial}_{len(names)}")
    return [names[column] for column in columns]


def _given(xs: Sequence[Any], outs: Sequence[Out]) -> list[Any]:
    """Operands like these whose tensors have these Outs.  A value stands for one: whatever looks at it is found out."""
    left = iter(outs)
    return [handle(data_node(leaf_kind(next(left)), 0.0)) if isinstance(x, Tensor) else x for x in xs]


def _run(xs: Sequence[Any], outs: Sequence[Out], body: Body) -> tuple[Template, Any] | None:
    """The nodes that the body records for tensors with these Outs, and the kind of the leaf of a number operand."""
    given = _given(xs, outs)
    nodes = [x.node for x in given if isinstance(x, Tensor)]
    now, since = state.now, new_number()
    asked = now.asked
    with observed() as choices:
        y = body(given)
    if now.asked != asked or not isinstance(y, Tensor) or type(y) is not y.node.kind.out.cls:
        return None
    template = Template.of(y, nodes, since, choices, numbers=len(given) - len(nodes))
    if template is None:
        return None
    # Numbers are behind the tensors there; here operands are in their order.
    places = sorted(range(len(given)), key=lambda i: not isinstance(given[i], Tensor))
    places += range(len(given), len(given) + len(template.steps))
    template.steps = [(kind, value, tuple([places[i] for i in picks])) for kind, value, picks in template.steps]
    return template, _number_kind(y.node, set(nodes)) if len(nodes) < len(given) else None


def _number_kind(root: Node, given: set[Node]) -> Kind:
    """The kind of the one leaf that has a float, behind a root."""
    leaves = [n for n in reached([root], attrgetter("inputs")) if n.kind.op is LEAF and n not in given]
    (leaf,) = [n for n in leaves if type(n.value) is float]
    return leaf.kind


def _program(names: Sequence[str | int], xs: Sequence[Any], body: Body) -> _AnyShapeProgram | None:
    """The program that two examples agree on."""
    unknown = [*dict.fromkeys([n for n in names if type(n) is str])]
    like = [x.node.kind.out for x in xs if isinstance(x, Tensor)]
    drafts = []
    for values in _EXAMPLES:
        symbols = {name: symbol(name, value) for name, value in zip(unknown, values, strict=False)}
        numbers = iter([symbols[n] if isinstance(n, str) else n for n in names])  # more than examples: a KeyError
        outs = [out_of(Aval(tuple([next(numbers) for _ in o.shape]), o.aval.dtype), o.requires_grad) for o in like]
        with watched(closely=True) as conditions:
            found = _run(xs, outs, body)
        if found is None or len(found[0].steps) + len(xs) > MOST_NODES:
            return None
        template, number_kind = found
        drafts.append((TemplateWriter(template, names, xs, number_kind), conditions, number_kind, template.choices))
    (writer, conditions, number_kind, choices), (other, others, other_kind, _) = drafts
    if writer.text != other.text or conditions != others or number_kind is not other_kind:
        return None
    return _AnyShapeProgram(writer.put(unknown, conditions), writer.steps, number_kind, choices)


def _agrees(program: _AnyShapeProgram, outs: Sequence[Out], xs: Sequence[Any], body: Body) -> bool:
    """True if a program gives for a sample what the body records."""
    found = _run(xs, outs, body)
    given = _given(xs, outs)
    made = program.put(state.now, *given)
    again = program.put(state.now, *given)
    if found is None or made is None or again is None or found[1] is not program.number_kind:
        return False
    (template, _), (y, _), (_, kinds) = found, made, again
    other = None if kinds is None else program.template(kinds)
    if other is None or y.node.kind is not other.steps[-1][0] or len(template.steps) != len(other.steps):
        return False
    return all([
        a[0] is b[0] and type(a[1]) is type(b[1]) and repr(a[1]) == repr(b[1]) and a[2] == b[2]
        for a, b in zip(template.steps, other.steps, strict=True)
    ])  # fmt: skip
