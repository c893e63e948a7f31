"""Write an LLVM function of numbers, or of vectors of numbers, as Python arithmetic.

    k = FunctionCode("f64", target, 8)
    x = k.argument("x")
    y = k.mad(x, x, 1.0) / x            # appends three instructions
    k.text("half", [x], [y])            # define internal <8 x double> @half.v8f64(<8 x double> %x) { ... }

A `Lane` is an SSA value; operators append an instruction and return its result.  Python numbers
become constants of the other operand's type.  No fast-math flag is ever set: these functions rely
on the order of their operations, and only `mad`, used where that does not matter, may be fused.
The Python code does not depend on the number of lanes, which is the same for all terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..target import Target
from ..types import definition, float_literal, intrinsic_suffix, splat, struct_type, vector_type

Number = int | float


Operator = Callable[["Lane", "Lane | Number"], "Lane"]


def _operator(of_floats: str, of_integers: str = "", type: str = "", is_mirrored: bool = False) -> Operator:
    """An operator that appends an instruction, whose result is of the lane's own type or of a given one."""

    def operator(self: Lane, other: Lane | Number) -> Lane:
        opcode = of_floats if self.is_float else of_integers
        assert opcode, f"no such operation on {self.type}"
        left, right = self.name, self.code.like(other, self).name
        operands = f"{right}, {left}" if is_mirrored else f"{left}, {right}"
        return self.code.append(f"{opcode} {self.code.spelled(self.type)} {operands}", type or self.type)

    return operator


def _comparison(of_floats: str, of_integers: str) -> Operator:
    return _operator(f"fcmp {of_floats}", f"icmp {of_integers}", "i1")


def _mirrored(of_floats: str, of_integers: str = "") -> Operator:
    return _operator(of_floats, of_integers, is_mirrored=True)


class Lane:
    """One SSA value of the function being written.  `type` is that of a lane: "double", "float", "i64", "i32", "i1"."""

    __slots__ = ("code", "name", "type")

    def __init__(self, code: FunctionCode, name: str, type: str) -> None:
        self.code, self.name, self.type = code, name, type

    @property
    def is_float(self) -> bool:
        return self.type in ("double", "float")

    def __neg__(self) -> Lane:
        return self.code.append(f"fneg {self.code.spelled(self.type)} {self.name}", self.type)

    __add__, __sub__, __mul__ = map(_operator, ("fadd", "fsub", "fmul"), ("add", "sub", "mul"))
    __radd__, __rsub__, __rmul__ = map(_mirrored, ("fadd", "fsub", "fmul"), ("add", "sub", "mul"))
    __truediv__, __rtruediv__ = _operator("fdiv"), _mirrored("fdiv")
    __and__, __or__, __xor__, __lshift__ = map(_operator, [""] * 4, ("and", "or", "xor", "shl"))
    #: A logical shift, which fills with zeros: AVX2 has no arithmetic shift of 64-bit integers.
    __rshift__ = _operator("", "lshr")
    # Comparisons of floats are false for nan, except `differs`, which is true.
    __lt__, __gt__, __ge__ = map(_comparison, ("olt", "ogt", "oge"), ("slt", "sgt", "sge"))
    equals, differs, _unordered = map(_comparison, ("oeq", "une", "uno"), ("eq", "ne", ""))

    def is_nan(self) -> Lane:
        return self._unordered(self)


class FunctionCode:
    """One function of f64 or f32 under construction.

    target          the machine; without a fused multiply-add instruction, `fma` must not be called
    lanes           the number of lanes of each term; 1: scalars
    float, int      the LLVM types of its numbers and of their bits
    mantissa, bias  the mantissa's bits and the exponent's bias in the floating-point format
    """

    def __init__(self, suffix: str, target: Target, lanes: int = 1) -> None:
        self.suffix, self.target, self.lanes = suffix, target, lanes
        self.has_fma = target.has_fma
        self.double = suffix == "f64"
        self.float, self.int = ("double", "i64") if self.double else ("float", "i32")
        self.mantissa, self.bias = (52, 1023) if self.double else (23, 127)
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self._made: dict[str, str] = {}

    def of_doubles(self) -> FunctionCode:
        """A view of this function as one of f64: instructions appended to either one are lines of both."""
        wide = FunctionCode("f64", self.target, self.lanes)
        wide.lines, wide.declarations, wide._made = self.lines, self.declarations, self._made
        return wide

    # ---- values ----

    def spelled(self, type: str) -> str:
        """The type of a whole term whose lanes have this type: <8 x double>."""
        return vector_type(type, self.lanes)

    def argument(self, name: str) -> Lane:
        """A parameter, of the function's float type."""
        return Lane(self, f"%{name}", self.float)

    def constant(self, value: Number, type: str = "") -> Lane:
        """A number of a type, by default the function's float type."""
        type = type or self.float
        if type in ("double", "float"):
            text = float_literal(float(value), single=type == "float")
        else:
            assert isinstance(value, int)
            text = str(value) if type != "i1" else "true" if value else "false"
        return Lane(self, splat(type, text, self.lanes), type)

    def like(self, value: Lane | Number, other: Lane) -> Lane:
        """A number as a constant of another term's type; a term unchanged."""
        if not isinstance(value, Lane):
            return self.constant(value, other.type)
        assert value.type == other.type, f"{value.type} meets {other.type}"
        return value

    def pick(self, of_doubles, of_floats):
        """The first value in a function of f64, the second in one of f32."""
        return of_doubles if self.double else of_floats

    def append(self, instruction: str, type: str) -> Lane:
        """The result of an instruction, which is appended unless the function has it already."""
        name = self._made.get(instruction)
        if name is None:
            name = self._made[instruction] = f"%t.{len(self.lines)}"
            self.lines.append(f"  {name} = {instruction}")
        return Lane(self, name, type)

    # ---- operations ----

    def intrinsic(self, name: str, *operands: Lane) -> Lane:
        """A call of an LLVM intrinsic whose operands and result are of one type."""
        type = operands[0].type
        spelled = self.spelled(type)
        callee = f"llvm.{name}.{intrinsic_suffix('f64' if type == 'double' else 'f32', self.lanes)}"
        self.declarations[callee] = f"declare {spelled} @{callee}({', '.join([spelled] * len(operands))})"
        return self.append(f"call {spelled} @{callee}({', '.join(f'{spelled} {o.name}' for o in operands)})", type)

    def mad(self, a: Lane, b: Lane | Number, c: Lane | Number) -> Lane:
        """a * b + c, rounded once or twice."""
        return self.intrinsic("fmuladd", a, self.like(b, a), self.like(c, a))

    def fma(self, a: Lane, b: Lane | Number, c: Lane | Number) -> Lane:
        """a * b + c, rounded once."""
        assert self.has_fma, "fma is a library call on this machine"
        return self.intrinsic("fma", a, self.like(b, a), self.like(c, a))

    def abs(self, x: Lane) -> Lane:
        return self.intrinsic("fabs", x)

    def sqrt(self, x: Lane) -> Lane:
        return self.intrinsic("sqrt", x)

    def floor(self, x: Lane) -> Lane:
        return self.intrinsic("floor", x)

    def select(self, condition: Lane, then: Lane | Number, otherwise: Lane | Number) -> Lane:
        known = then if isinstance(then, Lane) else otherwise
        assert isinstance(known, Lane), "one arm must have a type"
        then, otherwise = self.like(then, known), self.like(otherwise, known)
        type = self.spelled(known.type)
        return self.append(
            f"select {self.spelled('i1')} {condition.name}, {type} {then.name}, {type} {otherwise.name}", known.type
        )

    def at_most(self, x: Lane, bound: float) -> Lane:
        """min(x, bound); nan stays."""
        return self.select(x > bound, bound, x)

    def at_least(self, x: Lane, bound: float) -> Lane:
        """max(x, bound); nan stays."""
        return self.select(x < bound, bound, x)

    def bits(self, x: Lane) -> Lane:
        """A float's bits as an integer."""
        target = {"double": "i64", "float": "i32"}[x.type]
        return self.append(f"bitcast {self.spelled(x.type)} {x.name} to {self.spelled(target)}", target)

    def from_bits(self, n: Lane) -> Lane:
        """The float with these bits."""
        target = {"i64": "double", "i32": "float"}[n.type]
        return self.append(f"bitcast {self.spelled(n.type)} {n.name} to {self.spelled(target)}", target)

    def convert(self, x: Lane, type: str) -> Lane:
        """Between float and double, and from i64 to i32."""
        opcode = {"double": "fpext", "float": "fptrunc", "i32": "trunc"}[type]
        return self.append(f"{opcode} {self.spelled(x.type)} {x.name} to {self.spelled(type)}", type)

    def polynomial(self, x: Lane, coefficients: Sequence[float]) -> Lane:
        """sum c[k] x**k by Horner's scheme; of long polynomials the even and the odd terms are added up apart.

        Estrin's tree has a shorter chain but more multiplications, which loops wait for: erf f64 2.23 ns, not 2.03.
        """
        if len(coefficients) < 8:
            return self._horner(x, coefficients)
        square = x * x
        return self.mad(self._horner(square, coefficients[1::2]), x, self._horner(square, coefficients[::2]))

    def _horner(self, x: Lane, coefficients: Sequence[float]) -> Lane:
        *others, last = coefficients
        total = self.constant(last, x.type)
        for c in reversed(others):
            total = self.mad(total, x, c)
        return total

    def power_of_two(self, n: Lane) -> Lane:
        """2**n for an integer term n with 1 - bias <= n <= bias."""
        return self.from_bits((n + self.bias) << self.mantissa)

    # ---- instructions that only AVX-512 has (`target.has_scale`) ----

    @property
    def fills_registers(self) -> bool:
        """True if the machine has these instructions, and a term fills one or several registers."""
        return self.target.has_scale and self.lanes * (8 if self.double else 4) % self.target.vector_bytes == 0

    def scaled(self, x: Lane, n: Lane) -> Lane:
        """x * 2**floor(n) for a float n, correct also if the result is subnormal or overflows."""
        return self._by_register("scalef", (x, n), "")

    def exponent(self, x: Lane) -> Lane:
        """floor(log2(|x|)) as a float, also of a subnormal; -inf of 0."""
        return self._by_register("getexp", (x,), "")

    def mantissa_of(self, x: Lane) -> Lane:
        """x / 2**exponent(x), in [1, 2), for x > 0."""
        return self._by_register("getmant", (x,), "i32 0, ")

    def lookup(self, table: Sequence[float], index: Lane) -> Lane:
        """table[index], for a table that fills two registers; higher bits of the index are ignored."""
        lanes = self.target.vector_bytes // (8 if self.double else 4)
        assert len(table) == 2 * lanes, "a table of two registers"
        type, places = vector_type(self.float, lanes), vector_type(self.int, lanes)
        callee = f"llvm.x86.avx512.vpermi2var.{self.pick('pd', 'ps')}.512"
        self.declarations[callee] = f"declare {type} @{callee}({type}, {places}, {type})"
        low, high = (self._listed(table[first : first + lanes]) for first in (0, lanes))
        parts = []
        for first in range(0, self.lanes, lanes):
            passed = f"{type} {low}, {places} {self._part(index, first, lanes).name}, {type} {high}"
            parts.append(self.append(f"call {type} @{callee}({passed})", self.float))
        return self.joined(parts, lanes)

    def _listed(self, values: Sequence[float]) -> str:
        """A constant with these lanes."""
        numbers = [f"{self.float} {float_literal(v, single=not self.double)}" for v in values]
        return f"<{', '.join(numbers)}>"

    def mantissa_near_one(self, x: Lane) -> Lane:
        """x / 2**n in [3/4, 3/2) for x > 0; 1 of 0 and inf, nan below 0."""
        return self._by_register("getmant", (x,), "i32 11, ")

    def _by_register(self, name: str, operands: tuple[Lane, ...], setting: str) -> Lane:
        """Apply an instruction to each register of the operands, and join the results to one term."""
        lanes = self.target.vector_bytes // (8 if self.double else 4)
        type, mask = vector_type(self.float, lanes), f"i{lanes}"
        callee = f"llvm.x86.avx512.mask.{name}.{self.pick('pd', 'ps')}.512"
        types = [*[type] * len(operands), *["i32"] * bool(setting), type, mask, "i32"]
        self.declarations[callee] = f"declare {type} @{callee}({', '.join(types)})"
        parts = []
        for first in range(0, self.lanes, lanes):
            passed = "".join(f"{type} {self._part(x, first, lanes).name}, " for x in operands)
            # The mask has all lanes, so that the zeros are not used; 4 is the current rounding mode.
            text = f"call {type} @{callee}({passed}{setting}{type} zeroinitializer, {mask} -1, i32 4)"
            parts.append(self.append(text, self.float))
        return self.joined(parts, lanes)

    def joined(self, parts: list[Lane], lanes: int) -> Lane:
        """Parts of `lanes` lanes each, joined to one term."""
        while len(parts) > 1:
            lanes *= 2
            joined = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffled(a, b, lanes // 2, range(lanes)) for a, b in joined]
        return parts[0]

    def _part(self, x: Lane, first: int, lanes: int) -> Lane:
        """`lanes` lanes of a term, from `first` on."""
        return x if lanes == self.lanes else self.shuffled(x, x, self.lanes, range(first, first + lanes))

    def shuffled(self, a: Lane, b: Lane, lanes: int, order: Sequence[int]) -> Lane:
        type, places = vector_type(a.type, lanes), ", ".join(f"i32 {j}" for j in order)
        return self.append(f"shufflevector {type} {a.name}, {type} {b.name}, <{len(order)} x i32> <{places}>", a.type)

    # ---- bits ----

    def sign_of(self, x: Lane) -> Lane:
        """The sign bit of a float, in its place."""
        return self.bits(x) & self.sign_mask

    def with_sign(self, magnitude: Lane, sign: Lane) -> Lane:
        """The float with its sign flipped where `sign` has the sign bit."""
        return self.from_bits(self.bits(magnitude) ^ sign)

    @property
    def sign_mask(self) -> int:
        return -(1 << (63 if self.double else 31))

    # ---- the only operation that is not straight-line arithmetic ----

    def otherwise_call(
        self, condition: Lane, callee: str, operands: Sequence[Lane], results: Sequence[Lane]
    ) -> list[Lane]:
        """The results; but if the condition holds for any lane, those of the callee, called on operands and results.

        The branch is never taken on ordinary numbers; the callee is marked cold.
        """
        type, test = self.spelled(results[0].type), condition.name
        passed = ", ".join(f"{type} {x.name}" for x in (*operands, *results))
        if self.lanes > 1:
            mask = f"i{self.lanes}"
            packed = self.append(f"bitcast {self.spelled('i1')} {test} to {mask}", mask)
            test = self.append(f"icmp ne {mask} {packed.name}, 0", "i1").name
        self.lines += [f"  br i1 {test}, label %rare, label %end", "rare:"]
        whole = struct_type(type, len(results))
        found = self.append(f"call {whole} @{callee}({passed})", results[0].type)
        called = [found] if len(results) == 1 else [
            self.append(f"extractvalue {whole} {found.name}, {j}", r.type) for j, r in enumerate(results)
        ]  # fmt: skip
        self.lines += ["  br label %end", "end:"]
        return [
            self.append(f"phi {type} [ {result.name}, %entry ], [ {rare.name}, %rare ]", result.type)
            for result, rare in zip(results, called, strict=True)
        ]

    # ---- the finished function ----

    def name_of(self, name: str) -> str:
        """The name of a function of this type and number of lanes: exp.f64, exp.v8f64."""
        return f"{name}.{intrinsic_suffix(self.suffix, self.lanes)}"

    def text(self, name: str, parameters: Sequence[Lane], results: Sequence[Lane]) -> str:
        """The function as LLVM IR; it returns several results as a struct."""
        body, found = "\n".join(["entry:", *self.lines, ""]), [r.name for r in results]
        parameter_names = [p.name for p in parameters]
        return definition(self.name_of(name), self.spelled(self.float), parameter_names, body, found, "alwaysinline")
