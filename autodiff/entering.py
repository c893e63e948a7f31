"""Known calls of a jit function written out as data, for machine code that takes arguments apart itself.

It knows tuples, lists, dicts and namedtuples of arrays, numbers and static objects; of results the first three.
For anything else there is no entry, and a straight-line caller (`calling`) does the same in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codegen.runtime.entered import CallForm
from codegen.runtime.entered import EnteredCall as Native

from . import tree
from .tape.node import Node
from .tensor import Tensor

__all__ = ["native_entry"]

#: Leaves of a call beyond which Python takes it apart.
MOST = 512


def native_entry(
    executable: Any,
    signature: tree.Structure,
    kinds: Sequence[tuple[str, Any]],
    hidden: Sequence[Any],
    result: tree.Structure,
    leaves: Sequence[tuple[int | None, Any]],
) -> Native | None:
    """The entry of one call; None where machine code does not know what it needs.  Parameters as of `write_caller`."""
    args, kwargs = signature.children
    if signature.size + result.size > MOST or any([kind == "keyed" for kind, _ in kinds]):
        return None
    given, put = _EnteredArguments(args, kwargs), _Result(leaves)
    if not (given.take_apart(kinds) and put.together(result)):
        return None
    return executable.entry(CallForm(
        given=len(args.children), has_keywords=bool(kwargs.children),
        registers=given.registers, checks=tuple(given.checks), places=tuple(given.places),
        arrays=frozenset(given.arrays),
        hidden=tuple([(isinstance(h, Tensor), h.value if isinstance(h, Node) else h) for h in hidden]),
        holds=given.holds or any(isinstance(h, Tensor) for h in hidden),
        result=tuple(put.program), depth=put.depth,
    ))  # fmt: skip


class _EnteredArguments:
    """Instructions that take arguments apart.  Registers are in the order of `tree.flatten` on each level."""

    def __init__(self, args: tree.Structure, kwargs: tree.Structure) -> None:
        self.given = (*args.children, kwargs) if kwargs.children else args.children
        self.registers = len(self.given)
        self.checks: list[tuple[str, int, Any, int, int]] = []
        self.places: list[int] = []
        self.arrays: list[int] = []
        self.holds = False

    def take_apart(self, kinds: Sequence[tuple[str, Any]]) -> bool:
        """False: some container is not known."""
        found: list[int] = []
        if not all([self._bind(child, register, found) for register, child in enumerate(self.given)]):
            return False
        for register, (kind, what) in zip(found, kinds, strict=True):
            if kind == "static":
                self.checks.append(("object", register, what, 0, 0))
                continue
            if kind == "number":
                self.checks.append(("class", register, what, 0, 0))
            else:  # numbers, NumPy's too, dispatch as numbers: none is taken for an array
                self.arrays.append(len(self.places))
            self.places.append(register)
        return True

    def _bind(self, structure: tree.Structure, register: int, found: list[int]) -> bool:
        """Instructions for what is in a register; `found`: registers of leaves in order."""
        cls, count, first = structure.cls, len(structure.children), self.registers
        if cls is None:
            found.append(register)
            return True
        if cls is list or cls is dict:
            self.holds = True
        elif not issubclass(cls, tuple):
            return False
        name = "list" if cls is list else "dict" if cls is dict else "tuple"
        self.checks.append((name, register, structure.rest if cls is dict else cls, first, count))
        self.registers += count
        return all([self._bind(child, first + i, found) for i, child in enumerate(structure.children)])


class _Result:
    """Instructions that put a result together."""

    def __init__(self, leaves: Sequence[tuple[int | None, Any]]) -> None:
        self.leaves = list(leaves)
        self.program: list[tuple[str, Any]] = []
        self.depth = 0
        self._left = list(leaves)

    def together(self, structure: tree.Structure, below: int = 0) -> bool:
        """False: some container is not known.  `below`: how much is on the stack already."""
        self.depth = max(self.depth, below + 1)
        cls = structure.cls
        if cls is None:
            position, given = self._left.pop(0)
            if position is None:
                self.program.append(("object", given))
            else:
                self.program.append(("last" if self._is_last(position) else "result", position))
            return True
        if cls not in (tuple, list, dict):
            return False
        for i, child in enumerate(structure.children):
            if not self.together(child, below + i):
                return False
        name = {tuple: "tuple", list: "list", dict: "dict"}[cls]
        self.program.append((name, structure.rest if cls is dict else len(structure.children)))
        return True

    def _is_last(self, position: int) -> bool:
        return all([position != other for other, _ in self._left])
