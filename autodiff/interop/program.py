"""A function of flat arguments, and the functions that derivatives and batches of it are, each compiled once.

    program.run(*leaves)            its results, natively
    program.pulled(wanted, outs)    the program of (*leaves, *cotangents) that gives gradients
    program.pushed(moved, outs)     the program of (*leaves, *tangents) that gives tangents
    program.mapped(axes)            the program of whole batches

Each of them is a program again, so another library's transformations can be applied in any order and any number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..jit import jit
from ..tensor import Tensor
from ..transforms import jvp, vjp, vmap

__all__ = ["Program", "program_of"]

#: Structures of arguments for which a wrapped function keeps programs; further ones start anew.
STRUCTURES = 256


class Program:
    """A function of leaves.

    f      f(*leaves) -> any nesting of arrays
    run    f, compiled
    """

    def __init__(self, f: Callable) -> None:
        self.f = f
        self.run = jit(f)
        self._derived: dict[tuple, Any] = {}

    def _of(self, key: tuple, make: Callable[..., Callable]) -> Program:
        found = self._derived.get(key)
        return self._derived.setdefault(key, Program(make(*key[1:]))) if found is None else found

    def with_gradients(self, needs: tuple[bool, ...]) -> Callable:
        """A compiled function that gives (result, gradients): of a result that is one float; else gradients is None."""
        found = self._derived.get(needs)
        if found is None:
            wanted = tuple([i for i, needed in enumerate(needs) if needed])
            found = self._derived.setdefault(needs, jit(self._with_gradients(wanted)))
        return found

    def _with_gradients(self, wanted: Sequence[int]) -> Callable:
        def both(*leaves: Any) -> Any:
            result, pullback = vjp(self._restricted(leaves, wanted), *[leaves[i] for i in wanted])
            found = tree.leaves(result)
            is_one = len(found) == 1 and isinstance(found[0], Tensor) and found[0].aval.shape == ()
            if not is_one or found[0].dtype.kind != "f":
                return result, None
            return result, pullback(tree.unflatten(tree.flatten(result)[1], [1.0]))

        return both

    def pulled(self, wanted: tuple[int, ...], outs: tuple[int, ...]) -> Program:
        """Gradients for the leaves `wanted`, as a tuple, at cotangents of the results `outs`."""
        return self._of(("pulled", wanted, outs), self._pulled)

    def _pulled(self, wanted: Sequence[int], outs: Sequence[int]) -> Callable:
        def pulled(*given: Any) -> Any:
            leaves, bars = given[: -len(outs)], given[-len(outs) :]
            moving = [leaves[i] for i in wanted]
            return vjp(self._restricted(leaves, wanted, outs), *moving)[1](tuple(bars))

        return pulled

    def pushed(self, moved: tuple[int, ...], outs: tuple[int, ...]) -> Program:
        """Tangents of the results `outs`, as a tuple, at tangents of the leaves `moved`."""
        return self._of(("pushed", moved, outs), self._pushed)

    def _pushed(self, moved: Sequence[int], outs: Sequence[int]) -> Callable:
        def pushed(*given: Any) -> Any:
            leaves, tangents = given[: -len(moved)], given[-len(moved) :]
            moving = tuple([leaves[i] for i in moved])
            return jvp(self._restricted(leaves, moved, outs), moving, tuple(tangents))[1]

        return pushed

    def mapped(self, axes: tuple[int | None, ...]) -> Program:
        """The results for a batch; an axis of a leaf is 0, or None where all examples share it."""
        return self._of(("mapped", axes), lambda axes: vmap(self.f, in_axes=axes))

    def _restricted(self, leaves: Sequence[Any], moving: Sequence[int], outs: Sequence[int] | None = None) -> Callable:
        """f of some of its leaves; with `outs` it gives these of its results, as a tuple."""

        def restricted(*given: Any) -> Any:
            full = list(leaves)
            for i, x in zip(moving, given, strict=True):
                full[i] = x
            result = self.f(*full)
            if outs is None:
                return result
            found = tree.leaves(result)
            return tuple([found[i] for i in outs])

        return restricted


def program_of(programs: dict[Any, Program], f: Callable, structure: tree.Structure) -> Program:
    """The program of f for arguments (args, kwargs) of this structure."""
    found = programs.get(structure)
    if found is None:
        if len(programs) >= STRUCTURES:
            programs.clear()

        def flat(*leaves: Any) -> Any:
            args, kwargs = tree.unflatten(structure, list(leaves))
            return f(*args, **kwargs)

        flat.__name__ = flat.__qualname__ = getattr(f, "__name__", "f")
        found = programs.setdefault(structure, Program(flat))
    return found
