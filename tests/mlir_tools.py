"""MLIR's own tools on our text: xDSL and `mlir-opt` verify it, `mlir-opt` and LLVM run it.

    verify(text)                        both verifiers, or a failed test with their words
    run_function(function, arrays)      one kernel, through the real MLIR; its status
    run_emitted(function, arrays)       the same through our own LLVM IR
    run_program(program, inputs)        a whole program, its kernels through MLIR; its outputs

Without `mlir-opt` on PATH a test is skipped with the reason; AUTODIFF_REQUIRE_MLIR=1 makes that a
failure.
"""

import ctypes
import functools
import os
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from driven import driven
from emitted import emit_module

from codegen.kernel.mlir import print_module
from codegen.kernel.nest import MemRef
from codegen.program import Gemm, HostCall, Kernel, bodies, every_step
from codegen.runtime import engine

#: To LLVM's dialect.  What is not an intrinsic of LLVM is called in libm.
LOWERING = (
    "--convert-scf-to-cf",
    "--arith-expand",
    "--convert-math-to-llvm=approximate-log1p=false",
    "--convert-math-to-libm",
    "--expand-strided-metadata",
    "--lower-affine",
    "--finalize-memref-to-llvm",
    "--convert-arith-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--reconcile-unrealized-casts",
)


@functools.cache
def find_tools() -> tuple[str, str] | None:
    """Paths of mlir-opt and mlir-translate of one version, the newest on PATH."""
    found = {}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for file in sorted(Path(folder).glob("mlir-opt*")) if folder else ():
            version = re.fullmatch(r"mlir-opt(?:-(\d+))?", file.name)
            partner = shutil.which(file.name.replace("opt", "translate"))
            if version and partner:
                # A plain name is what the user has put first.
                found.setdefault(int(version[1] or 10**6), (str(file), partner))
    return found[max(found)] if found else None


def tools() -> tuple[str, str]:
    """mlir-opt and mlir-translate; skips or fails the test where there are none."""
    found = find_tools()
    if found is None:
        reason = "mlir-opt and mlir-translate are not on PATH (Debian and Ubuntu: mlir-19-tools)"
        if os.environ.get("AUTODIFF_REQUIRE_MLIR") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def _run(command: list[str], text: str) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{Path(command[0]).name} {' '.join(command[1:])}:\n{done.stderr}\n{text}"
    return done.stdout


@functools.cache
def verify_with_mlir_opt(text: str) -> None:
    """mlir-opt parses and verifies the text."""
    _run([tools()[0], "--verify-each", "-o", os.devnull], text)


@functools.cache
def verify_with_xdsl(text: str) -> None:
    """xDSL parses and verifies the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies
        from xdsl.context import Context
        from xdsl.dialects import arith, builtin, func, math, memref, scf
        from xdsl.irdl import irdl_op_definition
        from xdsl.parser import Parser

    @irdl_op_definition
    class RemfOp(arith.FloatingPointLikeBinaryOperation):
        """MLIR's arith.remf, which xDSL's dialect leaves out."""

        name = "arith.remf"

    context = Context()
    for dialect in (arith.Arith, builtin.Builtin, func.Func, math.Math, memref.MemRef, scf.Scf):
        context.load_dialect(dialect)
    if RemfOp.name not in {operation.name for operation in arith.Arith.operations}:
        context.load_op(RemfOp)
    Parser(context, text).parse_module().verify()


def verify(text: str) -> None:
    """Both verifiers accept the text."""
    verify_with_xdsl(text)
    verify_with_mlir_opt(text)


@functools.cache
def lower(text: str) -> str:
    """LLVM IR of a module of MLIR, by the real tools."""
    optimizer, translator = tools()
    return _run([translator, "--mlir-to-llvmir"], _run([optimizer, *LOWERING], _with_exact_expm1(text)))


def _with_exact_expm1(text: str) -> str:
    """expm1 as a call of libm: MLIR's own lowering, exp(x) - 1, loses all digits near zero."""
    for type, name in (("f32", "expm1f"), ("f64", "expm1")):
        pattern = rf"math\.expm1 (%\w+)(?: fastmath<[\w,]+>)? : {type}$"
        text, count = re.subn(pattern, rf"func.call @{name}(\1) : ({type}) -> {type}", text, flags=re.MULTILINE)
        if count:
            text = text.replace("module {", f"module {{\n  func.func private @{name}({type}) -> {type}", 1)
    return text


class Loaded:
    """A module as machine code."""

    def __init__(self, text: str):
        from llvmlite import binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self._engine = llvm.create_lljit_compiler(target)
        builder = llvm.JITLibraryBuilder().add_ir(lower(text)).add_current_process()
        for name in (names := re.findall(r"func\.func @(\w+)", text)):
            builder.export_symbol(f"_mlir_ciface_{name}")
        self._tracker = builder.link(self._engine, "_and_".join(names))

    def call(self, name, arrays, indices=()) -> int:
        """Call a function with packed arrays and indices; its status."""
        kept = [descriptor(array) for array in arrays]
        types = [ctypes.c_void_p] * len(kept) + [ctypes.c_int64] * len(indices)
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._tracker[f"_mlir_ciface_{name}"])
        return function(*(ctypes.addressof(d) for d in kept), *indices)


class Descriptor(ctypes.Structure):
    """MLIR's descriptor of flat memory."""

    _fields_ = (
        ("allocated", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("stride", ctypes.c_int64),
    )


def descriptor(array: np.ndarray) -> Descriptor:
    """The descriptor of a packed array, which must outlive it."""
    assert array.flags.c_contiguous
    return Descriptor(array.ctypes.data, array.ctypes.data, 0, array.size, 1)


def run_function(function, arrays, indices=()) -> int:
    """Verify, lower and call one kernel on packed arrays; its status."""
    text = print_module([function])
    verify(text)
    return Loaded(text).call(function.name, arrays, indices)


class Emitted:
    """Kernels as the compiler makes them."""

    def __init__(self, functions, target_features=""):
        self._code = engine.compile(emit_module(list({f.name: f for f in functions}.values()), target_features))

    def call(self, name, arrays, indices=()) -> int:
        """Call a kernel with packed arrays and indices; its status."""
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        extents = (ctypes.c_int64 * len(indices))(*indices)
        native = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self._code.address(name))
        return native(ctypes.addressof(pointers), ctypes.addressof(extents))


def run_emitted(function, arrays, indices=()) -> int:
    """Compile one kernel as the compiler does and call it on packed arrays; its status."""
    return Emitted([function]).call(function.name, arrays, indices)


def run_in_steps(program, inputs) -> list[np.ndarray]:
    """Run a program with its loops and branches in Python: its kernels by machine code, all else by NumPy."""
    kernels = [step.work.function for step, _, _ in every_step(program) if isinstance(step.work, Kernel)]
    return _run_body(program, Emitted(kernels, engine.target_features()), inputs)


def run_program(program, inputs) -> list[np.ndarray]:
    """Verify, lower and run a program: its kernels by the real MLIR, all else by NumPy; its outputs."""
    text = print_module(program)
    verify(text)
    kernels = Loaded(text) if "func.func" in text else None
    return _run_body(program, kernels, inputs)


def _run_body(program, kernels, inputs) -> list[np.ndarray]:
    arrays = [np.array(x, aval.dtype, order="C") for x, aval in zip(inputs, program.inputs, strict=True)]
    outputs = [np.full(aval.shape, 77, aval.dtype) for aval in program.outputs]
    owners = {"input": arrays, "output": outputs}
    memory = [
        np.full(b.aval.shape, 77, b.aval.dtype) if b.role == "temporary" else _seen(owners[b.role][b.place], b.aval)
        for b in program.buffers
    ]
    for step in program.steps:
        with np.errstate(all="ignore"):
            _run_step(step.work, kernels, [memory[b] for b in step.buffers])
    return outputs


def _seen(array, aval, shape=None):
    """Memory as an array of another dtype and shape: pairs of numbers as complex ones."""
    return array.reshape(-1).view(aval.dtype).reshape(aval.shape if shape is None else shape)


def _run_step(work, kernels, arrays) -> None:
    match work:
        case Kernel(function, extents):
            types = [a.type for a in function.arguments if isinstance(a.type, MemRef)]
            assert all(t.size in (None, a.size) for a, t in zip(arrays, types, strict=True))
            status = kernels.call(function.name, arrays, extents)
            assert status == 0, f"status {status}"
        case Gemm():
            _multiply(work, *[a.reshape(-1) for a in arrays])
        case HostCall(node):
            given = [_seen(a, n.aval) for a, n in zip(arrays, node.inputs, strict=False)]
            _seen(arrays[-1], node.aval)[...] = node.op.reference(*given, **node.keywords)
        case _:
            runs = [functools.partial(_run_alone, body, kernels) for _, body, _ in bodies(work)]
            driven(work, runs)(*arrays)


def _run_alone(body, kernels, *inputs):
    return tuple(_run_body(body, kernels, inputs))


def _multiply(work, a, b, c) -> None:
    """The meaning of a product: c = op(a) @ op(b), batch times."""
    m, n, k = work.m, work.n, work.k
    for number in range(work.batch):
        at, of, to = (number * s for s in work.strides)
        left = a[at : at + m * k].reshape((k, m) if work.transpose_a else (m, k))
        right = b[of : of + k * n].reshape((n, k) if work.transpose_b else (k, n))
        product = (left.T if work.transpose_a else left) @ (right.T if work.transpose_b else right)
        c[to : to + m * n] = product.ravel()
