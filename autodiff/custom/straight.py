"""Calls of a forward/backward pair by a short road, for arguments of known classes.

`forward.call_forward` serves every circumstance.  The road of this file takes the common one: tensors, and values that
hold none, are the arguments; forward returns one float tensor; what it saves, and sets on its context, are tensors and
values that hold none.  The user's function runs each time; only the bookkeeping around it is short, and there is nearly
none where no gradient is wanted.  Several float tensors in any container take `short`.  Whatever turns out otherwise,
before or after the function has run, goes on as `call_forward` and `completed` have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import tree
from ..frames import nearest_line
from ..mode import MODE
from ..tape.node import Node, kept, new_number, rich_node
from ..tape.record import is_masked, noted, state
from ..tensor import Tensor
from .boundary import boundary_kind, outputs_of
from .call import HOLDS_NONE, CallShape, CustomCall, Site, own_copy, shape_of
from .context import Declared, ForwardContext, attributes, said
from .forward import Entered, completed
from .reads import closed_over

_new = object.__new__
_NOTHING = Declared()  # the declarations of a method that has no context


def _is_float(x: Any) -> bool:
    """True of a tensor that may carry a gradient."""
    return isinstance(x, Tensor) and x.node.kind.out.flows


def _kept(value: Any, number: dict[Node, int], at: int, statics: list[Any], extras: list[Any]) -> Any:
    """The place of a value that is kept, None for one that holds no tensors; `...` where it may hold some, and is none.

    number    the places of nodes; others go to `extras`, the first of them to the place `at`
    """
    if isinstance(value, Tensor):
        node = value.node
        if node not in number:
            number[node] = at + len(extras)
            extras.append(node)
        return number[node]
    if type(value) not in HOLDS_NONE:
        return ...
    statics.append(own_copy(value))
    return None


def straight_call(site: Site, general: Callable) -> Callable:
    """The call of a pair for its classes, or `general` where there is no shorter way."""
    is_tensor = tuple([issubclass(c, Tensor) for c in site.types])
    known = all([t or c in HOLDS_NONE for c, t in zip(site.types, is_tensor, strict=True)])
    if not known or not any(is_tensor) or any([hasattr(c, "__dispatches_as__") for c in site.types]):
        return general
    names = site.function.declaration.fixed
    name, run, has_context = site.function.__name__, site.method.implementation, site.has_context
    tensors, others = [[k for k, t in enumerate(is_tensor) if t is which] for which in (True, False)]
    count, flow, unwanted = len(tensors), slice(0, len(tensors)), [False] * len(names)
    places = tuple(enumerate(tensors))
    shapes: dict[tuple, CallShape] = {}

    def call(*arguments: Any) -> Any:
        now = state.now
        tracks, may_track, needs, inner = False, MODE.get().tracks, unwanted[:], [*arguments]
        number: dict[Node, int] = {}
        for i, k in places:
            node = arguments[k].node
            number[node] = i
            out = node.kind.out
            if may_track and out.requires_grad:
                tracks = needs[k] = True
            inner[k] = t = _new(out.cls)
            t.node = node
            t.masked = True
        inputs = [*number]
        if now.tracing or now.captures is not None or site.separates or len(inputs) < count:
            return general(*arguments)
        ctx = ForwardContext(name, names, needs, inner) if has_context else None
        line = nearest_line(3)
        asked, looked, covered, since = now.asked, now.looked, now.bounded, new_number()
        now.body += 1
        try:
            y = run(ctx, *inner) if has_context else run(*inner)
        except Exception as error:
            error.add_note(f"in the forward method of {name} ({site.method.place}), called at {line}")
            if now.body == 1:
                now.seen.clear()
            raise
        finally:
            now.body -= 1
        told = _NOTHING if ctx is None else said(ctx)
        is_usual = now.asked == asked and not told.constant and not told.dirty and isinstance(y, Tensor)
        for i, k in places:
            if inner[k].node is not inputs[i]:
                is_usual = False
        if is_usual:
            body = y.node
            out = body.kind.out
            is_usual = out.flows
            if out.requires_grad:
                is_usual = tracks and y.masked and not (now.body and closed_over((body,), inputs, since))
        if is_usual:
            masked = now.body != 0 and is_masked([arguments[k] for k in tensors])
            if not tracks:
                return noted(body, masked)
            statics: list[Any] = [own_copy(arguments[k]) for k in others] if others else []
            extras: list[Any] = []
            key: tuple[Any, ...] = (told.materialize, 0, 1, None)
            if ctx is not None:
                given, on_it = told.saved or (), ctx.__dict__
                if on_it:
                    given, key = (*given, *attributes(ctx).items()), (told.materialize, len(on_it), 1, None)
                number.setdefault(body, -1)
                for label, value in given:
                    place: Any = number.get(value.node) if isinstance(value, Tensor) else None
                    if place is None and (place := _kept(value, number, count, statics, extras)) is ...:
                        is_usual = False
                    key += (label, place)
            if is_usual:
                shape = shapes.get(key) or new_shape(key)
                made = CustomCall(site, shape, tuple(statics), (out.aval,), False, None, line)
                node = rich_node(boundary_kind(out), (*inputs, *extras, body), call=made)
                node.body, node.flow, node.line = count + len(extras), flow, line
                return noted(node, masked)
        found = short(arguments, inner, ctx, y, line, since) if now.asked == asked else None
        if found is not None:
            return found
        entered = Entered(site, dict(zip(names, arguments, strict=True)), line)
        entered.inner, entered.named = [inner[k] for k in tensors], inputs
        entered.asked, entered.looked, entered.covered, entered.since = asked, looked, covered, since
        return completed(entered, ctx or ForwardContext(name, names, entered.needs, inner), y)

    def short(arguments: tuple, inner: list, ctx: Any, y: Any, line: Any, since: float) -> Any:
        """Float tensors in any container; None for anything else."""
        told, on_it = (_NOTHING, {}) if ctx is None else (said(ctx), attributes(ctx))
        given = [arguments[k] for k in tensors]
        inputs = [t.node for t in given]
        leaves, structure = ([y], None) if isinstance(y, Tensor) else tree.flatten(y)
        tracks = MODE.get().tracks and any([n.kind.out.requires_grad for n in inputs])
        if not (leaves and all([_is_float(t) if tracks else isinstance(t, Tensor) for t in leaves])):
            return None
        nodes, masked = [t.node for t in leaves], is_masked(given)
        is_moved = [inner[k].node for k in tensors] != inputs
        is_loose = any([not t.masked and t.node.kind.out.requires_grad for t in leaves])
        if told.constant or told.dirty or is_moved or is_loose:
            return None
        if tracks and state.now.body and closed_over(nodes, inputs, since):
            return None
        if not tracks:
            found = [noted(n, masked) for n in nodes]
            return found[0] if structure is None else tree.unflatten(structure, found)
        number = {n: k for k, n in enumerate(inputs)}
        for k, node in enumerate(nodes):
            number.setdefault(node, -1 - k)
        extras: list[Any] = []
        statics = [own_copy(arguments[k]) for k in others]
        key: tuple[Any, ...] = (told.materialize, len(on_it), len(nodes), structure)
        for label, value in (*(told.saved or ()), *on_it.items()):
            key += (label, _kept(value, number, len(inputs), statics, extras))
        if ... in key:
            return None
        shape = shapes.get(key) or new_shape(key)
        call = CustomCall(site, shape, tuple(statics), tuple([n.kind.out.aval for n in nodes]), False, None, line)
        found = outputs_of(call, (*inputs, *extras, *nodes), slice(0, len(inputs)), masked)
        return found[0] if structure is None else tree.unflatten(structure, found)

    def new_shape(key: tuple) -> CallShape:
        """key: materialize, numbers of attributes and outputs, the container; name and place of all that is kept."""
        materialize, n_attributes, count, structure, *pairs = key
        places = {names[k]: i for i, k in enumerate(tensors)}
        single = [*[(n, places.get(n)) for n in names], *zip(pairs[::2], pairs[1::2], strict=True)]
        parts = [(n, tree.LEAF if place is None else None, (place,)) for n, place in single]
        result = (None, structure, tuple([-1 - k for k in range(count)]))
        n_saved = len(pairs) // 2 - n_attributes
        return kept(shapes, key, shape_of((*parts, result), len(names), n_saved, materialize))

    return call
