"""Elementary functions as LLVM functions of vectors or of single numbers, in f64 and f32.

    @exp.f64(double %x)     @exp.v8f64(<8 x double> %x)     @exp.v16f32(<16 x float> %x)
    @called.exp.v32f64(<32 x double> %x)

Each is straight-line arithmetic that is inlined into its loop, or called (see `LoopPlan.has_calls`), in code that all
kernels share.  The docstring of each function states its error in ulps, for both types; infinities, nan, subnormals
and the signs of zeros are right.

Exceptions are sin, cos and tan of huge arguments (`trig.LIMITS`: from 1e12 on for f64, 2.6e5 for f32) and
fmod of huge quotients (4.5e15, 8.4e6): a branch, which is never taken on ordinary numbers, calls libm for
those.  exp(-x*x) beside erf(x) calls exp for arguments beyond the table of erf.

Two functions of one number that have most of their steps in common are computed together, if a loop has both:

    sin(x), cos(x)             sincos
    erf(x), exp(-(x * x))      erfbell;  also written exp(-x * x)
    tanh(x), exp(-(|x| + |x|)) tanhfade
    expm1(x), exp(x)           expm1exp
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ...kernel.instructions import OF_ONE, function_of, is_function
from ...kernel.nest import Operation, Value
from ..target import Target
from ..types import definition, intrinsic_suffix, struct_type, vector_type
from .code import FunctionCode, Lane

__all__ = ["FUNCTIONS", "Need", "definitions", "find_joint", "named", "shared"]


class _Functions(Mapping[str, Callable[..., Lane]]):
    """Functions by name, from the files of this package ("file.function"), each imported when it is first needed."""

    def __init__(self, homes: dict[str, str]) -> None:
        self.homes = homes

    def __getitem__(self, name: str) -> Callable[..., Lane]:
        file, _, function = self.homes[name].partition(".")
        found: Callable[..., Lane] = getattr(importlib.import_module(f"{__name__}.{file}"), function)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)


FUNCTIONS = _Functions(
    {name: f"{file}.{name}" for name, (file, _, _) in OF_ONE.items()}
    | {"atan2": "arc.atan2", "fmod": "power.fmod", "pow": "power.pow_"}
)
#: Also the functions that are computed only together with another one.
_WRITERS = _Functions(FUNCTIONS.homes | {
    "exp_minus_square": "erf.exp_minus_square", "exp_minus_twice_abs": "hyperbolic.exp_minus_twice_abs",
    "joint_exp": "exp.joint_exp", "joint_expm1": "exp.joint_expm1", "joint_tanh": "hyperbolic.joint_tanh",
})  # fmt: skip

#: Functions that are computed in another way for huge arguments, with the test for these.
_FAR = _Functions(
    dict.fromkeys(("cos", "sin", "tan"), "trig.is_far")
    | {"fmod": "power.is_large_quotient", "exp_minus_square": "erf.exp_minus_square_is_far"}
)
#: The joint forms of two functions of one number: most of their steps are the same.  The result is a struct.
JOINT = {
    ("sin", "cos"): "sincos", ("erf", "exp_minus_square"): "erfbell", ("tanh", "exp_minus_twice_abs"): "tanhfade",
    ("expm1", "exp"): "expm1exp",
}  # fmt: skip
_PARTS = {joint: parts for parts, joint in JOINT.items()} | {
    "tanhfade": ("joint_tanh", "exp_minus_twice_abs"), "expm1exp": ("joint_expm1", "joint_exp"),
}  # fmt: skip
_OF_TWO = frozenset({"atan2", "fmod", "pow"})

#: Functions that are computed in a whole register even for one number: there tables are looked up, and cases selected
#: without branches.  ns in a loop where each result needs the one before, f64, Zen 4: log 31, in a register 20; pow 58,
#: 39; acosh 45, 33.  The others do not gain: exp takes as long; sin, tanh and sinh a quarter longer.
_IN_REGISTERS = frozenset({"acosh", "asinh", "atan", "atan2", "atanh", "pow"}).union(
    name for name, (file, _, _) in OF_ONE.items() if file == "log"
)

#: (name, "f64" or "f32", lanes, True if it is called rather than inlined)
Need = tuple[str, str, int, bool]


#: A function called more often than this by one kernel is not inlined: calls cost a quarter of the speed and save two
#: fifths of LLVM's time, which grows with the kernel.
_INLINED_CALLS = 64
#: The attributes of functions for arguments that are rare.
_RARE = "noinline cold"


def definitions(
    calls: Mapping[Need, int], target: Target, own: Collection[str] | None = None
) -> tuple[str, dict[str, str]]:
    """The text of these functions for a machine, and their declarations by name.

    calls    for each function the most calls in one kernel
    own      the functions that are called, and that this module defines for all modules: called.exp.v8f64; it declares
             others.  None: it defines all that it needs for itself
    """
    texts: list[str] = []
    declarations: dict[str, str] = {}
    others: dict[str, str] = {}
    for (name, suffix, lanes, is_called), count in sorted(calls.items()):
        is_shared, full = is_called and own is not None, named(name, suffix, lanes, is_called=is_called)
        if is_shared and full[1:] not in (own or ()):
            k = FunctionCode(suffix, target, lanes)
            type, given, results = k.spelled(k.float), len(_parameters(name)), len(_PARTS.get(name, (name,)))
            declarations[full] = f"declare {struct_type(type, results)} {full}({', '.join([type] * given)}) nounwind"
            continue
        text, called, declared = _definition(name, suffix, lanes, target)
        text = text.replace(f"{named(name, suffix, lanes)}(", f"{full}(", 1)
        text = text.replace("define internal ", "define ", 1) if is_shared else text
        is_inlined = count <= _INLINED_CALLS and not is_called
        texts.append(text if is_inlined else text.replace(" alwaysinline ", " noinline "))
        others |= called
        declarations |= declared
    return "\n".join([*texts, *others.values()]), declarations


def named(name: str, suffix: str, lanes: int, *, is_called: bool = False) -> str:
    """The name of a function for these lanes: @exp.v8f64."""
    return f"@{'called.' * is_called}{name}.{intrinsic_suffix(suffix, lanes)}"


def shared(names: Collection[str], target: Target) -> str:
    """The module of functions that are called, by name: called.exp.v8f64."""
    calls: dict[Need, int] = {}
    for _, name, type in [full.split(".") for full in names]:
        lanes, _, bits = type.removeprefix("v").partition("f")
        calls[name, f"f{bits}", int(lanes or 1), True] = 1
    texts, declared = definitions(calls, target, [*names])
    return "\n".join([texts, *declared.values(), ""])


@functools.cache
def _definition(name: str, suffix: str, lanes: int, target: Target) -> tuple[str, dict[str, str], dict[str, str]]:
    """The text of a function, the texts of those that it calls, by name, and the declarations of all of them."""
    if lanes == 1 and target.has_scale and name in _IN_REGISTERS:
        return _in_register(name, suffix, target)
    k = FunctionCode(suffix, target, lanes)
    parameters = [k.argument(p) for p in _parameters(name)]
    parts = _PARTS.get(name, (name,))
    results = [_WRITERS[part](k, *parameters) for part in parts]
    far = [part for part in parts if part in _FAR and (k.has_fma or part != "fmod")]
    callee = k.name_of(f"{name}.far")
    if far:
        places = [parts.index(part) for part in far]
        chosen = k.otherwise_call(_FAR[far[0]](k, *parameters), callee, parameters, [results[j] for j in places])
        for j, result in zip(places, chosen, strict=True):
            results[j] = result
    text = k.text(name, parameters, results)
    if not far:
        return text, {}, dict(k.declarations)
    write = _far_by_exp if far == ["exp_minus_square"] else _far
    called, declared = write(far, callee, suffix, lanes, target)
    return text, {callee: called}, k.declarations | declared


def _parameters(name: str) -> tuple[str, ...]:
    return ("x", "y") if name in _OF_TWO else ("x",)


def _in_register(name: str, suffix: str, target: Target) -> tuple[str, dict[str, str], dict[str, str]]:
    """A function of one number, computed in all lanes of a register."""
    k = FunctionCode(suffix, target, target.vector_bytes // (8 if suffix == "f64" else 4))
    vector, order = k.spelled(k.float), f"<{k.lanes} x i32> zeroinitializer"
    filled = []
    for p in _parameters(name):
        one = k.append(f"insertelement {vector} poison, {k.float} %{p}, i64 0", k.float)
        filled.append(k.append(f"shufflevector {vector} {one.name}, {vector} poison, {order}", k.float))
    result = FUNCTIONS[name](k, *filled)
    one = k.append(f"extractelement {vector} {result.name}, i64 0", k.float)
    parameters, body = [f"%{p}" for p in _parameters(name)], "\n".join(["entry:", *k.lines, ""])
    text = definition(f"{name}.{suffix}", k.float, parameters, body, [one.name], "alwaysinline")
    return text, {}, dict(k.declarations)


def _far(names: list[str], callee: str, suffix: str, lanes: int, target: Target) -> tuple[str, dict[str, str]]:
    """A function of (x, near), (x, near, near) or (x, y, near): libm's result where x is far, else near; lane by lane.

    names   functions of the same arguments, each of which has a near result
    """
    k = FunctionCode(suffix, target)
    parameters = [k.argument(f"{p}.lane") for p in _parameters(names[0])]
    nears = [k.argument(f"near.{j}.lane") for j in range(len(names))]
    passed = ", ".join(f"{k.float} {p.name}" for p in parameters)
    is_far, chosen = _FAR[names[0]](k, *parameters), []
    for name, near in zip(names, nears, strict=True):
        libm = name if k.double else f"{name}f"
        k.declarations[libm] = f"declare {k.float} @{libm}({', '.join([k.float] * len(parameters))})"
        chosen.append(k.select(is_far, k.append(f"call {k.float} @{libm}({passed})", k.float), near).name)
    lines, inputs, type = "\n".join(k.lines), [p.name for p in (*parameters, *nears)], vector_type(k.float, lanes)
    if lanes == 1:
        return definition(callee, type, inputs, f"{lines}\n", chosen, _RARE), k.declarations
    # Lanes are accessed in memory: LLVM is slow at lanes of a register whose number is not constant.
    given = [f"%in.{j}" for j in range(len(inputs))]
    memory = "\n".join(
        f"  %all.{j} = alloca {type}\n  store {type} {name}, ptr %all.{j}" for j, name in enumerate(given)
    )
    loads = "\n".join(
        f"  %at.{j} = getelementptr {k.float}, ptr %all.{j}, i64 %j\n  {name} = load {k.float}, ptr %at.{j}"
        for j, name in enumerate(inputs)
    )
    places = range(len(parameters), len(inputs))
    stores = "\n".join(f"  store {k.float} {c}, ptr %at.{j}" for j, c in zip(places, chosen, strict=True))
    results = "\n".join(f"  %result.{j} = load {type}, ptr %all.{j}" for j in places)
    text = f"""entry:
{memory}
  br label %loop
loop:
  %j = phi i64 [ 0, %entry ], [ %j.next, %loop ]
{loads}
{lines}
{stores}
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, {lanes}
  br i1 %more, label %loop, label %done
done:
{results}
"""
    return definition(callee, type, given, text, [f"%result.{j}" for j in places], _RARE), k.declarations


def _far_by_exp(_names: list[str], callee: str, suffix: str, lanes: int, target: Target) -> tuple[str, dict[str, str]]:
    """A function of (x, near): exp(-x*x) where x is far, else near; for all lanes at once."""
    k = FunctionCode(suffix, target, lanes)
    x, near = k.argument("x"), k.argument("near")
    chosen = k.select(_FAR["exp_minus_square"](k, x), FUNCTIONS["exp"](k, -(x * x)), near)
    lines = "\n".join(["entry:", *k.lines, ""])
    return definition(callee, k.spelled(k.float), [x.name, near.name], lines, [chosen.name], _RARE), k.declarations


# ---------------------------------------------------------------- functions of one number together


def find_joint(operations: Iterable[Operation]) -> Iterator[tuple[str, Value, list[Operation]]]:
    """Each joint function, its argument, and the operations that it computes, in the order of its results."""
    applied = {_function_of(o): o for o in operations if is_function(o.name)}
    for names, joint in JOINT.items():
        for name, x in applied:
            found = [applied.get((other, x)) for other in names]
            if name == names[0] and None not in found:
                yield joint, x, [o for o in found if o]


def _function_of(operation: Operation) -> tuple[str, Value]:
    """The function that an operation computes, which may be exp(-(x * x)) or exp(-(|x| + |x|)), and its argument."""
    name, x = function_of(operation.name), operation.operands[0]
    is_negative, square = _sign_of(x)
    if name == "exp" and isinstance(square.owner, Operation) and square.owner.name == "arith.mulf":
        a, b = square.owner.operands
        if a is not b:  # -x * x
            (a_is_negative, a), (b_is_negative, b) = _sign_of(a), _sign_of(b)
            is_negative ^= a_is_negative ^ b_is_negative
        if a is b and is_negative:
            return "exp_minus_square", a
    if name == "exp" and is_negative and isinstance(square.owner, Operation) and square.owner.name == "arith.addf":
        a, b = square.owner.operands
        if a is b and isinstance(a.owner, Operation) and a.owner.name == "math.absf":
            return "exp_minus_twice_abs", a.owner.operands[0]
    return name, x


def _sign_of(x: Value) -> tuple[bool, Value]:
    """True and the operand of a negation; False and the value itself of any other."""
    owner = x.owner
    if isinstance(owner, Operation) and owner.name == "arith.negf":
        return True, owner.operands[0]
    return False, x
