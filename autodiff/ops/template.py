"""Templates: what a function of this library recorded for given avals is recorded again without its body.

For arguments of the same avals and the same static parameters, `log_softmax(x, axis=1)` records the same
dozen operations each time.  Checking the axis, promoting dtypes and dispatching a dozen calls costs thirty
microseconds; putting the nodes down again, less than one.

    public(1)        the body of a function of one tensor runs on examples when machine code learns a call of it
                     (`learner`): from then on a table has what it records

A template relies on the choices that dispatch made inside the body (`dispatch.observed`): a new method that changes one
of them drops it.  Values are in no template, so only bodies that ask for none can be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from codegen.ir import Aval
from codegen.runtime.record_table import MOST_BOUNDS, RecordedProgram, fits

from ..custom.function import Function
from ..custom.keys import users_methods
from ..dispatch import Choices, observed
from ..tape import machine
from ..tape.node import Kind, Node, Out, new_number, put_down
from ..tape.record import Recording, another, argument, is_masked, look_at_size
from ..tape.walk import is_repeatable, recorded_between
from ..tensor import Tensor, handle

#: Makes tensors of arguments: given the function's name, pairs of names and values, and kinds (`declare` fills it).
TAKES: list[Callable[[str, list[tuple[str, Any]], str], list[Tensor]]] = []
#: Functions that are called with each public function when it is declared.
WHEN_DECLARED: list[Callable[[Any], None]] = []

_new = object.__new__

#: Operands of a program that are index arrays, each with the extent it is for.
Bounds = Sequence[tuple[int, int]]


class Template:
    """The nodes recorded between some tensors and a result.

    steps     for each node: its kind, its value (of a number or array that the body states), its inputs
              by number: arguments first, then steps
    choices   what dispatch decided meanwhile
    """

    __slots__ = ("_put", "choices", "steps")

    def __init__(self, steps: list[tuple[Kind, Any, tuple[int, ...]]], choices: Choices) -> None:
        self.steps = steps
        self.choices = choices
        self._put: Any = None

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
        known = set(arguments)
        made = recorded_between([y.node], known)
        if numbers:
            given = [n for n in made if n.value is not None and not n.inputs]
            if len(given) != numbers:
                return None
            arguments = [*arguments, *given]
            made = [n for n in made if n not in given]
        if not all([type(n) is Node and is_repeatable(n, since) for n in made]):
            return None  # a boundary, or something of the user's that the body met
        number = {n: i for i, n in enumerate([*arguments, *made])}
        return cls([(n.kind, n.value, tuple([number[i] for i in n.inputs])) for n in made], choices)

    def program(
        self, operands: int, number_kind: Kind | None = None, bounds: Bounds = ()
    ) -> RecordedProgram | None:
        """The program for the native recorder; None where it has no room.

        number_kind    that of the leaves of operands that are numbers
        """
        if not fits(operands, self.steps) or len(bounds) > MOST_BOUNDS:
            return None
        return RecordedProgram(operands, self.steps, number_kind=number_kind, bounds=bounds, choices=self.choices)

    def put(self, now: Recording, tensors: tuple) -> Tensor:
        """Put the nodes down again behind these tensors."""
        native = machine.asks
        if self._put is None and native is not None:
            program = self.program(len(tensors))
            self._put = program is not None and native.putter(program)
        if self._put and native is not None:
            y: Tensor = self._put(now, *tensors)
            return y
        nodes = [t.node for t in tensors]
        put_down(self.steps, nodes)
        y = handle(nodes[-1], now.body != 0 and is_masked(tensors))
        if y.node.kind.out.small:
            now.note_small(y)
        if y.node.number > now.look_at:
            look_at_size(now, y.node.inputs)
        return y


def of_examples(run: Callable[..., Any], outs: Sequence[Out], numbers: int = 0) -> Template | None:
    """The template of run(*tensors) for operands of which these are the Outs; None where there is none.

    numbers    how many numbers it records that are operands, too, behind the others
    """
    since = new_number()
    examples = [argument(o.aval, weak=o.weak, requires_grad=o.requires_grad) for o in outs]
    with observed() as choices:
        try:
            y = run(*examples)
        except Exception:
            return None  # it asks for a value
    return Template.of(y, [t.node for t in examples], since, choices, numbers)


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

        def on_examples(*examples: Tensor) -> Any:
            given = (type(xs)(examples),) if count == ITEMS else examples
            return self._body(*given, *rest, **keywords)

        template = of_examples(on_examples, [x.node.kind.out for x in xs])
        if template is None or template.steps[-1][0] is not y.node.kind:
            return None
        bounds = () if self._bounds is None else self._bounds(*args, **keywords)
        return template.program(len(xs), number_kind, bounds)
