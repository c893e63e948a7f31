"""Print functions of loop nests as MLIR text that `mlir-opt` and xDSL parse and verify, and name their values.

    func.func @k0(%x: memref<?xf64>, %y: memref<?xf64>, %n: index) -> i32 {
      %c0 = arith.constant 0 : index
      ...
      scf.for %i = %c0 to %n step %c1 {
        %0 = scf.for %j = %c0 to %c10 step %c1 iter_args(%acc = %cst) -> (f64) {
          %1 = memref.load %x[%j] : memref<?xf64>
          %2 = arith.addf %acc, %1 fastmath<reassoc,contract> : f64
          scf.yield %2 : f64
        }
        memref.store %0, %y[%i] : memref<?xf64>
      }
      %c0_i32 = arith.constant 0 : i32
      func.return %c0_i32 : i32
    }

The text depends only on the function, so that it can be a golden, and a key: names come from the
function's argument names, from constants (`%c10`, `%cst`), from the depth of a loop (`%i`, `%j`),
and from one counter.  A name may be reused after the region in which it was given.

`scf.parallel` is printed in MLIR's generic form: xDSL cannot parse the custom form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from ..garbage import ignoring
from ..program import BufferProgram, Kernel, every_step
from .instructions import INSTRUCTIONS
from .nest import F32, F64, I1, INDEX, Block, NestFunction, Operation, ScalarType, Type, Value

#: In the order in which MLIR prints them.  MLIR's other flags are never right in this compiler (`nest`).
FASTMATH_FLAGS = ("reassoc", "nsz", "arcp", "contract", "afn")

#: Printed as `op %x : f32 to f64`.
_CASTS = frozenset([i.name for i in INSTRUCTIONS.values() if i.sort == "cast"])

# Float operations of arith that take no flags in MLIR 19.
_WITHOUT_FASTMATH = _CASTS | {"arith.select", "arith.constant"}

_LOOP_NAMES = "ijklmnpq"


def print_module(
    program_or_functions: BufferProgram | Iterable[NestFunction], location: Callable[[Any], str] = lambda node: ""
) -> str:
    """One `module` of functions, each public and with a C interface; of a program its kernels, with those of bodies."""
    if isinstance(program_or_functions, BufferProgram):
        works = [step.work for step, _, _ in every_step(program_or_functions)]
        functions = list({w.function.name: w.function for w in works if isinstance(w, Kernel)}.values())
    else:
        functions = list(program_or_functions)
    defined = [print_function(f, attributes="llvm.emit_c_interface", location=location) for f in functions]
    body = "\n".join(["  " + line for part in defined for line in part.splitlines()])
    return f"module {{\n{body}\n}}\n"


def print_function(
    function: NestFunction, *, attributes: str = "", location: Callable[[Any], str] = lambda node: ""
) -> str:
    """One `func.func`.

    location   the text ` loc(...)` of an operation's node
    """
    printer = _Printer(function, location)
    arguments = ", ".join(f"{printer.names[a]}: {a.type}" for a in function.arguments)
    head = f"func.func @{function.name}({arguments}) -> i32" + (f" attributes {{{attributes}}}" if attributes else "")
    return "\n".join((f"{head} {{", *printer.block(function.body, "  "), "}"))


# ---- names ----------------------------------------------------------------------------------------


def name_values(function: NestFunction) -> dict[Value, str]:
    """The name of every value of a function, valid or not: `%x`, `%c10`, `%i`, `%3`."""
    names: dict[Value, str] = {}
    taken: set[str] = set()
    count = 0

    def give(value: Value, base: str) -> None:
        name, suffix = base, 0
        while name in taken:
            suffix += 1
            name = f"{base}_{suffix}"
        taken.add(name)
        names[value] = "%" + name

    def visit(block: Block, depth: int) -> None:
        nonlocal count
        for operation in block.operations:
            for result in operation.results:
                base = _result_name(operation)
                if not base:
                    base, count = str(count), count + 1
                give(result, base)
            outside = set(taken)
            for region in operation.regions:
                for number, argument in enumerate(region.arguments):
                    give(argument, _argument_name(number, depth))
                visit(region, depth + 1)
                taken.clear()
                taken.update(outside)

    for argument, name in zip(function.arguments, function.names, strict=False):
        give(argument, name)
    visit(function.body, 0)
    return names


def _argument_name(number: int, depth: int) -> str:
    if number > 0:
        return "acc"
    return _LOOP_NAMES[depth] if depth < len(_LOOP_NAMES) else f"i{depth}"


def _result_name(operation: Operation) -> str:
    """A descriptive name for a result, or "" if the counter names it."""
    if operation.name == "memref.alloca":
        return "scratch"
    if operation.name != "arith.constant":
        return ""
    type, value = operation.results[0].type, operation.attributes.get("value")
    if type is I1:
        return "true" if value else "false"
    if not isinstance(value, int) or type in (F32, F64):
        return "cst"
    # A minus sign may stand in a name of MLIR, but not in one of xDSL.
    digits = str(value) if value >= 0 else f"m{-value}"
    return f"c{digits}" if type is INDEX else f"c{digits}_{type}"


# ---- text -----------------------------------------------------------------------------------------


class _Printer:
    """The lines of one function."""

    def __init__(self, function: NestFunction, location: Callable[[Any], str]) -> None:
        self.names = name_values(function)
        self.location = location

    def block(self, block: Block, indent: str) -> list[str]:
        lines: list[str] = []
        for operation in block.operations:
            write = self._structured.get(operation.name)
            if write:
                lines += write(self, operation, indent)
            else:
                lines.append(indent + self._line(operation))
            lines[-1] += self.location(operation.node)
        return lines

    def _list(self, values: Iterable[Value]) -> str:
        return ", ".join(self.names[v] for v in values)

    def _line(self, operation: Operation) -> str:
        results = self._list(operation.results)
        return (f"{results} = " if results else "") + f"{operation.name}{self._tail(operation)}"

    def _tail(self, operation: Operation) -> str:
        """The text behind the name of an operation without regions."""
        name, operands = operation.name, operation.operands
        if name == "arith.constant":
            return " " + constant_text(operation.attributes["value"], operation.result.type)
        if name in _CASTS:
            return f" {self._list(operands)} : {operands[0].type} to {operation.result.type}"
        if name in ("arith.cmpf", "arith.cmpi"):
            predicate = operation.attributes["predicate"]
            return f" {predicate}, {self._list(operands)}{_fastmath(operation)} : {operands[0].type}"
        if name == "memref.load":
            memory, index = operands
            return f" {self.names[memory]}[{self.names[index]}] : {memory.type}"
        if name == "memref.store":
            value, memory, index = operands
            past = " {nontemporal = true}" if "nontemporal" in operation.attributes else ""
            return f" {self.names[value]}, {self.names[memory]}[{self.names[index]}]{past} : {memory.type}"
        if name == "memref.alloca":
            return f"() : {operation.result.type}"
        if name in ("scf.yield", "func.return", "scf.reduce"):
            return f" {self._list(operands)} : {_types(v.type for v in operands)}" if operands else ""
        return f" {self._list(operands)}{_fastmath(operation)} : {operation.result.type}"

    def _for(self, operation: Operation, indent: str) -> list[str]:
        lower, upper, step, *initial = operation.operands
        (body,) = operation.regions
        variable, *carried = body.arguments
        head = f"scf.for {self.names[variable]} = {self.names[lower]} to {self.names[upper]} step {self.names[step]}"
        if initial:
            pairs = ", ".join(f"{self.names[c]} = {self.names[i]}" for c, i in zip(carried, initial, strict=True))
            head = f"{self._list(operation.results)} = {head} iter_args({pairs})"
            head += f" -> ({_types(v.type for v in initial)})"
        return [f"{indent}{head} {{", *self._region(body, indent), f"{indent}}}"]

    def _parallel(self, operation: Operation, indent: str) -> list[str]:
        (body,) = operation.regions
        segments = "<{operandSegmentSizes = array<i32: 1, 1, 1, 0>}>"
        return [
            f'{indent}"scf.parallel"({self._list(operation.operands)}) {segments} ({{',
            f"{indent}^bb0({self.names[body.arguments[0]]}: index):",
            *self.block(body, indent + "  "),
            f"{indent}}}) : (index, index, index) -> ()",
        ]

    def _region(self, block: Block, indent: str) -> list[str]:
        """The lines inside of braces, without an empty yield, which MLIR implies."""
        lines = self.block(block, indent + "  ")
        last = block.operations[-1]
        return lines[:-1] if last.name == "scf.yield" and not last.operands else lines

    _structured: ClassVar[dict[str, Callable]] = {"scf.for": _for, "scf.parallel": _parallel}


def _types(types: Iterable[Type | str]) -> str:
    return ", ".join(map(str, types))


def _fastmath(operation: Operation) -> str:
    flags = operation.attributes.get("fastmath", ())
    if not flags or operation.name in _WITHOUT_FASTMATH:
        return ""
    return f" fastmath<{','.join(f for f in FASTMATH_FLAGS if f in flags)}>"


def constant_text(value: bool | int | float, type: Type) -> str:
    """A constant as MLIR writes it: `true`, `3 : i32`, `1.0e-05 : f64`, `0x7FF0000000000000 : f64`."""
    if type is I1:
        return "true" if value else "false"
    if not isinstance(type, ScalarType) or not type.is_float:
        return f"{int(value)} : {type}"
    return f"{_float_text(float(value), type)} : {type}"


def _float_text(value: float, type: ScalarType) -> str:
    """The shortest decimal that reads back as the same bits; the bits themselves of a number without a decimal."""
    if type is F32:
        with ignoring(over="ignore"):
            single = np.float32(value)
        if not np.isfinite(single):
            return f"0x{struct.pack('>f', single).hex().upper()}"
        text = str(single)
    else:
        if not np.isfinite(value):
            return f"0x{struct.pack('>d', value).hex().upper()}"
        text = repr(value)
    if "e" not in text:
        return text
    # MLIR requires the decimal point that Python omits: 1e-05.
    digits, exponent = text.split("e")
    return f"{digits if '.' in digits else digits + '.0'}e{exponent}"
