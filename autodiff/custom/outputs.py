"""The results of a forward method: their container, and which leaves carry gradients.

    float and complex tensors    tracked, unless marked non-differentiable; each in a slot of its own
    integer and bool tensors     not tracked; they need no mark
    arrays, NumPy scalars        become tensors
    anything else                is passed on unchanged

A forward or a rule whose author forgot the `return` raises an error: `refuse_forgotten`.

A forward declares and returns the inputs that it changes in place; then the caller's handle gets the result.  Forward
has handles of its own on the call's inputs, so a change rebinds those, and is found by comparing nodes.  Values never
change: nodes recorded with the old value keep it.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Sequence
from linecache import getline
from typing import Any

import numpy as np

from codegen.ir import DTYPES, KNOWN_DTYPES

from .. import tree
from ..errors import DTypeError, GradientError, located
from ..frames import UserLine
from ..mode import MODE
from ..tape.leaves import leaf
from ..tape.node import Node
from ..tape.record import hooked, identity_of
from ..tensor import Tensor


class Outputs:
    """The result of a forward method.

    returned    its leaves as returned;  leaves: the same leaves, with arrays turned into tensors
    structure   its container (None: the result is one tensor)
    slots       for each leaf, the number of the tracked output that it is, or None
    tracked     the tracked outputs, in order; a tensor that is returned twice is two outputs
    """

    __slots__ = ("leaves", "returned", "slots", "structure", "tracked")

    def __init__(self, function: str, result: Any, constant: Sequence[Any]) -> None:
        """`constant` holds the outputs marked non-differentiable.  Raises GradientError if one is not returned."""
        self.returned: list[Any] = [result]
        self.structure: tree.Structure | None = None
        if not isinstance(result, Tensor):
            self.returned, self.structure = tree.flatten(result)
        self.leaves = [x if isinstance(x, Tensor) else _as_output(function, x) for x in self.returned]
        fixed = [self._made_of(x) for x in constant]
        if any([t is None for t in fixed]):
            raise GradientError(located(
                f"{function}: mark_non_differentiable of something that forward does not return"
            ))
        self.tracked: list[Tensor] = []
        self.slots: list[int | None] = []
        for t in self.leaves:
            carries = isinstance(t, Tensor) and t.node.kind.out.flows and not (fixed and any([t is x for x in fixed]))
            self.slots.append(len(self.tracked) if carries else None)
            if carries:
                self.tracked.append(t)

    def tensor_of(self, x: Any) -> Tensor | None:
        """The tensor that a saved value stands for: itself, or the output that an array was turned into."""
        return x if isinstance(x, Tensor) else self._made_of(x)

    def _made_of(self, x: Any) -> Tensor | None:
        """The output tensor that a returned value was turned into; None for any other value."""
        pairs = zip(self.returned, self.leaves, strict=True)
        return next((t for r, t in pairs if r is x and isinstance(t, Tensor)), None)

    def rebuilt(self, leaves: list[Any]) -> Any:
        """The result with new leaves, in the same container."""
        return leaves[0] if self.structure is None else tree.unflatten(self.structure, leaves)


def no_gradient(function: str, line: UserLine | str | None, has_number: bool) -> GradientError:
    """The error for a call that needs a gradient, but no output carries one.   has_number: it returns a number"""
    return GradientError(
        f"{function}: an argument requires a gradient, but no output can carry one\n"
        f"  called at {line}\n"
        + ("  a number of Python's carries none: return an array, or np.float64(y)" if has_number else
           "  return a float tensor, or declare the outputs with ctx.mark_non_differentiable")
    )


def _as_output(function: str, x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "USOVmM":
        if x.dtype.newbyteorder("=") not in KNOWN_DTYPES:
            raise DTypeError(located(
                f"{function}: forward returned an array of dtype {x.dtype}, which this library does not have",
                f"dtypes are {', '.join(map(str, DTYPES.values()))}",
            ))
        return leaf(np.array(x, x.dtype.newbyteorder("="), order="C", subok=False))
    return x


# ---------------------------------------------------------------- no `return`


def refuse_forgotten(method: Any, where: str, mend: str) -> None:
    """Raise GradientError for a method or rule that returned None because its code ends without a `return`.

    An explicit `return None` is accepted.  Python cannot tell the two apart, so this reads bytecode and source.
    """
    if method is not None and _ends_without_return(method.implementation):
        raise GradientError(f"{where} returned nothing: its code can end without `return`\n  {mend}")


#: A line of a program that says `return None`.
_RETURN_NONE = re.compile(r"\breturn\s*(None\s*)?([;#]|$)")


#: The instructions with which the running version of Python ends a function that has no `return`.
_END = [(i.opname, i.argval) for i in dis.get_instructions(lambda: None)][1:]


def _ends_without_return(function: Any) -> bool:
    """True if a function can reach its end without `return`, and its source, if known, has no `return None`."""
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    if code is None or code.co_name == "<lambda>":
        return False
    steps = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    ends = [steps[k : k + len(_END)] == _END for k in range(len(steps))]
    lines = {line for *_, line in code.co_lines() if line is not None}
    return any(ends) and not any([_RETURN_NONE.search(getline(code.co_filename, n).rstrip()) for n in lines])


# ---------------------------------------------------------------- inputs that are changed in place


def dirty_places(function: str, inner: Sequence[Tensor], given: Sequence[Tensor], nodes: Sequence[Node],
                 declared: Sequence[Any], outputs: Outputs) -> dict[int, Tensor]:
    """The arguments that forward changed in place: index of the handle -> forward's own handle of it.

    inner, given   forward's handles and the caller's, in order;  nodes: the nodes of `inner` before forward ran
    declared       the arguments of mark_dirty

    Raises GradientError for a change that is not declared, a declared input that is not returned or is
    a leaf that requires grad, and a declared value that is no input.
    """
    found: dict[int, Tensor] = {}
    for x in declared:
        number = next((k for k, t in enumerate(inner) if t is x), None)
        if number is None:
            raise GradientError(located(f"{function}: mark_dirty of something that is no input of this call"))
        found[number] = inner[number]
    for k, (t, node) in enumerate(zip(inner, nodes, strict=True)):
        if k not in found and t.node not in (node, hooked(node)):
            raise GradientError(located(
                f"{function}: forward changes its input {k} ({t.aval}) in place without saying so",
                "declare it: ctx.mark_dirty(input), and return it; or compute a new tensor",
            ))
    for k, t in found.items():
        if not any([t is x for x in outputs.leaves]):
            raise GradientError(located(
                f"{function}: the input {t.aval} is marked dirty, but forward does not return it",
                "return it: the result takes its place in the caller's handle",
            ))
        if given[k].node.leaf is not None and MODE.get().tracks:
            raise GradientError(located(
                f"{function}: forward changes a leaf that requires grad in place",
                "call it under ad.no_grad(), or on x.detach() or x * 1",
            ))
    handles = [id(given[k]) for k in found]
    if len(set(handles)) != len(handles):
        what = f"{function}: one tensor is passed twice and both are changed in place"
        raise GradientError(located(what, "pass a copy"))
    return found


def rebind_callers(found: dict[int, Tensor], given: Sequence[Tensor], outputs: Outputs, leaves: list[Any]) -> list[Any]:
    """Give the results to the caller's handles; returns `leaves` with those handles in their places."""
    for k, t in found.items():
        mine = given[k]
        places = [i for i, x in enumerate(outputs.leaves) if x is t]
        new = leaves[places[0]].node
        identity = mine.node.leaf  # under no_grad a leaf stays the same leaf
        mine.node = new if identity is None else identity_of(new, leaf=identity)
        leaves[places[0]] = mine
    return leaves
