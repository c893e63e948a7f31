"""The recorder as LLVM IR text: an operation on handles whose classes and kinds have been met before.

Recording puts down small Python objects: a node per operation, a tuple of its inputs, a handle.  What is put
down for given operands is data, a *program*; it is found in a *table* by what the operands are.

    handle    object with a node                       node     object with kind, inputs, value, number
    kind      object with an out                       recording, config: objects whose flags are looked at
    table     entries: out (or number class) of each operand, grad mode, who owns the program, program
    program   see `record_table.PROGRAM_WORDS`; per step: kind, value, number of inputs, which: operands, then steps

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
from .record_put_ir import PUT
from .record_read_ir import READ
from .record_sites_ir import BINARY_SITE, CALL_SITE, SITES, UNARY_SITE
from .record_table import ENTRY_WORDS, MOST_NODES, MOST_STATICS, PROBES, PROGRAM_WORDS, SLOTS

__all__ = ["BINARY", "CALLS", "COMPARISONS", "DETACH", "POWER", "SITE_WORDS", "UNARY", "WORDS", "recorder_ir"]

#: How many entry points of each sort there are.
BINARY, UNARY, CALLS = 16, 8, 12
#: The sites behind those: the six comparisons, powers, leaving the history behind.
COMPARISONS = BINARY + UNARY + CALLS
POWER = COMPARISONS + 6
DETACH = POWER + 1

#: The words of the recorder.  Those that end in `_at` are offsets of fields.
WORDS = (
    "node_at", "masked_at", "kind_at", "inputs_at", "value_at", "number_at", "out_at",
    "start_at", "look_at_at", "body_at", "literal_at", "small_at", "limit_at", "careful_at", "site_at",
    "hooks_at", "retained_at", "leaf_at", "call_at", "leaf_hooks_at", "grad_at",
    "requires_grad_at", "flows_at", "cls_at", "asked_at", "looked_at", "lent_at", "tracing_at",
    "handle_type", "node_type", "rich_type", "kind_type", "float_type", "int_type", "list_type", "self_type",
    "dict_type", "leaf_type", "array_type",
    "none", "not_implemented", "true", "false", "zero", "config", "counter", "mode",
    "thread", "recording", "note_small", "look_at",
    "item_name", "python_numpy", "python_array", "python_item", "python_float", "python_get_grad", "python_set_grad",
)  # fmt: skip

#: A site: the address of its table's cell, who is called in circumstances, who for an unknown key; how many
#: arguments are operands, the others being static (0: all are operands).
SITE_WORDS = 4
#: Classes of handles are found in a table of this many places.
TYPES = 256
#: Arguments that a call can have beside the function, to be laid on the stack.
_MOST_ARGUMENTS = 16

_RECORDED = """
; A new reference to a new handle, null with an exception, 1 for CIRCUMSTANCE, 2 for UNKNOWN.  `x2` may be null.
define internal ptr @recorded(ptr %table.cell, ptr %x1, ptr %x2, ptr %statics, i64 %n.statics) {
entry:
  %node1.cell = alloca ptr
  %node2.cell = alloca ptr
  %mode.cell = alloca ptr
  %nodes = alloca [$MOST_NODES x ptr]
  %xs = alloca [2 x ptr]
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
  %bits.of.2 = ptrtoint ptr %key2 to i64
  br i1 %no.table, label %unknown, label %mix
mix:
  ; What is static goes into the second key; the program says exactly what it is for.
  %x = phi i64 [ 0, %look.up ], [ %x.next, %mix.one ]
  %bits2 = phi i64 [ %bits.of.2, %look.up ], [ %mixed.more, %mix.one ]
  %are.mixed = icmp eq i64 %x, %n.statics
  br i1 %are.mixed, label %hash, label %mix.one
mix.one:
  %x.name.at = getelementptr [2 x i64], ptr %statics, i64 %x
  %x.name = load i64, ptr %x.name.at
  %x.value.at = getelementptr i64, ptr %x.name.at, i64 1
  %x.value = load i64, ptr %x.value.at
  %x.pair = add i64 %x.name, %x.value
  %x.scaled = mul i64 %bits2, 31
  %mixed.more = add i64 %x.scaled, %x.pair
  %x.next = add i64 %x, 1
  br label %mix
hash:
  %bits1 = ptrtoint ptr %key1 to i64
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
  %entry2 = load i64, ptr %entry2.at
  %entry.mode.at = getelementptr ptr, ptr %entry.at, i64 2
  %entry.mode = load ptr, ptr %entry.mode.at
  %same1 = icmp eq ptr %entry1, %key1
  %same2 = icmp eq i64 %entry2, %bits2
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
  br i1 %is.hopeless, label %circumstance, label %exactly
exactly:
  %n.exact.at = getelementptr i64, ptr %program, i64 7
  %n.exact = load i64, ptr %n.exact.at
  %exact2.at = getelementptr ptr, ptr %program, i64 8
  %exact2 = load ptr, ptr %exact2.at
  %as.many = icmp eq i64 %n.exact, %n.statics
  %same.exact2 = icmp eq ptr %exact2, %key2
  %is.exact.so.far = and i1 %as.many, %same.exact2
  br i1 %is.exact.so.far, label %static, label %unknown
static:
  %q = phi i64 [ 0, %exactly ], [ %q.next, %static.same ]
  %are.same.statics = icmp eq i64 %q, %n.statics
  br i1 %are.same.statics, label %operands, label %static.one
static.one:
  %q.given.at = getelementptr [2 x ptr], ptr %statics, i64 %q
  %q.given = load <2 x i64>, ptr %q.given.at, align 8
  %q.exact.first = getelementptr ptr, ptr %program, i64 9
  %q.exact.at = getelementptr [2 x ptr], ptr %q.exact.first, i64 %q
  %q.exact = load <2 x i64>, ptr %q.exact.at, align 8
  %q.difference = xor <2 x i64> %q.given, %q.exact
  %q.any = call i64 @llvm.vector.reduce.or.v2i64(<2 x i64> %q.difference)
  %q.is.same = icmp eq i64 %q.any, 0
  br i1 %q.is.same, label %static.same, label %unknown
static.same:
  %q.next = add i64 %q, 1
  br label %static
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
  %x2.at = getelementptr ptr, ptr %xs, i64 1
  store ptr %x1, ptr %xs
  store ptr %x2, ptr %x2.at
  %operand.count = select i1 %is.unary, i64 1, i64 2
  %y = call ptr @put(ptr %program, ptr %owner, ptr %recording, ptr %xs, ptr %nodes, i64 %operand.count)
  ret ptr %y
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

    offsets   TYPE of any object, PAYLOAD of a bytes object, ND and FLAGS of an array
    """
    words = {name: number for number, name in enumerate(WORDS)}
    blocks = {name: number for block in (BLOCK, FINISH) for number, name in enumerate(block)}
    assert not words.keys() & blocks.keys() and len(blocks) == len(BLOCK) + len(FINISH)
    text = Template(PARTS + PUT + _RECORDED + SITES + READ + CHECKS + COMMIT).substitute(
        words | blocks,
        REFERENCES=offsets["TYPE"] - 8,
        COUNT=len(WORDS),
        SITES=DETACH + 1,
        DETACH=DETACH,
        COMPARISONS=COMPARISONS,
        POWER=POWER,
        MOST_STATICS=MOST_STATICS,
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
