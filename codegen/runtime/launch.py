"""The code between a Python call and the kernels, in native Python.

The same machine code runs every program; a `PlanWords` holds the data of one program.  A call has a frame:

    slots      one pointer per buffer: inputs, outputs, temporaries
    scratch    the pointers of the step that runs
    numbers    sixteen bytes per input, for arguments that are Python numbers
    objects    the output arrays, until the result holds them
    workspace, 64-byte aligned

A small frame lies on the stack.  Large frames and the memory of outputs come from the pool; an output array is made
around its memory, and owns it through the pool's allocator.

`launch` is a METH_FASTCALL function whose `self` is a bytes object that holds the plan's address.  It compares each
argument with its spec; on any difference it returns what the plan's `slow` returns for the same arguments.
A step with a nonzero status ends the run, and `fail(step << 32 | status, missing bytes)` raises (unless the status
is that of an interrupt, whose exception is already set).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..native import fn, i64, local, native, own, ptr, row, u8, u32, u64
from .call_objects import data_of, put_together
from .plan_words import MISS, EntryWords, PlanWords, Spec, entering
from .pool import from_pool, to_pool
from .recording_objects import HEAD, RawAddress, call, int_of, let_go, owning_array, tuple_of
from .run_steps import let_others, run_program, take_lock_again

#: Frames up to this size live on the stack.  A Python thread has at least half a megabyte of it.
STACK_BYTES = 16384
#: The status codes of a failed allocation: of a result (step 0), of a frame (step 1).
NO_RESULT, NO_FRAME = Status.NO_MEMORY.value, 1 << 32 | Status.NO_MEMORY.value

#: `tp_alloc` of a class of NumPy's scalars.
MakeScalar = fn[own, ptr, i64]


@native(inline=False)
def fail(plan: ptr[PlanWords], status: i64, size: i64) -> own:
    """Return null, with the exception that the plan's `fail` raises."""
    code: own = int_of(status)
    if code is None:
        return None
    missing: own = int_of(size)
    if missing is not None:
        _raised: own = call(plan.fail, row(code, missing), 2, None)
    return None


@native(inline=True)
def output(plan: ptr[PlanWords], spec: ptr[Spec], slot: ptr[ptr]) -> own:
    """A new object for an output, whose data address is written to the slot; null with an exception."""
    if spec.kind != 0:
        made: own = MakeScalar(ptr(spec.kind))(spec.scalar, 0)
        slot[0] = made + HEAD
        return made
    data = from_pool(u64(spec.bytes))
    if data is None:
        return fail(plan, NO_RESULT, spec.bytes)
    array: own = owning_array(entering.array_type, entering.allocator, spec.descr, spec.rank, spec.extents, data)
    if array is None:
        to_pool(data)
        return None
    slot[0] = data
    return array


@native(inline=True)
def run_in(plan: ptr[PlanWords], arguments: ptr[ptr], entry: ptr[EntryWords], slots: ptr[ptr]) -> own:
    """Run a plan as `run_plan` does, in a frame that starts at `slots`."""
    inputs = plan.inputs
    outputs = plan.outputs
    objects = ptr[own](slots + (plan.frame_words - outputs))
    numbers = slots + (plan.frame_words - outputs - 2 * inputs)
    specs = plan.input_specs
    for i in range(inputs):
        data = data_of(arguments[i], specs[i], ptr(numbers + 2 * i))
        if data is None:
            return ptr(MISS)
        slots[i] = data
    specs = plan.output_specs
    for o in range(outputs):
        ptr[ptr](objects)[o] = None
        objects[o] = output(plan, specs[o], slots + (inputs + o))
        if objects[o] is None:
            let_go(objects, o)
            return None
    workspace = ptr(slots) + plan.frame_bytes
    temporaries = slots + (inputs + outputs)
    offsets = plan.offsets
    for t in range(plan.temporaries):
        temporaries[t] = workspace + offsets[t]
    scratch = slots + plan.slots
    status = i64(0)
    if plan.is_long == 0:
        status = run_program(plan.step_table, plan.steps, slots, scratch)
    else:
        # The caller holds the arguments and the frame holds the outputs: no memory can be freed meanwhile.
        thread = let_others()
        status = run_program(plan.step_table, plan.steps, slots, scratch)
        take_lock_again(thread)
    result: own = None
    if status == 0:
        result = tuple_of(objects, outputs) if entry is None else put_together(entry, objects)
    let_go(objects, outputs)
    return result if status == 0 else not_run(plan, status, entry is not None)


@native(inline=False)
def not_run(plan: ptr[PlanWords], status: i64, is_entered: bool) -> own:
    """The result after a failed step: for an entry, an index out of range or refused numbers are a miss."""
    kind = u32(status)
    if kind == Status.INTERRUPTED.value:
        return None  # a signal handler has raised: its exception is set
    if is_entered and (kind == Status.INDEX_OUT_OF_RANGE.value or kind == Status.REFUSED.value):
        return ptr(MISS)
    return fail(plan, status, 0)


@native(inline=False)
def run_plan(plan: ptr[PlanWords], arguments: ptr[ptr], entry: ptr[EntryWords]) -> own:
    """Run a plan on one argument for each input; return the result, null with an exception, or MISS.

    entry    how the outputs are put together to the result; null: as one tuple
    """
    size = plan.frame_bytes + plan.workspace_bytes
    if size <= STACK_BYTES:
        return run_in(plan, arguments, entry, ptr[ptr](local(u8, size)))
    frame = from_pool(u64(size))
    if frame is None:
        return fail(plan, NO_FRAME, size)
    result: own = run_in(plan, arguments, entry, ptr[ptr](frame))
    to_pool(frame)
    return result


@native
def launch(self: ptr, arguments: ptr[ptr], count: i64) -> own:
    plan = ptr[PlanWords](ptr[RawAddress](self).payload)
    if count == plan.inputs:
        result: own = run_plan(plan, arguments, None)
        if result is not ptr(MISS):
            return result
    return call(plan.slow, arguments, u64(count), None)
