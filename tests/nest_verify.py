"""Checking the loop level: what `nest` promises, found broken before LLVM is asked.

    Function  ->  nothing, or InvalidFunction that shows the operation in MLIR's words

    f, in scf.for, in func.func:
      %2 = "arith.addf"(%acc, %1) : (f64, f32) -> (f64)
      operand types differ: f64, f32

Checked: the function's signature, every operation's operand and result types, attributes and
regions, the terminator of every block, that a value is visible where it is used, that what is
written may be written.  What MLIR would accept and `nest` does not (an i1 in memory, `nnan`, a
loop over i32) is refused too, so a function that passes here passes `mlir-opt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from codegen.kernel.instructions import FLOATS, INSTRUCTIONS, INTEGERS
from codegen.kernel.mlir import FASTMATH_FLAGS, name_values
from codegen.kernel.nest import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    INDEX,
    Block,
    MemRef,
    NestFunction,
    Operation,
    ScalarType,
    Type,
    Value,
    known_integer,
)

__all__ = ["InvalidFunction", "verify_function"]


class InvalidFunction(AssertionError):
    """A function of the loop level that breaks a rule: a defect of the compiler, never of the user."""


class _Broken(Exception):
    """Why, before it is known where."""


def verify_function(function: NestFunction) -> None:
    """Return if `function` keeps every rule of `nest`.  Raises InvalidFunction otherwise."""
    _Verifier(function).run()


def _expect(condition: bool, why: str) -> None:
    if not condition:
        raise _Broken(why)


# ---- the types of an operation, by its name ------------------------------------------------------

Rule = Callable[[Operation], None]


def _counts(operation: Operation, operands: int, results: int, regions: int = 0) -> None:
    for what, found, wanted in (
        ("operands", operation.operands, operands),
        ("results", operation.results, results),
        ("regions", operation.regions, regions),
    ):
        _expect(len(found) == wanted, f"{len(found)} {what}, not {wanted}")


def _listed(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types))


def _alike(count: int, kinds: tuple[ScalarType, ...]) -> Rule:
    """`count` operands and one result of one type among `kinds`."""

    def rule(operation: Operation) -> None:
        _counts(operation, count, 1)
        types = [v.type for v in operation.operands]
        _expect(len(set(types)) == 1, f"operand types differ: {_listed(types)}")
        _expect(types[0] in kinds, f"works on {_listed(kinds)}, not on {types[0]}")
        _expect(operation.result.type is types[0], f"gives {types[0]}, not {operation.result.type}")

    return rule


def _compare(kinds: tuple[ScalarType, ...], predicates: str) -> Rule:
    def rule(operation: Operation) -> None:
        _counts(operation, 2, 1)
        a, b = (v.type for v in operation.operands)
        _expect(a is b, f"operand types differ: {a}, {b}")
        _expect(a in kinds, f"compares {_listed(kinds)}, not {a}")
        _expect(operation.result.type is I1, f"gives i1, not {operation.result.type}")
        predicate = operation.attributes.get("predicate")
        _expect(predicate in predicates.split(), f"no such predicate: {predicate!r}")

    return rule


def _cast(allowed: Callable[[ScalarType, ScalarType], bool], what: str) -> Rule:
    def rule(operation: Operation) -> None:
        _counts(operation, 1, 1)
        source, target = operation.operands[0].type, operation.result.type
        _expect(
            isinstance(source, ScalarType) and isinstance(target, ScalarType) and allowed(source, target),
            f"takes {what}, not {source} to {target}",
        )

    return rule


def _is_integer(type: ScalarType) -> bool:
    return not type.is_float and type is not INDEX


def _constant(operation: Operation) -> None:
    _counts(operation, 0, 1)
    type, value = operation.result.type, operation.attributes.get("value")
    if not isinstance(type, ScalarType):
        raise _Broken(f"a constant is a scalar, not {type}")
    if not isinstance(value, int | float if type.is_float else int):
        raise _Broken(f"{value!r} is no {type}")
    if type.is_float:
        return
    low, high = (0, 1) if type is I1 else (-(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1)
    _expect(low <= value <= high, f"{value} does not fit {type}")


def _select(operation: Operation) -> None:
    _counts(operation, 3, 1)
    condition, a, b = (v.type for v in operation.operands)
    _expect(condition is I1, f"the condition is {condition}, not i1")
    _expect(a == b, f"operand types differ: {a}, {b}")
    _expect(operation.result.type == a, f"gives {a}, not {operation.result.type}")


def _address(memory: Type, indices: list[Value]) -> MemRef:
    if not isinstance(memory, MemRef):
        raise _Broken(f"{memory} is no memref")
    _expect(len(indices) == 1, f"{len(indices)} indices into {memory}")
    for index in indices:
        _expect(index.type is INDEX, f"an index of type {index.type}")
    return memory


def _load(operation: Operation) -> None:
    _expect(bool(operation.operands), "no memref")
    _counts(operation, len(operation.operands), 1)
    memory, *indices = operation.operands
    element = _address(memory.type, indices).element
    _expect(operation.result.type is element, f"gives {element}, not {operation.result.type}")


def _store(operation: Operation) -> None:
    _expect(len(operation.operands) >= 2, "no value or no memref")
    _counts(operation, len(operation.operands), 0)
    value, memory, *indices = operation.operands
    element = _address(memory.type, indices).element
    _expect(value.type is element, f"stores {value.type} into memory of {element}")


def _alloca(operation: Operation) -> None:
    _counts(operation, 0, 1)
    type = operation.result.type
    _expect(isinstance(type, MemRef), f"gives a memref, not {type}")
    _expect(type.size is not None, "scratch of an unknown size")


def _yields(block: Block, terminator: str, types: list[Type]) -> None:
    """The block ends in `terminator` with operands of these types."""
    _expect(bool(block.operations), "an empty block")
    last = block.operations[-1]
    _expect(last.name == terminator, f"a block ends in {last.name}, not in {terminator}")
    found = [v.type for v in last.operands]
    _expect(found == types, f"{terminator} of ({_listed(found)}) where ({_listed(types)}) is expected")


def _steps_by_one(step: Value) -> None:
    _expect(known_integer(step) == 1, "a step that is not 1")


def _for(operation: Operation) -> None:
    _expect(len(operation.operands) >= 3, "lower, upper and step are needed")
    carried = [v.type for v in operation.operands[3:]]
    _counts(operation, len(operation.operands), len(carried), regions=1)
    bounds = [v.type for v in operation.operands[:3]]
    _expect(bounds == [INDEX] * 3, f"lower, upper and step are index, not {_listed(bounds)}")
    _steps_by_one(operation.operands[2])
    results = [v.type for v in operation.results]
    _expect(results == carried, f"carries ({_listed(carried)}) but gives ({_listed(results)})")
    (body,) = operation.regions
    arguments = [v.type for v in body.arguments]
    _expect(arguments == [INDEX, *carried], f"a body of ({_listed(arguments)}), not of ({_listed([INDEX, *carried])})")
    _yields(body, "scf.yield", carried)


def _parallel(operation: Operation) -> None:
    _counts(operation, 3, 0, regions=1)
    (body,) = operation.regions
    types = [v.type for v in (*operation.operands, *body.arguments)]
    _expect(types == [INDEX] * 4, f"bounds and an induction variable are index, not {_listed(types)}")
    _steps_by_one(operation.operands[2])
    _yields(body, "scf.reduce", [])


def _terminator(operation: Operation) -> None:
    # Its operands are checked by the operation around it.
    _counts(operation, len(operation.operands), 0)


_TERMINATORS = ("scf.yield", "scf.reduce", "func.return")

_RULES: dict[str, Rule] = {
    **{i.name: _alike(i.operands, i.kinds) for i in INSTRUCTIONS.values() if i.numpy},
    "arith.cmpf": _compare(FLOATS, "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true"),
    "arith.cmpi": _compare(INTEGERS, "eq ne slt sle sgt sge ult ule ugt uge"),
    "arith.constant": _constant,
    "arith.select": _select,
    "arith.index_cast": _cast(
        lambda a, b: (a is INDEX and _is_integer(b)) or (b is INDEX and _is_integer(a)), "index to an integer, or back"
    ),
    **dict.fromkeys(
        ("arith.sitofp", "arith.uitofp"), _cast(lambda a, b: _is_integer(a) and b.is_float, "an integer to a float")
    ),
    "arith.fptosi": _cast(lambda a, b: a.is_float and _is_integer(b), "a float to an integer"),
    "arith.extf": _cast(lambda a, b: a is F32 and b is F64, "f32 to f64"),
    "arith.truncf": _cast(lambda a, b: a is F64 and b is F32, "f64 to f32"),
    **dict.fromkeys(
        ("arith.extsi", "arith.extui"),
        _cast(lambda a, b: _is_integer(a) and _is_integer(b) and a.bits < b.bits, "an integer to a wider one"),
    ),
    "arith.trunci": _cast(
        lambda a, b: _is_integer(a) and _is_integer(b) and a.bits > b.bits, "an integer to a narrower one"
    ),
    "arith.bitcast": _cast(
        lambda a, b: INDEX not in (a, b) and a.bits == b.bits, "a float or an integer to one of the same width"
    ),
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloca": _alloca,
    "scf.for": _for,
    "scf.parallel": _parallel,
    **dict.fromkeys(_TERMINATORS, _terminator),
}


# ---- a function ----------------------------------------------------------------------------------


class _Verifier:
    """One function: its signature, then every block with the values that are visible there."""

    def __init__(self, function: NestFunction) -> None:
        self.function = function
        self.names = name_values(function)
        self.visible: set[Value] = set()
        self.seen: set[Operation] = set()
        self.where = ["func.func"]
        # The memory that may be stored to; allocas join it.
        self.writable = {a for place, a in enumerate(function.arguments) if place in function.writes}

    def run(self) -> None:
        try:
            self._signature()
            _yields(self.function.body, "func.return", [I32])
        except _Broken as why:
            raise InvalidFunction(f"{self.function.name}: {why}") from None
        self._block(self.function.body)

    def _signature(self) -> None:
        function = self.function
        types = [a.type for a in function.arguments]
        _expect(_is_symbol(function.name), f"{function.name!r} is no symbol")
        _expect(len(function.names) == len(types), f"{len(function.names)} names for {len(types)} arguments")
        _expect(len(set(function.names)) == len(types), f"a name stands twice: {', '.join(function.names)}")
        for name in function.names:
            _expect(_is_symbol(name), f"{name!r} is no name of an argument")
        memrefs = [t for t in types if isinstance(t, MemRef)]
        expected = [*memrefs, *[INDEX] * (len(types) - len(memrefs))]
        _expect(types == expected, f"arguments are memrefs, then indices, not {_listed(types)}")
        writes = sorted(function.writes)
        _expect(set(writes) <= set(range(len(memrefs))), f"writes {writes} of {len(memrefs)} memrefs")
        for type in memrefs:
            self._memref(type)

    def _memref(self, type: MemRef) -> None:
        _expect(
            type.element in (I8, I32, I64, *FLOATS), f"memory of {type.element}; it holds i8 (bool), i32, i64, f32, f64"
        )
        _expect(type.size is None or (isinstance(type.size, int) and type.size >= 0), f"a size of {type.size!r}")

    def _block(self, block: Block) -> None:
        added: list[Value] = [*block.arguments]
        self.visible.update(added)
        for place, operation in enumerate(block.operations):
            try:
                self._operation(operation, is_last=place == len(block.operations) - 1)
            except _Broken as why:
                raise InvalidFunction(self._message(operation, str(why))) from None
            self.where.append(operation.name)
            for region in operation.regions:
                self._block(region)
            self.where.pop()
            self.visible.update(operation.results)
            added += operation.results
        self.visible.difference_update(added)

    def _operation(self, operation: Operation, is_last: bool) -> None:
        rule = _RULES.get(operation.name)
        if rule is None:
            raise _Broken("no such operation at the loop level")
        _expect(operation not in self.seen, "an operation stands in two places")
        self.seen.add(operation)
        for number, operand in enumerate(operation.operands):
            _expect(operand in self.visible, f"operand {number} is not visible here")
        for value in operation.results:
            _expect(value.owner is operation, "a result belongs to another operation")
        for region in operation.regions:
            _expect(all(a.owner is region for a in region.arguments), "an argument belongs to another block")
        _expect((operation.name in _TERMINATORS) <= is_last, "a terminator in the middle of a block")
        rule(operation)
        self._fastmath(operation)
        if operation.name == "memref.store":
            _expect(operation.operands[1] in self.writable, "the function does not say that it writes this argument")
        elif operation.name == "memref.alloca":
            self._memref(operation.result.type)
            self.writable.add(operation.result)

    def _fastmath(self, operation: Operation) -> None:
        flags = operation.attributes.get("fastmath", frozenset())
        if not flags:
            return
        _expect(set(flags) <= set(FASTMATH_FLAGS), f"fastmath is of {', '.join(FASTMATH_FLAGS)}, not {sorted(flags)}")
        is_float = all(v.type in FLOATS for v in operation.operands)
        _expect(is_float and operation.name.startswith(("arith.", "math.")), "fastmath on what is no float operation")

    def _message(self, operation: Operation, why: str) -> str:
        place = "".join(f", in {name}" for name in reversed(self.where))
        return f"{self.function.name}{place}:\n  {_generic_text(operation, self.names)}\n  {why}"


def _generic_text(operation: Operation, names: dict[Value, str]) -> str:
    """One operation in MLIR's generic form, its regions left out.  It prints what is wrong, too."""
    operands = ", ".join(names.get(v, "%<unknown>") for v in operation.operands)
    results = ", ".join(names.get(v, "%<unknown>") for v in operation.results)
    attributes = ", ".join(
        f"{k} = {sorted(v) if isinstance(v, frozenset | set) else v!r}" for k, v in sorted(operation.attributes.items())
    )
    return (
        (f"{results} = " if results else "")
        + f'"{operation.name}"({operands})'
        + (f" {{{attributes}}}" if attributes else "")
        + (" (" + ", ".join("{...}" for _ in operation.regions) + ")" if operation.regions else "")
        + f" : ({_listed([v.type for v in operation.operands])}) -> ({_listed([v.type for v in operation.results])})"
    )


def _is_symbol(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
