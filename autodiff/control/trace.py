"""Record a function as a body, on arguments without values that dispatch as the given ones; derive bodies from bodies.

    traced = trace((f, examples), (g, examples))
    made = derived(traced.bodies, ("pull", places), ((pulled, states, elements), ...), hidden inputs)
    made.bodies, made.hidden                    parameters of a loop or branch: all bodies read these hidden inputs

A body thus has a pullback, a pushforward, and a body for many examples.  A body is recorded on arguments that all
track, so the recording of its rules depends only on avals, grad mode and the purpose: the derivative of a loop that
is seen again calls no rule of the operations inside, at any depth.  Exceptions are rules that read values which no key
can name, that evaluate, or that call users' methods: these run each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.symbols import is_watched

from .. import tree
from ..custom.call import CustomCall
from ..custom.host import Unlearnt
from ..custom.keys import users_methods
from ..custom.reads import is_fixed
from ..dispatch import include, observed
from ..dispatch.method import RULES
from ..dispatch.signature import dispatched
from ..errors import DTypeError, ShapeError, located
from ..mode import MODE
from ..ops import as_tensor, reshape, where
from ..ops.batching import with_examples
from ..ops.conversion import DEFAULT_DTYPES, WEAK, as_strong, cast_beside
from ..session import namespace
from ..stand_ins import PYTHON_NUMBERS, standing
from ..tape.leaves import number_leaf, number_like_traced
from ..tape.modes import tracing
from ..tape.node import Node, data_node, new_number
from ..tape.record import argument, state
from ..tape.walk import by_number, reached
from ..tensor import Tensor, handle
from ..transforms.arguments import applied as called_with
from ..transforms.arguments import with_own_node
from .body import Body, interned, is_float


class ExampleOf:
    """An example for `trace`: the argument of f is made like a tensor, or like each element of one.

    given   the value that became the tensor: the argument dispatches as that value does, and a Python number takes the
            dtype of the tensors that it is combined with
    """

    __slots__ = ("aval", "given", "is_element", "number", "tensor", "weak")

    def __init__(self, tensor: Tensor, given: Any = None, *, is_element: bool = False) -> None:
        cls = dispatched(type(given))
        self.aval = tensor.aval.with_shape(tensor.shape[1:]) if is_element else tensor.aval
        self.given, self.is_element, self.tensor = given, is_element, tensor
        self.weak = cls in WEAK
        self.number = issubclass(cls, np.generic)

    def argument(self) -> Tensor:
        """The argument without a value, for a trace."""
        t = argument(self.aval, weak=self.weak, requires_grad=is_float(self.aval), number=self.number)
        return standing(t, self.given)

    def value(self) -> Tensor:
        """The tensor, or its first element, as an argument for a run outside a trace."""
        if isinstance(self.given, Tensor) or not (self.weak or self.number):
            return standing(with_own_node(self.tensor[0] if self.is_element else self.tensor), self.given)
        return number_like_traced(self.given, self.aval.dtype, self.weak)


def valued(examples: Any) -> Any:
    """A nesting of examples as arguments for a run outside a trace, with the types that a trace gives them."""
    return tree.map(lambda x: x.value() if isinstance(x, ExampleOf) else x, examples)


def is_python_number(x: Any) -> bool:
    """True for a Python number, and for a number argument of a traced function."""
    return dispatched(type(x)) in WEAK


def in_dtypes(start: Sequence[Any], body: Body, hidden: Sequence[Tensor]) -> list[Any] | None:
    """The first state of a loop, with Python numbers as the kinds and dtypes that a step gives; None if none differs.

    A number that a step computes from numbers alone is a Python number after it, too.  One that it computes from a
    tensor has a fixed dtype from the beginning, as a loop has one dtype for each of its values.

    body, hidden   the recorded step; its hidden inputs
    """
    weak = [is_python_number(x) for x in (*start, *[None] * (len(body.arguments) - len(start)))]
    if True not in weak:
        return None
    numbers = [t.node.kind.out.weak or is_python_number(t.node.value) for t in hidden]
    fixed = body.differing([not is_number for is_number in (*weak, *numbers)])
    begun = [_begun(x, node.kind.out.aval, is_fixed) if is_weak else x
             for x, is_weak, node, is_fixed in zip(start, weak, body.results, fixed, strict=False)]
    return begun if any([x is not y for x, y in zip(begun, start, strict=False)]) else None


def _begun(x: Any, after: Aval, is_fixed: bool) -> Any:
    """A Python number that a loop begins with, as a number or tensor of the dtype that it has after a step.

    It stays as it is where it would lose digits, as a float does that is an int after a step.
    """
    before = as_tensor(x).dtype
    kinds = [[*PYTHON_NUMBERS].index(d.kind) for d in (before, after.dtype)]  # from bool to complex
    if after.shape or kinds[0] > kinds[1] or (before == after.dtype and not is_fixed):
        return x
    if is_fixed or after.dtype not in DEFAULT_DTYPES.values():
        return number_leaf(x, after.dtype) if type(x) in WEAK else cast_beside(x, after.dtype)
    return x + PYTHON_NUMBERS[after.dtype.kind]()


_HERE = object()


class Nesting(NamedTuple):
    """A nesting of tensors, taken apart, and put together with other tensors.

    others   for each leaf: `_HERE` if it is a tensor, else the leaf itself (None, or a static value)
    """

    structure: tree.Structure
    others: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any, taken: Any = object) -> tuple[list[Any], Nesting]:
        """The leaves of the classes `taken`, without None, and the nesting."""
        leaves, structure = tree.flatten(value)
        others = tuple([_HERE if x is not None and isinstance(x, taken) else x for x in leaves])
        return [x for x, other in zip(leaves, others, strict=True) if other is _HERE], cls(structure, others)

    def filled(self, values: Sequence[Any]) -> Any:
        """The nesting with these values in place of its tensors."""
        given = iter(values)
        return tree.unflatten(self.structure, [next(given) if x is _HERE else x for x in self.others])

    def names(self, root: str) -> list[str]:
        """The name of each tensor, for messages."""
        return [n for n, x in zip(tree.names(self.structure, root), self.others, strict=True) if x is _HERE]

    def parts(self) -> list[Nesting]:
        """The nestings of its children."""
        found, start = [], 0
        for child in self.structure.children:
            found.append(Nesting(child, self.others[start : start + child.size]))
            start += child.size
        return found

    def __repr__(self) -> str:
        """The text of the structure, with None for each leaf that is no tensor."""
        others = iter(self.others)
        return "".join([c if c != "*" or next(others) is _HERE else "None" for c in repr(self.structure)])


def taken_apart(arguments: Any, taken: tuple[type, ...]) -> tuple[list[Tensor], Any]:
    """The leaves of the classes `taken` as tensors, and the arguments with examples for `trace` in their places."""
    given, nesting = Nesting.of(arguments, taken)
    like = [ExampleOf(as_tensor(x), x) for x in given]
    return [x.tensor for x in like], nesting.filled(like)


def run_as_written(f: Any, *args: Any) -> Any:
    """f of these arguments as plain Python; its results become tensors, as those of a trace are."""
    return tree.map(lambda x: x if x is None else as_tensor(x, argument="a result"), f(*args))


def as_result(value: Any) -> Any:
    """The results of a loop that ran as plain Python: like those of a recorded loop, no number is weak any more."""
    return tree.map(lambda x: as_strong(x) if isinstance(x, Tensor) else x, value)


class Traced(NamedTuple):
    """Functions that were recorded together: their bodies, common hidden inputs, and the nestings of their results."""

    bodies: tuple[Body, ...]
    hidden: list[Tensor]
    results: list[Nesting]


def trace(
    *calls: tuple[Callable, Sequence[Any]], hidden: Sequence[Tensor] = (), more: Callable[[], list[Node]] = list,
    taken: Any = object,
) -> Traced:
    """Record functions, each on its examples: an ExampleOf becomes an argument without a value, other leaves stay.

    If a host rule has to learn its outputs first, the function is run once on the values of its examples.

    calls    (function, its examples) for each
    hidden   the tensors that the last arguments of each function stand for, in every use of it
    more     a function that returns nodes recorded by f, which become arguments, after the others
    taken    classes of leaves that become tensors in a result
    """
    found = []
    for f, examples in calls:
        try:
            recorded = _recorded(f, examples, taken)
        except Unlearnt:
            likes = [x for x in tree.leaves(tuple(examples)) if isinstance(x, ExampleOf)]
            if state.now.tracing or any([x.is_element and not x.tensor.shape[0] for x in likes]):
                raise  # only the outermost trace has values
            called_with(f, valued(tuple(examples)), {})
            recorded = _recorded(f, examples, taken)
        since, arguments, results, nesting = recorded
        added = more()
        found.append((arguments, added, results, nesting, *_walk(results, {*arguments, *added}, since)))
    outside = sorted({node for *_, others in found for node in others}, key=by_number)
    bodies = []
    for arguments, added, results, _, order, _ in found:
        split = len(arguments) - len(hidden)
        bodies.append(interned([*arguments[:split], *added], [*arguments[split:], *outside], results, order))
    return Traced(tuple(bodies), [*hidden, *map(handle, outside)], [nesting for *_, nesting, _, _ in found])


def _recorded(f: Callable, examples: Sequence[Any], taken: Any) -> tuple[int, list[Node], list[Node], Nesting]:
    """A recording of f: the number it began with, the arguments, the results and their nesting."""
    leaves, structure = tree.flatten(tuple(examples))
    since = new_number()
    made = [x.argument() if isinstance(x, ExampleOf) else x for x in leaves]
    arguments = [t.node for t, x in zip(made, leaves, strict=True) if isinstance(x, ExampleOf)]
    with tracing(since):
        found, nesting = Nesting.of(called_with(f, tree.unflatten(structure, made), {}), taken)
        return since, arguments, [as_tensor(x, argument="a result").node for x in found], nesting


def check_kept(
    called: str, what: str, before: Nesting, after: Nesting, old: Sequence[Aval], new: Sequence[Aval]
) -> None:
    """Raise ShapeError or DTypeError, with advice, if a step changes the nesting, shape or dtype of its value."""
    if after != before:
        told = f"{called}: the {what} changes from {before} to {after}, where * is a tensor"
        raise ShapeError(located(told, "a step returns the nesting that it was given"))
    for name, was, now in zip(before.names(what), old, new, strict=True):
        if was == now:
            continue
        told = f"{called}: {name} is {was} before a step and {now} after it"
        if was.shape != now.shape:
            raise ShapeError(located(told, "begin with what a step gives, or let the step keep the shape"))
        raise DTypeError(located(told, f"let the step give ad.astype(..., ad.{was.dtype})"))


def _walk(results: Sequence[Node], known: set[Node], since: int) -> tuple[list[Node], set[Node]]:
    """The nodes that f recorded on the way to the results, by creation; and the nodes from outside that these read."""

    def is_outside(node: Node) -> bool:
        return node.number < since or node.value is not None or node.leaf is not None

    found = reached(results, lambda node: () if node in known or is_outside(node) else node.inputs) - known
    outside = {node for node in found if is_outside(node)}
    return sorted(found - outside, key=by_number), outside


# ---------------------------------------------------------------- bodies derived from bodies, made once and cached

#: By bodies and a key of the derivation: the derived bodies, the nodes of constant numbers in rules, which are hidden
#: inputs, and the choices of dispatch that they rely on.
_made_of = namespace("derived body")


def derived(
    bases: tuple[Body, ...],
    purpose: tuple,
    calls: Sequence[tuple[Callable[[list[Tensor]], Sequence[Tensor]], Sequence[Tensor], Sequence[Tensor]]],
    hidden: Sequence[Tensor],
    more: Callable[[], list[Node]] = list,
) -> Traced:
    """The bodies of functions f(arguments and hidden inputs) that apply `bases`; cached by `purpose`.

    Their hidden inputs are `hidden`, and tensors from elsewhere that rules read.

    purpose   all that the functions depend on beside `bases` and avals
    calls     for each: f, tensors that its first arguments resemble, tensors whose elements its next ones resemble
    more      see `trace`
    """
    examples = [
        [*map(ExampleOf, states), *[ExampleOf(t, is_element=True) for t in scanned], *map(ExampleOf, hidden)]
        for _, states, scanned in calls
    ]
    key = _key(bases, purpose, tuple([tuple([x.aval for x in xs]) for xs in examples]))
    found = None if key is None else _made_of.get((bases, key))
    if found is not None:
        bodies, numbers, choices = found
        include(choices)
        return Traced(bodies, [*hidden, *[handle(data_node(n.kind, n.value)) for n in numbers]], [])
    asked, since = state.now.asked, new_number()
    with observed() as choices:
        traced = trace(*[(f, [xs]) for (f, _, _), xs in zip(calls, examples, strict=True)], hidden=hidden, more=more)
    outside = [t.node for t in traced.hidden[len(hidden) :]]
    are_numbers = all([n.number > since and not isinstance(n.value, np.ndarray) for n in outside])
    if key is not None and are_numbers and state.now.asked == asked and not users_methods(choices):
        _made_of.put((bases, key), (traced.bodies, outside, choices))
        choices.on_change(partial(_made_of.pop, (bases, key)))
    return traced


def _key(bases: tuple[Body, ...], purpose: tuple, avals: tuple) -> tuple | None:
    """The key of all that decides the recording; None if no key can say it."""
    lines = state.now.lines
    is_known = all([base.is_interned_itself for base in bases])
    if not is_known or is_watched() or (lines is not None and lines.is_whole):
        return None
    rules = tuple([call.recorded_key() for base in bases for call in base.calls() if _is_users(call)])
    return None if None in rules else (purpose, MODE.get().tracks, avals, rules)


def _is_users(call: CustomCall) -> bool:
    """True if a rule of a call may read values that a program changes."""
    rules = [rule.implementation for rule in map(call.rule, RULES) if rule is not None]
    return not all([is_fixed(f.__module__) for f in (call.function, call.method.implementation, *rules)])


# ---------------------------------------------------------------- for many examples (`vmap`)


def where_differing(pairs: Iterable[tuple[Tensor, bool]], states: Iterable[bool], size: int) -> list[Tensor]:
    """The states of a loop; those that differ between examples at some step have the examples along axis 0."""
    return [with_examples(size, (t,), (m,))[0] if s else t for (t, m), s in zip(pairs, states, strict=False)]


def choose(chosen: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """One of two results for each example."""
    return where(reshape(chosen, (*chosen.shape, *(1,) * (yes.ndim - 1))), yes, no)
