"""Plans for any extents: a known recording at another size needs neither its rules nor a graph for this size.

A key without its numbers is the *form* of a recording (`families`).  When a form comes with other numbers, those that
changed become unknowns (`codegen.families`): the recording is made once more with symbols for extents, the rules run on
it, and the result is a graph with formulas in the place of numbers.

    forms of keys  ->  Form           numbers seen so far
                         -> AnyPlans  plans for any numbers that fit: gathering and storing are the same for all

All small sizes share one tier and its machine code; all large sizes share another tier.

This is sound for three reasons.  Only rules of this library run with symbols, and each comparison of a symbol becomes a
condition that a size must fulfil (`codegen.symbols`).  If a rule uses the number itself, the graphs for two examples
differ, and no plan is made.  At the size at hand, the graph must be the one that was made without symbols.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakSet, ref

from codegen.ir import OPS, Aval
from codegen.lazily import imported
from codegen.runtime.cache import LearningFilter
from codegen.symbols import LEAST, Symbol, SymbolicFloat, conditions_function, numbers_function, watched

from ..dispatch import observed
from ..session import plans
from .families import AnyPlans, Form
from .known import plan_of
from .node import CONSTANT, LEAF, Kind, Node, Out, data_node, leaf_kind, out_of, rich_node
from .plan import Answer
from .record import ALIASES, state
from .tier import SizedTier, Tier

#: The number of times that rules run with symbols for one form, at most.
_TRIES = 3
#: The largest float constant that may be a count: larger floats skip integers.
_MOST_COUNT = 2.0**53

#: Operations that only the tape has.
_PLAIN = frozenset((CONSTANT, LEAF, *ALIASES))

_serial = itertools.count()


def learn(
    form: Form, numbers: tuple[int, ...], key: tuple, order: Sequence[Node], answer: Answer,
    again: Callable[[dict[Node, Node]], Answer], choices: Any = None,
) -> Callable[[], None]:  # fmt: skip
    """Note a recording that got a plan of its own; if its form came in another size before, make plans for any size.

    form, numbers, key    of the recording;  order: its nodes in canonical order
    again     a function that gives the answer to the same recording of other nodes, from a dict of these nodes
    choices   the dispatch choices that the answer relies on

    Returns a function to be called when one of the choices changes.
    """
    samples, known = form.samples, form.any
    is_decided_otherwise = known is not None and known.expected(*known.unknown(numbers)) == numbers
    if numbers in samples or len(samples) > _TRIES or is_decided_otherwise:
        return nothing
    samples[numbers] = key
    is_known_twice = len(samples) > 1 and _is_plain(order)
    found = _for_any(samples, numbers, key[1], order, answer, again, choices) if is_known_twice else None
    if found is None:
        return nothing
    _answer_all(form, found)
    where, what = ref(form), ref(found)
    return lambda: _drop(where(), what())


def _answer_all(form: Form, found: AnyPlans) -> None:
    """Set the plans for any numbers; cached plans of the form that NumPy evaluates run by them from now on."""
    if form.any is None:
        form.learning = LearningFilter()
    form.any = found
    for numbers, name in form.samples.items():
        entry = plans.get(name)
        plan = None if entry is None else plan_of(entry)
        run = found.at(numbers)
        if plan is not None and run is not None and type(plan.executable) is Tier:
            run.tier.take_over(plan.executable)
            plan.use(run)
    form.samples = dict.fromkeys(form.samples)


def nothing() -> None:
    """Do nothing when a choice changes: no plans for any size were made."""


def _drop(form: Form | None, found: AnyPlans | None) -> None:
    if form is not None and form.any is found:
        form.any = None  # before the drop, so that a thread that makes a plan meanwhile notices it
        form.answer = None, None
    if found is not None:
        found.drop()


# ---------------------------------------------------------------- with symbols


def _is_plain(order: Sequence[Node]) -> bool:
    """True if all operations are this library's, whose rules look only at avals and parameters."""
    for node in order:
        op = node.kind.op
        if op.has_regions or (op not in _PLAIN and OPS.get(op.name) is not op):
            return False
        if type(node) is not Node and (node.call or node.hooks or node.body is not None or node.flow or node.slot):
            return False
    return True


def _for_any(
    samples: dict[tuple[int, ...], Any], numbers: tuple[int, ...], parts: Sequence[Any], order: Sequence[Node],
    answer: Answer, again: Callable, choices: Any,
) -> AnyPlans | None:  # fmt: skip
    """The plans for any size; None if no formulas fit the samples, or the graph depends on the numbers themselves."""
    unknowns = imported("codegen.families").fit_unknowns([*samples], range(len(numbers)), f"n{next(_serial)}_")
    if unknowns is None or any([type(n) is not int for n in answer.gather]):
        return None
    examples = _examples(unknowns, numbers)
    if examples is None:
        del samples[numbers]  # the next sample may have examples
        return None
    sized = imported("codegen.numbers")
    asked = state.now.asked
    drafts = []
    try:
        for example in examples:
            # Recording takes no shortcuts and learns none, as in the run of the rules without symbols.
            with watched(with_equality=True) as conditions, observed():
                new = _with_symbols(parts, order, iter(unknowns.example(example)))
                found = again(new)
                graph = sized.SizedGraph(found.program.graph, unknowns.names)
            if found._replace(program=answer.program) != answer:
                return None
            drafts.append((graph, conditions))
    except Exception:  # code that needs the number itself fails with a symbol
        return None
    (graph, conditions), (other, others) = drafts
    if graph.text != other.text or conditions != others or state.now.asked != asked:
        return None
    formulas = unknowns.example(examples[0])
    expected = numbers_function(formulas, unknowns.names)
    is_fit, values = conditions_function(conditions, unknowns.names), examples[0]
    if not is_fit(*values) or graph.at(values).key != answer.program.graph.key:
        return None
    tiers = SizedTier(graph, is_small=False), SizedTier(graph, is_small=True)
    return AnyPlans(unknowns.positions, expected, is_fit, tiers, answer, choices, WeakSet())


def _examples(unknowns: Any, numbers: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Two examples of the unknowns' values: the recording's, and far smaller ones, whose roots and logarithms differ.

    None if a value equals a known number of the recording: the recording may be right for this value alone.
    """
    known = {n for n in unknowns.numbers if type(n) is int}
    here = [numbers[p] for p in unknowns.positions]
    below: list[int] = []
    for value in here:  # from the smallest to the largest
        taken = known.union(below)
        found = next((n for n in range(max(LEAST + 1, value // 4), value) if n not in taken), None)
        if found is None or value in known:
            return None
        below.append(found)
    return here, below


def _with_symbols(parts: Sequence[Any], order: Sequence[Node], numbers: Iterator[int]) -> dict[Node, Node]:
    """A copy of each node of a recording, in which the next of these numbers replace the node's numbers."""
    new: dict[Node, Node] = {}
    for part, node in zip(parts, order, strict=True):
        kind = part[0] if type(part) is tuple else part
        wiring = () if type(kind) is Out else part[2:] if type(node) is Node else part[5:]
        inputs = tuple([new[order[i]] for i in wiring])
        if type(kind) is Out:
            shape = tuple([next(numbers) for _ in kind.shape])
            made = leaf_kind(out_of(Aval(shape, kind.aval.dtype), kind.requires_grad))
            kind = made if _has_symbols(shape) else node.kind
        else:
            kind = _kind_with(kind, inputs, numbers)
        # The copy keeps the value; code that asks for it is noticed by `state.now.asked`.
        is_plain = type(node) is Node
        new[node] = (
            data_node(kind, node.value, inputs) if is_plain else rich_node(kind, inputs, node.value, leaf=node.leaf)
        )
    return new


def is_count(value: Any) -> bool:
    """True for the value of a constant that may be a count of elements (in a mean, say): a float without a fraction."""
    return type(value) is float and value.is_integer() and 0 < abs(value) <= _MOST_COUNT


def _kind_with(kind: Kind, inputs: Sequence[Node], numbers: Iterator[int]) -> Kind:
    """The kind of an operation on these inputs, with the next numbers in the place of its own."""
    op, out = kind.op, kind.out
    if op is CONSTANT:
        value, dtype = kind.params
        if not is_count(value):
            return kind
        number = next(numbers)
        if type(number) is not Symbol:
            return kind
        value = SymbolicFloat(number)
        value.count = number
        return Kind(op, (value, dtype), out)
    params = tuple([_filled(p, numbers) for p in kind.params])
    avals = [i.kind.out.aval for i in inputs]
    if not any([_has_symbols(a.shape) for a in avals]) and not _has_symbols(params):
        return kind
    aval = op.infer(*avals, **op.keywords(params))
    return Kind(op, params, out_of(aval, out.requires_grad, out.weak))


def _filled(value: Any, numbers: Iterator[int]) -> Any:
    if type(value) is int:
        return next(numbers)
    return tuple([_filled(v, numbers) for v in value]) if type(value) is tuple else value


def _has_symbols(value: Any) -> bool:
    if type(value) is tuple:
        return any([_has_symbols(v) for v in value])
    return type(value) is Symbol
