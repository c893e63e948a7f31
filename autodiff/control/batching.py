"""Control flow for many examples at once (`vmap`): the batch rules of loops and branches.

    scan         one loop whose body does a step of every example
    cond         one choice where all examples share it; else both branches, of which each example takes its own
    while_loop   steps until no example wants another; those that are done keep their state
    checkpoint   what is computed again is computed again for all

A body of one example becomes a body of all by walking over its nodes (`transforms.batch.walk`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from codegen.ir import DTYPES, Aval

from ..ops import any as any_
from ..ops import reshape, where
from ..ops.batching import Parts, to_front, with_examples
from ..tape.node import Node
from ..tape.record import record
from ..tensor import Tensor
from ..transforms.batch.walk import OfAll
from .body import Body, again, hooked_like, tracks_of
from .derived import MadeBody, derived
from .packing import record_packed

__all__ = [
    "checkpoint_of_all", "cond_batch", "looped_of_all", "scan_batch", "tracking_after",
    "while_backwards_batch", "while_batch",
]  # fmt: skip

Pairs = list[tuple[Tensor, bool]]


def applied(body: Body, given: Sequence[Tensor], mapped: Sequence[bool], size: int) -> Pairs:
    """Record a body of one example for all of them: each result, and whether it differs between examples."""
    stands: dict[Node, Node] = {}
    walk = OfAll(size, stands, again)
    for node, t, m in zip([*body.arguments, *body.hidden], given, mapped, strict=True):
        if m:
            walk.found[node] = walk.hooked(node, t)
        else:
            stands[node] = hooked_like(node, t.node)
    walk.go(body.order)
    return [walk.of(n) for n in body.results]


def differing(body: Body, mapped: Sequence[bool]) -> list[bool]:
    """The results of a body that differ between examples, where these inputs do."""
    inputs = zip([*body.arguments, *body.hidden], mapped, strict=True)
    found = {node for node, m in inputs if m}
    for node in body.order:
        if any([i in found for i in node.inputs]):
            found.add(node)
    return [n in found for n in body.results]


def of_all(pairs: Pairs, size: int) -> list[Tensor]:
    """All with the examples along axis 0."""
    return list(with_examples(size, [t for t, _ in pairs], [m for _, m in pairs]))


def until_stable(states: Sequence[bool], rest: Sequence[bool], step: Callable[[list[bool]], list[bool]]) -> list[bool]:
    """The states of a loop that differ at some step: those that do at first, and those that a step makes differ."""
    found = list(states)
    while True:
        after = [a or b for a, b in zip(found, step([*found, *rest]), strict=False)]
        if after == found:
            return found
        found = after


def tracking_after(body: Body, states: Sequence[Tensor], rest: list[bool]) -> list[bool]:
    """The results of a step, after any number of steps, through which gradients flow.   rest: of the other inputs"""
    found = until_stable(tracks_of(states), rest, body.tracking)
    return body.tracking([*found, *rest])


def packed_parts(
    recorded: Callable[[str], Tensor], have: Sequence[Aval], wanted: Sequence[Aval], dtype: str,
    arranged: Callable[[int, Tensor], Tensor],
) -> Parts:
    """A stand-in for a vector of results of every example.

    recorded   dtype -> the vector of the results `have`, those for all examples
    wanted     the results of one example
    arranged   (number of a result, what there is for all) -> with the examples along axis 0
    """
    kind = DTYPES[dtype]
    numbers = [k for k, a in enumerate(wanted) if a.dtype == kind]
    tensors = record_packed(recorded, [have[k] for k in numbers])
    found: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    start = 0
    for k, t in zip(numbers, tensors, strict=True):
        found[start, wanted[k].shape] = arranged(k, t)
        start += wanted[k].size
    return Parts(found)


# ---------------------------------------------------------------- checkpoint and choices


def choose(chosen: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """For each example one of two results."""
    return where(reshape(chosen, (*chosen.shape, *(1,) * (yes.ndim - 1))), yes, no)


def cond_batch(branches_of: Callable[..., Any]) -> Callable:
    """The batch rule of `cond`; `branches_of(**static)` is what is static about one."""

    def batch(op, size, xs, mapped, *, dtype, **static):
        branches = branches_of(**static)
        shared = 1 + branches.choice.shared
        split = shared + branches.hidden
        yes_places, no_places = range(1, split), [*range(1, shared), *range(split, len(xs))]
        avals = branches.choice.results

        def branch(body: Body, places: Sequence[int], values: Sequence[Tensor]) -> list[Tensor]:
            return of_all(applied(body, [values[p] for p in places], [mapped[p] for p in places], size), size)

        if mapped[0]:
            both_done = branch(branches.yes, yes_places, xs), branch(branches.no, no_places, xs)
            return _chosen(xs[0], *both_done, avals, dtype)

        def of_all_branches(body: Body, places: Sequence[int]) -> MadeBody:
            flags = [mapped[p] for p in places]
            return _of_each(body, "branch", flags, size, xs[1:shared], [xs[p] for p in places[shared - 1 :]])

        yes, no = of_all_branches(branches.yes, yes_places), of_all_branches(branches.no, no_places)
        both = branches_of(len(yes.hidden), yes.body, no.body)
        inputs = (*xs[:shared], *yes.hidden, *no.hidden)
        return packed_parts(lambda d: record(op, inputs, (d, *both)), both.choice.results, avals, dtype, lambda _, t: t)

    return batch


def _chosen(chosen: Tensor, yes: list[Tensor], no: list[Tensor], avals: Sequence[Aval], dtype: str) -> Parts:
    found: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    start = 0
    for aval, a, b in zip(avals, yes, no, strict=True):
        if aval.dtype == DTYPES[dtype]:
            found[start, aval.shape] = choose(chosen, a, b)
            start += aval.size
    return Parts(found)


def _of_each(
    body: Body, kind: str, flags: Sequence[bool], size: int, given: Sequence[Tensor], hidden: Sequence[Tensor]
) -> MadeBody:
    """The body that gives all results for all examples, where some inputs are the same for all."""

    def f(given: list[Tensor], hidden: list[Tensor]) -> list[Tensor]:
        return of_all(applied(body, [*given, *hidden], flags, size), size)

    return derived(body, (f"examples of a {kind}", size, *flags), f, [t.aval for t in given], hidden)


def checkpoint_of_all(checkpointed: Any) -> Callable:
    """Many calls of `checkpoint` at once."""

    def run(size: int, values: dict[str, Any], differ: dict[str, Any]) -> tuple:
        body, inputs, mapped = values["body"], values["inputs"], differ["inputs"]
        made = _of_each(body, "checkpoint", mapped, size, inputs, ())
        return checkpointed(made.body, (*inputs, *made.hidden))

    return run


# ---------------------------------------------------------------- scan


def scan_of_all(
    loop: Any, inputs: Sequence[Tensor], mapped: Sequence[bool], size: int
) -> tuple[Any, list[Tensor], Callable[[int, Tensor], Tensor]]:
    """The loop for all examples, its inputs, and what arranges its results: (number, result) -> examples first."""
    carried, outputs = loop.carried, len(loop.body.results)
    elements = slice(carried, carried + loop.scanned)
    states = until_stable(mapped[:carried], mapped[carried:], lambda flags: differing(loop.body, flags)[:carried])
    flags = [*states, *mapped[carried:]]
    given = differing(loop.body, flags)[carried:]
    inputs = list(inputs)
    inputs[:carried] = [
        with_examples(size, (t,), (m,))[0] if s else t
        for t, m, s in zip(inputs[:carried], mapped, states, strict=False)
    ]
    inputs[elements] = [_exchanged(x) if m else x for x, m in zip(inputs[elements], mapped[elements], strict=True)]

    def step(values: list[Tensor], hidden: list[Tensor]) -> list[Tensor]:
        found = applied(loop.body, [*values, *hidden], flags, size)
        after = [with_examples(size, (t,), (m,))[0] if s else t for (t, m), s in zip(found, states, strict=False)]
        return [*after, *[t for t, _ in found[carried:]]]

    avals = [*[t.aval for t in inputs[:carried]], *[x.aval.with_shape(x.shape[1:]) for x in inputs[elements]]]
    made = derived(loop.body, ("examples of a loop", size, carried, *flags), step, avals, inputs[len(avals) :])

    def arranged(k: int, t: Tensor) -> Tensor:
        if k < carried:
            return with_examples(size, (t,), (states[k],))[0]
        differs = given[k - carried] if k < outputs else states[k - outputs]
        return _exchanged(t) if differs else with_examples(size, (t,), (False,))[0]

    return loop._replace(body=made.body), [*inputs[: len(avals)], *made.hidden], arranged


def _exchanged(x: Tensor) -> Tensor:
    """Examples and steps, the first two axes, exchanged."""
    return to_front(x, 1)


def scan_batch(loop_of: Callable[..., Any]) -> Callable:
    """The batch rule of `scan`; `loop_of(**static)` is what is static about one."""

    def batch(op, size, xs, mapped, *, dtype, **static):
        loop = loop_of(**static)
        all_steps, inputs, arranged = scan_of_all(loop, xs, mapped, size)
        return packed_parts(
            lambda d: record(op, tuple(inputs), (d, *all_steps)), all_steps.results, loop.results, dtype, arranged
        )

    return batch


def looped_of_all(looped: Any) -> Callable:
    """Many calls of a loop's function at once: a call of the loop for all, whose rule is its own."""

    def run(size: int, values: dict[str, Any], differ: dict[str, Any]) -> tuple:
        loop = values["loop"]
        parts = [list(values[name]) for name in ("states", "scanned", "hidden")]
        mapped = [m for name in ("states", "scanned", "hidden") for m in differ[name]]
        all_steps, inputs, arranged = scan_of_all(loop, [t for p in parts for t in p], mapped, size)
        split = loop.carried + loop.scanned
        given = tuple(inputs[: loop.carried]), tuple(inputs[loop.carried : split]), tuple(inputs[split:])
        number = count()
        return tuple([tuple([arranged(next(number), t) for t in group]) for group in looped(all_steps, *given)])

    return run


# ---------------------------------------------------------------- while_loop


class Masked:
    """A `while_loop` for all examples.

    states     which states differ;  asks: whether the condition does, so that some are done before others
    condition, step   of all examples, on the states, then what the condition reads, then what the step does
    """

    def __init__(self, repeat: Any, mapped: Sequence[bool], size: int) -> None:
        self.repeat, self.size = repeat, size
        self.count = len(repeat.step.results)
        self.of_condition = list(mapped[self.count : self.count + repeat.hidden])
        self.of_step = list(mapped[self.count + repeat.hidden :])
        self.asks = False

        def after(flags: list[bool]) -> list[bool]:
            states = flags[: self.count]
            self.asks = differing(repeat.condition, [*states, *self.of_condition])[0]
            return [True] * self.count if self.asks else differing(repeat.step, [*states, *self.of_step])

        self.states = until_stable(mapped[: self.count], (), after)

    def goes_on(self, values: Sequence[Tensor]) -> Tensor:
        """The examples that want another step (one answer where they agree)."""
        split = self.count + len(self.of_condition)
        ((chosen, _),) = applied(self.repeat.condition, values[:split], [*self.states, *self.of_condition], self.size)
        return chosen

    def condition(self, states: list[Tensor], hidden: list[Tensor]) -> list[Tensor]:
        """True if any example wants another step."""
        chosen = self.goes_on([*states, *hidden])
        return [any_(chosen) if self.asks else chosen]

    def step(self, before: list[Tensor], hidden: list[Tensor]) -> list[Tensor]:
        """A step of the examples that want one.   hidden: what the condition reads, then what the step does"""
        split = len(self.of_condition)
        found = applied(self.repeat.step, [*before, *hidden[split:]], [*self.states, *self.of_step], self.size)
        after = [
            with_examples(self.size, (t,), (m,))[0] if s else t
            for (t, m), s in zip(found, self.states, strict=True)
        ]
        if not self.asks:
            return after
        chosen = self.goes_on([*before, *hidden])
        return [choose(chosen, a, b) for a, b in zip(after, before, strict=True)]

    def started(self, xs: Sequence[Tensor], mapped: Sequence[bool]) -> list[Tensor]:
        """The first states, those that will differ for all examples."""
        return [
            with_examples(self.size, (x,), (m,))[0] if s else x
            for x, m, s in zip(xs, mapped, self.states, strict=False)
        ]

    def bodies(self, states: Sequence[Tensor], rest: Sequence[Tensor]) -> tuple[MadeBody, MadeBody]:
        """Condition and step of all examples.

        What the condition reads the step reads too: an example that is done keeps its state.
        """
        avals, split = [t.aval for t in states], len(self.of_condition)
        asked = derived(self.repeat.condition, self.purpose, self.condition, avals, rest[:split])
        return asked, derived(self.repeat.step, (*self.purpose, self.repeat.condition), self.step, avals, rest)

    @property
    def purpose(self) -> tuple:
        """All that the bodies depend on beside those of one example."""
        return "examples of steps", self.size, self.asks, *self.states, *self.of_condition, *self.of_step


def while_batch(repeat_of: Callable[..., Any]) -> Callable:
    """The batch rule of `while_loop`; `repeat_of(**static)` is what is static about one."""

    def batch(op, size, xs, mapped, *, dtype, **static):
        repeat = repeat_of(**static)
        loop = Masked(repeat, mapped, size)
        states, rest = loop.started(xs, mapped), list(xs[loop.count :])
        asked, step = loop.bodies(states, rest)
        all_steps = repeat_of(len(asked.hidden), asked.body, step.body)
        inputs = (*states, *asked.hidden, *step.hidden)
        have, wanted = all_steps.repetition.results, repeat.repetition.results
        return packed_parts(
            lambda d: record(op, inputs, (d, *all_steps)), have, wanted, dtype,
            lambda k, t: with_examples(size, (t,), (loop.states[k],))[0],
        )

    return batch


def while_backwards_batch(back_of: Callable[..., Any]) -> Callable:
    """The batch rule of a `while_loop` and back; `back_of(**static)` is what is static about one.

    Over the steps of others an example that was done keeps its values.
    """

    def batch(op, size, xs, mapped, *, dtype, **static):
        back = back_of(**static)
        avals = back.retreat.results
        end = back.retreat.forwards
        split = end + len(avals)
        loop = Masked(back, mapped[:end], size)
        states, rest = loop.started(xs, mapped), list(xs[loop.count : end])
        values = list(with_examples(size, xs[end:split], mapped[end:split]))
        flags = [*[True] * len(values), *loop.states, *mapped[split:]]

        def step(given: list[Tensor], hidden: list[Tensor]) -> list[Tensor]:
            found = of_all(applied(back.back, [*given, *hidden[back.hidden :]], flags, size), size)
            if not loop.asks:
                return found
            chosen = loop.goes_on([*given[len(values) :], *hidden])
            return [choose(chosen, a, b) for a, b in zip(found, given, strict=False)]

        asked, steps = loop.bodies(states, rest)
        purpose = (*loop.purpose, *flags, back.condition)
        avals_of = [t.aval for t in (*values, *states)]
        turned = derived(back.back, purpose, step, avals_of, [*rest[: back.hidden], *xs[split:]])
        all_back = back_of(len(asked.hidden), asked.body, steps.body, turned.body)
        inputs = (*states, *asked.hidden, *steps.hidden, *values, *turned.hidden)
        return packed_parts(
            lambda d: record(op, inputs, (d, *all_back)), all_back.retreat.results, avals, dtype, lambda _, t: t
        )

    return batch
