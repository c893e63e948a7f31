"""Templates: the nodes that a function of this library recorded, to be recorded again without calling its body.

For arguments of the same avals and the same static parameters, `log_softmax(x, axis=1)` records the same
dozen operations each time.  Checking the axis, promoting dtypes and dispatching a dozen calls costs thirty
microseconds; recording the nodes from a template costs less than one.

    public(1)        a function of one tensor: when machine code learns a call of the function (`learner`), its body
                     runs once on examples, and later calls record the nodes from a table

A template relies on the choices that dispatch made inside the body (`dispatch.observed`); a new method that changes one
of them drops the template.  A template holds no values of operands, so a body that evaluates one cannot have a
template.  Rules of operations and of calls have templates, too (`transforms.rule_programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.runtime.record_table import MOST_BOUNDS, RecordedProgram, fits

from ..custom.function import Function
from ..custom.keys import users_methods
from ..dispatch import Choices, observed
from ..tape.node import Kind, Node, Out, data_node, new_number, rich_node
from ..tape.record import argument, as_new_result, state
from ..tape.walk import is_repeatable, recorded_between
from ..tensor import Tensor

#: Holds one function, put here by `declare`: (function's name, (name, value) pairs, kinds of dtypes) -> tensors.
ARGUMENT_CONVERTER: list[Callable[[str, list[tuple[str, Any]], str], list[Tensor]]] = []
#: Callbacks that receive each public function when it is declared.
WHEN_DECLARED: list[Callable[[Any], None]] = []

#: For each operand that is an index array: (its position, the extent of the axis that it indexes).
Bounds = Sequence[tuple[int, int]]


class Template:
    """The nodes that a function, or an operation's rule, recorded on given nodes; `record_on` records them again.

    given     the number of given nodes
    steps     (kind, value, inputs) of each recorded node: the value of a constant that the function made, else None;
              the inputs as positions, counted through the given nodes and then the steps
    rich      step -> (body, flow, slot), for steps that read outputs of a custom call back
    results   the position of each result; None for a result that is None
    choices   the choices that dispatch made while the function ran
    leaves    (kind, value) of each leaf that the function made of a number argument
    """

    __slots__ = ("choices", "given", "leaves", "results", "rich", "steps")

    leaves: Sequence[tuple[Kind, Any]]

    def __init__(
        self, given: Sequence[Node | None], made: Sequence[Node], found: Sequence[Tensor | None], choices: Choices
    ) -> None:
        """given: the given nodes; made: the nodes recorded on them, in order of creation; found: the results"""
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
        """The template of the results `found`; None if one of their nodes cannot be recorded again.

        since      the number of a node older than all nodes that the function made
        numbers    how many leaves the function made of number arguments; they count as given nodes, behind the others
        is_users   True for a user's rule, which may read outputs of its call back
        """
        if users_methods(choices) or not all([isinstance(t, Tensor | None) for t in found]):
            return None  # users' methods may read state that no key covers
        made = recorded_between([t.node for t in found if t is not None], {n for n in given if n is not None})
        own: list[Node] = []
        if numbers:
            own = [n for n in made if n.value is not None and not n.inputs]
            if len(own) != numbers:
                return None
            given, made = [*given, *own], [n for n in made if n not in own]
        if not all([is_repeatable(n, since) and _can_be_recorded_again(n, is_users) for n in made]):
            return None  # a boundary, an older node that the body read, or one that it evaluated
        template = cls(given, made, found, choices)
        template.leaves = [(n.kind, n.value) for n in own]
        return template

    def program(
        self, operands: int, number_kind: Kind | None = None, bounds: Bounds = (), put_together: Any = None,
        order: Sequence[int] = (),
    ) -> RecordedProgram | None:  # fmt: skip
        """The program for the native recorder; None if its tables are too small.

        number_kind    the kind of the leaves of operands that are numbers
        put_together   makes a container of several results; None if there is one result
        order          the operand that each given node stands for, if they are not in the order of the operands
        """
        if not fits(operands, self.steps) or len(bounds) > MOST_BOUNDS:
            return None
        place = dict(enumerate(order))
        steps = [(kind, value, tuple([place.get(i, i) for i in inputs])) for kind, value, inputs in self.steps]
        return RecordedProgram(
            operands, steps, results=put_together and (put_together, *self.results), number_kind=number_kind,
            bounds=bounds, choices=self.choices,
        )  # fmt: skip

    def record_on(self, given: Sequence[Node | None]) -> list[Node | None]:
        """Record the nodes again on the given nodes, and return the nodes of the results."""
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


def _can_be_recorded_again(node: Node, is_users: bool) -> bool:
    """True for a node that has no rule or hooks, and no array, which might be on loan."""
    if not is_users or isinstance(node.value, np.ndarray):
        return not is_users and type(node) is Node
    is_read_back = node.slot is not None and node.retained is None and not node.hooks and node.line is None
    return type(node) is Node or is_read_back


def results_of(y: Any) -> tuple[list[Tensor], Any]:
    """The tensors of a function's result, and the function that puts them together; None if the result is a tensor.

    No tensors for a result that holds other objects.
    """
    if isinstance(y, Tensor):
        return [y], None
    if not (type(y) is list or isinstance(y, tuple)) or not all([isinstance(x, Tensor) for x in y]):
        return [], None
    return [*y], list if type(y) is list else partial(tuple.__new__, type(y))


def run_and_template(
    run: Callable[[], Sequence[Any]], given: Sequence[Node | None], numbers: int = 0, is_users: bool = False
) -> tuple[Sequence[Any], Template | None]:
    """(the results of run(), which records nodes on the given ones; their template or None): see `Template.of`."""
    now = state.now
    asked, since = now.asked, new_number()
    with observed() as choices:
        found = run()
    made = None if now.asked != asked else Template.of(found, given, since, choices, numbers, is_users)
    return found, made


def of_examples(
    run: Callable[..., Sequence[Any]], outs: Sequence[Out | None], numbers: int = 0
) -> tuple[Sequence[Any], Template | None]:
    """(the results of run(*tensors) on examples without values; their template or None).  outs: of the examples; an
    Out of None gives an example of None."""
    examples = [None if o is None else argument(o.aval, weak=o.weak, requires_grad=o.requires_grad) for o in outs]
    try:
        return run_and_template(lambda: run(*examples), [None if t is None else t.node for t in examples], numbers)
    except Exception:
        return (), None  # the function needs a value, or is wrong: then the user's own call raises the error


#: Codes in place of a number of operands: they are the items of the first argument, a list or tuple; there are none.
ITEMS, NONE = -1, -2


def public(
    tensors: int | None = None, records: Any = None, bounds: Callable[..., Bounds] | None = None,
    name: str = "", doc: str = "", takes: str = "", operands: int = 1, takes_numbers: bool = False,
    result_aval: Callable[..., Aval | None] | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a public function by its body.

    tensors        the number of leading arguments that are tensors (`ITEMS`: the items of the first argument); all
                   other arguments are static, and their values are part of the key.  The body must not evaluate a
                   tensor and must depend on nothing but its arguments: its nodes are recorded again without it
    bounds         bounds(*arguments): the index arrays among the arguments, whose values the body checks (`Bounds`)
    records        the operation that the body records, which users find as `f.primitive`
    result_aval    result_aval(*avals), for tensors of one dtype, none weak: the aval of the result if the body
                   records the operation `records` of the tensors, without parameters, and nothing else; otherwise
                   it returns None or raises
    name, doc      the name and docstring, if not those of the body
    takes_numbers  True: all arguments are operands, numbers too
    takes          kinds of dtypes, as for `in_common_dtype`: the first `operands` arguments are passed to the body as
                   tensors of one such dtype; "T": as tensors of any dtypes; "": unchanged

    A trailing underscore of the body's name is dropped.  An import of the library is put in front of the examples.
    """

    def declare(body: Any) -> Function:
        if takes:
            body = _with_tensor_arguments(body, name or body.__name__.rstrip("_"), takes, operands)
        body.__name__ = body.__qualname__ = name or body.__name__.rstrip("_")
        body.__doc__ = (doc or body.__doc__ or "").replace(">>> ", ">>> import autodiff as ad\n    >>> ", 1)
        if tensors is not None or takes_numbers:
            body.call_program = CallProgram(body, tensors == ITEMS, bounds)
        if tensors is not None:
            body.tensors, body.is_remembered = tensors or NONE, True  # see `reads.is_library_function`
        body.result_aval = result_aval
        made = Function(body)
        made.primitive, made.takes_watched = records, takes_numbers and records is not None
        for do in WHEN_DECLARED:
            do(made)
        return made

    return declare


def _with_tensor_arguments(body: Callable[..., Any], name: str, kinds: str, count: int) -> Any:
    """A function that converts its first `count` arguments to tensors, then calls the body."""
    names = body.__code__.co_varnames[:count]

    @wraps(body)
    def run(*args: Any, **keywords: Any) -> Any:
        tensors: Sequence[Tensor] = args[:count]
        if kinds != "T" or count > 1 or not isinstance(args[0], Tensor):
            tensors = ARGUMENT_CONVERTER[0](name, list(zip(names, args, strict=False)), kinds)
        y = body(*tensors, *args[count:], **keywords)
        for x in tensors:
            if y is x:
                return as_new_result(y)  # the result is a new handle, not the argument
        return y

    run.is_remembered = True  # type: ignore[attr-defined]  # library function: see `reads.is_library_function`
    return run


class CallProgram:
    """The attribute `call_program` of a body: makes the program of a call, whose operands are tensors and numbers."""

    def __init__(self, body: Callable[..., Any], are_items: bool, bounds: Callable[..., Bounds] | None) -> None:
        self._body, self._are_items, self._bounds = body, are_items, bounds

    def __call__(self, args: tuple, y: Any, keywords: dict, count: int) -> RecordedProgram | None:
        """The program of a call with these arguments that returned y; None if the body has no template for them.

        count   how many of the arguments, or of the items of the first one, are operands
        """
        xs, rest = (args[0], args[1:]) if self._are_items else (args[:count], args[count:])
        tensors = [k for k, x in enumerate(xs) if isinstance(x, Tensor)]
        numbers = [x for x in xs if not isinstance(x, Tensor)]

        def on_examples(*examples: Tensor) -> list[Any]:
            left = iter(examples)
            # A number tells its place among the operands.
            items = [next(left) if k in tensors else type(x)(k + 2) for k, x in enumerate(xs)]
            given = (type(xs)(items),) if self._are_items else items
            return results_of(self._body(*given, *rest, **keywords))[0]

        _, template = of_examples(on_examples, [xs[k].node.kind.out for k in tensors], len(numbers))
        if template is None:
            return None
        order = [*tensors, *[int(value.real) - 2 for _, value in template.leaves]]
        number_kinds, are_ints = {kind for kind, _ in template.leaves}, {*map(type, numbers)} <= {int, np.int64}
        stored = [kind.out.aval.dtype for kind in number_kinds]  # machine code checks that ints fit 64 bits
        if len(stored) > 1 or not all([dtype.kind in "fc" or (are_ints and dtype == np.int64) for dtype in stored]):
            return None
        found, put_together = results_of(y)
        kinds: dict[int | None, Kind] = dict(enumerate([kind for kind, _, _ in template.steps], template.given))
        if [kinds.get(place) for place in template.results] != [x.node.kind for x in found]:
            return None
        bounds = () if self._bounds is None else self._bounds(*args, **keywords)
        return template.program(len(xs), next(iter(number_kinds), None), bounds, put_together, order)
