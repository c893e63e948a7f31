"""The values that a user's rule reads from its call, and the gradients that it returns.

A backward method (`gradients_of`) returns a dict by parameter name, a tuple or list with one entry per declared
parameter, or, if exactly one argument is a tensor, its gradient.  Each gradient has the shape of its input.  Its float
width is adapted; for a structured argument it may be dense, and is projected; `None` is symbolically zero.  Other
results raise an error with the function, the argument, both avals and the user's line.  `push_rule` calls a `jvp`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.ir import Aval

from .. import tree
from ..custom.boundary import output_of, without_history
from ..custom.call import CustomCall, Packed, as_it_is
from ..custom.context import BackwardContext
from ..custom.host import note_read_only
from ..custom.outputs import refuse_forgotten
from ..custom.reads import boundary_inputs_in_place, refuse_closed, tracked_by
from ..errors import GradientDTypeError, GradientError, GradientShapeError, meant, with_article
from ..mode import MODE
from ..ops import as_tensor, astype, project
from ..tape.node import Node
from ..tape.record import state
from ..tensor import AbstractTensor, Tensor, handle


def gradients_of(
    call: CustomCall, rule: Any, run: Callable, own: CustomCall, tensor_at: Callable[[int], Any], bars: dict[int, Any],
    zeros_at: Callable[[int], Any], flow: dict[int, Node], places: Collection[int], node: Node | None = None,
) -> dict[int, Tensor]:  # fmt: skip
    """The gradients that a backward returns, by place among the boundary's inputs.

    run         the rule's function, which reads the values of `own`, and for a tensor `tensor_at(place)`
    bars        cotangents of tracked outputs, by slot;  zeros_at: makes the zeros for a place without a cotangent
    flow        the input nodes, or nodes of their avals, by place;  places: those that need gradients
    node        the boundary, if the rule runs on tensors

    The rule gets one cotangent per element of a tuple or list output, else one in the output's own container.
    """
    needs = _needs(call, places.__contains__)
    on = "backward" if node is not None else "host backward"
    where = f"{call.function.__name__} ({on} at {rule.place}, called at {call.line})"

    def bar_at(place: int) -> Any:
        bar = bars.get(-1 - place)
        return zeros_at(place) if bar is None and call.materialize else bar

    ctx = _context(own, tensor_at, needs, places.__contains__, node)
    given = call.result.unpack(bar_at, lambda _: None)
    given = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    returned = _call_user(run, rule, call, tensor_at, (ctx, *given), where)
    return _by_place(call, returned, needs, flow, places, where)


def _by_place(
    call: CustomCall, returned: Any, needs: dict[str, bool], nodes: dict[int, Node], wanted: Collection[int], where: str
) -> dict[int, Tensor]:
    """The gradients that a backward returned, by place among the boundary's inputs; only those of `wanted` places."""
    bars: dict[int, Tensor] = {}
    for name, value in _by_name(call, returned, needs, nodes, where).items():
        packed = call.arguments[name]
        for place, g in _leaves(name, packed, _projected(value, packed, nodes), where):
            checked = _checked(g, nodes[place].kind.out.aval, f"gradient for {name!r}", "input", where)
            if place in wanted:
                bars[place] = bars[place] + checked if place in bars else checked
    return bars


def _by_name(
    call: CustomCall, returned: Any, needs: dict[str, bool], nodes: dict[int, Node], where: str
) -> dict[str, Any]:
    """The gradients that a backward returned, by parameter name."""
    names = list(call.arguments)
    if returned is None:
        refuse_forgotten(call.rule(), where, "return the gradients; `return None` says that they are zero")
    if isinstance(returned, dict) and not _is_the_gradient(call, returned):
        return _checked_names(returned, needs, where)
    tensors = [n for n, p in call.arguments.items() if _is_tensor_argument(p, nodes)]
    if isinstance(returned, (tuple, list)):
        surplus = returned[len(names) :]
        if any(g is not None for g in surplus):
            raise GradientError(
                f"{where} returned {len(returned)} gradients for {len(names)} parameters ({', '.join(names)})\n"
                "  return one for each parameter, in order, or a dict by name"
            )
        missing = [n for n in names[len(returned) :] if needs[n]]
        if missing:
            raise GradientError(
                f"{where} returned {len(returned)} gradients; {missing[0]!r} needs one too\n"
                f"  the parameters are ({', '.join(names)}); return None for one that is zero"
            )
        return dict(zip(names, returned, strict=False))
    if len(tensors) == 1:
        return {tensors[0]: returned}
    raise GradientError(
        f"{where} returned {with_article(type(returned).__name__)} for {len(tensors)} tensor arguments\n"
        f"  return a dict with the keys {', '.join(map(repr, tensors))}, or a tuple in the order of the parameters"
    )


def _is_the_gradient(call: CustomCall, returned: dict) -> bool:
    """True if a returned dict is the gradient of the only argument, a dict, rather than gradients by parameter name."""
    if len(call.arguments) != 1:
        return False
    ((name, packed),) = call.arguments.items()
    return packed.structure is not None and packed.structure.cls is dict and name not in returned and bool(returned)


def _is_tensor_argument(packed: Packed, nodes: dict[int, Node]) -> bool:
    """True if an argument holds a tensor.  A number that a trace turned into an argument counts as a number."""
    return any(p is not None and not nodes[p].kind.out.weak for p in packed.places)


def _checked_names(returned: dict, needs: dict[str, bool], where: str) -> dict[str, Any]:
    for name in returned:
        if name not in needs:
            raise GradientError(
                f"{where} returned a gradient for {name!r}, which is no parameter\n"
                f"  the parameters are {', '.join(needs)}{meant(name, needs)}"
            )
    for name, need in needs.items():
        if need and name not in returned:
            raise GradientError(
                f"{where} returned no gradient for {name!r}, which needs one\n"
                f"  add {name!r} to the dict; None says that it is zero"
            )
    return returned


def _projected(value: Any, packed: Packed, nodes: dict[int, Node]) -> Any:
    """The gradient of a structured argument; a dense one is projected to the argument's structure."""
    cls = None if packed.structure is None else packed.structure.cls
    if cls is None or not issubclass(cls, AbstractTensor) or type(value) is cls:
        return value
    if not isinstance(value, (AbstractTensor, np.ndarray)):
        return value
    return project(value, packed.unpack(lambda place: handle(nodes[place])))


def _leaves(name: str, packed: Packed, value: Any, where: str) -> list[tuple[int, Any]]:
    """(place, gradient) for the tensors of one argument; None stands for a whole subtree.

    An array in a container is a constant, like an array argument: its gradient is dropped (place -1).
    """
    if value is None:
        return []
    statics, mend = iter(packed.statics), f"return None where not ctx.needs_input_grad.{name}"
    places = [-1 if p is None and isinstance(next(statics), np.ndarray) else p for p in packed.places]
    if all(p is None for p in places):
        if isinstance(value, (tuple, list, dict)) and all(g is None for g in tree.leaves(value)):
            return []
        raise GradientError(f"{where} returned a gradient for {name!r}, which is no tensor; {mend}")
    parts = _parts(packed, value, name, f"{where}: the gradient for {name!r} must have the argument's container")
    pairs = [(place, part) for place, part in zip(places, parts, strict=True) if part is not None]
    if any([place is None and isinstance(part, Tensor | np.ndarray) for place, part in pairs]):
        raise GradientError(f"{where} returned a gradient inside {name!r} for what is no tensor; return None for it")
    return [(place, part) for place, part in pairs if place is not None and place >= 0]


def _parts(packed: Packed, value: Any, name: str, refusal: str) -> list[Any]:
    """The leaves of a rule's result in the nesting of `packed`; None for a subtree.  GradientError: see `refusal`."""
    if packed.structure is None:
        return [value]
    try:
        return tree.flatten_up_to(packed.structure, value, name)
    except (TypeError, ValueError) as error:
        raise GradientError(f"{refusal}: {error}") from None


def _checked(g: Any, aval: Aval, what: str, like: str, where: str) -> Tensor:
    """The gradient of an input, or tangent of an output, as a tensor of the given aval.  Raises if it does not fit.

    what    `gradient for 'x'`, `tangent of output 0`;  like: "input" or "output", the owner of the aval
    """
    name = what.partition(" ")[0]
    if not isinstance(g, (AbstractTensor, np.ndarray, np.generic, int, float, complex)) or isinstance(g, bool):
        raise GradientError(
            f"{where} returned {with_article(type(g).__name__)} as the {what}: {aval}\n"
            f"  return a tensor with the {like}'s shape, or None for zero"
        )
    kinds = "f" if aval.dtype.kind == "f" else "fc"
    has_real_part = like == "input" and kinds == "f"  # a complex gradient of a real input has one, a tangent has not
    got = "" if isinstance(g, (AbstractTensor, np.ndarray, np.generic)) else f"the number {g!r}"
    if got and not isinstance(g, complex):
        g = np.asarray(0 if aval.shape else g, aval.dtype)  # for an array input the shape check below refuses a number
    g = as_tensor(g)
    if g.dtype.kind == "c" and has_real_part:
        g = g.real
    if g.dtype.kind not in kinds:
        kind, mend = "an integer", "multiply by floats, or ad.astype(g, like.dtype)"
        if g.dtype.kind == "c":
            kind, mend = "a complex", "ad.real(g) is its real part"
        raise GradientDTypeError(
            f"{where} returned {kind} {name} {g.aval}{what.removeprefix(name)}: {aval}\n"
            f"  a {name} has its {like}'s dtype: {mend}"
        )
    if g.shape != aval.shape:
        advice = "; ad.unbroadcast(g, like) sums over broadcast axes" if like == "input" else ""
        raise GradientShapeError(
            f"{where} returned {got or g.aval} as the {what}: {aval}\n  a {name} has its {like}'s shape{advice}"
        )
    return g if g.dtype == aval.dtype else astype(g, aval.dtype)


def flow_of(node: Node) -> range:
    """The places among a boundary's inputs that gradients flow to: the inputs of its call."""
    start, stop, _ = node.flow.indices(len(node.inputs))
    return range(start, stop)


def _needs(call: CustomCall, is_wanted: Callable[[int], bool]) -> dict[str, bool]:
    """For each parameter, True if a gradient of any tensor in it is needed."""
    return {
        name: any([p is not None and is_wanted(p) for p in packed.places]) for name, packed in call.arguments.items()
    }


def _context(
    call: CustomCall, tensor_at: Callable[[int], Any], needs: dict[str, bool], is_wanted: Callable[[int], bool],
    node: Node | None,
) -> BackwardContext:  # fmt: skip
    """The context of one run of a rule.   node: the boundary, if the rule reads tensors with their histories

    If the forward evaluated tensors, the values that it made and saved have no known history.
    """
    static = as_it_is if node is None else partial(_given_or_made, node)
    return BackwardContext(call, tensor_at, static, lambda: node is not None and node.kind.released, is_wanted, needs)


def _call_user(
    run: Callable, rule: Any, call: CustomCall, tensor_at: Callable[[int], Any], given: Sequence[Any], where: str
) -> Any:
    """Call a user's rule, run(*given); tensors of a trace that it closes over are replaced by their current values."""
    try:
        with boundary_inputs_in_place(rule, call.reads, lambda place: as_tensor(tensor_at(place)).node):
            return run(*given)
    except Exception as error:
        error.add_note(f"in the {rule.kind} rule of {where}")
        if rule.host:
            note_read_only(error)
        raise


def without_known_history(
    found: dict[int, Tensor], rule: Any, node: Node, sources: Sequence[Node], which: str
) -> dict[int, Tensor]:
    """The results of a rule that evaluated tensors: their derivatives are unknown.   which: their name in messages"""
    call: CustomCall = node.call
    closed = tracked_by(rule, call.reads, lambda place: tensor_at(node, place).node)
    return {k: without_history(t, [*sources, *closed], which, call.line) for k, t in found.items()}


def tensor_at(node: Node, place: int) -> Tensor:
    """A tensor of a boundary, with its own history: an output (place < 0), an input, or an intermediate value."""
    if place < 0:
        return output_of(node, -1 - place)
    source = node.inputs[place]
    if not node.call.opaque or place in flow_of(node):
        return handle(source)
    return _historyless(node, handle(source))


def _given_or_made(node: Node, value: Any) -> Any:
    """A value that a forward saved.  For a number or array that an opaque forward made, no derivative is known."""
    made = isinstance(value, (float, complex, np.floating, np.complexfloating, np.ndarray))
    if not node.call.opaque or not made or not MODE.get().tracks:
        return value
    if any(value is x for p in node.call.arguments.values() for x in p.statics):
        return value
    return _historyless(node, as_tensor(value))


def _historyless(node: Node, t: Tensor) -> Tensor:
    call = node.call
    what = f"what the forward of {call.function.__name__} ({call.method.place}) made of asked values"
    return without_history(t, [node.inputs[p] for p in flow_of(node)], what, call.line)


def push_rule(node: Node, rule: Any, tangents: dict[Node, Tensor]) -> dict[int, Tensor]:
    """The tangents of a call's tracked outputs, by slot, by the user's jvp; zero tangents are left out.

    The rule gets one tangent per parameter, in its container (None: zero), and returns the outputs' in theirs.
    """
    call: CustomCall = node.call
    where = f"{call.function.__name__} (jvp at {rule.place}, called at {call.line})"

    def tangent_at(place: int) -> Tensor | None:
        return tangents.get(node.inputs[place])

    refuse_closed(call, "jvp", lambda place: tangent_at(place) is not None)
    given = [p.unpack(tangent_at, lambda _: None) for p in call.arguments.values()]
    given = [None if all([x is None for x in tree.leaves(t)]) else t for t in given]  # None if the argument has none
    needs = _needs(call, lambda place: tangent_at(place) is not None)
    looked = state.now.float_asks - state.now.covered_asks
    own_at = partial(tensor_at, node)
    ctx = _context(call, own_at, needs, lambda _: True, node)
    returned = _call_user(rule.implementation, rule, call, own_at, (ctx, *given), where)
    found = {
        slot: _checked(t, call.avals[slot], f"tangent of output {slot}", "output", where)
        for slot, t in _by_slot(call, returned, where).items()
    }
    if state.now.float_asks - state.now.covered_asks == looked:
        return found
    sources = [*node.inputs, *[t.node for t in tangents.values()]]
    which = f"a tangent that the jvp of {call.function.__name__} ({rule.place}) made of asked values"
    return without_known_history(found, rule, node, sources, which)


def _by_slot(call: CustomCall, returned: Any, where: str) -> dict[int, Any]:
    if returned is None:
        mend = "return the tangents of the outputs; `return None` says that they are zero"
        refuse_forgotten(call.rule("jvp"), where, mend)
        return {}
    result = call.result
    parts = _parts(result, returned, "outputs", f"{where} must return the tangents in the outputs' container")
    pairs = zip(result.places, parts, strict=True)
    return {-1 - place: t for place, t in pairs if place is not None and place < 0 and t is not None}
