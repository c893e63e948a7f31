"""Templates: what a function of this library recorded for given avals is recorded again without its body.

For arguments of the same avals and the same static parameters, `log_softmax(x, axis=1)` records the same
dozen operations each time.  Checking the axis, promoting dtypes and dispatching a dozen calls costs thirty
microseconds; putting the nodes down again, less than one.

    public(1)        the body of a function of one tensor runs on examples when machine code learns a call of it
                     (`learner`): from then on a table has what it records

A template relies on the choices that dispatch made inside the body (`dispatch.observed`): a new method that changes one
of them drops it.  Values are in no template, so only bodies that ask for none can be remembered.  So it is with rules:
what the rule of an operation, or of a call, recorded is a template, too (`transforms.rule_programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.runtime.record_table import MOST_BOUNDS, RecordedProgram, fits

from ..custom.function import Function
from ..custom.keys import users_methods
from ..dispatch import Choices, observed
from ..tape.node import Kind, Node, Out, data_node, new_number, rich_node
from ..tape.record import another, argument, state
from ..tape.walk import is_repeatable, recorded_between
from ..tensor import Tensor

#: Makes tensors of arguments: given the function's name, pairs of names and values, and kinds (`declare` fills it).
TAKES: list[Callable[[str, list[tuple[str, Any]], str], list[Tensor]]] = []
#: Functions that are called with each public function when it is declared.
WHEN_DECLARED: list[Callable[[Any], None]] = []

#: Operands of a program that are index arrays, each with the extent it is for.
Bounds = Sequence[tuple[int, int]]


class Template:
    """The nodes that a function recorded behind given ones, put down again without it: of an operation's rule, too.

    given     how many are given
    steps     for each further node: its kind, its value (of a number or array that the function states), its inputs by
              number: what is given first, then steps
    rich      which steps are outputs of a call that are read back: their body, flow and slot
    results   the number of each result; None for none
    choices   what dispatch decided meanwhile
    """

    __slots__ = ("choices", "given", "results", "rich", "steps")

    def __init__(
        self, given: Sequence[Node | None], made: Sequence[Node], found: Sequence[Tensor | None], choices: Choices
    ) -> None:
        """made: all nodes between what is given and what was found, by creation"""
        place = {n: k for k, n in enumerate((*given, *made)) if n is not None}
        self.given, self.choices = len(given), choices
        self.steps = [(n.kind, n.value, tuple([place[i] for i in n.inputs])) for n in made]
        self.rich = {k: (n.body, n.flow, n.slot) for k, n in enumerate(made) if type(n) is not Node}
        self.results = [None if t is None else place[t.node] for t in found]

    @classmethod
    def of(
        cls, found: Sequence[Any], given: Sequence[Node | None], since: float, choices: Choices, numbers: int = 0,
        is_users: bool = False,
    ) -> Template | None:  # fmt: skip
        """The template of the results `found`; None where they hold what cannot be put down again.

        since      number of a node older than all that the function made
        numbers    how many numbers it recorded that are arguments too, behind the others
        is_users   it is a rule of the user's: it may read outputs of its call back
        """
        if users_methods(choices) or not all([isinstance(t, Tensor | None) for t in found]):
            return None  # methods may read anything
        made = recorded_between([t.node for t in found if t is not None], {n for n in given if n is not None})
        if numbers:
            own = [n for n in made if n.value is not None and not n.inputs]
            if len(own) != numbers:
                return None
            given, made = [*given, *own], [n for n in made if n not in own]
        if not all([is_repeatable(n, since) and _can_be_put_down(n, is_users) for n in made]):
            return None  # a boundary, or something of the user's that the body met
        return cls(given, made, found, choices)

    def program(self, operands: int, number_kind: Kind | None = None, bounds: Bounds = ()) -> RecordedProgram | None:
        """The program of the one result for the native recorder; None where it has no room.

        number_kind    that of the leaves of operands that are numbers
        """
        if not fits(operands, self.steps) or len(bounds) > MOST_BOUNDS:
            return None
        return RecordedProgram(operands, self.steps, number_kind=number_kind, bounds=bounds, choices=self.choices)

    def put(self, given: Sequence[Node | None]) -> list[Node | None]:
        """Put the nodes down again behind these: the results."""
        nodes: list[Any] = list(given)
        rich = self.rich
        for at, (kind, value, picks) in enumerate(self.steps):
            inputs = tuple([nodes[i] for i in picks])
            if rich and at in rich:
                made = rich_node(kind, inputs)
                made.body, made.flow, made.slot = rich[at]
                nodes.append(made)
            else:
                nodes.append(data_node(kind, value, inputs))
        return [None if place is None else nodes[place] for place in self.results]


def _can_be_put_down(node: Node, is_users: bool) -> bool:
    """True for a node that has no rule or hooks of its own, and no array that may be lent."""
    if not is_users or isinstance(node.value, np.ndarray):
        return not is_users and type(node) is Node
    is_read_back = node.slot is not None and node.retained is None and not node.hooks and node.line is None
    return type(node) is Node or is_read_back  # an output of a call, and no more than that


def learnt(
    run: Callable[[], Sequence[Any]], given: Sequence[Node | None], numbers: int = 0, is_users: bool = False
) -> tuple[Sequence[Any], Template | None]:
    """The results of run(), which records them behind given nodes, and their template: see `Template.of`."""
    now = state.now
    asked, since = now.asked, new_number()
    with observed() as choices:
        found = run()
    made = None if now.asked != asked else Template.of(found, given, since, choices, numbers, is_users)
    return found, made


def of_examples(
    run: Callable[..., Sequence[Any]], outs: Sequence[Out | None], numbers: int = 0
) -> tuple[Sequence[Any], Template | None]:
    """The results of run(*tensors) on examples that have these Outs (None: none), and their template, if there is one.
    """
    examples = [None if o is None else argument(o.aval, weak=o.weak, requires_grad=o.requires_grad) for o in outs]
    try:
        return learnt(lambda: run(*examples), [None if t is None else t.node for t in examples], numbers)
    except Exception:
        return (), None  # it asks for a value, or says why when it runs


#: The operands of a function are the items of its first argument, a list or tuple; it has none.
ITEMS, NONE = -1, -2


def public(
    tensors: int | None = None, records: Any = None, bounds: Callable[..., Bounds] | None = None,
    name: str = "", doc: str = "", takes: str = "", operands: int = 1, natively: Callable[..., Any] | None = None,
    directly: Callable[..., Aval | None] | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a public function by its body.

    tensors     its first arguments, so many (of `ITEMS`: the items of the first one), are tensors, and all others
                static: they decide what is recorded, by value.  The body must not ask for values, and must depend on
                nothing else: what it records is known from then on
    bounds      bounds(*arguments): the index arrays among these, whose values the body looks at
    records     the operation that it records: users find it as `f.primitive`
    directly    directly(*avals): for tensors of one dtype, but weak ones, the aval of the result where the body records
                this operation of them, without parameters, and nothing else; else None, or it raises
    name, doc   where they are not those of the body
    natively    the program of a call, where the body does no more than record that operation (`OneNode`)
    takes       kinds of dtypes, as of `common`: the body is given its first arguments, so many `operands`, as tensors
                of one such dtype; "T": as tensors of any; "": as they are

    A trailing underscore of the body's name, which keeps Python's own word visible, is dropped.  The examples of its
    documentation begin with the import of this library.
    """

    def declare(body: Any) -> Function:
        if takes:
            body = _taking(body, name or body.__name__.rstrip("_"), takes, operands)
        body.__name__ = body.__qualname__ = name or body.__name__.rstrip("_")
        body.__doc__ = (doc or body.__doc__ or "").replace(">>> ", ">>> import autodiff as ad\n    >>> ", 1)
        if tensors is not None:
            body.natively, body.tensors = _Natively(body, tensors, bounds), tensors or NONE
            body.is_remembered = True  # see `reads.is_library_function`
        if natively is not None:
            body.natively = natively
        body.directly = directly
        made = Function(body)
        made.primitive, made.takes_watched = records, natively is not None
        for do in WHEN_DECLARED:
            do(made)
        return made

    return declare


def _taking(body: Callable[..., Any], name: str, kinds: str, count: int) -> Any:
    """The function that gives a body its first arguments as tensors."""
    names = body.__code__.co_varnames[:count]

    @wraps(body)
    def run(*args: Any, **keywords: Any) -> Any:
        tensors: Sequence[Tensor] = args[:count]
        if kinds != "T" or count > 1 or not isinstance(args[0], Tensor):
            tensors = TAKES[0](name, list(zip(names, args, strict=False)), kinds)
        y = body(*tensors, *args[count:], **keywords)
        for x in tensors:
            if y is x:
                return another(y)  # a result of its own
        return y

    run.is_remembered = True  # type: ignore[attr-defined]  # it is of this library: see `reads.is_library_function`
    return run


class _Natively:
    """Programs of the calls of a body whose operands are tensors."""

    def __init__(self, body: Callable[..., Any], tensors: int, bounds: Callable[..., Bounds] | None) -> None:
        self._body, self._tensors, self._bounds = body, tensors, bounds

    def __call__(self, args: tuple, y: Tensor, keywords: dict) -> RecordedProgram | None:
        """The program of a call with these arguments that gave y; None where there is none.

        Of a keyword `number_kind` are the leaves that are numbers to the caller.
        """
        count = self._tensors
        xs, rest = (args[0], args[1:]) if count == ITEMS else (args[:count], args[count:])
        number_kind = keywords.get("number_kind")
        keywords = {name: x for name, x in keywords.items() if name != "number_kind"}

        def on_examples(*examples: Tensor) -> list[Any]:
            given = (type(xs)(examples),) if count == ITEMS else examples
            return [self._body(*given, *rest, **keywords)]

        _, template = of_examples(on_examples, [x.node.kind.out for x in xs])
        if template is None or not template.steps or template.steps[-1][0] is not y.node.kind:
            return None
        bounds = () if self._bounds is None else self._bounds(*args, **keywords)
        return template.program(len(xs), number_kind, bounds)
