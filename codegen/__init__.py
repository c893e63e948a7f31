"""The compiler: from a frozen graph of array operations to native code.

What enters: a `codegen.ir.Graph`.  What leaves: a `codegen.runtime.Executable`.
The road, one room each; imports go down only:

    compiler   the pipeline on one page
    runtime    machine code: engine, launcher, matrix products, memory, caches
    emit       kernel -> LLVM IR text; elementary functions inline
    kernel     loop nests in MLIR's dialects (func, scf, memref, arith, math); builds and prints them
    passes     Graph -> Graph, then Graph -> Program (fusion groups, buffers)
    lowering   how an operation says what its loops compute
    ir         avals, operations, graphs; text, verifier, NumPy evaluator

This package has never heard of a derivative.
"""
