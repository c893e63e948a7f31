"""Writing a scalar LLVM function as Python arithmetic.

    k = Code("f64", has_fma=True)
    x = k.argument("x")
    y = k.mad(x, x, 1.0) / x            # appends three instructions
    k.text("half", [x], y)              # define internal double @half.f64(double %x) { ... }

A `Term` is an SSA value; operators append an instruction and give a new one.  Python numbers
become constants of the other operand's type.  No fast-math flag is ever set: these functions are
exact about the order of their operations, and only `mad` may be fused, where it does not matter.
Everything is straight-line, so that a loop around it vectorises.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import float_literal

__all__ = ["Code", "Term"]

Number = int | float


class Term:
    """One SSA value of the function being written.  `type`: "double", "float", "i64", "i32", "i1"."""

    __slots__ = ("code", "name", "type")

    def __init__(self, code: Code, name: str, type: str) -> None:
        self.code, self.name, self.type = code, name, type

    @property
    def is_float(self) -> bool:
        return self.type in ("double", "float")

    def _binary(self, of_floats: str, of_integers: str, other: Term | Number) -> Term:
        opcode = of_floats if self.is_float else of_integers
        assert opcode, f"no such operation on {self.type}"
        return self.code.append(f"{opcode} {self.type} {self.name}, {self.code.like(other, self).name}", self.type)

    def _reversed(self, of_floats: str, of_integers: str, other: Number) -> Term:
        return self.code.like(other, self)._binary(of_floats, of_integers, self)

    def __add__(self, other: Term | Number) -> Term:
        return self._binary("fadd", "add", other)

    def __radd__(self, other: Number) -> Term:
        return self._reversed("fadd", "add", other)

    def __sub__(self, other: Term | Number) -> Term:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Term:
        return self._reversed("fsub", "sub", other)

    def __mul__(self, other: Term | Number) -> Term:
        return self._binary("fmul", "mul", other)

    def __rmul__(self, other: Number) -> Term:
        return self._reversed("fmul", "mul", other)

    def __truediv__(self, other: Term | Number) -> Term:
        return self._binary("fdiv", "", other)

    def __rtruediv__(self, other: Number) -> Term:
        return self._reversed("fdiv", "", other)

    def __neg__(self) -> Term:
        return self.code.append(f"fneg {self.type} {self.name}", self.type)

    def __and__(self, other: Term | Number) -> Term:
        return self._binary("", "and", other)

    def __or__(self, other: Term | Number) -> Term:
        return self._binary("", "or", other)

    def __xor__(self, other: Term | Number) -> Term:
        return self._binary("", "xor", other)

    def __lshift__(self, bits: int) -> Term:
        return self._binary("", "shl", bits)

    def __rshift__(self, bits: int) -> Term:
        """Zeros come in from the left: AVX2 has no arithmetic shift of 64-bit integers."""
        return self._binary("", "lshr", bits)

    def _compare(self, of_floats: str, of_integers: str, other: Term | Number) -> Term:
        test = f"fcmp {of_floats}" if self.is_float else f"icmp {of_integers}"
        return self.code.append(f"{test} {self.type} {self.name}, {self.code.like(other, self).name}", "i1")

    # Comparisons of floats are false for nan, but `differs`.

    def __lt__(self, other: Term | Number) -> Term:
        return self._compare("olt", "slt", other)

    def __gt__(self, other: Term | Number) -> Term:
        return self._compare("ogt", "sgt", other)

    def __le__(self, other: Term | Number) -> Term:
        return self._compare("ole", "sle", other)

    def __ge__(self, other: Term | Number) -> Term:
        return self._compare("oge", "sge", other)

    def equals(self, other: Term | Number) -> Term:
        return self._compare("oeq", "eq", other)

    def differs(self, other: Term | Number) -> Term:
        return self._compare("une", "ne", other)

    def is_nan(self) -> Term:
        return self._compare("uno", "", self)


class Code:
    """One function of f64 or f32 under construction.

    float, int      the LLVM types of its numbers and of their bits
    mantissa, bias  of the floating-point format
    has_fma         whether `fma` may be asked for: without the instruction it is a library call
    """

    def __init__(self, suffix: str, *, has_fma: bool) -> None:
        self.suffix, self.has_fma = suffix, has_fma
        self.double = suffix == "f64"
        self.float, self.int = ("double", "i64") if self.double else ("float", "i32")
        self.mantissa, self.bias = (52, 1023) if self.double else (23, 127)
        self.lines: list[str] = []
        self.count = 0
        self.declarations: dict[str, str] = {}

    # ---- values ----

    def argument(self, name: str) -> Term:
        """A parameter, of the function's float type."""
        return Term(self, f"%{name}", self.float)

    def constant(self, value: Number, type: str = "") -> Term:
        """A number of a type, by default the function's float type."""
        type = type or self.float
        if type in ("double", "float"):
            return Term(self, float_literal(float(value), single=type == "float"), type)
        if type == "i1":
            return Term(self, "true" if value else "false", type)
        assert isinstance(value, int)
        return Term(self, str(value), type)

    def like(self, value: Term | Number, other: Term) -> Term:
        """A number as a constant of another term's type; a term as it is."""
        if not isinstance(value, Term):
            return self.constant(value, other.type)
        assert value.type == other.type, f"{value.type} meets {other.type}"
        return value

    def pick(self, of_doubles, of_floats):
        """What belongs to the function's type."""
        return of_doubles if self.double else of_floats

    def append(self, instruction: str, type: str) -> Term:
        self.count += 1
        name = f"%t.{self.count}"
        self.lines.append(f"  {name} = {instruction}")
        return Term(self, name, type)

    # ---- operations ----

    def intrinsic(self, name: str, *operands: Term) -> Term:
        """A call of an LLVM intrinsic whose operands and result are of one type."""
        type = operands[0].type
        callee = f"llvm.{name}.{'f64' if type == 'double' else 'f32'}"
        self.declarations[callee] = f"declare {type} @{callee}({', '.join([type] * len(operands))})"
        return self.append(f"call {type} @{callee}({', '.join(f'{type} {o.name}' for o in operands)})", type)

    def mad(self, a: Term, b: Term | Number, c: Term | Number) -> Term:
        """a * b + c, rounded once or twice."""
        return self.intrinsic("fmuladd", a, self.like(b, a), self.like(c, a))

    def fma(self, a: Term, b: Term | Number, c: Term | Number) -> Term:
        """a * b + c, rounded once."""
        assert self.has_fma, "fma is a library call on this machine"
        return self.intrinsic("fma", a, self.like(b, a), self.like(c, a))

    def abs(self, x: Term) -> Term:
        return self.intrinsic("fabs", x)

    def sqrt(self, x: Term) -> Term:
        return self.intrinsic("sqrt", x)

    def floor(self, x: Term) -> Term:
        return self.intrinsic("floor", x)

    def select(self, condition: Term, then: Term | Number, otherwise: Term | Number) -> Term:
        known = then if isinstance(then, Term) else otherwise
        assert isinstance(known, Term), "one arm must have a type"
        then, otherwise = self.like(then, known), self.like(otherwise, known)
        return self.append(
            f"select i1 {condition.name}, {known.type} {then.name}, {known.type} {otherwise.name}", known.type
        )

    def at_most(self, x: Term, bound: float) -> Term:
        """min(x, bound); nan stays."""
        return self.select(x > bound, bound, x)

    def at_least(self, x: Term, bound: float) -> Term:
        """max(x, bound); nan stays."""
        return self.select(x < bound, bound, x)

    def bits(self, x: Term) -> Term:
        """A float's bits as an integer."""
        target = {"double": "i64", "float": "i32"}[x.type]
        return self.append(f"bitcast {x.type} {x.name} to {target}", target)

    def from_bits(self, n: Term) -> Term:
        """The float with these bits."""
        target = {"i64": "double", "i32": "float"}[n.type]
        return self.append(f"bitcast {n.type} {n.name} to {target}", target)

    def convert(self, x: Term, type: str) -> Term:
        """Between float and double, and i64 and i32."""
        opcode = {"double": "fpext", "float": "fptrunc", "i32": "trunc"}[type]
        return self.append(f"{opcode} {x.type} {x.name} to {type}", type)

    def polynomial(self, x: Term, coefficients: Sequence[float]) -> Term:
        """sum c[k] x**k by Estrin's scheme: a tree, where Horner's would be one long chain of waiting."""
        terms: list[Term] = [self.constant(c, x.type) for c in coefficients]
        power = x
        while len(terms) > 1:
            pairs = [self.mad(power, high, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[len(pairs) * 2 :]
            if len(terms) > 1:
                power = power * power
        return terms[0]

    def power_of_two(self, n: Term) -> Term:
        """2**n for an integer term n with 1 - bias <= n <= bias."""
        return self.from_bits((n + self.bias) << self.mantissa)

    def sign_of(self, x: Term) -> Term:
        """The sign bit of a float, in its place."""
        return self.bits(x) & self.sign_mask

    def with_sign(self, magnitude: Term, sign: Term) -> Term:
        """The float with its sign flipped where `sign` has the sign bit."""
        return self.from_bits(self.bits(magnitude) ^ sign)

    @property
    def sign_mask(self) -> int:
        return -(1 << (63 if self.double else 31))

    # ---- the two that are not straight-line arithmetic ----

    def raise_flag(self, condition: Term, flag: Term) -> None:
        """Set the i1 that `flag` points to where the condition holds."""
        before = self.append(f"load i1, ptr {flag.name}", "i1")
        self.lines.append(f"  store i1 {(before | condition).name}, ptr {flag.name}")

    def otherwise_libm(self, condition: Term, name: str, x: Term, result: Term) -> Term:
        """What libm's function gives where the condition holds, else `result`."""
        callee = name if self.double else f"{name}f"
        self.declarations[callee] = f"declare {self.float} @{callee}({self.float})"
        self.lines += [f"  br i1 {condition.name}, label %far, label %end", "far:"]
        called = self.append(f"call {self.float} @{callee}({x.type} {x.name})", self.float)
        self.lines += ["  br label %end", "end:"]
        return self.append(f"phi {self.float} [ {result.name}, %entry ], [ {called.name}, %far ]", self.float)

    # ---- the finished function ----

    def text(self, name: str, parameters: Sequence[Term], result: Term) -> str:
        """The function as LLVM IR."""
        head = ", ".join(f"{p.type} {p.name}" for p in parameters)
        body = "\n".join(["entry:", *self.lines])
        return (
            f"define internal {self.float} @{name}.{self.suffix}({head}) alwaysinline nounwind {{\n"
            f"{body}\n  ret {self.float} {result.name}\n}}\n"
        )
