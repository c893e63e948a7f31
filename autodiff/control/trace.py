"""Recording a function as a body: on arguments without values that dispatch as what was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from codegen.ir import Aval

from .. import tree
from ..custom.host import Unlearnt
from ..dispatch.signature import dispatched
from ..errors import DTypeError, ShapeError, located
from ..ops import as_tensor
from ..stand_ins import standing
from ..tape.node import Node, new_number
from ..tape.record import argument, number_like_traced, state
from ..tape.tracing import tracing
from ..tape.walk import by_number, reached
from ..tensor import Tensor, handle
from ..transforms.arguments import applied, own
from .body import BodyUse, interned, is_float

__all__ = ["Like", "Nesting", "Operands", "as_written", "check_kept", "is_python_number", "started", "trace"]


class Like:
    """Stands among the examples of `trace` for what was given as a number or an array: it dispatches as that does.

    aval    of the tensor that it becomes
    given   what it stands for; a Python number takes the dtype of what it meets
    """

    __slots__ = ("aval", "given", "number", "weak")

    def __init__(self, aval: Aval, given: Any) -> None:
        cls = dispatched(type(given))
        self.aval = aval
        self.given = given
        self.weak = cls in _PYTHON
        self.number = issubclass(cls, np.generic)

    def value(self, t: Tensor) -> Tensor:
        """Run it outside of a trace, on a tensor with a value."""
        if isinstance(self.given, Tensor) or not (self.weak or self.number):
            return standing(own(t), self.given)
        return number_like_traced(self.given, self.aval.dtype, self.weak)


class Operands:
    """Arguments of the user's, of any nesting: what is in `taken` becomes a tensor.

    tensors    these
    examples   the same nesting of examples for `trace`
    """

    def __init__(self, arguments: Any, taken: tuple[type, ...]) -> None:
        user, self._structure = tree.flatten(arguments)
        leaves = [as_tensor(x) if isinstance(x, taken) else x for x in user]
        self.tensors = [x for x in leaves if isinstance(x, Tensor)]
        self._like = [Like(x.aval, given) if isinstance(x, Tensor) else x
                      for x, given in zip(leaves, user, strict=True)]
        self.examples = tree.unflatten(self._structure, self._like)

    def values(self) -> Any:
        """The nesting for a run outside of a trace: of the same types as in one."""
        given = iter(self.tensors)
        like = [x.value(next(given)) if isinstance(x, Like) else x for x in self._like]
        return tree.unflatten(self._structure, like)


_PYTHON = frozenset((bool, int, float, complex))


def is_python_number(x: Any) -> bool:
    """True for a Python number, and for a number argument of a traced function."""
    return dispatched(type(x)) in _PYTHON


class Nesting:
    """A nesting whose leaves are tensors or None: taken apart, and put together again with other tensors."""

    __slots__ = ("_there", "structure")

    def __init__(self, structure: tree.Structure, there: Sequence[bool]) -> None:
        self.structure = structure
        self._there = tuple(there)

    @classmethod
    def of(cls, value: Any) -> tuple[list[Any], Nesting]:
        """The leaves that are not None, and the nesting."""
        leaves, structure = tree.flatten(value)
        return [x for x in leaves if x is not None], cls(structure, [x is not None for x in leaves])

    def filled(self, values: Sequence[Any]) -> Any:
        """The nesting with these in place of its tensors."""
        given = iter(values)
        return tree.unflatten(self.structure, [next(given) if there else None for there in self._there])

    def names(self, root: str) -> list[str]:
        """The name of each tensor, for messages."""
        return [n for n, there in zip(tree.names(self.structure, root), self._there, strict=True) if there]

    def parts(self) -> list[Nesting]:
        """The nestings of the children."""
        found, start = [], 0
        for child in self.structure.children:
            found.append(Nesting(child, self._there[start : start + child.size]))
            start += child.size
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nesting) and (self.structure, self._there) == (other.structure, other._there)

    __hash__ = None  # type: ignore[assignment]  # how Python says that there is none

    def __repr__(self) -> str:
        """The structure's own text, with None where nothing is."""
        there = iter(self._there)
        return "".join([c if c != "*" or next(there) else "None" for c in repr(self.structure)])


def started(carry: Any) -> Any:
    """The first carry of a loop as plain Python: numbers take the dtypes of what they meet."""
    first, kind = Nesting.of(carry)
    tensors = [as_tensor(s) for s in first]
    return kind.filled([Like(t.aval, s).value(t) for s, t in zip(first, tensors, strict=True)])


def as_written(f: Any, *args: Any) -> Any:
    """f of these arguments as plain Python; its results are tensors, as those of a trace are."""
    found, nesting = Nesting.of(f(*args))
    return nesting.filled([as_tensor(x) for x in found])


def trace(
    f: Any, *examples: Any, values: Callable[[], Sequence[Any]] | None = None, hidden: Sequence[Tensor] = ()
) -> BodyUse:
    """Record f on arguments like `examples`: nestings of avals (or Like ones); anything else is passed as it is.

    values   gives arguments that f may be run on once, where a rule in it has to be known by its values first
    hidden   what its last arguments stand for, in every use of this one
    """
    try:
        return _recorded(f, examples, hidden)
    except Unlearnt:
        if state.now.tracing or values is None:
            raise  # the outermost trace has values
    applied(f, values(), {})
    return _recorded(f, examples, hidden)


def _recorded(f: Any, examples: Sequence[Any], given: Sequence[Tensor]) -> BodyUse:
    leaves, structure = tree.flatten(tuple(examples))
    since = new_number()
    made = [_argument_of(x) for x in leaves]
    arguments = [t.node for t, x in zip(made, leaves, strict=True) if isinstance(x, (Aval, Like))]
    with _tracing(since):
        found, nesting = Nesting.of(applied(f, tree.unflatten(structure, made), {}))
        results = [as_tensor(x).node for x in found]
    order, hidden = _walk(results, arguments, since)
    split = len(arguments) - len(given)
    body = interned(arguments[:split], [*arguments[split:], *hidden], results, order)
    return BodyUse(body, [*given, *map(handle, hidden)], nesting)


def _argument_of(example: Any) -> Any:
    if isinstance(example, Like):
        t = argument(example.aval, weak=example.weak, requires_grad=is_float(example.aval), number=example.number)
        return standing(t, example.given)
    return argument(example, requires_grad=is_float(example)) if isinstance(example, Aval) else example


def check_kept(
    called: str, what: str, before: Nesting, after: Nesting, old: Sequence[Aval], new: Sequence[Aval]
) -> None:
    """Raise ShapeError or DTypeError where a step gives another value than it was given, saying how to mend it."""
    if after != before:
        raise ShapeError(located(f"{called}: the {what} changes from {before} to {after}"))
    for name, was, now in zip(before.names(what), old, new, strict=True):
        if was == now:
            continue
        told = f"{called}: {name} is {was} before a step and {now} after it"
        if was.shape != now.shape:
            raise ShapeError(located(told, "begin with what a step gives, or let the step keep the shape"))
        raise DTypeError(located(told, f"let the step give ad.astype(..., ad.{was.dtype})"))


@contextmanager
def _tracing(since: float) -> Iterator[None]:
    """Trace as in `jit`: there are no values."""
    now = state.now
    literal = now.literal
    try:  # an interrupt may come at any call from here on
        now.literal = False
        with tracing(since):
            yield
    finally:
        now.literal = literal


def _walk(results: Sequence[Node], arguments: Sequence[Node], since: int) -> tuple[list[Node], list[Node]]:
    """The nodes that were recorded on the way to the results, by creation; and where they began but at arguments."""
    known = set(arguments)

    def is_outside(node: Node) -> bool:
        return node.number < since or node.value is not None or node.leaf is not None

    found = reached(results, lambda node: () if node in known or is_outside(node) else node.inputs) - known
    outside = {node for node in found if is_outside(node)}
    return sorted(found - outside, key=by_number), sorted(outside, key=by_number)
