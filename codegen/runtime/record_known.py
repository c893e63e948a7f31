"""The part of a recorder (`record`) for recordings that are known: their checks, and the code that answers them."""

from __future__ import annotations

import ctypes
import struct
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from .answer_ir import ANSWER
from .check_ir import BLOCK
from .check_steps_ir import OPCODES
from .native import Self
from .record_emit_ir import EMIT

__all__ = ["Known"]


class Known:
    """Builtin functions of the recorder's machine code, each with a block of its own as `self`."""

    @abstractmethod
    def _builtin(self, name: str, owned: tuple, address: int) -> Callable[..., Any]:
        """A function of the machine code at this address, with a block of these objects."""

    def check(
        self,
        instructions: Sequence[tuple],
        *,
        registers: int,
        leaf_registers: int,
        given: int,
        arguments: Sequence[tuple[int, Any]],
        tables: Sequence[Sequence[int]],
        freed: tuple,
    ) -> Callable[..., tuple | None]:
        """check(*given nodes, live list): see `check_ir`.

        arguments   (register, None) for a node's value, or (-1, object)
        tables      registers of what is stored, leaves, olds, past; -1 for None
        """
        held: list[Any] = [freed, [value for _, value in arguments]]
        code: list[int] = []
        for opcode, *operands in instructions:
            code.append(OPCODES.index(opcode))
            for operand in operands:
                if type(operand) is not int:
                    held.append(operand)
                code.append(operand if type(operand) is int else id(operand))
        code.append(OPCODES.index("end"))
        pairs = [word for which, value in arguments for word in (which, id(value))]
        arrays = [(ctypes.c_int64 * len(words))(*words) for words in (code, pairs, *tables)]
        addresses = [ctypes.addressof(array) for array in arrays]
        counts = [len(arguments), *map(len, tables)]
        words = [registers, leaf_registers, given, addresses[0], id(freed)]
        words += [word for pair in zip(counts, addresses[1:], strict=True) for word in pair]
        assert len(words) == len(BLOCK)
        block = (ctypes.c_int64 * len(words))(*words)
        return self._builtin("check", (block, arrays, held), ctypes.addressof(block))

    def finish(
        self, settled: Sequence[tuple[int, bool]], groups: Sequence[tuple[int, Any, Any]]
    ) -> Callable[[tuple, tuple, bool], bool]:
        """finish(results, gathered, is_released): see `commit_ir`.

        settled   per stored node: position of its value, whether its inputs are dropped
        groups    per leaf: position of its gradient or -1, kind and class of what is made for it; None for both where
                  each call says the kind
        """
        tables = [
            [word for position, drops in settled for word in (position, int(drops))],
            [word for position, *made in groups for word in (position, *[0 if m is None else id(m) for m in made])],
        ]
        arrays = [(ctypes.c_int64 * len(words))(*words) for words in tables]
        words = [len(settled), ctypes.addressof(arrays[0]), len(groups), ctypes.addressof(arrays[1])]
        block = (ctypes.c_int64 * len(words))(*words)
        return self._builtin("finish", (block, arrays, tuple(groups)), ctypes.addressof(block))

    def putter_of_nodes(
        self, given: int, steps: Sequence[tuple[Any, Any, Sequence[int]]], results: Sequence[int]
    ) -> Callable[[tuple], tuple]:
        """put(nodes), from so many given nodes to those that are results: see `record_emit_ir`.

        steps     kind, value and inputs of each node: the given nodes come first in the numbering
        """
        words = [w for kind, value, picks in steps for w in (id(kind), id(value), len(picks), *picks)]
        assert all(0 <= i < place for place, (_, _, picks) in enumerate(steps, given) for i in picks)
        assert all(0 <= i < given + len(steps) for i in results)
        arrays = [(ctypes.c_int64 * len(table))(*table) for table in (words, results)]
        block = (ctypes.c_int64 * len(EMIT))(given, len(steps), len(results), *map(ctypes.addressof, arrays))
        return self._builtin("put_steps", (block, arrays, tuple(steps)), ctypes.addressof(block))

    def answer(self, check: Callable[..., Any], finish: Callable[..., Any], plan: Any) -> Self:
        """What a known ask is answered by (`answer_ir`): a check, the plan of which it is, what keeps its results."""
        block = (ctypes.c_int64 * len(ANSWER))(_block_of(check), id(plan), _block_of(finish))
        own = Self(struct.pack("P", ctypes.addressof(block)))
        own.owned = (block, check, finish, plan)
        return own

    def answering(self) -> Callable[[Any], bool]:
        """answer(node): compute a pending value natively.  False: Python is to be asked."""
        return self._builtin("answer", (), 0)


def _block_of(made: Any) -> int:
    """The address of the block of what `_builtin` made."""
    return struct.unpack("P", made.__self__)[0]
