"""Functions by which C and XLA call a whole program, in native Python (`codegen.native`).

    i64 call_program(const DescribedProgram *program, void **arguments, void **results, void *workspace)

runs the program, and returns 0 or step << 32 | status.  `xla_call` does the same for XLA's foreign function interface,
which JAX uses: it reads the program and the pointers from XLA's call frame, and allocates the workspace.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..native import Struct, extern, fn, i32, i64, local, native, ptr, u64, void

#: The largest workspace, in bytes, on the stack: a thread of XLA has some megabytes.
ON_STACK = 1 << 14
ALIGNMENT = 64
METADATA = 1
INTERNAL_ERROR = 13


class DescribedProgram(Struct):
    """A program as `c_entries` describes it for these functions.

    run        the function that runs the steps: `run_for_c` of `run_steps`, or in an object file `run_steps`
    hidden     the number of inputs after the arguments, whose fixed values are at the addresses in `values`
    messages   the address of a text for each status
    """

    run: fn[i64, ptr, i64, ptr, ptr]
    steps: ptr
    count: i64
    arguments: i64
    hidden: i64
    results: i64
    temporaries: i64
    scratch: i64
    workspace_bytes: i64
    values: ptr[u64]
    offsets: ptr[u64]
    messages: ptr[u64]


class Extension(Struct):
    size: u64
    kind: i32
    next: ptr


class Version(Struct):
    size: u64
    extension: ptr
    major: i32
    minor: i32


class Metadata(Struct):
    size: u64
    version: Version
    traits: i32


class MetadataExtension(Struct):
    base: Extension
    metadata: ptr[Metadata]


class NewError(Struct):
    size: u64
    extension: ptr
    message: u64
    code: i32


class Api(Struct):
    size: u64
    extension: ptr
    version: Version
    internal: ptr
    new_error: fn[ptr, ptr[NewError]]


class FfiBuffer(Struct):
    size: u64
    extension: ptr
    dtype: i32
    data: u64


class Buffers(Struct):
    size: u64
    extension: ptr
    count: i64
    kinds: ptr
    each: ptr[ptr[FfiBuffer]]


class FfiScalar(Struct):
    dtype: i32
    value: ptr[u64]


class Attributes(Struct):
    size: u64
    extension: ptr
    count: i64
    kinds: ptr
    names: ptr
    each: ptr[ptr[FfiScalar]]


class Frame(Struct):
    """XLA_FFI_CallFrame of XLA's c_api.h; the structs above are its parts."""

    size: u64
    extension: ptr[MetadataExtension]
    api: ptr[Api]
    context: ptr
    stage: i32
    arguments: Buffers
    results: Buffers
    attributes: Attributes


allocated = extern("PyMem_RawMalloc", u64, u64)
free = extern("PyMem_RawFree", void, u64)


@native
def call_program(program: ptr[DescribedProgram], arguments: ptr[u64], results: ptr[u64], workspace: u64) -> i64:
    """Run a program on pointers to its arguments, results and workspace."""
    count = program.arguments + program.hidden + program.results + program.temporaries
    slots = local(u64, count + program.scratch)
    slot = i64(0)
    for i in range(program.arguments):
        slots[slot] = arguments[i]
        slot = slot + 1
    for i in range(program.hidden):
        slots[slot] = program.values[i]
        slot = slot + 1
    for i in range(program.results):
        slots[slot] = results[i]
        slot = slot + 1
    for i in range(program.temporaries):
        slots[slot] = workspace + program.offsets[i]
        slot = slot + 1
    run = program.run
    return run(program.steps, program.count, slots, slots + count)


@native
def xla_call(frame: ptr[Frame]) -> ptr:
    """An XLA handler, which runs the program in the frame's first attribute; returns null or an XLA error."""
    extension = frame.extension
    if extension is not None and extension.base.kind == METADATA:
        metadata = extension.metadata
        metadata.version.major = frame.api.version.major
        metadata.version.minor = frame.api.version.minor
        metadata.traits = 0
        return None
    program = ptr[DescribedProgram](frame.attributes.each[0].value[0])
    arguments = local(u64, program.arguments)
    for i in range(program.arguments):
        arguments[i] = frame.arguments.each[i].data
    results = local(u64, program.results)
    for i in range(program.results):
        results[i] = frame.results.each[i].data
    size = program.workspace_bytes + ALIGNMENT
    status = i64(Status.NO_MEMORY.value)
    if size <= ON_STACK:
        near = local(u64, ON_STACK // 8)
        status = call_program(program, arguments, results, aligned(u64(near)))
    else:
        far = allocated(u64(size))
        if far != 0:
            status = call_program(program, arguments, results, aligned(far))
            free(far)
    if status == 0:
        return None
    kind = status & 0xFFFFFFFF
    error = local(NewError, 1)
    error.size = 32
    error.extension = None
    error.message = program.messages[kind]
    error.code = INTERNAL_ERROR
    new_error = frame.api.new_error
    return new_error(error)


@native(inline=True)
def aligned(address: u64) -> u64:
    return (address + (ALIGNMENT - 1)) & ~u64(ALIGNMENT - 1)
