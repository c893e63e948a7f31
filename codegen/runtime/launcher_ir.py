"""The generic launcher as LLVM IR text: the code between a Python call and the kernels.

One piece of machine code serves every program; what differs is data, in a *plan block*:

    plan     counts, sizes and the addresses of the tables below        `PLAN` names its words
    spec     one per input, then one per output: descr, nd, dims, kind of number, NumPy scalar type
    step     function, number of pointers, their slots, extents, and how it is shared among threads:
             the function that shares it out (null: nobody does), number of extents, blocks, chunk,
             total (`threads_ir`)

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
run: `fail(step << 32 | status)` is called, which raises (unless it says that something was raised).

`run_steps` is the same loop for callers that bring their own pointers: the ctypes path, programs that
stop in Python between native segments, and loops (`loop_ir`).
"""

from __future__ import annotations

from string import Template

from ..kernel.nest import Status
from .argument_ir import ARGUMENTS
from .loop_ir import COPY, LOOP_IR
from .pool_ir import pool_ir

__all__ = ["PLAN", "SPEC_WORDS", "STEP_WORDS", "launcher_ir"]

#: The words (64 bits each) of a plan, in order.
PLAN = (
    "inputs", "outputs", "temporaries", "steps", "frame_words", "frame_bytes", "workspace_bytes", "is_long",
    "slots", "input_specs", "output_specs", "offsets", "step_table", "slow", "fail",
    "array_type", "float_type", "int_type", "bool_type", "complex_type", "allocator",
)  # fmt: skip
SPEC_WORDS = 6
STEP_WORDS = 9

#: Frames up to this size live on the stack.  A Python thread has at least half a megabyte of it.
STACK_BYTES = 16384

_RUN_STEPS = """
%Step = type { ptr, i64, ptr, ptr, ptr, i64, i64, i64, i64 }
%Spec = type { ptr, i64, ptr, i64, ptr, i64 }

; Runs `count` steps.  Returns 0, or step << 32 | status of the one that failed.
define i64 @run_steps(ptr %steps, i64 %count, ptr %slots, ptr %scratch) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %step
step:
  %s = phi i64 [ 0, %entry ], [ %s.next, %ran ]
  %at = getelementptr %Step, ptr %steps, i64 %s
  %function = load ptr, ptr %at
  %n.at = getelementptr %Step, ptr %at, i64 0, i32 1
  %n = load i64, ptr %n.at
  %places.at = getelementptr %Step, ptr %at, i64 0, i32 2
  %places = load ptr, ptr %places.at
  %extents.at = getelementptr %Step, ptr %at, i64 0, i32 3
  %extents = load ptr, ptr %extents.at
  %no.pointers = icmp eq i64 %n, 0
  br i1 %no.pointers, label %call, label %pointer
pointer:
  %j = phi i64 [ 0, %step ], [ %j.next, %pointer ]
  %place.at = getelementptr i64, ptr %places, i64 %j
  %place = load i64, ptr %place.at
  %from = getelementptr ptr, ptr %slots, i64 %place
  %data = load ptr, ptr %from
  %to = getelementptr ptr, ptr %scratch, i64 %j
  store ptr %data, ptr %to
  %j.next = add i64 %j, 1
  %more.pointers = icmp ult i64 %j.next, %n
  br i1 %more.pointers, label %pointer, label %call, !llvm.loop !0
call:
  %share.at = getelementptr %Step, ptr %at, i64 0, i32 4
  %share = load ptr, ptr %share.at
  %is.alone = icmp eq ptr %share, null
  br i1 %is.alone, label %alone, label %shared
alone:
  %status.alone = call i32 %function(ptr %scratch, ptr %extents)
  br label %called
shared:
  %n.extents.at = getelementptr %Step, ptr %at, i64 0, i32 5
  %n.extents = load i64, ptr %n.extents.at
  %blocks.at = getelementptr %Step, ptr %at, i64 0, i32 6
  %blocks = load i64, ptr %blocks.at
  %chunk.at = getelementptr %Step, ptr %at, i64 0, i32 7
  %chunk = load i64, ptr %chunk.at
  %total.at = getelementptr %Step, ptr %at, i64 0, i32 8
  %total = load i64, ptr %total.at
  %status.shared = call i32 %share(ptr %function, ptr %scratch, ptr %extents, i64 %n.extents, i64 %blocks,
                                   i64 %chunk, i64 %total)
  br label %called
called:
  %status = phi i32 [ %status.alone, %alone ], [ %status.shared, %shared ]
  %is.ok = icmp eq i32 %status, 0
  br i1 %is.ok, label %ran, label %failed
ran:
  %s.next = add i64 %s, 1
  %more.steps = icmp ult i64 %s.next, %count
  br i1 %more.steps, label %step, label %done
failed:
  %low = zext i32 %status to i64
  %high = shl i64 %s, 32
  %both = or i64 %high, %low
  ret i64 %both
done:
  ret i64 0
}

; The same while other threads may hold the interpreter's lock.
define i64 @run_steps_unlocked(ptr %steps, i64 %count, ptr %slots, ptr %scratch) {
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 @run_steps(ptr %steps, i64 %count, ptr %slots, ptr %scratch)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %status
}

; A handful of pointers: vectors would only cost.
!0 = distinct !{!0, !1, !2}
!1 = !{!"llvm.loop.vectorize.enable", i1 false}
!2 = !{!"llvm.loop.unroll.disable"}
"""

# Names in capitals are filled in: offsets of CPython and NumPy that the self-check has confirmed.
_LAUNCH = Template("""
declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyErr_NoMemory()

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

define ptr @launch(ptr %self, ptr %arguments, i64 %count) {
entry:
  %plan.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %plan = load ptr, ptr %plan.at, align 1
  %n.inputs = call i64 @word(ptr %plan, i64 $inputs)
  %is.count = icmp eq i64 %count, %n.inputs
  br i1 %is.count, label %make.frame, label %call.slow

make.frame:
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
  %error = call ptr @PyErr_NoMemory()
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
  %error.data = call ptr @PyErr_NoMemory()
  br label %failed
wrap:
  call void @Py_IncRef(ptr %descr)                  ; the next call takes this reference
  %object = call ptr @new_array(ptr %array.type, ptr %descr, i32 %nd32, ptr %dims, ptr null, ptr %object.data,
                                i32 1281, ptr null) ; C-contiguous, aligned, writeable
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %no.wrap, label %output.good
no.wrap:
  call void @give(ptr %object.data)
  br label %failed
output.good:
  %object.at = getelementptr ptr, ptr %objects, i64 %o
  store ptr %object, ptr %object.at
  ; From here on the array gives its memory back to the pool when it dies.
  call void @Py_IncRef(ptr %allocator)
  %allocator.at = getelementptr i8, ptr %object, i64 $ALLOCATOR
  store ptr %allocator, ptr %allocator.at
  %object.flags.at = getelementptr i8, ptr %object, i64 $FLAGS
  %object.flags = load i32, ptr %object.flags.at
  %owning.flags = or i32 %object.flags, 4
  store i32 %owning.flags, ptr %object.flags.at
  %output.slot.at = getelementptr ptr, ptr %output.slots, i64 %o
  store ptr %object.data, ptr %output.slot.at
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
  %status.short = call i64 @run_steps(ptr %steps, i64 %n.steps, ptr %frame, ptr %scratch)
  br label %ran
run.long:
  ; The caller holds the arguments, the frame holds the outputs: nothing can go meanwhile.
  %thread = call ptr @PyEval_SaveThread()
  %status.long = call i64 @run_steps(ptr %steps, i64 %n.steps, ptr %frame, ptr %scratch)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %ran
ran:
  %status = phi i64 [ %status.short, %run.short ], [ %status.long, %run.long ]
  %is.ok = icmp eq i64 %status, 0
  br i1 %is.ok, label %make.result, label %bad.status

make.result:
  %result = call ptr @PyTuple_New(i64 %n.outputs)
  %no.result = icmp eq ptr %result, null
  br i1 %no.result, label %failed, label %fill
fill:
  %r = phi i64 [ 0, %make.result ], [ %r.next, %fill.one ]
  %filled = icmp eq i64 %r, %n.outputs
  br i1 %filled, label %finish, label %fill.one
fill.one:
  %from = getelementptr ptr, ptr %objects, i64 %r
  %item = load ptr, ptr %from
  %set = call i32 @PyTuple_SetItem(ptr %result, i64 %r, ptr %item)
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
  br i1 %is.raised, label %give.up, label %say
say:
  %code = call ptr @PyLong_FromLongLong(i64 %status)
  %no.code = icmp eq ptr %code, null
  br i1 %no.code, label %give.up, label %call.fail
give.up:
  ret ptr null
call.fail:
  %fail = call ptr @address(ptr %plan, i64 $fail)
  %cell.of.code = alloca ptr
  store ptr %code, ptr %cell.of.code
  %never = call ptr @PyObject_Vectorcall(ptr %fail, ptr %cell.of.code, i64 1, ptr null)
  call void @Py_DecRef(ptr %code)
  ret ptr %never

failed:
  %made = phi i64 [ %o, %no.data.left ], [ %o, %no.wrap ], [ %n.outputs, %make.result ]
  call void @release(ptr %objects, i64 %made)
  call void @free_frame(ptr %to.free)
  ret ptr null

miss:
  call void @free_frame(ptr %to.free)
  br label %call.slow
call.slow:
  %slow = call ptr @address(ptr %plan, i64 $slow)
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %arguments, i64 %count, ptr null)
  ret ptr %answer
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


def launcher_ir(offsets: dict[str, int], *, is_linux: bool) -> str:
    """The module: `run_steps`, `run_loop` and, when the offsets of CPython and NumPy are given, `launch` and the pool.

    offsets   TYPE of any object, DATA ND DIMS DESCR FLAGS ALLOCATOR of an array, DTYPE of the first word of
              a descr, SCALAR of a NumPy scalar's value, PAYLOAD of a bytes object
    """
    if not offsets:
        return _RUN_STEPS + COPY + LOOP_IR
    words = {name: number for number, name in enumerate(PLAN)}
    arguments = ARGUMENTS.substitute(words, **offsets)
    own = dict(STACK_BYTES=STACK_BYTES, ARGUMENTS=arguments, INTERRUPTED=Status.INTERRUPTED.value)
    launch = _LAUNCH.substitute(words, **own, **offsets)
    return _RUN_STEPS + LOOP_IR + pool_ir(has_huge_pages=is_linux) + launch
