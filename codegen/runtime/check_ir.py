"""Checks as LLVM IR text: is a graph of nodes the one that is expected, and what does it hold?

`check(roots..., live)` is a METH_FASTCALL function.  Its `self` holds the address of a *check block*:

    block     `BLOCK` names its words
    code      instructions (`check_steps_ir`): an opcode, then its operands; nodes and leaves are numbers of registers
    gather    per argument: register of a node whose value it is, or -1 and an object

On a graph as expected it gives (arguments, stored, leaves, olds, past, freed), else None.  All memory is
allocated before the first node is read, so nothing else runs in between and references can be borrowed.
"""

from __future__ import annotations

from .check_steps_ir import INSTRUCTIONS, OPCODES

__all__ = ["BLOCK", "CHECKS"]

#: The words of a check block: counts, and the addresses of code and tables.
BLOCK = (
    "registers", "leaf_registers", "given", "code", "freed", "arguments", "argument_table", "stored", "stored_table",
    "leaves", "leaf_table", "olds", "old_table", "past", "past_table",
)  # fmt: skip

_HEAD = """

define internal i64 @operand_at(ptr %at, i64 %number) alwaysinline {
  %where = getelementptr i64, ptr %at, i64 %number
  %value = load i64, ptr %where
  ret i64 %value
}
; The object that an operand is.
define internal ptr @object_at(ptr %at, i64 %number) alwaysinline {
  %where = getelementptr ptr, ptr %at, i64 %number
  %value = load ptr, ptr %where
  ret ptr %value
}
; What is in the register that an operand names.
define internal ptr @register(ptr %registers, ptr %at, i64 %number) alwaysinline {
  %which = call i64 @operand_at(ptr %at, i64 %number)
  %where = getelementptr ptr, ptr %registers, i64 %which
  %value = load ptr, ptr %where
  ret ptr %value
}
define internal void @bind(ptr %registers, ptr %at, i64 %number, ptr %value) alwaysinline {
  %which = call i64 @operand_at(ptr %at, i64 %number)
  %where = getelementptr ptr, ptr %registers, i64 %which
  store ptr %value, ptr %where
  ret void
}
; The object if it is a node, else null.
define internal ptr @if_node(ptr %object) alwaysinline {
  %class = call ptr @class_of(ptr %object)
  %node.type = call ptr @own.object(i64 $node_type)
  %rich.type = call ptr @own.object(i64 $rich_type)
  %is.plain = icmp eq ptr %class, %node.type
  %is.rich = icmp eq ptr %class, %rich.type
  %is.node = or i1 %is.plain, %is.rich
  %node = select i1 %is.node, ptr %object, ptr null
  ret ptr %node
}
define internal i1 @is_pending_as(ptr %node, i64 %expected) alwaysinline {
  %value = call ptr @field(ptr %node, i64 $value_at)
  %none = call ptr @own.object(i64 $none)
  %is.pending = icmp eq ptr %value, %none
  %is.expected = icmp ne i64 %expected, 0
  %is.same = icmp eq i1 %is.pending, %is.expected
  ret i1 %is.same
}
; Whether gradients are tracked, and whether it is weak, as two operands from that place on say.
define internal i1 @has_flags(ptr %out, ptr %at, i64 %place) alwaysinline {
  %next = add i64 %place, 1
  %tracks = call ptr @field(ptr %out, i64 $requires_grad_at)
  %expected = call ptr @object_at(ptr %at, i64 %place)
  %is.same = icmp eq ptr %tracks, %expected
  %weak = call ptr @field(ptr %out, i64 $weak_at)
  %weak.expected = call ptr @object_at(ptr %at, i64 %next)
  %is.same.weak = icmp eq ptr %weak, %weak.expected
  %is = and i1 %is.same, %is.same.weak
  ret i1 %is
}
define internal i1 @is_none(ptr %object) alwaysinline {
  %none = call ptr @own.object(i64 $none)
  %is = icmp eq ptr %object, %none
  ret i1 %is
}
; None, or a dictionary without entries.
define internal i1 @is_nothing(ptr %object) {
entry:
  %is.none = call i1 @is_none(ptr %object)
  br i1 %is.none, label %yes, label %look
look:
  %is.unset = icmp eq ptr %object, null
  br i1 %is.unset, label %no, label %class
class:
  %a.class = call ptr @class_of(ptr %object)
  %dict.type = call ptr @own.object(i64 $dict_type)
  %is.dict = icmp eq ptr %a.class, %dict.type
  br i1 %is.dict, label %size, label %no
size:
  %n = call i64 @PyDict_Size(ptr %object)
  %is.empty = icmp eq i64 %n, 0
  ret i1 %is.empty
yes:
  ret i1 true
no:
  ret i1 false
}
; References that a table describes: registers, in the order of their numbers.
define internal void @fill(ptr %to, i64 %count, ptr %table, ptr %registers) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %put ]
  %done = icmp eq i64 %i, %count
  br i1 %done, label %end, label %one
one:
  %which = call i64 @operand_at(ptr %table, i64 %i)
  %is.none = icmp slt i64 %which, 0
  br i1 %is.none, label %nothing, label %something
nothing:
  %none = call ptr @own.object(i64 $none)
  br label %put
something:
  %at = getelementptr ptr, ptr %registers, i64 %which
  %found = load ptr, ptr %at
  br label %put
put:
  %item = phi ptr [ %none, %nothing ], [ %found, %something ]
  call void @Py_IncRef(ptr %item)
  %item.at = getelementptr ptr, ptr %to, i64 %i
  store ptr %item, ptr %item.at
  %i.next = add i64 %i, 1
  br label %next
end:
  ret void
}
; Values of nodes, or objects of the plan.
define internal void @fill_arguments(ptr %to, i64 %count, ptr %table, ptr %registers) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %put ]
  %done = icmp eq i64 %i, %count
  br i1 %done, label %end, label %one
one:
  %double = shl i64 %i, 1
  %pair = getelementptr i64, ptr %table, i64 %double
  %which = call i64 @operand_at(ptr %pair, i64 0)
  %is.object = icmp slt i64 %which, 0
  br i1 %is.object, label %object, label %node
object:
  %own = call ptr @object_at(ptr %pair, i64 1)
  br label %put
node:
  %at = getelementptr ptr, ptr %registers, i64 %which
  %found = load ptr, ptr %at
  %value = call ptr @field(ptr %found, i64 $value_at)
  br label %put
put:
  %item = phi ptr [ %own, %object ], [ %value, %node ]
  call void @Py_IncRef(ptr %item)
  %item.at = getelementptr ptr, ptr %to, i64 %i
  store ptr %item, ptr %item.at
  %i.next = add i64 %i, 1
  br label %next
end:
  ret void
}
"""

_CHECK = """
; Whether a graph of nodes is the one of a block: then the registers hold its nodes and leaves, borrowed.
define internal i1 @matches(ptr %block, ptr %arguments, ptr %live, i64 %n.live, ptr %registers, ptr %owners) {
entry:
  %code = call ptr @object_at(ptr %block, i64 $code)
  br label %instruction
instruction:
  %at = phi ptr [ %code, %entry ], [ %then, %good ]
  %opcode = load i64, ptr %at
  switch i64 %opcode, label %no [
$SWITCH
  ]

$CASES
good:
  %length = phi i64 $LENGTHS
  %then = getelementptr i64, ptr %at, i64 %length
  br label %instruction

op.end:
  ret i1 true
no:
  ret i1 false
}

define ptr @check(ptr %self, ptr %arguments, i64 %count) {
entry:
  %block.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %block = load ptr, ptr %block.at, align 1
  %n.registers = call i64 @operand_at(ptr %block, i64 $registers)
  %n.leaf.registers = call i64 @operand_at(ptr %block, i64 $leaf_registers)
  %given = call i64 @operand_at(ptr %block, i64 $given)
  %registers = alloca ptr, i64 %n.registers
  %owners = alloca ptr, i64 %n.leaf.registers
  %tuples = alloca [6 x ptr]
  br label %make
make:
  %t = phi i64 [ 0, %entry ], [ %t.next, %made ]
  %all.made = icmp eq i64 %t, 5
  br i1 %all.made, label %make.last, label %make.one
make.one:
  %doubled = shl i64 %t, 1
  %size.word = add i64 %doubled, $arguments
  %size = call i64 @operand_at(ptr %block, i64 %size.word)
  %tuple = call ptr @PyTuple_New(i64 %size)
  %tuple.at = getelementptr ptr, ptr %tuples, i64 %t
  store ptr %tuple, ptr %tuple.at
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %drop, label %made
made:
  %t.next = add i64 %t, 1
  br label %make
make.last:
  %result = call ptr @PyTuple_New(i64 6)
  %result.at = getelementptr ptr, ptr %tuples, i64 5
  store ptr %result, ptr %result.at
  %no.result = icmp eq ptr %result, null
  br i1 %no.result, label %drop, label %begin
begin:
  %live.at = getelementptr ptr, ptr %arguments, i64 %given
  %list = load ptr, ptr %live.at
  %n.listed = call i64 @PyList_Size(ptr %list)
  %are.others = icmp sgt i64 %n.listed, %n.registers
  br i1 %are.others, label %no, label %room
room:
  ; Each has a register where the graph is as expected: no more are listed, however many a user keeps.
  %n.live = call i64 @llvm.smax.i64(i64 %n.listed, i64 0)
  %live = alloca ptr, i64 %n.live
  br label %lives
lives:
  %l = phi i64 [ 0, %room ], [ %l.next, %lives.one ]
  %are.all = icmp sge i64 %l, %n.live
  br i1 %are.all, label %look, label %lives.one
lives.one:
  %l.object = call ptr @PyList_GetItem(ptr %list, i64 %l)
  %l.at = getelementptr ptr, ptr %live, i64 %l
  store ptr %l.object, ptr %l.at
  %l.next = add i64 %l, 1
  br label %lives
look:
  %is = call i1 @matches(ptr %block, ptr %arguments, ptr %live, i64 %n.live, ptr %registers, ptr %owners)
  br i1 %is, label %gather, label %no
gather:
$FILL
  %freed = call ptr @object_at(ptr %block, i64 $freed)
  call void @Py_IncRef(ptr %freed)
  call void @put_item(ptr %result, i64 5, ptr %freed)
  ret ptr %result

no:
  br label %drop
drop:
  %so.far = phi i64 [ %t, %make.one ], [ 5, %make.last ], [ 6, %no ]
  %is.mismatch = phi i1 [ false, %make.one ], [ false, %make.last ], [ true, %no ]
  br label %drop.next
drop.next:
  %d = phi i64 [ 0, %drop ], [ %d.next, %drop.one ]
  %dropped = icmp eq i64 %d, %so.far
  br i1 %dropped, label %answer, label %drop.one
drop.one:
  %drop.at = getelementptr ptr, ptr %tuples, i64 %d
  %dropped.tuple = load ptr, ptr %drop.at
  call void @Py_DecRef(ptr %dropped.tuple)
  %d.next = add i64 %d, 1
  br label %drop.next
answer:
  br i1 %is.mismatch, label %none, label %error
none:
  call void @PyErr_Clear()
  %nothing = call ptr @own.object(i64 $none)
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing
error:
  ret ptr null
}
"""

def _case(name: str, text: str) -> tuple[str, str]:
    """The blocks of one opcode, and the label of the last."""
    number = OPCODES.index(name)
    lines, label, conditions = [f"op.{name}:"], f"op.{name}", 0
    for line in text.replace("#", f".{number}").strip("\n").splitlines():
        if not line.startswith("  ? "):
            lines.append(line)
            continue
        label = f"op.{name}.{conditions}"
        lines += [f"  %holds.{number}.{conditions} = {line[4:]}",
                  f"  br i1 %holds.{number}.{conditions}, label %{label}, label %no", f"{label}:"]  # fmt: skip
        conditions += 1
    lines.append("  br label %good")
    return "\n".join(lines), label


def _written() -> str:
    cases = {name: _case(name, text) for name, (_, text) in INSTRUCTIONS.items()}
    fill = []
    for t, (what, table) in enumerate(
        (("arguments", "argument_table"), ("stored", "stored_table"), ("leaves", "leaf_table"), ("olds", "old_table"),
         ("past", "past_table"))
    ):  # fmt: skip
        function = "fill_arguments" if what == "arguments" else "fill"
        registers = "%owners" if what == "leaves" else "%registers"
        fill.append(f"""  %tuple.of.{what}.at = getelementptr ptr, ptr %tuples, i64 {t}
  %tuple.of.{what} = load ptr, ptr %tuple.of.{what}.at
  %count.of.{what} = call i64 @operand_at(ptr %block, i64 ${what})
  %table.of.{what} = call ptr @object_at(ptr %block, i64 ${table})
  %items.of.{what} = getelementptr i8, ptr %tuple.of.{what}, i64 $ITEMS
  call void @{function}(ptr %items.of.{what}, i64 %count.of.{what}, ptr %table.of.{what}, ptr {registers})
  call void @put_item(ptr %result, i64 {t}, ptr %tuple.of.{what})""")
    switch = [f"    i64 {number}, label %op.{name}" for number, name in enumerate(OPCODES)]
    lengths = [f"[ {INSTRUCTIONS[name][0]}, %{label} ]" for name, (_, label) in cases.items()]
    return (
        _CHECK.replace("$SWITCH", "\n".join(switch))
        .replace("$CASES", "\n".join([text for text, _ in cases.values()]))
        .replace("$LENGTHS", ", ".join(lengths))
        .replace("$FILL", "\n".join(fill))
    )


CHECKS = _HEAD + _written()
