"""Calls of a forward/backward pair in straight-line code, for arguments of known classes.

`forward.call_forward` serves every circumstance.  What is written out here, once per number of arguments and
which of them are tensors, takes the common one: tensors, and values that hold none, are the arguments; forward
returns one float tensor; what it saves are tensors and values that hold none.  The user's function runs each
time; only the bookkeeping around it is short, and there is nearly none where no gradient is wanted.  Several float
tensors in any container, and what forward sets on its context, take `short`.  Whatever turns out otherwise, before or
after the function has run, goes on as `call_forward` and `completed` have it.

    def call(a0, a1):                                   # a tensor and a number
        n0 = a0.node
        if now.captures is not None or not ...: return general(a0, a1)
        h0 = a handle on n0, masked
        ctx = ...
        y = run(ctx, h0, a1)
        if ...: return completed(...)
        saved tensors -> places;  shape, found by these
        node = boundary(y.node, n0, *extras)
        return a handle on it
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from codegen.ir import DTYPES

from .. import tree
from ..frames import UserLine, is_ours, user_line
from ..mode import MODE
from ..tape.node import TABLE_LIMIT, kept, new_number, rich_node
from ..tape.record import is_masked, state
from ..tensor import Tensor, handle
from .boundary import boundary_kind, outputs_of
from .call import Call, Shape, Site, shape_of
from .closures import closed_over, holder
from .context import ForwardContext, Said, attributes, said
from .forward import Entered, completed
from .packed import Packed, own_copy

__all__ = ["straight_call"]

_TEXT = """
def made_for(site, run, names, name, general, finish, shapes, new_shape, holds):
    def call({arguments}):
        now = state.now
        {nodes}
        if now.tracing or now.captures is not None{same}{held}:
            return general({arguments})
        tracks = mode().tracks and ({tracks})
        {handles}
        {context}
        frame = frame_at(1).f_back
        if frame is None or is_ours(frame.f_globals.get("__name__")):
            line = user_line()
        else:
            line = new_line(UserLine, (frame.f_code, frame.f_lasti))
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
        if now.asked != asked or {unusual} not is_float(type(y)):
            return finish(({arguments},), ({inner},), ctx, y, line, asked, looked, covered, since)
        body = y.node
        if body.kind.out.requires_grad and not (tracks and y.masked):
            return finish(({arguments},), ({inner},), ctx, y, line, asked, looked, covered, since)
        if not tracks:
            t = new(type(y))
            t.node = body
            t.masked = {masked}
            if body.value is None and body.kind.out.small:
                now.note_small(t)
            return t
        {saved}
        statics = ({statics})
        extras = ()
        {places}
        shape = shapes.get(key) or new_shape(key)
        call = Call(site, shape, statics, (body.kind.out.aval,), False, None, line)
        out = body.kind.out
        node = rich_node(kinds.get(out) or kind_for(out), (body, {inputs}, *extras), call=call)
        node.body = 0
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

_NOTHING = Said()  # what no context was told
_HANDLE = "h{i} = new(n{i}.kind.out.cls); h{i}.node = n{i}; h{i}.masked = True"
_STATIC = "a{i} if type(a{i}) is not ndarray else a{i}.copy(), "  # no later write changes it
_SAVED = """
        for key_name, value in saved:
            if is_tensor(type(value)):
                v = value.node
                {known}
                elif v is body:
                    key += (key_name, -1)
                elif v in extras:
                    key += (key_name, {first_extra} + extras.index(v))
                else:
                    key += (key_name, {first_extra} + len(extras))
                    extras += (v,)
            elif type(value) in holds_none:
                key += (key_name, None)
                statics += (value if type(value) is not ndarray else value.copy(),)
            else:
                return finish(({arguments},), ({inner},), ctx, y, line, asked, looked, covered, since)
"""


@cache
def _template(is_tensor: tuple[bool, ...], has_context: bool, may_hold: bool) -> Callable:
    """The code for these arguments, tensors or not, as a function of what it calls."""
    count = range(len(is_tensor))
    tensors = [i for i in count if is_tensor[i]]
    arguments = ", ".join([f"a{i}" for i in count])
    inner = ", ".join([f"h{i}" if is_tensor[i] else f"a{i}" for i in count])
    needs = "".join([f"tracks and n{i}.kind.out.requires_grad, " if is_tensor[i] else "False, " for i in count])
    known = [f"{'el' if k else ''}if v is n{i}: key += (key_name, {k + 1})" for k, i in enumerate(tensors)]
    places = _SAVED.format(
        known="\n                ".join(known), first_extra=len(tensors) + 1, arguments=arguments, inner=inner
    )
    moved = "".join([f"h{i}.node is not n{i} or " for i in tensors])
    text = _TEXT.format(
        arguments=arguments,
        nodes="; ".join([f"n{i} = a{i}.node" for i in tensors]),
        tracks=" or ".join([f"n{i}.kind.out.requires_grad" for i in tensors]),
        same="".join([f" or n{i} is n{k}" for i in tensors for k in tensors if k < i]),
        held=f" or holds(({''.join([f'n{i}, ' for i in tensors])}))" if may_hold else "",
        handles="\n        ".join([_HANDLE.format(i=i) for i in tensors]),
        context=f"ctx = ForwardContext(name, names, ({needs}), ({inner},))" if has_context else "ctx = None",
        given=f"ctx, {inner}" if has_context else inner,
        inner=inner,
        told="told = said(ctx)" if has_context else "",
        unusual=f"told.constant or told.dirty or ctx.__dict__ or {moved}" if has_context else moved,
        saved="saved, key = told.saved or (), (told.materialize,)" if has_context else "key = (True,)",
        statics="".join([_STATIC.format(i=i) for i in count if not is_tensor[i]]),
        places=places.strip() if has_context else "",
        inputs=", ".join([f"n{i}" for i in tensors]),
        masked=f"now.body != 0 and is_masked(({''.join([f'a{i}, ' for i in tensors])}))",
    )
    env: dict[str, Any] = {
        "Call": Call,
        "ForwardContext": ForwardContext,
        "UserLine": UserLine,
        "__name__": __name__,  # an error's line is the user's: the first frame outside of this library
        "flow": slice(1, 1 + len(tensors)),
        "frame_at": sys._getframe,
        "mode": MODE.get,
        "holds_none": _HOLDS_NONE,
        "is_float": _is_float,
        "is_masked": is_masked,
        "is_ours": is_ours,
        "is_tensor": _is_tensor,
        "kind_for": _kind_for,
        "kinds": _KINDS,
        "new": object.__new__,
        "new_line": tuple.__new__,
        "ndarray": np.ndarray,
        "new_number": new_number,
        "rich_node": rich_node,
        "said": said,
        "state": state,
        "user_line": user_line,
    }
    exec(text, env)  # our own text; nothing of the user's is in it
    return env["made_for"]


_KINDS: dict[Any, Any] = {}


def _kind_for(out: Any) -> Any:
    return kept(_KINDS, out, boundary_kind(out.aval))


class _Classes(dict):
    """Remembers what a question says of each class."""

    def __init__(self, question: Callable[[type], bool]) -> None:
        self.question = question

    def __missing__(self, cls: type) -> bool:
        if len(self) >= TABLE_LIMIT:
            self.clear()
        self[cls] = answer = self.question(cls)
        return answer


_is_tensor = _Classes(lambda cls: issubclass(cls, Tensor)).__getitem__
_is_float = _Classes(
    lambda cls: issubclass(cls, Tensor) and issubclass(cls, (Tensor[np.floating], Tensor[np.complexfloating]))
).__getitem__
#: Classes whose instances hold no tensors, and never will.
_HOLDS_NONE = frozenset(
    (type(None), bool, int, float, complex, str, bytes, range, slice, type, FunctionType, np.ndarray, np.bool_,
     *[d.type for d in DTYPES.values()])
)  # fmt: skip


def straight_call(
    site: Site, run: Callable, has_context: bool, names: Sequence[str], body: Callable, general: Callable
) -> Callable:
    """The call of a pair for its classes, or `general` where there is no shorter way.

    run       the user's forward, with `ctx` first if it has a context;  names: of its parameters
    body      body(ctx, arguments by name) runs it, as `call_forward` wants it
    """
    is_tensor = tuple([issubclass(c, Tensor) for c in site.types])
    known = all([t or c in _HOLDS_NONE for c, t in zip(site.types, is_tensor, strict=True)])
    if not known or not any(is_tensor) or any([hasattr(c, "__dispatches_as__") for c in site.types]):
        return general
    names = tuple(names)
    tensors = [name for name, t in zip(names, is_tensor, strict=True) if t]
    shapes: dict[tuple, Shape] = {}

    def finish(
        arguments: tuple, inner: tuple, ctx: Any, y: Any, line: Any, asked: int, looked: int, covered: int,
        since: float,
    ) -> Any:
        """Whatever is not as usual: with what forward has said and returned."""
        if state.now.asked == asked:
            found = short(arguments, inner, ctx, y, line, since)
            if found is not None:
                return found
        entered = Entered(site, body, dict(zip(names, arguments, strict=True)), line)
        entered.inner = [h for h, t in zip(inner, is_tensor, strict=True) if t]
        entered.named = list(entered.inputs)
        entered.asked, entered.looked, entered.covered, entered.since = asked, looked, covered, since
        if ctx is None:
            ctx = ForwardContext(site.function.__name__, names, entered.needs, inner)
        return completed(entered, ctx, y, False)

    def short(arguments: tuple, inner: tuple, ctx: Any, y: Any, line: Any, since: float) -> Any:
        """Float tensors in any container, of what set attributes on its context; None for anything else."""
        told = _NOTHING if ctx is None else said(ctx)
        inputs = [a.node for a, t in zip(arguments, is_tensor, strict=True) if t]
        tracks = MODE.get().tracks and any([n.kind.out.requires_grad for n in inputs])
        is_moved = [h.node for h, t in zip(inner, is_tensor, strict=True) if t] != inputs
        leaves, structure = ([y], None) if _is_tensor(type(y)) else tree.flatten(y)
        masked = is_masked([a for a, t in zip(arguments, is_tensor, strict=True) if t])
        if told.constant or told.dirty or is_moved or not leaves:
            return None
        unmasked = [t.node for t in leaves if _is_tensor(type(t)) and not t.masked]
        if unmasked and closed_over(unmasked, inputs, since):
            return None
        if not tracks:
            if not all([_is_tensor(type(t)) for t in leaves]):
                return None
            same = [handle(t.node, masked) for t in leaves]
            return same[0] if structure is None else tree.unflatten(structure, same)
        if not all([_is_float(type(t)) for t in leaves]):
            return None
        body = [t.node for t in leaves]
        first = int(len(body) == 1)
        number = {n: first + k for k, n in enumerate(inputs)}
        for k, node in enumerate(body):
            number.setdefault(node, -1 - k)
        extras: list[Any] = []
        statics = [own_copy(a) for a, t in zip(arguments, is_tensor, strict=True) if not t]
        said_too = () if ctx is None else tuple(ctx.__dict__.items())
        key = [told.materialize, structure, len(body), len(said_too)]
        for name, value in (*(told.saved or ()), *said_too):
            place = None
            if _is_tensor(type(value)):
                place = number.get(value.node)
                if place is None:
                    place = number[value.node] = first + len(inputs) + len(extras)
                    extras.append(value.node)
            elif type(value) in _HOLDS_NONE:
                statics.append(own_copy(value))
            else:
                return None
            key += name, place
        shape = shapes.get(tuple(key)) or short_shape(tuple(key), ctx)
        call = Call(site, shape, tuple(statics), tuple([n.kind.out.aval for n in body]), False, None, line)
        found = outputs_of(call, inputs, extras, body, masked)
        return found[0] if structure is None else tree.unflatten(structure, found)

    def short_shape(key: tuple, ctx: Any) -> Shape:
        """key: materialize, the container, how many outputs and attributes, then as in `new_shape`."""
        materialize, structure, count, n_attributes, *pairs = key
        if ctx is not None:
            attributes(ctx)  # refuses names that are its own
        first = int(count == 1)
        places = {name: first + k for k, name in enumerate(tensors)}
        parts = [(name, _one(place)) for name, place in zip(pairs[::2], pairs[1::2], strict=True)]
        result = _one(-1)
        result.structure, result.places = structure, tuple([-1 - k for k in range(count)])
        shape, _ = shape_of(
            {name: _one(places.get(name)) for name in names}, parts[: len(parts) - n_attributes],
            dict(parts[len(parts) - n_attributes :]), result, materialize, first,
        )  # fmt: skip
        return kept(shapes, key, shape)

    def new_shape(key: tuple) -> Shape:
        """key: materialize, and for everything saved its name and its place (None: no tensor)."""
        materialize, *pairs = key
        places = {name: k + 1 for k, name in enumerate(tensors)}
        arguments = {name: _one(places.get(name)) for name in names}
        saved = [(name, _one(place)) for name, place in zip(pairs[::2], pairs[1::2], strict=True)]
        return kept(shapes, key, shape_of(arguments, saved, {}, _one(-1), materialize, 1)[0])

    holds = holder(run)
    template = _template(is_tensor, has_context, holds is not None)
    return template(site, run, names, site.function.__name__, general, finish, shapes, new_shape, holds)


def _one(place: int | None) -> Packed:
    """A tensor from a place; None: a value that is none."""
    packed = Packed.__new__(Packed)
    packed.places = (place,)
    packed.structure, packed.statics = (tree.LEAF, (None,)) if place is None else (None, ())
    return packed
