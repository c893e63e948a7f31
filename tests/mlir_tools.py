"""MLIR's own tools on our text: xDSL and `mlir-opt` verify it, `mlir-opt` and LLVM run it.

    verify(text)                        both verifiers, or a failed test with their words
    run_function(function, arrays)      one kernel, through the real MLIR; its status
    run_emitted(function, arrays)       the same through our own LLVM IR
    run_program(program, inputs)        a whole program through MLIR; its outputs

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

from codegen.emit import emit_module
from codegen.ir import DTYPES
from codegen.kernel.mlir import print_module
from codegen.program import HostCall
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
    """A module as machine code.  `symbols` are functions for what the module only declares."""

    def __init__(self, text: str, name: str, symbols: dict[str, object]):
        from llvmlite import binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self._engine = llvm.create_lljit_compiler(target)
        self._kept = symbols
        builder = llvm.JITLibraryBuilder().add_ir(lower(text)).add_current_process()
        for symbol, function in symbols.items():
            builder.import_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)
        symbol = f"_mlir_ciface_{name}"
        self._tracker = builder.export_symbol(symbol).link(self._engine, name)
        self._address = self._tracker[symbol]

    def __call__(self, arrays, indices=()) -> int:
        """Call with packed arrays and indices; the status."""
        kept = [descriptor(array) for array in arrays]
        types = [ctypes.c_void_p] * len(kept) + [ctypes.c_int64] * len(indices)
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._address)
        return function(*(ctypes.addressof(d) for d in kept), *indices)


@functools.cache
def _descriptor_type(rank: int) -> type[ctypes.Structure]:
    numbers = ctypes.c_int64 * rank
    fields = [
        ("allocated", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("sizes", numbers),
        ("strides", numbers),
    ]
    return type(f"MemRef{rank}", (ctypes.Structure,), {"_fields_": fields})


def descriptor(array: np.ndarray) -> ctypes.Structure:
    """MLIR's descriptor of a packed array, which must outlive it."""
    assert array.flags.c_contiguous
    data, steps = array.ctypes.data, [s // array.itemsize for s in array.strides]
    type = _descriptor_type(array.ndim)
    numbers = ctypes.c_int64 * array.ndim
    return type(data, data, 0, numbers(*array.shape), numbers(*steps))


def _flat(address: int, dtype) -> np.ndarray:
    """The memory behind the descriptor of a memref<?x...>."""
    memory = _descriptor_type(1).from_address(address)
    assert memory.strides[0] == 1
    count = memory.sizes[0]
    if not count:
        return np.empty(0, dtype)
    start = memory.aligned + memory.offset * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(start), dtype)


def gemm(dtype):
    """The meaning of `@gemm_f32` and `@gemm_f64`, by NumPy: c = op(a) @ op(b), batch times."""

    def body(a, b, c, m, n, k, transpose_a, transpose_b, batch, *strides):
        a, b, c = (_flat(address, dtype) for address in (a, b, c))
        for number in range(batch):
            start_a, start_b, start_c = (number * s for s in strides)
            left = a[start_a : start_a + m * k].reshape((k, m) if transpose_a else (m, k))
            right = b[start_b : start_b + k * n].reshape((n, k) if transpose_b else (k, n))
            product = (left.T if transpose_a else left) @ (right.T if transpose_b else right)
            c[start_c : start_c + m * n] = product.ravel()

    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 9)(body)


def host_call(node):
    """The effect of a host call: the reference of the node, on the memory of its memrefs."""
    avals = [*(i.aval for i in node.inputs), node.aval]

    def body(*addresses):
        arrays = []
        for address, aval in zip(addresses, avals, strict=True):
            memory = _descriptor_type(aval.ndim).from_address(address)
            raw = (ctypes.c_char * aval.nbytes).from_address(memory.aligned)
            arrays.append(np.frombuffer(raw, aval.dtype).reshape(aval.shape))
        with np.errstate(all="ignore"):
            arrays[-1][...] = node.op.reference(*arrays[:-1], **node.keywords)

    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(avals))(body)


def run_function(function, arrays, indices=()) -> int:
    """Verify, lower and call one kernel on packed arrays; its status."""
    text = print_module([function])
    verify(text)
    return Loaded(text, function.name, {})(arrays, indices)


def run_emitted(function, arrays, indices=()) -> int:
    """Compile one kernel as the compiler does and call it on packed arrays; its status."""
    code = engine.compile(emit_module([function]), passes=engine.Passes.VECTORS)
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    extents = (ctypes.c_int64 * len(indices))(*indices)
    native = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(code.address(function.name))
    return native(ctypes.addressof(pointers), ctypes.addressof(extents))


def program_symbols(program, text) -> dict[str, object]:
    """The functions that the module of a program declares and does not define."""
    declared = re.findall(r"func\.func private @(\w+)\([^)]*\) attributes", text)
    symbols = {f"_mlir_ciface_gemm_{name}": gemm(DTYPES[name]) for name in ("f32", "f64")}
    # Each host call is one line of the entry, in the order of the steps.
    calls = [name for name in re.findall(r"func\.call @(\w+)", text) if name in declared and "gemm_" not in name]
    nodes = [step.work.node for step in program.steps if isinstance(step.work, HostCall)]
    for name, node in zip(calls, nodes, strict=True):
        symbols.setdefault(f"_mlir_ciface_{name}", host_call(node))
    return symbols


def run_program(program, inputs) -> list[np.ndarray]:
    """Verify, lower and run a whole program by the real MLIR; its outputs."""
    text = print_module(program)
    verify(text)
    name = re.findall(r"func\.func @(\w+)", text)[-1]
    outputs = [np.full(aval.shape, 77, aval.dtype) for aval in program.outputs]
    arrays = [np.array(x, aval.dtype, order="C") for x, aval in zip(inputs, program.inputs, strict=True)]
    ends = [b.aval for b in program.buffers[: len(arrays) + len(outputs)]]
    memory = [a.reshape(-1).view(e.dtype).reshape(e.shape) for a, e in zip([*arrays, *outputs], ends, strict=True)]
    status = Loaded(text, name, program_symbols(program, text))(memory)
    assert status == 0, f"status {status}"
    return outputs
