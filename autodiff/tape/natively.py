"""What machine code does with what is expected of a recording (`expected`), if the recorder is set up.

    native_check    the instructions as words that machine code reads.  What only Python can tell (what the rules of a
                    call read) is asked afterwards, about nodes that the check gives
    native_finish   what follows a run: values, gradients, release
    native_answer   both, and the run, for an ask for one value
    native_put      nodes put down as they were before
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .expected import Expected
from .formulas import Misfit
from .node import Node
from .plan import drops_inputs

__all__ = [
    "is_answered", "native_answer", "native_check", "native_finish", "native_put", "use_native",
]  # fmt: skip

#: Nodes of one call that puts nodes down: their addresses are on the stack, of which threads may have little.
_MOST_PUT = 8192
#: Nodes beyond which a recording is not checked natively: each has a word on that stack, too.
_MOST_CHECKED = 1 << 14
#: Leaves beyond which that they differ is not compared natively, two by two.
_LEAVES = 64

#: What makes native checks, once the recorder is set up (`ops.recorder`).
_recorder: Any = None
_answer: Callable[[Node], bool] | None = None


def use_native(recorder: Any) -> None:
    """Make native checks from now on; None: make them in Python."""
    global _recorder, _answer
    _recorder = recorder
    _answer = None if recorder is None else recorder.answering()


def is_answered(node: Node) -> bool:
    """Compute a pending value that a user asks for, if that is known natively.  It ends the recording."""
    return _answer is not None and _answer(node)


def native_check(expected: Expected) -> Callable | None:
    """What accepts a recording that is as expected, in machine code, and behind it what Python has to be asked.

    None where nothing makes it.
    """
    if _recorder is None or len(expected.leaves) > _LEAVES or len(expected.number) > _MOST_CHECKED:
        return None
    plain: list[tuple] = []
    asked: list[tuple[int, Any, Any]] = []
    for instruction in expected.instructions:
        opcode, *operands = instruction
        if opcode == "call":
            asked.append((operands[0], None, operands[1]))
        elif opcode == "told":
            asked.append((operands[0], *operands[1]))
        elif opcode == "wire":
            i, count, _, links = operands
            if count is not None:
                plain.append(("inputs", i, count))
            plain += [("input" if is_new else "input_is", i, k, number) for k, number, is_new in links]
        elif opcode == "apart":
            plain += [("apart", a, b) for a in range(operands[0]) for b in range(a)]
        else:
            plain.append(instruction)
    check: Callable = _recorder.check(
        plain,
        registers=len(expected.number),
        leaf_registers=len(expected.leaves),
        given=len(expected.recipe.roots),
        arguments=expected.arguments,
        tables=(expected.stored, expected.groups, [*expected.olds, *[i for i, _, _ in asked]], expected.past),
        freed=expected.freed,
    )
    return _asking(check, expected, asked) if asked else check


def _asking(check: Callable, expected: Expected, asked: Sequence[tuple[int, Any, Any]]) -> Callable:
    """A native check, and what is asked in Python of a recording that it accepts.

    asked    (register of a node, question, answer); without a question the key of its call is meant

    The check gives the nodes behind the old gradients: it holds them, so anything may run then.
    """
    count, formulas = len(expected.olds), expected.formulas
    questions = [(ask, told) for _, ask, told in asked]
    places = () if formulas is None else formulas.places
    calls = [[i for i, _, _ in asked].index(c) for c in (() if formulas is None else formulas.calls)]

    def accepts(*given: Any) -> Any:
        found = check(*given)
        if found is None:
            return None
        arguments, stored, leaves, olds, past, freed = found
        nodes = olds[count:]
        met: dict[int, tuple] = {}
        for node, (ask, told) in zip(nodes, questions, strict=True):
            if ask is not None:
                if ask(node) != told:
                    return None
            elif node.call is None or node.call.key(met) != told:
                return None
        if formulas is not None:
            try:
                computed = formulas.values(*[nodes[c].call.numbers for c in calls])
            except Misfit:
                return None
            arguments = list(arguments)
            for place, value in zip(places, computed, strict=True):
                arguments[place] = value
            arguments = tuple(arguments)
        return arguments, stored, leaves, olds[:count], past, freed

    return accepts


def native_finish(expected: Expected, kinds: Sequence[Any]) -> Callable[[tuple, tuple, bool], bool] | None:
    """finish(results, gathered, is_released): values, gradients and release of an accepted recording, at once.

    kinds   of the gradients of its groups; there are none where gradients are values for the caller, and of None each
            `gathered` says the kind, as one more item

    None where a gradient is no result of its own, or nothing makes it.
    """
    plan, order = expected.recipe.plan, expected.recipe.order
    reached = [place for place in plan.grads if place is not None]
    if _recorder is None or (plan.grads and not reached) or len(set(reached)) < len(reached):
        return None
    settled = [(position, drops_inputs(order[number])) for number, position in plan.store]
    groups = [
        (-1, None, None) if place is None or which < 0 else (place, kind, None if kind is None else kind.out.cls)
        for place, kind, which in zip(plan.grads if kinds else (), kinds, expected.groups, strict=True)
    ]
    return _recorder.finish(settled, groups)


def native_answer(check: Callable, finish: Callable, plan: Any) -> Any:
    """What answers an ask by a native check and finish without Python."""
    return _recorder.answer(check, finish, plan)


def native_put(given: int, steps: Sequence[tuple], results: Sequence[int]) -> Callable[[tuple], tuple] | None:
    """put(nodes), which puts steps down behind nodes and gives the results; None: Python does, or it has no room."""
    if _recorder is None or given + len(steps) > _MOST_PUT:
        return None
    return _recorder.putter_of_nodes(given, steps, results)
