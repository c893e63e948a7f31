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

from .answer_ir import ANSWERS
from .record_grad_ir import GRAD
from .record_here_ir import HERE
from .record_key_ir import KEY
from .record_leaf_ir import LEAF, LEAF_WORDS, POOLED
from .record_life_ir import DEEPEST, KEPT, LIFE
from .record_loan_ir import LOAN
from .record_nodes_ir import NODES
from .record_note_ir import LOOKED_BACK, NOTE
from .record_operators_ir import BINARY_SITE, OPERATORS, UNARY_SITE
from .record_parts_ir import PARTS
from .record_put_ir import PUT
from .record_read_ir import READ
from .record_sites_ir import CALL_SITE, METHOD_SITE, SITES
from .record_static_ir import STATIC
from .record_subscript_ir import SUBSCRIPT as SUBSCRIPT_TEXT
from .record_table import (
    ENTRY_WORDS,
    FIRST_BOUND,
    FIRST_STATIC,
    KEYED,
    MOST_EXTENTS,
    MOST_KNOWN,
    MOST_NODES,
    MOST_OPERANDS,
    MOST_STATICS,
    N_BOUNDS,
    N_STATICS,
    PROGRAM_WORDS,
    SETS,
    SPREAD,
    WAYS,
)  # fmt: skip
from .record_update_ir import IN_PLACE_SITE, UPDATE
from .slots import DEALLOC
from .template import Template

__all__ = [
    "ASSIGN", "BINARY", "CALLS", "COMPARISONS", "DETACH", "FIRST_IN_PLACE", "FIRST_METHOD", "METHODS", "POWER",
    "SITES_IN_ALL", "SITE_WORDS", "SUBSCRIPT", "UNARY", "WORDS", "recorder_ir",
]  # fmt: skip

#: How many entry points of each sort there are.
BINARY, UNARY, CALLS, METHODS = 16, 8, 12, 64
#: The sites behind those: the six comparisons, powers, leaving the history behind, `x[key]`, `x[key] = v`, methods,
#: and what is in place, by the number of the operator.
COMPARISONS = BINARY + UNARY + CALLS
POWER = COMPARISONS + 6
DETACH = POWER + 1
SUBSCRIPT = DETACH + 1
ASSIGN = SUBSCRIPT + 1
FIRST_METHOD = ASSIGN + 1
FIRST_IN_PLACE = FIRST_METHOD + METHODS
SITES_IN_ALL = FIRST_IN_PLACE + BINARY

#: The words of the recorder.  Those that end in `_at` are offsets of fields.
WORDS = (
    "node_at", "masked_at", "kind_at", "inputs_at", "first_at", "second_at", "value_at", "number_at", "mark_at",
    "out_at", "op_at", "released_at", "weak_at",
    "start_at", "look_at_at", "body_at", "literal_at", "small_at", "limit_at", "careful_at", "watching_at", "site_at",
    "hooks_at", "retained_at", "leaf_at", "call_at", "leaf_hooks_at", "grad_at",
    "rich_line_at", "rich_body_at", "flow_at", "slot_at", "as_leaf_at", "rich_references_at", "note_updated",
    "requires_grad_at", "flows_at", "cls_at", "shape_at", "asked_at", "looked_at", "lent_at", "lends_at", "few",
    "allocator", "tracing_at", "transforming_at", "since_at",
    "handle_type", "node_type", "rich_type", "kind_type", "float_type", "int_type", "list_type", "self_type",
    "dict_type", "leaf_type", "array_type", "tuple_type", "slice_type",
    "float64_type", "float32_type", "int64_type", "int64_descr", "ellipsis", "start_kind", "is_small_at",
    "none", "not_implemented", "true", "false", "zero", "config", "counter", "mode",
    "references_at", "usual_dealloc", "thread", "recording", "note_small", "look_at", "force",
    "item_name", "python_numpy", "python_array", "python_item", "python_float", "python_get_grad", "python_set_grad",
    "python_bool", "answer_value",
    "lender_type", "lent", "lender_array_at", "lender_loans_at", "lender_was_writeable_at", "callback_name", "prune",
)  # fmt: skip

#: A site: the address of its table's cell, who is called in circumstances, who for an unknown key; which of its
#: arguments are operands (`record_sites_ir`).
SITE_WORDS = 4
#: Classes of handles are found in a table of this many places.
TYPES = 256
#: Kinds of leaves are found in a table of so many places.
LEAVES = 512
#: Arguments that a call can have beside the function, to be laid on the stack.
_MOST_ARGUMENTS = 16

_RECORDED = """
; The program in a table for these keys of operands and statics, with its owner in `cell`: 1 for CIRCUMSTANCE, 2 for
; UNKNOWN.  Statics are pairs of name and value, or of two words.
define internal ptr @program_for(ptr %table.cell, ptr %keys, i64 %n, ptr %mode, ptr %statics, i64 %n.statics,
                                 i1 %are.words, ptr %cell) {
entry:
  %table = load ptr, ptr %table.cell
  %no.table = icmp eq ptr %table, null
  br i1 %no.table, label %unknown, label %mix.keys
mix.keys:
  ; All but the first key, and what is static, go into the second; the program says exactly what it is for.
  %k = phi i64 [ 1, %entry ], [ %k.next, %mix.key ]
  %bits.k = phi i64 [ 0, %entry ], [ %mixed.k, %mix.key ]
  %keys.mixed = icmp uge i64 %k, %n
  br i1 %keys.mixed, label %mix, label %mix.key
mix.key:
  %k.at = getelementptr i64, ptr %keys, i64 %k
  %k.key = load i64, ptr %k.at
  %k.scaled = mul i64 %bits.k, 31
  %mixed.k = add i64 %k.scaled, %k.key
  %k.next = add i64 %k, 1
  br label %mix.keys
mix:
  %x = phi i64 [ 0, %mix.keys ], [ %x.next, %mixed.one ]
  %bits2 = phi i64 [ %bits.k, %mix.keys ], [ %mixed.more, %mixed.one ]
  %are.mixed = icmp eq i64 %x, %n.statics
  br i1 %are.mixed, label %hash, label %mix.one
mix.one:
  %x.name.at = getelementptr [2 x i64], ptr %statics, i64 %x
  %x.name = load i64, ptr %x.name.at
  %x.value.at = getelementptr i64, ptr %x.name.at, i64 1
  br i1 %are.words, label %word, label %object
word:
  %x.word = load i64, ptr %x.value.at
  br label %mixed.one
object:
  %x.object = load ptr, ptr %x.value.at
  %x.bits = call i64 @static_bits(ptr %x.object)
  br label %mixed.one
mixed.one:
  %x.value = phi i64 [ %x.word, %word ], [ %x.bits, %object ]
  %x.pair = add i64 %x.name, %x.value
  %x.scaled = mul i64 %bits2, 31
  %mixed.more = add i64 %x.scaled, %x.pair
  %x.next = add i64 %x, 1
  br label %mix
hash:
  %bits1 = load i64, ptr %keys
  %scaled1 = mul i64 %bits1, 31
  %mixed = add i64 %scaled1, %bits2
  %spread = mul i64 %mixed, $SPREAD
  %set = lshr i64 %spread, $SETS_SHIFT
  %first.place = mul i64 %set, $WAYS
  br label %probe
probe:
  %p = phi i64 [ 0, %hash ], [ %p.next, %other ]
  %place = add i64 %first.place, %p
  %entry.at = getelementptr [$ENTRY_WORDS x ptr], ptr %table, i64 %place
  %entry1 = load i64, ptr %entry.at
  %entry2.at = getelementptr ptr, ptr %entry.at, i64 1
  %entry2 = load i64, ptr %entry2.at
  %entry.mode.at = getelementptr ptr, ptr %entry.at, i64 2
  %entry.mode = load ptr, ptr %entry.mode.at
  %same1 = icmp eq i64 %entry1, %bits1
  %same2 = icmp eq i64 %entry2, %bits2
  %same.mode = icmp eq ptr %entry.mode, %mode
  %both = and i1 %same1, %same2
  %is.entry = and i1 %both, %same.mode
  br i1 %is.entry, label %found, label %other
other:
  %p.next = add i64 %p, 1
  %more = icmp ult i64 %p.next, $WAYS
  br i1 %more, label %probe, label %unknown

found:
  %owner.at = getelementptr ptr, ptr %entry.at, i64 3
  %owner = load ptr, ptr %owner.at
  %program.at = getelementptr ptr, ptr %entry.at, i64 4
  %program = load ptr, ptr %program.at
  %is.hopeless = icmp eq ptr %program, null
  br i1 %is.hopeless, label %circumstance, label %exactly
exactly:
  store ptr %owner, ptr %cell
  %n.keyed.at = getelementptr i64, ptr %program, i64 $KEYED
  %n.keyed = load i64, ptr %n.keyed.at
  %n.exact.at = getelementptr i64, ptr %program, i64 $N_STATICS
  %n.exact = load i64, ptr %n.exact.at
  %as.many.keys = icmp eq i64 %n.keyed, %n
  %as.many = icmp eq i64 %n.exact, %n.statics
  %are.as.many = and i1 %as.many.keys, %as.many
  br i1 %are.as.many, label %keys.exactly, label %unknown
keys.exactly:
  %e = phi i64 [ 1, %exactly ], [ %e.next, %key.one ]
  %keys.same = icmp uge i64 %e, %n
  br i1 %keys.same, label %static, label %key.one
key.one:
  %e.at = getelementptr i64, ptr %keys, i64 %e
  %e.key = load i64, ptr %e.at
  %e.exact.first = getelementptr i64, ptr %program, i64 $KEYED
  %e.exact.at = getelementptr i64, ptr %e.exact.first, i64 %e
  %e.exact = load i64, ptr %e.exact.at
  %e.next = add i64 %e, 1
  %e.same = icmp eq i64 %e.key, %e.exact
  br i1 %e.same, label %keys.exactly, label %unknown
static:
  %q = phi i64 [ 0, %keys.exactly ], [ %q.next, %static.same ]
  %are.same.statics = icmp eq i64 %q, %n.statics
  br i1 %are.same.statics, label %done, label %static.one
static.one:
  %q.given.at = getelementptr [2 x ptr], ptr %statics, i64 %q
  %q.given = load <2 x i64>, ptr %q.given.at, align 8
  %q.exact.first = getelementptr ptr, ptr %program, i64 $FIRST_STATIC
  %q.exact.at = getelementptr [2 x ptr], ptr %q.exact.first, i64 %q
  %q.exact = load <2 x i64>, ptr %q.exact.at, align 8
  %q.difference = xor <2 x i64> %q.given, %q.exact
  %q.any = call i64 @llvm.vector.reduce.or.v2i64(<2 x i64> %q.difference)
  %q.is.same = icmp eq i64 %q.any, 0
  br i1 %q.is.same, label %static.same, label %static.equal
static.equal:
  br i1 %are.words, label %unknown, label %static.look
static.look:
  %q.name = extractelement <2 x i64> %q.difference, i64 0
  %q.same.name = icmp eq i64 %q.name, 0
  %q.value.bits = extractelement <2 x i64> %q.given, i64 1
  %q.other.bits = extractelement <2 x i64> %q.exact, i64 1
  %q.value = inttoptr i64 %q.value.bits to ptr
  %q.other = inttoptr i64 %q.other.bits to ptr
  %q.is.equal = call i1 @same_static(ptr %q.value, ptr %q.other)
  %q.fits = and i1 %q.same.name, %q.is.equal
  br i1 %q.fits, label %static.same, label %unknown
static.same:
  %q.next = add i64 %q, 1
  br label %static
done:
  ret ptr %program
circumstance:
  ret ptr inttoptr (i64 1 to ptr)
unknown:
  ret ptr inttoptr (i64 2 to ptr)
}

; A new reference to a new handle, null with an exception, 1 for CIRCUMSTANCE, 2 for UNKNOWN.
define internal ptr @recorded(ptr %table.cell, ptr %xs, i64 %n, ptr %statics, i64 %n.statics) {
entry:
  %mode.cell = alloca ptr
  %owner.cell = alloca ptr
  %keys = alloca [$MOST_OPERANDS x ptr]
  %nodes = alloca [$MOST_NODES x ptr]
  %recording = call ptr @recording_operations(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %circumstance, label %key
key:
  %i = phi i64 [ 0, %entry ], [ %i.next, %key.known ], [ 0, %evaluated ]
  %was.evaluated = phi i1 [ false, %entry ], [ %was.evaluated, %key.known ], [ true, %evaluated ]
  %are.known = icmp eq i64 %i, %n
  br i1 %are.known, label %look.up, label %key.one
key.one:
  %x.at = getelementptr ptr, ptr %xs, i64 %i
  %x = load ptr, ptr %x.at
  %node.at = getelementptr ptr, ptr %nodes, i64 %i
  %key.found = call ptr @key_of(ptr %x, ptr %recording, ptr %node.at)
  %key.bits = ptrtoint ptr %key.found to i64
  switch i64 %key.bits, label %key.known [ i64 0, label %circumstance  i64 1, label %old  i64 2, label %unknown ]
old:
  ; Once, then all is looked at again: what runs meanwhile may change anything.
  br i1 %was.evaluated, label %circumstance, label %evaluate
evaluate:
  call void @Py_IncRef(ptr %recording)
  %status = call i32 @evaluate_old(ptr %recording, ptr %xs, i64 %n)
  call void @Py_DecRef(ptr %recording)
  %has.failed = icmp ne i32 %status, 0
  br i1 %has.failed, label %error, label %evaluated
evaluated:
  %recording.again = call ptr @recording_operations(ptr %mode.cell)
  %is.here = icmp eq ptr %recording.again, %recording
  br i1 %is.here, label %key, label %circumstance
key.known:
  %key.at = getelementptr ptr, ptr %keys, i64 %i
  store ptr %key.found, ptr %key.at
  %i.next = add i64 %i, 1
  br label %key
look.up:
  %mode = load ptr, ptr %mode.cell
  %program = call ptr @program_for(ptr %table.cell, ptr %keys, i64 %n, ptr %mode, ptr %statics, i64 %n.statics,
                                   i1 false, ptr %owner.cell)
  %bits = ptrtoint ptr %program to i64
  switch i64 %bits, label %hold [ i64 1, label %circumstance  i64 2, label %unknown ]
hold:
  %owner = load ptr, ptr %owner.cell
  %held = call i32 @hold_operands(ptr %program, ptr %owner, ptr %recording, ptr %keys, ptr %xs, ptr %nodes, i64 %n)
  switch i32 %held, label %put.it [ i32 0, label %circumstance  i32 -1, label %error ]
put.it:
  %y = call ptr @put(ptr %program, ptr %owner, ptr %recording, ptr %xs, ptr %nodes, i64 %n)
  ret ptr %y
error:
  ret ptr null
circumstance:
  ret ptr inttoptr (i64 1 to ptr)
unknown:
  ret ptr inttoptr (i64 2 to ptr)
}
"""


_TEXTS = (PARTS, NODES, NOTE, HERE, LIFE, PUT, STATIC, _RECORDED, OPERATORS, SITES, KEY, SUBSCRIPT_TEXT, READ, GRAD,
          UPDATE, ANSWERS, LEAF, LOAN)  # fmt: skip


def recorder_ir(offsets: dict[str, int]) -> str:
    """The module of the recorder.

    offsets   TYPE of any object, PAYLOAD of a bytes object, DATA ND DIMS BASE DESCR FLAGS of an array, ITEMS of a tuple
    """
    words = {name: number for number, name in enumerate(WORDS)}
    text = Template("".join(_TEXTS)).substitute(
        words,
        REFERENCES=offsets["TYPE"] - 8,
        COUNTED=offsets["TYPE"] + 8,
        SIZE=offsets["TYPE"] + 8,
        DEALLOC=DEALLOC,
        KEPT=KEPT,
        DEEPEST=DEEPEST,
        COUNT=len(WORDS),
        LOOKED_BACK=LOOKED_BACK,
        SITES=SITES_IN_ALL,
        DETACH=DETACH,
        SUBSCRIPT=SUBSCRIPT,
        ASSIGN=ASSIGN,
        MOST_KNOWN=MOST_KNOWN,
        N_BOUNDS=N_BOUNDS,
        FIRST_BOUND=FIRST_BOUND,
        KEYED=KEYED,
        N_STATICS=N_STATICS,
        FIRST_STATIC=FIRST_STATIC,
        MOST_OPERANDS=MOST_OPERANDS,
        SLICE=offsets["TYPE"] + 8,
        SLICE_STOP=offsets["TYPE"] + 16,
        SLICE_STEP=offsets["TYPE"] + 24,
        COMPARISONS=COMPARISONS,
        POWER=POWER,
        MOST_STATICS=MOST_STATICS,
        TYPES=TYPES,
        TYPES_MASK=TYPES - 1,
        SPREAD=SPREAD,
        SETS_SHIFT=64 - (SETS - 1).bit_length(),
        ENTRY_WORDS=ENTRY_WORDS,
        WAYS=WAYS,
        PROGRAM_WORDS=PROGRAM_WORDS,
        MOST_NODES=MOST_NODES,
        LEAVES=LEAVES,
        LEAVES_MASK=LEAVES - 1,
        LEAF_WORDS=LEAF_WORDS,
        POOLED=POOLED,
        LEAF_KIND=LEAF_WORDS - 1,
        MOST_EXTENTS=MOST_EXTENTS,
        MOST_ARGUMENTS=_MOST_ARGUMENTS,
        **offsets,
    )
    for template, first, count in (
        (BINARY_SITE, 0, BINARY), (UNARY_SITE, BINARY, UNARY), (CALL_SITE, BINARY + UNARY, CALLS),
        (METHOD_SITE, FIRST_METHOD, METHODS), (IN_PLACE_SITE, FIRST_IN_PLACE, BINARY),
    ):  # fmt: skip
        text += "".join([Template(template).substitute(NUMBER=n, SITE=first + n) for n in range(count)])
    return text
