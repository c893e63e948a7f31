"""Templates: what a function of this library recorded for given avals is recorded again without its body.

For arguments of the same avals and the same static parameters, `log_softmax(x, axis=1)` records the same
dozen operations each time.  Checking the axis, promoting dtypes and dispatching a dozen calls costs thirty
microseconds; putting the nodes down again, four.

    key        avals and flags of the tensors, static arguments with their types, grad mode, literal mode
    template   (kind, which earlier nodes are its inputs) for each node, by creation

A template is made when a key is met for the second time, so shapes that never come back cost nothing; or at once where
the learner of a site expects it to come again.  It
relies on the choices that dispatch made inside the body (`dispatch.observed`): a new method that changes one
of them drops it.  Values are in no template, so only bodies that ask for none can be remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from math import copysign
from typing import Any

import numpy as np

from codegen.records import NamedTuple
from codegen.runtime.record_table import MOST_BOUNDS, RecordedProgram, RecordedStep, fits

from ..custom.function import Function
from ..custom.keys import users_methods
from ..dispatch import Choices, observed
from ..dispatch.declaration import Declaration, place_of
from ..mode import MODE
from ..tape.node import Kind, Node, data_node, new_number, put_down
from ..tape.record import Recording, identity_of, is_masked, look_at_size, state
from ..tape.walk import by_number, reached
from ..tensor import Tensor, handle

__all__ = [
    "EXPECTED", "ITEMS", "LIMIT", "Bounds", "Template", "drop", "empty", "public",
    "remembered",
]  # fmt: skip

#: Templates kept per function.
LIMIT = 1024

_new = object.__new__


class _Expected(threading.local):
    """True for the next body that this thread runs if its key is expected again: a template is made at once."""

    again = False


EXPECTED = _Expected()


class Bounds(NamedTuple):
    """Operands of a template that are index arrays, with the extents they are for; known ones are checked each time."""

    check: Callable[..., None]
    pairs: tuple[tuple[int, int], ...]


class Template:
    """The nodes recorded between some tensors and a result.

    steps     for each node: its kind, its value (of a number or array that the body states), its inputs
              by number: arguments first, then steps
    choices   what dispatch decided meanwhile
    bounds    what is looked at each time: index arrays that are known
    holders   called when one of the choices changes
    """

    __slots__ = ("bounds", "choices", "holders", "steps")

    def __init__(self, steps: list[tuple[Kind, Any, tuple[int, ...]]], choices: Choices) -> None:
        self.steps = steps
        self.choices = choices
        self.bounds: Bounds | None = None
        self.holders: list[Callable[[], None]] = []

    @classmethod
    def of(
        cls, y: Any, arguments: Sequence[Node], since: int, choices: Choices, numbers: int = 0
    ) -> Template | None:
        """The template of a result; None where it holds what cannot be put down again.

        arguments   nodes that stand for the arguments, all different
        since       number of a node older than all that the body made
        numbers     how many numbers the body recorded that are arguments too, behind the others
        """
        if not isinstance(y, Tensor) or y.node in arguments or len(set(arguments)) < len(arguments):
            return None
        if users_methods(choices):
            return None  # they may read anything
        made = _between(y.node, arguments)
        if numbers:
            given = [n for n in made if n.value is not None and not n.inputs]
            if len(given) != numbers:
                return None
            arguments = [*arguments, *given]
            made = [n for n in made if n not in given]
        number = {n: i for i, n in enumerate([*arguments, *made])}
        steps = []
        for node in made:
            if type(node) is not Node or node.number < since:
                return None  # a boundary, or something of the user's that the body met
            if node.value is not None and node.inputs:
                return None  # somebody asked for it
            steps.append((node.kind, node.value, tuple([number[i] for i in node.inputs])))
        return cls(steps, choices)

    def program(self, operands: int, number_kind: Kind | None = None, keeps: bool = True) -> RecordedProgram | None:
        """The program for the native recorder; None where it has no room.  Operands beyond the tensors are numbers.

        number_kind, keeps   of the leaves of numbers: their kind, and whether they have the numbers as they are
        """
        steps = [RecordedStep(*step) for step in self.steps]
        if not fits(operands, steps):
            return None
        pairs = self.bounds.pairs if self.bounds else ()
        if len(pairs) > MOST_BOUNDS:
            return None
        out = steps[-1].kind.out
        return RecordedProgram(
            operands, steps, out.cls, is_small=out.small, number_kind=number_kind,
            keeps_numbers=keeps and number_kind is not None, bounds=pairs,
        )  # fmt: skip

    def tell(self, holder: Callable[[], None]) -> None:
        """Call this when one of the choices changes."""
        if holder not in self.holders:
            self.holders.append(holder)

    def put(
        self, now: Recording, tensors: tuple, numbers: Sequence[int] = (), number_kind: Kind | None = None
    ) -> Tensor:
        """Put the nodes down again behind these tensors and numbers.  Raises what the check of bounds raises."""
        if self.bounds is not None:
            for operand, extent in self.bounds.pairs:
                self.bounds.check(tensors[operand], extent=extent)
        nodes = [t.node for t in tensors]
        nodes += [data_node(number_kind, n) for n in numbers] if number_kind is not None else []
        return self.record(nodes, now.body != 0 and is_masked(tensors))

    def record(self, nodes: list[Node], masked: bool) -> Tensor:
        """Put the nodes down again behind these arguments.  The list is used up."""
        put_down(self.steps, nodes)
        node = nodes[-1]
        out = node.kind.out
        y: Any = _new(out.cls)
        y.node = node
        y.masked = masked
        now = state.now
        if out.small:
            now.note_small(y)
        if node.number > now.look_at:
            look_at_size(now, node.inputs)
        return y


def drop(templates: dict[tuple, Template | None], key: tuple) -> None:
    """Forget the template of a key, and tell those who have what is put down for it."""
    template = templates.pop(key, None)
    for tell in template.holders if template else ():
        tell()


def empty(templates: dict[tuple, Template | None]) -> None:
    """Forget all templates."""
    for key in list(templates):
        drop(templates, key)


def _between(y: Node, arguments: Sequence[Node]) -> list[Node]:
    """The nodes from the arguments to y, by creation."""
    known = set(arguments) - {y}
    return sorted(reached([y], lambda node: [i for i in node.inputs if i not in known]), key=by_number)


#: The operands of a function are the items of its first argument, a list or tuple.
ITEMS = -1
#: For a key whose recording cannot be put down again: the body runs each time.
_NEVER: Any = False


def remembered(
    tensors: int, bounds: Callable[..., Bounds] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Record a body's operations again from a template, where its first `tensors` arguments are tensors (0: none is).

    The other arguments are static: they decide what is recorded, by value.  The body must not ask for
    values, and must depend on nothing else.  Of `ITEMS` the first argument is a sequence of tensors.

    bounds    bounds(*arguments): those of the template; the body looks at the values of index arrays, and raises
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        memory = _Memory(body, tensors, bounds)
        made: Any = _run(memory)
        made.natively, made.tensors, made.templates = memory.natively, tensors, memory.templates
        made.is_remembered = True  # see `reads.is_library_function`
        made.__kwdefaults__ = getattr(body, "__kwdefaults__", None)  # dispatch need not pass them on
        return made

    return decorate


def public(
    tensors: int | None = None, records: Any = None, bounds: Callable[..., Bounds] | None = None,
    cls: type[Function] = Function, name: str = "", doc: str = "",
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a public function by its body.

    tensors, bounds   its operations are recorded again from a template: see `remembered`
    records           the operation that it records: users find it as `f.primitive`
    name, doc         where they are not those of the body

    A trailing underscore of the body's name, which keeps Python's own word visible, is dropped.  The examples of its
    documentation begin with the import of this library.
    """

    def declare(body: Any) -> Function:
        body.__name__ = body.__qualname__ = name or body.__name__.rstrip("_")
        body.__doc__ = (doc or body.__doc__ or "").replace(">>> ", ">>> import autodiff as ad\n    >>> ", 1)
        made: Function = cls.declare(body if tensors is None else remembered(tensors, bounds)(body))
        if records is not None:
            made.primitive = records
        return made

    return declare


class _Memory:
    """The templates of a body, by key; `_NEVER` for what cannot be put down again."""

    def __init__(self, body: Callable[..., Any], tensors: int, bounds: Callable[..., Bounds] | None = None) -> None:
        self.body, self.tensors, self.bounds = body, tensors, bounds
        self.templates: dict[tuple, Template | None] = {}

    def dropped(self, key: tuple) -> None:
        """A choice changed that the template of a key relied on."""
        drop(self.templates, key)

    def called(self, xs: tuple, rest: tuple, keywords: dict[str, Any]) -> Any:
        """The body itself.  Raises DispatchError for more arguments than a body without tensors has."""
        if self.tensors == 0 and len(rest) > self.body.__code__.co_argcount:
            Declaration(self.body.__name__, self.body, place_of(self.body)).refuse(rest, keywords)
        return self.body(xs, *rest, **keywords) if self.tensors == ITEMS else self.body(*xs, *rest, **keywords)

    def again(self, key: tuple, xs: tuple, rest: tuple, keywords: dict[str, Any]) -> Any:
        """The body; the second time, or if that is expected, it is watched, and a template made of what it recorded."""
        templates = self.templates
        if templates.get(key) is _NEVER:
            return self.called(xs, rest, keywords)
        if key not in templates:
            if len(templates) >= LIMIT:
                empty(templates)
            templates[key] = None
            if not EXPECTED.again:
                return self.called(xs, rest, keywords)
        EXPECTED.again = False  # for what the body calls
        given: list[Node] = []
        for x in xs:  # the same tensor twice is two arguments
            node = x.node
            given.append(identity_of(node, requires_grad=node.kind.out.requires_grad) if node in given else node)
        since = new_number()
        with observed() as choices:
            y = self.called(tuple([handle(node, x.masked) for node, x in zip(given, xs, strict=True)]), rest, keywords)
        template = Template.of(y, given, since, choices)
        if template is not None and self.bounds is not None:
            template.bounds = self.bounds(*xs, *rest, **keywords)
        templates[key] = template or _NEVER
        choices.on_change(lambda: self.dropped(key))
        is_twice = len(set([x.node for x in xs])) < len(xs)
        return template.put(state.now, xs) if is_twice and template is not None else y

    def natively(self, args: tuple, y: Tensor, keywords: dict) -> tuple[RecordedProgram | None, Any] | None:
        """The program of such arguments for the native recorder, and whom to ask to be told when that changes.

        Of a keyword `number_kind` are the leaves that are numbers to the caller.

        No program where it is of no use to ask again; None where it is not known yet.
        """
        xs, rest = (args[0], args[1:]) if self.tensors == ITEMS else (args[: self.tensors], args[self.tensors :])
        if not all([isinstance(x, Tensor) for x in xs]):
            return None  # a number or an array in place of a tensor
        number_kind = keywords.get("number_kind")
        if number_kind is not None:
            keywords = {name: x for name, x in keywords.items() if name != "number_kind"}
        static = _static(rest, keywords) if rest or keywords else ()
        outs = tuple([x.node.kind.out for x in xs])
        template = self.templates.get((*outs, MODE.get().tracks, False, static))
        if not template:
            return (None, None) if template is _NEVER else None
        return template.program(len(xs), number_kind, keeps=False), template.tell


def _run(memory: _Memory) -> Callable[..., Any]:
    """A body, recorded again from its templates."""
    count, templates, again, called = memory.tensors, memory.templates, memory.again, memory.called

    @wraps(memory.body)
    def run(*args: Any, **keywords: Any) -> Any:
        xs, rest = (args[0], args[1:]) if count == ITEMS else (args[:count], args[count:])
        is_sequence = count != ITEMS or type(xs) in (list, tuple)
        is_known = not MODE.get().watching and is_sequence and (len(xs) > 0 or not count)
        if not is_known or not all([type(x) in _tensors or _is_tensor(x) for x in xs]):
            return called(xs, rest, keywords)
        static = _static(rest, keywords) if rest or keywords else ()
        now, nodes = state.now, [x.node for x in xs]
        start = now.start
        if static is None or any([n.value is None and n.number < start for n in nodes]):
            return called(xs, rest, keywords)
        key = (*[n.kind.out for n in nodes], MODE.get().tracks, now.literal, static)
        template = templates.get(key)
        return template.put(now, tuple(xs)) if template else again(key, tuple(xs), rest, keywords)

    return run


#: Classes of static arguments that are compared by value, and hold nothing else.
_PLAIN = frozenset((bool, int, float, str, type(None)))
#: The number that equals 0.0 and is another one.
_MINUS_ZERO = "-0.0"


def _static(rest: tuple, keywords: dict[str, Any]) -> tuple | None:
    """Static arguments with their types: 0 and False, 1 and 1.0 are not the same axis.  None: not comparable."""
    if len(rest) == 1 and not keywords and type(rest[0]) in _PLAIN and type(rest[0]) is not float:
        return (type(rest[0]), rest[0])
    parts: list[Any] = []
    for value in (*rest, *keywords.values()) if keywords else rest:
        kinds = _kinds_of_static(value)
        if kinds is None:
            return None
        parts += (kinds, value)
    return (*parts, *keywords)


def _kinds_of_static(value: Any) -> Any:
    """The type of a static argument, of a tuple those of its items; None for one that is not compared."""
    kind = type(value)
    if kind in _PLAIN:
        return _MINUS_ZERO if kind is float and not value and copysign(1.0, value) < 0 else kind
    if kind is tuple:
        kinds = tuple([_kinds_of_static(item) for item in value])
        return None if None in kinds else kinds
    return kind if isinstance(value, (type, np.dtype)) else None


#: Classes of tensors met so far: a set look-up is a quarter of `isinstance` on the lattice.
_tensors: set[type] = set()


def _is_tensor(x: Any) -> bool:
    if isinstance(x, Tensor):
        _tensors.add(type(x))
        return True
    return False
