"""The results of a forward method: their container, and which leaves carry gradients.

    float and complex tensors    tracked, unless marked non-differentiable; each in a slot of its own
    integer and bool tensors     not tracked, by themselves
    arrays, NumPy scalars        tensors
    anything else                passes through
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.ir import DTYPES

from .. import tree
from ..errors import DTypeError, GradientError, caller
from ..frames import UserLine
from ..tape.leaves import leaf
from ..tensor import Tensor

__all__ = ["Outputs", "no_gradient"]

_KNOWN = frozenset(DTYPES.values())


class Outputs:
    """The result of a forward method.

    leaves      its leaves, arrays made tensors;  structure: its container (None: one leaf)
    slots       for each leaf: which tracked output it is, or None
    tracked     the tracked outputs, in order: the same tensor returned twice is two of them
    """

    __slots__ = ("_aliases", "_returned", "leaves", "slots", "structure", "tracked")

    def __init__(self, function: str, result: Any, constant: Sequence[Any]) -> None:
        """`constant` holds outputs that are marked non-differentiable; GradientError for what is none."""
        if isinstance(result, Tensor):
            returned, self.structure = [result], None
        else:
            returned, self.structure = tree.flatten(result)
        self._returned = returned
        self.leaves = [_as_output(function, x) for x in returned]
        self._aliases = {id(x): t for x, t in zip(returned, self.leaves, strict=True) if isinstance(t, Tensor)}
        fixed = {id(self._aliases.get(id(x))) for x in constant}
        if not fixed <= {id(t) for t in self._aliases.values()}:
            raise GradientError(
                f"{function}: mark_non_differentiable of something that forward does not return\n  called at {caller()}"
            )
        self.tracked: list[Tensor] = []
        self.slots: list[int | None] = []
        for t in self.leaves:
            carries = isinstance(t, Tensor) and t.dtype.kind in "fc" and id(t) not in fixed
            self.slots.append(len(self.tracked) if carries else None)
            if carries:
                self.tracked.append(t)

    @property
    def slotted(self) -> tuple[list[Any], list[int | None]]:
        """Leaves and slots."""
        return self.leaves, self.slots

    @property
    def has_untracked(self) -> bool:
        """True if a tensor is returned that carries no gradient by its dtype or declaration."""
        return any(isinstance(x, Tensor) and slot is None for x, slot in zip(self.leaves, self.slots, strict=True))

    def returns(self, x: Any) -> bool:
        """True if forward returned this very object."""
        return any(x is r for r in self._returned)

    def tensor_of(self, x: Any) -> Tensor | None:
        """The tensor that something saved stands for: itself, or the output that an array became."""
        return x if isinstance(x, Tensor) else self._aliases.get(id(x))

    def as_returned(self) -> Any:
        """The results that forward returned, arrays as they were."""
        return self.rebuilt(list(self._returned))

    def rebuilt(self, leaves: list[Any]) -> Any:
        """Other leaves in the same container."""
        return leaves[0] if self.structure is None else tree.unflatten(self.structure, leaves)


def no_gradient(function: str, line: UserLine | str | None, has_number: bool) -> GradientError:
    """The error for a call that needs a gradient where nothing is returned that carries one: a number, perhaps."""
    return GradientError(
        f"{function}: an argument requires a gradient, but no output can carry one\n"
        f"  called at {line}\n"
        + ("  a number of Python's carries none: return an array, or np.float64(y)" if has_number else
           "  return a float tensor, or declare the outputs with ctx.mark_non_differentiable")
    )


def _as_output(function: str, x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "USOVmM":
        if x.dtype.newbyteorder("=") not in _KNOWN:
            raise DTypeError(
                f"{function}: forward returned an array of dtype {x.dtype}, which this library does not have\n"
                f"  called at {caller()}\n  dtypes are {', '.join(map(str, DTYPES.values()))}"
            )
        return leaf(np.array(x, x.dtype.newbyteorder("="), order="C", subok=False))
    return x
