"""The generic launcher as LLVM IR text: the code between a Python call and the kernels.

One piece of machine code serves every program; what differs is data, in a *plan block*:

    plan     counts, sizes and the addresses of the tables below        `PLAN` names its words
    spec     one per input: descr, nd, dims, kind of number, NumPy scalar type, bytes; one per output, where the
             fourth is what makes a NumPy scalar, or null for an array, and of a scalar the third is a list of two
    step     function, number of pointers, their slots, extents, and how it is shared among threads:
             the function that shares it out (null: nobody does), number of extents, blocks, chunk,
             total (`shared_blocks`)

and, per call, a *frame*:

    slots    one pointer per buffer: inputs, outputs, temporaries
    scratch  the pointers of the step that runs
    numbers  sixteen bytes per input, for arguments that are Python numbers
    objects  the output arrays, until they stand in the result
    workspace, 64-byte aligned

A small frame lies on the stack, a large one comes from the pool (`pool_ir`), and so does the memory of
outputs: an array is made around it and then told that it owns it, by way of the pool's allocator.

`launch` is a METH_FASTCALL function whose `self` is a bytes object that holds the plan's address.
It checks each argument against its spec; on any difference it calls the plan's `slow` with the same
arguments, and what that returns or raises is the result.  A step whose status is not zero ends the
run: `fail(step << 32 | status, bytes that are missing)` is called, which raises (unless the status says that
something was raised).

`run_steps` (`steps_ir`) is the same loop for callers that bring their own pointers: the ctypes path, programs that
stop in Python between native segments, and loops (`loop_runs`).  All but loops, which run within it, come by
`run_program` (`flush_ir`), which looks up whether subnormal numbers are to be flushed.
"""

from __future__ import annotations

from ..kernel.nest import Status
from .argument_ir import ARGUMENTS
from .entered_ir import entered_ir
from .flush_ir import running_ir
from .pool_ir import pool_ir
from .steps_ir import RUN_STEPS
from .template import Template

__all__ = ["PLAN", "STEP_WORDS", "launcher_ir"]

#: The words (64 bits each) of a plan, in order.
PLAN = (
    "inputs", "outputs", "temporaries", "steps", "frame_words", "frame_bytes", "workspace_bytes", "is_long",
    "slots", "input_specs", "output_specs", "offsets", "step_table", "slow", "fail",
    "array_type", "float_type", "int_type", "bool_type", "complex_type", "allocator",
)  # fmt: skip
STEP_WORDS = 9

#: Frames up to this size live on the stack.  A Python thread has at least half a megabyte of it.
STACK_BYTES = 16384

# Names in capitals are filled in: offsets of CPython and NumPy that the self-check has confirmed.
_LAUNCH = Template("""
declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)

; The word of the plan with this number.
define internal i64 @word(ptr %plan, i64 %number) alwaysinline {
  %at = getelementptr i64, ptr %plan, i64 %number
  %value = load i64, ptr %at
  ret i64 %value
}
define internal ptr @address(ptr %plan, i64 %number) alwaysinline {
  %at = getelementptr ptr, ptr %plan, i64 %number
  %value = load ptr, ptr %at
  ret ptr %value
}

$ARGUMENTS
define internal void @release(ptr %objects, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %at.end = icmp eq i64 %i, %count
  br i1 %at.end, label %done, label %one
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_DecRef(ptr %object)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}

; Null, with the exception that the plan's `fail` raises.
define internal ptr @fail(ptr %plan, i64 %status, i64 %bytes) noinline {
entry:
  %numbers = alloca [2 x ptr]
  %code = call ptr @PyLong_FromLongLong(i64 %status)
  %no.code = icmp eq ptr %code, null
  br i1 %no.code, label %give.up, label %size
size:
  %size.object = call ptr @PyLong_FromLongLong(i64 %bytes)
  %no.size = icmp eq ptr %size.object, null
  br i1 %no.size, label %drop, label %say
say:
  %second = getelementptr ptr, ptr %numbers, i64 1
  store ptr %code, ptr %numbers
  store ptr %size.object, ptr %second
  %raises = call ptr @address(ptr %plan, i64 $fail)
  %never = call ptr @PyObject_Vectorcall(ptr %raises, ptr %numbers, i64 2, ptr null)
  call void @Py_DecRef(ptr %size.object)
  br label %drop
drop:
  call void @Py_DecRef(ptr %code)
  br label %give.up
give.up:
  ret ptr null
}

define ptr @launch(ptr %self, ptr %arguments, i64 %count) {
entry:
  %plan.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %plan = load ptr, ptr %plan.at, align 1
  %n.inputs = call i64 @word(ptr %plan, i64 $inputs)
  %is.count = icmp eq i64 %count, %n.inputs
  br i1 %is.count, label %try, label %call.slow
try:
  %result = call ptr @run_plan(ptr %plan, ptr %arguments, ptr null)
  %is.miss = icmp eq ptr %result, inttoptr (i64 1 to ptr)
  br i1 %is.miss, label %call.slow, label %done
done:
  ret ptr %result
call.slow:
  %slow = call ptr @address(ptr %plan, i64 $slow)
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %arguments, i64 %count, ptr null)
  ret ptr %answer
}

; Runs a plan on as many arguments as it has inputs: the result, null with an exception, or 1 for a miss.
; `program` says how the results are put together (`entered_ir`), null: as one tuple.  With one, an index out
; of range is a miss too.
define internal ptr @run_plan(ptr %plan, ptr %arguments, ptr %program) noinline {
entry:
  %n.inputs = call i64 @word(ptr %plan, i64 $inputs)
  %frame.bytes = call i64 @word(ptr %plan, i64 $frame_bytes)
  %workspace.bytes = call i64 @word(ptr %plan, i64 $workspace_bytes)
  %bytes = add i64 %frame.bytes, %workspace.bytes
  %is.small = icmp ule i64 %bytes, $STACK_BYTES
  br i1 %is.small, label %on.stack, label %on.heap
on.stack:
  %stack = alloca i8, i64 %bytes, align 64
  br label %framed
on.heap:
  %heap = call ptr @take(i64 %bytes)
  %no.heap = icmp eq ptr %heap, null
  br i1 %no.heap, label %no.memory, label %framed
no.memory:
  %no.frame = call ptr @fail(ptr %plan, i64 $NO_FRAME, i64 %bytes)
  ret ptr null
framed:
  %frame = phi ptr [ %stack, %on.stack ], [ %heap, %on.heap ]
  %to.free = phi ptr [ null, %on.stack ], [ %heap, %on.heap ]
  %n.slots = call i64 @word(ptr %plan, i64 $slots)
  %n.outputs = call i64 @word(ptr %plan, i64 $outputs)
  %frame.words = call i64 @word(ptr %plan, i64 $frame_words)
  ; from the end: objects, before them numbers, before them scratch
  %objects.first = sub i64 %frame.words, %n.outputs
  %objects = getelementptr ptr, ptr %frame, i64 %objects.first
  %numbers.words = shl i64 %n.inputs, 1
  %numbers.first = sub i64 %objects.first, %numbers.words
  %numbers = getelementptr i64, ptr %frame, i64 %numbers.first
  %scratch = getelementptr ptr, ptr %frame, i64 %n.slots
  %input.specs = call ptr @address(ptr %plan, i64 $input_specs)
  br label %input

input:
  %i = phi i64 [ 0, %framed ], [ %i.next, %input.good ]
  %inputs.done = icmp eq i64 %i, %n.inputs
  br i1 %inputs.done, label %make.outputs, label %check
check:
  %argument.at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument.at
  %spec = getelementptr %Spec, ptr %input.specs, i64 %i
  %cell = getelementptr { i64, i64 }, ptr %numbers, i64 %i
  %data = call ptr @data_of(ptr %plan, ptr %argument, ptr %spec, ptr %cell)
  %is.miss = icmp eq ptr %data, null
  br i1 %is.miss, label %miss, label %input.good
input.good:
  %slot.at = getelementptr ptr, ptr %frame, i64 %i
  store ptr %data, ptr %slot.at
  %i.next = add i64 %i, 1
  br label %input

make.outputs:
  %output.specs = call ptr @address(ptr %plan, i64 $output_specs)
  %output.slots = getelementptr ptr, ptr %frame, i64 %n.inputs
  %array.type = call ptr @address(ptr %plan, i64 $array_type)
  %allocator = call ptr @address(ptr %plan, i64 $allocator)
  br label %output
output:
  %o = phi i64 [ 0, %make.outputs ], [ %o.next, %output.good ]
  %outputs.done = icmp eq i64 %o, %n.outputs
  br i1 %outputs.done, label %make.temporaries, label %new
new:
  %output.spec = getelementptr %Spec, ptr %output.specs, i64 %o
  %output.slot.at = getelementptr ptr, ptr %output.slots, i64 %o
  %object.at = getelementptr ptr, ptr %objects, i64 %o
  %alloc.at = getelementptr %Spec, ptr %output.spec, i64 0, i32 3
  %alloc = load ptr, ptr %alloc.at
  %is.array = icmp eq ptr %alloc, null
  br i1 %is.array, label %new.array, label %new.scalar
new.scalar:
  %scalar.type.at = getelementptr %Spec, ptr %output.spec, i64 0, i32 4
  %scalar.type = load ptr, ptr %scalar.type.at
  %kept.at = getelementptr %Spec, ptr %output.spec, i64 0, i32 2
  %kept = load ptr, ptr %kept.at
  %scalar = call ptr @scalar(ptr %alloc, ptr %scalar.type, ptr %kept)
  %no.scalar = icmp eq ptr %scalar, null
  br i1 %no.scalar, label %failed, label %scalar.good
scalar.good:
  %scalar.data = getelementptr i8, ptr %scalar, i64 $SCALAR
  store ptr %scalar, ptr %object.at
  store ptr %scalar.data, ptr %output.slot.at
  br label %output.good
new.array:
  %descr = load ptr, ptr %output.spec
  %nd.at = getelementptr %Spec, ptr %output.spec, i64 0, i32 1
  %nd = load i64, ptr %nd.at
  %nd32 = trunc i64 %nd to i32
  %dims.at = getelementptr %Spec, ptr %output.spec, i64 0, i32 2
  %dims = load ptr, ptr %dims.at
  %size.at = getelementptr %Spec, ptr %output.spec, i64 0, i32 5
  %size = load i64, ptr %size.at
  %object.data = call ptr @take(i64 %size)
  %no.data = icmp eq ptr %object.data, null
  br i1 %no.data, label %no.data.left, label %wrap
no.data.left:
  %no.result.memory = call ptr @fail(ptr %plan, i64 $NO_MEMORY, i64 %size)
  br label %failed
wrap:
  call void @Py_IncRef(ptr %descr)                  ; the next call takes this reference
  %object = call ptr @new_array(ptr %array.type, ptr %descr, i32 %nd32, ptr %dims, ptr null, ptr %object.data,
                                i32 1281, ptr null) ; C-contiguous, aligned, writeable
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %no.wrap, label %array.good
no.wrap:
  call void @give(ptr %object.data)
  br label %failed
array.good:
  store ptr %object, ptr %object.at
  ; From here on the array gives its memory back to the pool when it dies.
  call void @Py_IncRef(ptr %allocator)
  %allocator.at = getelementptr i8, ptr %object, i64 $ALLOCATOR
  store ptr %allocator, ptr %allocator.at
  %object.flags.at = getelementptr i8, ptr %object, i64 $FLAGS
  %object.flags = load i32, ptr %object.flags.at
  %owning.flags = or i32 %object.flags, 4
  store i32 %owning.flags, ptr %object.flags.at
  store ptr %object.data, ptr %output.slot.at
  br label %output.good
output.good:
  %o.next = add i64 %o, 1
  br label %output

make.temporaries:
  %n.temporaries = call i64 @word(ptr %plan, i64 $temporaries)
  %offsets = call ptr @address(ptr %plan, i64 $offsets)
  %workspace = getelementptr i8, ptr %frame, i64 %frame.bytes
  %temporary.slots = getelementptr ptr, ptr %output.slots, i64 %n.outputs
  br label %temporary
temporary:
  %t = phi i64 [ 0, %make.temporaries ], [ %t.next, %place ]
  %temporaries.done = icmp eq i64 %t, %n.temporaries
  br i1 %temporaries.done, label %run, label %place
place:
  %offset.at = getelementptr i64, ptr %offsets, i64 %t
  %offset = load i64, ptr %offset.at
  %memory = getelementptr i8, ptr %workspace, i64 %offset
  %temporary.at = getelementptr ptr, ptr %temporary.slots, i64 %t
  store ptr %memory, ptr %temporary.at
  %t.next = add i64 %t, 1
  br label %temporary

run:
  %steps = call ptr @address(ptr %plan, i64 $step_table)
  %n.steps = call i64 @word(ptr %plan, i64 $steps)
  %is.long.word = call i64 @word(ptr %plan, i64 $is_long)
  %is.long = icmp ne i64 %is.long.word, 0
  br i1 %is.long, label %run.long, label %run.short
run.short:
  %status.short = call i64 @run_program(ptr %steps, i64 %n.steps, ptr %frame, ptr %scratch)
  br label %ran
run.long:
  ; The caller holds the arguments, the frame holds the outputs: nothing can go meanwhile.
  %thread = call ptr @PyEval_SaveThread()
  %status.long = call i64 @run_program(ptr %steps, i64 %n.steps, ptr %frame, ptr %scratch)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %ran
ran:
  %status = phi i64 [ %status.short, %run.short ], [ %status.long, %run.long ]
  %is.ok = icmp eq i64 %status, 0
  br i1 %is.ok, label %make.result, label %bad.status

make.result:
  %is.flat = icmp eq ptr %program, null
  br i1 %is.flat, label %make.tuple, label %put.together
put.together:
  %put = call ptr @put_together(ptr %program, ptr %objects)
  %no.put = icmp eq ptr %put, null
  br i1 %no.put, label %failed, label %was.put
was.put:
  call void @free_frame(ptr %to.free)
  ret ptr %put
make.tuple:
  %result = call ptr @PyTuple_New(i64 %n.outputs)
  %no.result = icmp eq ptr %result, null
  br i1 %no.result, label %failed, label %fill
fill:
  %r = phi i64 [ 0, %make.tuple ], [ %r.next, %fill.one ]
  %filled = icmp eq i64 %r, %n.outputs
  br i1 %filled, label %finish, label %fill.one
fill.one:
  %from = getelementptr ptr, ptr %objects, i64 %r
  %item = load ptr, ptr %from
  %items = getelementptr i8, ptr %result, i64 $ITEMS
  %item.at = getelementptr ptr, ptr %items, i64 %r
  store ptr %item, ptr %item.at
  %r.next = add i64 %r, 1
  br label %fill
finish:
  call void @free_frame(ptr %to.free)
  ret ptr %result

bad.status:
  call void @release(ptr %objects, i64 %n.outputs)
  call void @free_frame(ptr %to.free)
  %kind = trunc i64 %status to i32
  %is.raised = icmp eq i32 %kind, $INTERRUPTED
  br i1 %is.raised, label %give.up, label %not.raised
not.raised:
  %is.outside = icmp eq i32 %kind, $INDEX_OUT_OF_RANGE
  %is.refused = icmp eq i32 %kind, $REFUSED
  %is.told = or i1 %is.outside, %is.refused
  %says.more = icmp ne ptr %program, null
  %is.for.python = and i1 %is.told, %says.more
  br i1 %is.for.python, label %missed, label %say
say:
  %never = call ptr @fail(ptr %plan, i64 %status, i64 0)
  ret ptr %never
give.up:
  ret ptr null

failed:
  %made = phi i64 [ %o, %no.data.left ], [ %o, %no.wrap ], [ %o, %new.scalar ], [ %n.outputs, %make.tuple ],
                  [ %n.outputs, %put.together ]
  call void @release(ptr %objects, i64 %made)
  call void @free_frame(ptr %to.free)
  ret ptr null

miss:
  call void @free_frame(ptr %to.free)
  br label %missed
missed:
  ret ptr inttoptr (i64 1 to ptr)
}

define internal void @free_frame(ptr %memory) alwaysinline {
  %is.stack = icmp eq ptr %memory, null
  br i1 %is.stack, label %done, label %free
free:
  call void @give(ptr %memory)
  br label %done
done:
  ret void
}
""")


def launcher_ir(offsets: dict[str, int], *, is_linux: bool, processor: str) -> str:
    """The module: `run_program` and, when the offsets of CPython and NumPy are given, `launch` and the pool.

    offsets   TYPE of any object, DATA ND DIMS DESCR FLAGS ALLOCATOR of an array, DTYPE of the first word of
              a descr, SCALAR of a NumPy scalar's value, PAYLOAD of a bytes object, ITEMS of a tuple, SIZE of both
    processor as `modes.processor` names it
    """
    running = RUN_STEPS + running_ir(processor)
    if not offsets:
        return running
    words = {name: number for number, name in enumerate(PLAN)}
    arguments = ARGUMENTS.substitute(words, **offsets)
    own = dict(STACK_BYTES=STACK_BYTES, ARGUMENTS=arguments, INTERRUPTED=Status.INTERRUPTED.value)
    own |= dict(NO_MEMORY=Status.NO_MEMORY.value, NO_FRAME=1 << 32 | Status.NO_MEMORY.value)
    own |= dict(INDEX_OUT_OF_RANGE=Status.INDEX_OUT_OF_RANGE.value, REFUSED=Status.REFUSED.value)
    launch = _LAUNCH.substitute(words, **own, **offsets)
    return running + pool_ir(has_huge_pages=is_linux) + launch + entered_ir(offsets)
