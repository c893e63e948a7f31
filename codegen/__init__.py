"""The compiler: from an immutable graph of array operations to native code.

The input is a `codegen.ir.Graph`, the output a `codegen.runtime.Executable`.
The packages and modules, each of which imports only those below it:

    compiler   the entry points, and an overview of the stages
    runtime    machine code: engine, launcher, matrix products, memory, caches
    emit       kernel -> LLVM IR text; elementary functions inline
    kernel     loop nests in MLIR's dialects (func, scf, memref, arith, math); builds and prints them
    passes     Graph -> Graph, then Graph -> Program (fusion groups, buffers)
    lowering   the descriptions by which operations declare what their loops compute
    ir         avals, operations, graphs; text, verifier, NumPy evaluator

This package knows nothing of derivatives.
"""
