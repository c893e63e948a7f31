"""The recorder as LLVM IR text: an operation on handles whose classes and kinds have been met before.

Recording puts down small Python objects: a node per operation, a tuple of its inputs, a handle.  What is put
down for given operands is data, a *program*; it is found in a *table* by what the operands are.

    handle    object with a node                       node     object with kind, inputs, value, number
    kind      object with an out                       recording, config: objects whose flags are looked at
    table     entries of $KEYS words: out (or number class) of each operand, grad mode, who owns the program, program
    program   number of steps, class of the handle, flags, kind of a number, then per step: kind, value,
              number of inputs, which: operands first, then steps

`recorded` answers from a table, or gives `CIRCUMSTANCE` (not now: a trace, another thread, an older operand)
or `UNKNOWN` (no entry), and then the Python function that the *site* names for it is called.  Sites are the
entry points: an operator of a class (`binary_0`, `unary_0`, ...), the call of a function (`call_0`, ...).

Where the fields of the objects are is found out when the recorder is set up (`record`), and kept in the words
of `@recorder`, named by `WORDS`.  Arbitrary Python may run wherever something is allocated (the garbage
collector): so every object that is looked at again afterwards is held by a reference of our own.
"""

from __future__ import annotations

from string import Template

from .check_ir import BLOCK, CHECKS
from .commit_ir import COMMIT, FINISH
from .record_parts_ir import PARTS
from .record_sites_ir import BINARY_SITE, CALL_SITE, SITES, UNARY_SITE

__all__ = ["BINARY", "CALLS", "ENTRY_WORDS", "MOST_NODES", "PROBES", "PROGRAM_WORDS", "SITE_WORDS", "SLOTS",
           "TYPES", "UNARY", "WORDS", "recorder_ir"]  # fmt: skip

#: How many entry points of each sort there are.
BINARY, UNARY, CALLS = 16, 8, 12

#: The words of the recorder.  Those that end in `_at` are offsets of fields.
WORDS = (
    "node_at", "masked_at", "kind_at", "inputs_at", "value_at", "number_at", "out_at",
    "start_at", "look_at_at", "body_at", "literal_at", "small_at", "limit_at", "careful_at", "site_at",
    "hooks_at", "retained_at", "leaf_at", "call_at", "leaf_hooks_at", "grad_at",
    "handle_type", "node_type", "rich_type", "kind_type", "float_type", "int_type", "list_type", "self_type",
    "dict_type", "leaf_type",
    "none", "true", "false", "zero", "config", "counter", "mode", "thread", "recording", "note_small", "look_at",
)  # fmt: skip

#: A site: the address of its table's cell, who is called in circumstances, who for an unknown key.
SITE_WORDS = 3
#: An entry: two keys, mode, owner, program.
ENTRY_WORDS = 5
#: A table has this many places, and an entry is at most PROBES - 1 places behind its own.
SLOTS, PROBES = 64, 4
#: Classes of handles are found in a table of this many places.
TYPES = 256
#: A program: steps, class, is small, operands must differ, kind of a number; then the steps.
PROGRAM_WORDS = 5
#: Arguments that a call can have beside the function, to be laid on the stack.
_MOST_ARGUMENTS = 16
#: Operands and steps of a program.
MOST_NODES = 64

_RECORDED = """
; A new reference to a new handle, null with an exception, 1 for CIRCUMSTANCE, 2 for UNKNOWN.  `x2` may be null.
define internal ptr @recorded(ptr %table.cell, ptr %x1, ptr %x2) {
entry:
  %node1.cell = alloca ptr
  %node2.cell = alloca ptr
  %mode.cell = alloca ptr
  %nodes = alloca [$MOST_NODES x ptr]
  %look.arguments = alloca [2 x ptr]
  %config = call ptr @own.object(i64 $config)
  %careful = call ptr @field(ptr %config, i64 $careful_at)
  %false = call ptr @own.object(i64 $false)
  %is.careless = icmp eq ptr %careful, %false
  br i1 %is.careless, label %which.thread, label %circumstance
which.thread:
  %state = call ptr @PyThreadState_Get()
  %thread = call i64 @PyThreadState_GetID(ptr %state)
  %known.thread = call i64 @own(i64 $thread)
  %same.thread = icmp eq i64 %thread, %known.thread
  br i1 %same.thread, label %here, label %circumstance
here:
  %recording = call ptr @own.object(i64 $recording)
  %literal = call ptr @field(ptr %recording, i64 $literal_at)
  %is.program = icmp eq ptr %literal, %false
  br i1 %is.program, label %first, label %circumstance
first:
  %key1 = call ptr @key_of(ptr %x1, ptr %recording, ptr %node1.cell)
  %no.key1 = icmp eq ptr %key1, null
  br i1 %no.key1, label %circumstance, label %is.second
is.second:
  store ptr null, ptr %node2.cell
  %is.unary = icmp eq ptr %x2, null
  br i1 %is.unary, label %keyed, label %second
second:
  %key2.found = call ptr @key_of(ptr %x2, ptr %recording, ptr %node2.cell)
  %no.key2 = icmp eq ptr %key2.found, null
  br i1 %no.key2, label %circumstance, label %keyed
keyed:
  %key2 = phi ptr [ null, %is.second ], [ %key2.found, %second ]
  %mode.var = call ptr @own.object(i64 $mode)
  %mode.status = call i32 @PyContextVar_Get(ptr %mode.var, ptr null, ptr %mode.cell)
  %mode = load ptr, ptr %mode.cell
  %mode.bad = icmp slt i32 %mode.status, 0
  br i1 %mode.bad, label %error, label %mode.got
mode.got:
  %no.mode = icmp eq ptr %mode, null
  br i1 %no.mode, label %circumstance, label %look.up
look.up:
  call void @Py_DecRef(ptr %mode)                 ; True or False: it stays
  %table = load ptr, ptr %table.cell
  %no.table = icmp eq ptr %table, null
  br i1 %no.table, label %unknown, label %hash
hash:
  %bits1 = ptrtoint ptr %key1 to i64
  %bits2 = ptrtoint ptr %key2 to i64
  %low1 = lshr i64 %bits1, 4
  %low2 = lshr i64 %bits2, 4
  %scaled = mul i64 %low1, 31
  %sum = add i64 %scaled, %low2
  %folded = lshr i64 %sum, 7
  %mixed = xor i64 %sum, %folded
  %first.place = and i64 %mixed, $SLOTS_MASK
  br label %probe
probe:
  %p = phi i64 [ 0, %hash ], [ %p.next, %other ]
  %place = add i64 %first.place, %p
  %entry.at = getelementptr [$ENTRY_WORDS x ptr], ptr %table, i64 %place
  %entry1 = load ptr, ptr %entry.at
  %entry2.at = getelementptr ptr, ptr %entry.at, i64 1
  %entry2 = load ptr, ptr %entry2.at
  %entry.mode.at = getelementptr ptr, ptr %entry.at, i64 2
  %entry.mode = load ptr, ptr %entry.mode.at
  %same1 = icmp eq ptr %entry1, %key1
  %same2 = icmp eq ptr %entry2, %key2
  %same.mode = icmp eq ptr %entry.mode, %mode
  %both = and i1 %same1, %same2
  %is.entry = and i1 %both, %same.mode
  br i1 %is.entry, label %found, label %other
other:
  %p.next = add i64 %p, 1
  %more = icmp ult i64 %p.next, $PROBES
  br i1 %more, label %probe, label %unknown

found:
  %owner.at = getelementptr ptr, ptr %entry.at, i64 3
  %owner = load ptr, ptr %owner.at
  %program.at = getelementptr ptr, ptr %entry.at, i64 4
  %program = load ptr, ptr %program.at
  %is.hopeless = icmp eq ptr %program, null
  br i1 %is.hopeless, label %circumstance, label %operands
operands:
  %node1 = load ptr, ptr %node1.cell
  %node2 = load ptr, ptr %node2.cell
  %distinct.at = getelementptr i64, ptr %program, i64 3
  %distinct = load i64, ptr %distinct.at
  %wants.two = icmp ne i64 %distinct, 0
  %are.same = icmp eq ptr %node1, %node2
  %is.doubled = and i1 %wants.two, %are.same
  br i1 %is.doubled, label %circumstance, label %hold
hold:
  ; From here on the program and the nodes are ours, whatever happens to the table and the handles.
  call void @Py_IncRef(ptr %owner)
  call void @Py_IncRef(ptr %node1)                ; null, for a number, is fine
  call void @Py_IncRef(ptr %node2)
  %node2.at = getelementptr ptr, ptr %nodes, i64 1
  store ptr %node1, ptr %nodes
  store ptr %node2, ptr %node2.at
  %operand.count = select i1 %is.unary, i64 1, i64 2
  %number.kind.at = getelementptr ptr, ptr %program, i64 4
  %number.kind = load ptr, ptr %number.kind.at
  %is.number1 = icmp eq ptr %node1, null
  br i1 %is.number1, label %number1, label %next.operand
number1:
  %made1 = call ptr @number_node(ptr %x1, ptr %number.kind)
  store ptr %made1, ptr %nodes
  %no.made1 = icmp eq ptr %made1, null
  br i1 %no.made1, label %release, label %next.operand
next.operand:
  %is.handle2 = icmp ne ptr %node2, null
  %is.no.number2 = or i1 %is.unary, %is.handle2
  br i1 %is.no.number2, label %step.first, label %number2
number2:
  %made2 = call ptr @number_node(ptr %x2, ptr %number.kind)
  store ptr %made2, ptr %node2.at
  %no.made2 = icmp eq ptr %made2, null
  br i1 %no.made2, label %release, label %step.first
step.first:
  %steps = load i64, ptr %program
  %steps.at = getelementptr i64, ptr %program, i64 $PROGRAM_WORDS
  br label %step
step:
  %s = phi i64 [ 0, %step.first ], [ %s.next, %stepped ]
  %count = phi i64 [ %operand.count, %step.first ], [ %count.next, %stepped ]
  %at = phi ptr [ %steps.at, %step.first ], [ %at.next, %stepped ]
  %kind = load ptr, ptr %at
  %value.at = getelementptr ptr, ptr %at, i64 1
  %value = load ptr, ptr %value.at
  %n.at = getelementptr i64, ptr %at, i64 2
  %n = load i64, ptr %n.at
  %picks = getelementptr i64, ptr %at, i64 3
  %node = call ptr @new_node(ptr %kind, ptr %value)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %release, label %wire
wire:
  %node.at = getelementptr ptr, ptr %nodes, i64 %count
  store ptr %node, ptr %node.at
  %count.next = add i64 %count, 1
  %inputs = call ptr @PyTuple_New(i64 %n)
  %no.inputs = icmp eq ptr %inputs, null
  br i1 %no.inputs, label %release, label %input
input:
  %i = phi i64 [ 0, %wire ], [ %i.next, %put ]
  %wired = icmp eq i64 %i, %n
  br i1 %wired, label %stepped, label %put
put:
  %pick.at = getelementptr i64, ptr %picks, i64 %i
  %pick = load i64, ptr %pick.at
  %picked.at = getelementptr ptr, ptr %nodes, i64 %pick
  %picked = load ptr, ptr %picked.at
  call void @Py_IncRef(ptr %picked)
  %never.bad = call i32 @PyTuple_SetItem(ptr %inputs, i64 %i, ptr %picked)
  %i.next = add i64 %i, 1
  br label %input
stepped:
  call void @set_field(ptr %node, i64 $inputs_at, ptr %inputs)
  %s.next = add i64 %s, 1
  %at.next = getelementptr i64, ptr %picks, i64 %n
  %more.steps = icmp ult i64 %s.next, %steps
  br i1 %more.steps, label %step, label %handle

handle:
  %class.at = getelementptr ptr, ptr %program, i64 1
  %class = load ptr, ptr %class.at
  %y = call ptr @PyType_GenericAlloc(ptr %class, i64 0)
  %no.y = icmp eq ptr %y, null
  br i1 %no.y, label %release, label %name
name:
  call void @Py_IncRef(ptr %node)
  call void @set_field(ptr %y, i64 $node_at, ptr %node)
  %body = call ptr @field(ptr %recording, i64 $body_at)
  %zero = call ptr @own.object(i64 $zero)
  %is.outside = icmp eq ptr %body, %zero
  br i1 %is.outside, label %mask, label %inside
inside:
  %masked1 = call i1 @is_masked(ptr %x1, ptr %node1)
  %masked2 = call i1 @is_masked(ptr %x2, ptr %node2)
  %masked.any = or i1 %masked1, %masked2
  br label %mask
mask:
  %is.masked = phi i1 [ false, %name ], [ %masked.any, %inside ]
  %true = call ptr @own.object(i64 $true)
  %masked = select i1 %is.masked, ptr %true, ptr %false
  call void @Py_IncRef(ptr %masked)
  call void @set_field(ptr %y, i64 $masked_at, ptr %masked)
  %small.at = getelementptr i64, ptr %program, i64 2
  %small = load i64, ptr %small.at
  %is.large = icmp eq i64 %small, 0
  br i1 %is.large, label %size, label %note
note:
  %noted = call i32 @note(ptr %recording, ptr %y)
  %note.failed = icmp ne i32 %noted, 0
  br i1 %note.failed, label %drop, label %size
size:
  %made = call i64 @number_in(ptr %node, i64 $number_at, i64 0)
  %limit = call i64 @number_in(ptr %recording, i64 $look_at_at, i64 0)
  %is.long = icmp sgt i64 %made, %limit
  br i1 %is.long, label %look, label %release
look:
  %look.function = call ptr @own.object(i64 $look_at)
  store ptr %recording, ptr %look.arguments
  %look.second = getelementptr ptr, ptr %look.arguments, i64 1
  store ptr %inputs, ptr %look.second
  %looked = call ptr @PyObject_Vectorcall(ptr %look.function, ptr %look.arguments, i64 2, ptr null)
  %look.failed = icmp eq ptr %looked, null
  br i1 %look.failed, label %drop, label %looked.at
looked.at:
  call void @Py_DecRef(ptr %looked)
  br label %release
drop:
  call void @Py_DecRef(ptr %y)
  br label %release

release:
  %result = phi ptr [ null, %number1 ], [ null, %number2 ], [ null, %step ], [ null, %wire ], [ null, %handle ],
                    [ null, %drop ], [ %y, %size ], [ %y, %looked.at ]
  %held = phi i64 [ %operand.count, %number1 ], [ %operand.count, %number2 ], [ %count, %step ], [ %count.next, %wire ],
                  [ %count.next, %handle ], [ %count.next, %drop ], [ %count.next, %size ], [ %count.next, %looked.at ]
  br label %each
each:
  %h = phi i64 [ 0, %release ], [ %h.next, %one ]
  %all = icmp eq i64 %h, %held
  br i1 %all, label %done, label %one
one:
  %held.at = getelementptr ptr, ptr %nodes, i64 %h
  %held.node = load ptr, ptr %held.at
  call void @Py_DecRef(ptr %held.node)
  %h.next = add i64 %h, 1
  br label %each
done:
  call void @Py_DecRef(ptr %owner)
  ret ptr %result

error:
  ret ptr null
circumstance:
  ret ptr inttoptr (i64 1 to ptr)
unknown:
  ret ptr inttoptr (i64 2 to ptr)
}
"""


def recorder_ir(offsets: dict[str, int]) -> str:
    """The module of the recorder.

    offsets   TYPE of any object, PAYLOAD of a bytes object
    """
    words = {name: number for number, name in enumerate(WORDS)}
    blocks = {name: number for block in (BLOCK, FINISH) for number, name in enumerate(block)}
    assert not words.keys() & blocks.keys() and len(blocks) == len(BLOCK) + len(FINISH)
    text = Template(PARTS + _RECORDED + SITES + CHECKS + COMMIT).substitute(
        words | blocks,
        REFERENCES=offsets["TYPE"] - 8,
        COUNT=len(WORDS),
        SITES=BINARY + UNARY + CALLS,
        TYPES=TYPES,
        TYPES_MASK=TYPES - 1,
        SLOTS_MASK=SLOTS - 1,
        ENTRY_WORDS=ENTRY_WORDS,
        PROBES=PROBES,
        PROGRAM_WORDS=PROGRAM_WORDS,
        MOST_NODES=MOST_NODES,
        MOST_ARGUMENTS=_MOST_ARGUMENTS,
        **offsets,
    )
    sites = iter(range(BINARY + UNARY + CALLS))
    for template, count in ((BINARY_SITE, BINARY), (UNARY_SITE, UNARY), (CALL_SITE, CALLS)):
        text += "".join([Template(template).substitute(NUMBER=n, SITE=next(sites)) for n in range(count)])
    return text
