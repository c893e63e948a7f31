"""Calls of a forward/backward pair in straight-line code, for arguments of known classes.

`forward.call_forward` serves every circumstance.  What is written out here, once per number of arguments and
which of them are tensors, takes the common one: tensors, and values that hold none, are the arguments; forward
returns one float tensor; what it saves, and sets on its context, are tensors and values that hold none.  The user's
function runs each time; only the bookkeeping around it is short, and there is nearly none where no gradient is wanted.
Several float tensors in any container take `short`.  Whatever turns out otherwise, before or after the function has
run, goes on as `call_forward` and `completed` have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from codegen.written import defined

from .. import tree
from ..frames import UserLine, nearest_code
from ..mode import MODE
from ..tape.node import kept, new_number, rich_node
from ..tape.record import is_masked, state
from ..tensor import Tensor
from .boundary import boundary_kind, noted_handle, outputs_of
from .call import HOLDS_NONE, CallShape, CustomCall, Site, own_copy, shape_of
from .context import Declared, ForwardContext, attributes, said
from .forward import Entered, completed
from .reads import closed_over

__all__ = ["straight_call"]

_TEXT = """
def made_for(site, run, names, name, general, finish, shapes, new_shape):
    def call({arguments}):
        now = state.now
        {nodes}
        if now.tracing or now.captures is not None or site.separates{same}:
            return general({arguments})
        tracks = mode().tracks and ({tracks})
        {handles}
        {context}
        place = nearest_code(2)
        line = place and new_line(UserLine, place)
        asked, looked, covered, since = now.asked, now.looked, now.bounded, new_number()
        now.body += 1
        try:
            y = run({given})
        except Exception as error:
            error.add_note(f"in the forward method of {{name}} ({{site.method.place}}), called at {{line}}")
            if now.body == 1:
                now.seen.clear()
            raise
        finally:
            now.body -= 1
        {told}
        if now.asked != asked or {unusual} not _is_float(y):
            return finish(({arguments},), ({inner},), ctx, y, line, asked, looked, covered, since)
        body = y.node
        if body.kind.out.requires_grad and (
            not (tracks and y.masked) or (now.body and closed_over((body,), ({inputs},), since))
        ):
            return finish(({arguments},), ({inner},), ctx, y, line, asked, looked, covered, since)
        if not tracks:
            t = new(type(y))
            t.node = body
            t.masked = {masked}
            if body.value is None and body.kind.out.small:
                now.note_small(t)
            return t
        key, statics, extras = {key}, [{statics}], []
        {saved}
        shape = shapes.get(key) or new_shape(key)
        call = CustomCall(site, shape, tuple(statics), (body.kind.out.aval,), False, None, line)
        out = body.kind.out
        node = rich_node(boundary_kind(out), ({inputs}, *extras, body), call=call)
        node.body = {count} + len(extras)
        node.flow = flow
        node.line = line
        out = node.kind.out
        t = new(out.cls)
        t.node = node
        t.masked = {masked}
        if out.small:
            now.note_small(t)
        return t
    return call
"""

_NOTHING = Declared()  # what no context was told
_HANDLE = "h{i} = new(n{i}.kind.out.cls); h{i}.node = n{i}; h{i}.masked = True"
_STATIC = "a{i} if type(a{i}) is not ndarray else a{i}.copy(), "  # no later write changes it
_SAVED = """
        given = told.saved or ()
        if ctx.__dict__:
            given = (*given, *attributes(ctx).items())
        if given:
            pairs = _kept_of(given, {{body: -1, {number}}}, {at}, statics, extras)
            if pairs is None:
                return finish(({arguments},), ({inner},), ctx, y, line, asked, looked, covered, since)
            key = (told.materialize, len(ctx.__dict__), 1, None, *pairs)
"""


@cache
def _template(is_tensor: tuple[bool, ...], has_context: bool) -> Callable:
    """The code for these arguments, tensors or not, as a function of what it calls."""
    count = range(len(is_tensor))
    tensors = [i for i in count if is_tensor[i]]
    arguments = ", ".join([f"a{i}" for i in count])
    inner = ", ".join([f"h{i}" if is_tensor[i] else f"a{i}" for i in count])
    needs = "".join([f"tracks and n{i}.kind.out.requires_grad, " if is_tensor[i] else "False, " for i in count])
    number = ", ".join([f"n{i}: {k}" for k, i in enumerate(tensors)])
    saved = _SAVED.format(number=number, at=len(tensors), arguments=arguments, inner=inner).strip()
    moved = "".join([f"h{i}.node is not n{i} or " for i in tensors])
    text = _TEXT.format(
        arguments=arguments,
        nodes="; ".join([f"n{i} = a{i}.node" for i in tensors]),
        tracks=" or ".join([f"n{i}.kind.out.requires_grad" for i in tensors]),
        same="".join([f" or n{i} is n{k}" for i in tensors for k in tensors if k < i]),
        handles="\n        ".join([_HANDLE.format(i=i) for i in tensors]),
        context=f"ctx = ForwardContext(name, names, ({needs}), ({inner},))" if has_context else "ctx = None",
        given=f"ctx, {inner}" if has_context else inner,
        inner=inner,
        told="told = said(ctx)" if has_context else "",
        unusual=f"told.constant or told.dirty or {moved}" if has_context else moved,
        key="(told.materialize, 0, 1, None)" if has_context else "(True, 0, 1, None)",
        statics="".join([_STATIC.format(i=i) for i in count if not is_tensor[i]]),
        saved=saved if has_context else "",
        inputs=", ".join([f"n{i}" for i in tensors]),
        count=len(tensors),
        masked=f"now.body != 0 and is_masked(({''.join([f'a{i}, ' for i in tensors])}))",
    )
    env: dict[str, Any] = {
        **{f.__name__: f for f in (attributes, boundary_kind, closed_over, is_masked, said, _is_float, _kept_of)},
        **{cls.__name__: cls for cls in (CustomCall, ForwardContext, UserLine, np.ndarray)},
        "__name__": __name__,  # an error's line is the user's: the first frame outside of this library
        "flow": slice(0, len(tensors)),
        "mode": MODE.get,
        "nearest_code": nearest_code,
        "new": object.__new__,
        "new_line": tuple.__new__,
        "new_number": new_number,
        "rich_node": rich_node,
        "state": state,
    }
    return defined("made_for", text, env)


def _is_float(x: Any) -> bool:
    """True of a tensor that may carry a gradient."""
    return isinstance(x, Tensor) and x.node.kind.out.aval.dtype.kind in "fc"


def _kept_of(
    values: Sequence[tuple[str | None, Any]], number: dict[Any, int], at: int, statics: list[Any], extras: list[Any]
) -> tuple[Any, ...] | None:
    """Names and places of values that are kept; None where one may hold tensors and is none.

    number    the places of nodes; others go to `extras`, the first of them to the place `at`
    """
    pairs: list[Any] = []
    for name, value in values:
        place = None
        if isinstance(value, Tensor):
            place = number.get(value.node)
            if place is None:
                place = number[value.node] = at + len(extras)
                extras.append(value.node)
        elif type(value) in HOLDS_NONE:
            statics.append(own_copy(value))
        else:
            return None
        pairs += name, place
    return tuple(pairs)


def straight_call(site: Site, general: Callable) -> Callable:
    """The call of a pair for its classes, or `general` where there is no shorter way."""
    is_tensor = tuple([issubclass(c, Tensor) for c in site.types])
    known = all([t or c in HOLDS_NONE for c, t in zip(site.types, is_tensor, strict=True)])
    if not known or not any(is_tensor) or any([hasattr(c, "__dispatches_as__") for c in site.types]):
        return general
    names = site.function.declaration.fixed
    tensors, others = [[k for k, t in enumerate(is_tensor) if t is which] for which in (True, False)]
    shapes: dict[tuple, CallShape] = {}

    def finish(
        arguments: tuple, inner: tuple, ctx: Any, y: Any, line: Any, asked: int, looked: int, covered: int,
        since: float,
    ) -> Any:
        """Whatever is not as usual: with what forward has said and returned."""
        found = short(arguments, inner, ctx, y, line, since) if state.now.asked == asked else None
        if found is not None:
            return found
        entered = Entered(site, dict(zip(names, arguments, strict=True)), line)
        entered.inner = [inner[k] for k in tensors]
        entered.named = list(entered.inputs)
        entered.asked, entered.looked, entered.covered, entered.since = asked, looked, covered, since
        if ctx is None:
            ctx = ForwardContext(site.function.__name__, names, entered.needs, inner)
        return completed(entered, ctx, y)

    def short(arguments: tuple, inner: tuple, ctx: Any, y: Any, line: Any, since: float) -> Any:
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
            found = [noted_handle(n, masked) for n in nodes]
            return found[0] if structure is None else tree.unflatten(structure, found)
        number = {n: k for k, n in enumerate(inputs)}
        for k, node in enumerate(nodes):
            number.setdefault(node, -1 - k)
        extras: list[Any] = []
        statics = [own_copy(arguments[k]) for k in others]
        pairs = _kept_of([*(told.saved or ()), *on_it.items()], number, len(inputs), statics, extras)
        if pairs is None:
            return None
        key = (told.materialize, len(on_it), len(nodes), structure, *pairs)
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
        return kept(shapes, key, shape_of([*parts, result], len(names), n_saved, materialize))

    template = _template(is_tensor, site.has_context)
    name = site.function.__name__
    return template(site, site.method.implementation, names, name, general, finish, shapes, new_shape)
