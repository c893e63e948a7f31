"""Callers of jit functions for tensors: as `calling` has them for arrays, and dispatch told what the trace relied on.

    def call(args, kwargs):                     # f(w, x) -> y, nothing of it tracked
        ...
        n = v0.node
        if n.kind.out is not O: return MISS
        v0 = n.value
        found = launch(v0, v1)
        return leaf(found[0])

What is tracked is recorded: the traced operations are put down behind the arguments, from a template.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import tree
from .argument_leaves import ArgumentLeaf, kind_of
from .calling import CallerWriter
from .dispatch import include
from .entry import SignatureEntry, Signed
from .mode import MODE
from .ops.template import Template
from .tape.leaves import leaf
from .tape.record import state
from .tensor import AbstractTensor, Tensor, handle

__all__ = ["tensor_caller"]


def tensor_caller(entry: SignatureEntry, signed: Signed) -> Callable | None:
    """The caller for tensors like these; None where only the general way will do."""
    _, structure, parts, leaves = signed
    given = [x for x in leaves if isinstance(x, AbstractTensor)]
    if not all([type(x) is x.node.kind.out.cls and not x.masked for x in given if isinstance(x, Tensor)]):
        return None
    if not all([isinstance(x, Tensor) for x in given]):
        return None
    if any([x.node.kind.out.requires_grad for x in given]):
        return _recording(entry, structure, leaves) if len(given) == len(leaves) else None
    return _running(entry, structure, parts, leaves)


def _running(
    entry: SignatureEntry, structure: tree.Structure, parts: list[ArgumentLeaf], leaves: list[Any]
) -> Callable | None:
    """Nothing is tracked: the values go to the executable."""
    launch = None if entry.executable is None else entry.executable.launcher(_miss)
    writer = CallerWriter(entry.has_fixed)
    if launch is None or not writer.take_apart(structure):
        return None
    kinds = [
        ("tensor", x.node.kind.out) if isinstance(x, Tensor) else kind_of(part, x)
        for part, x in zip(parts, leaves, strict=True)
    ]
    for met in entry.captures.values():
        if isinstance(met, Tensor):
            writer.refuse(f"{writer.name(met, 't')}.node.kind.out.requires_grad")
    inputs = writer.check_leaves(kinds) + writer.look_up(entry.hidden)
    writer.lines.append(f"found = launch({', '.join(inputs)})")
    writer.refuse("found is None")
    names = [
        writer.name(given, "g") if position is None else f"leaf(found[{position}])"
        for position, given in zip(entry.outputs, entry.leaves, strict=True)
    ]
    writer.env |= {"launch": launch, "leaf": leaf, "include": include, "choices": entry.choices}
    return writer.caller("include(choices)", f"return {writer.put_together(entry.structure, iter(names))}")


def _recording(entry: SignatureEntry, structure: tree.Structure, leaves: list[Tensor]) -> Callable | None:
    """Gradients are tracked: what was traced is recorded."""
    arguments, (result, *others) = entry.arguments, entry.results or (None,)
    met = entry.captures
    if others or result is None or entry.structure.cls is not None:
        return None
    if not all([isinstance(t, Tensor) and t.node is node for node, t in met.items()]):
        return None  # what an array holds counts at each call
    fits = [a.kind.out is x.node.kind.out and not a.hooks for a, x in zip(arguments, leaves, strict=True)]
    template = Template.of(handle(result), arguments, 0, entry.choices) if all(fits) and MODE.get().tracks else None
    writer = CallerWriter(entry.has_fixed)
    if template is None or not writer.take_apart(structure):
        return None
    writer.lines.append("now = state.now")
    writer.refuse("not mode().tracks")
    for node, t in met.items():  # the template has their values: they must be the same tensors still
        writer.refuse(f"{writer.name(t, 't')}.node is not {writer.name(node, 'N')}")
    for name, x in zip(writer.leaf_names, leaves, strict=True):
        out = x.node.kind.out
        writer.refuse(f"type({name}) is not {writer.name(out.cls, 'C')}")
        writer.lines.append(f"n = {name}.node")
        writer.refuse(f"n.kind.out is not {writer.name(out, 'O')} or (n.value is None and n.number < now.start)")
        writer.refuse(f"{name}.masked")
    writer.env |= {"put": template.put, "state": state, "mode": MODE.get}
    writer.env |= {"include": include, "choices": entry.choices}
    return writer.caller("include(choices)", f"return put(now, ({', '.join(writer.leaf_names)},))")


def _miss(*_args: Any) -> None:
    """Take over from the launcher, in Python, when an argument does not fit."""
    return None
