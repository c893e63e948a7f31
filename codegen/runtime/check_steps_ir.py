"""The instructions of checks (`check_ir`): what each requires of a graph of nodes, as LLVM IR text."""

from __future__ import annotations

__all__ = ["INSTRUCTIONS", "OPCODES"]

#: What an instruction requires or binds; `a`, `b` are registers, operands in this order.
#:    root k a        a = argument k, a node           root_is k a     argument k is a
#:    live n          n nodes beside                   live_is k a / live_at k a       node k of them is a / a = it
#:    kind a K p      its kind, and whether pending    out a O p       its kind's out, and whether pending
#:    is_kind a K     its kind                         is_out a O      its kind's out
#:    like a X r g w p      its kind's operation, whether that is released, tracks gradients, is weak; whether pending
#:    of_class a C g w p    its kind's class, whether that tracks gradients, is weak; whether pending
#:    rich a          a rich node without hooks or retained gradient
#:    any_rich a      a rich node                      owner a l       l = its leaf
#:    leaf a l        l = its leaf, without hooks      leaf_is a l     no_leaf a       no_call a
#:    inputs a n      so many inputs                   input a k b     b = input k     input_is a k b
#:    no_grad l       old l a: a = node of its grad    old_is l a
#:    apart l m       different leaves                 not a b         different nodes
#:    held a n        more references than n           free a n        at most n
OPCODES = (
    "end", "root", "root_is", "live", "live_at", "live_is", "kind", "out", "is_kind", "is_out", "like", "of_class",
    "rich", "any_rich", "leaf", "owner", "leaf_is", "no_leaf", "no_call", "inputs", "input", "input_is", "no_grad",
    "old", "old_is", "apart", "not", "held", "free",
)  # fmt: skip

#: Per opcode: how many words it has, and what it does: a line with `?` ends the check unless it is true.
#: `#` makes names of one opcode differ from those of the others.
INSTRUCTIONS = {
    "root": (3, """
  %k# = call i64 @operand_at(ptr %at, i64 1)
  %from# = getelementptr ptr, ptr %arguments, i64 %k#
  %object# = load ptr, ptr %from#
  %node# = call ptr @if_node(ptr %object#)
  ? icmp ne ptr %node#, null
  call void @bind(ptr %registers, ptr %at, i64 2, ptr %node#)"""),
    "root_is": (3, """
  %k# = call i64 @operand_at(ptr %at, i64 1)
  %from# = getelementptr ptr, ptr %arguments, i64 %k#
  %object# = load ptr, ptr %from#
  %node# = call ptr @register(ptr %registers, ptr %at, i64 2)
  ? icmp eq ptr %node#, %object#"""),
    "live": (2, """
  %n# = call i64 @operand_at(ptr %at, i64 1)
  ? icmp eq i64 %n#, %n.live"""),
    "live_at": (3, """
  %k# = call i64 @operand_at(ptr %at, i64 1)
  %from# = getelementptr ptr, ptr %live, i64 %k#
  %object# = load ptr, ptr %from#
  %node# = call ptr @if_node(ptr %object#)
  ? icmp ne ptr %node#, null
  call void @bind(ptr %registers, ptr %at, i64 2, ptr %node#)"""),
    "live_is": (3, """
  %k# = call i64 @operand_at(ptr %at, i64 1)
  %from# = getelementptr ptr, ptr %live, i64 %k#
  %object# = load ptr, ptr %from#
  %node# = call ptr @register(ptr %registers, ptr %at, i64 2)
  ? icmp eq ptr %node#, %object#"""),
    "kind": (4, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %kind# = call ptr @field(ptr %node#, i64 $kind_at)
  %expected# = call ptr @object_at(ptr %at, i64 2)
  ? icmp eq ptr %kind#, %expected#
  %pending# = call i64 @operand_at(ptr %at, i64 3)
  ? call i1 @is_pending_as(ptr %node#, i64 %pending#)"""),
    "out": (4, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %kind# = call ptr @field(ptr %node#, i64 $kind_at)
  %out# = call ptr @field(ptr %kind#, i64 $out_at)
  %expected# = call ptr @object_at(ptr %at, i64 2)
  ? icmp eq ptr %out#, %expected#
  %pending# = call i64 @operand_at(ptr %at, i64 3)
  ? call i1 @is_pending_as(ptr %node#, i64 %pending#)"""),
    "like": (7, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %kind# = call ptr @field(ptr %node#, i64 $kind_at)
  %op# = call ptr @field(ptr %kind#, i64 $op_at)
  %expected# = call ptr @object_at(ptr %at, i64 2)
  ? icmp eq ptr %op#, %expected#
  %released# = call ptr @field(ptr %kind#, i64 $released_at)
  %is.released# = call ptr @object_at(ptr %at, i64 3)
  ? icmp eq ptr %released#, %is.released#
  %out# = call ptr @field(ptr %kind#, i64 $out_at)
  ? call i1 @has_flags(ptr %out#, ptr %at, i64 4)
  %pending# = call i64 @operand_at(ptr %at, i64 6)
  ? call i1 @is_pending_as(ptr %node#, i64 %pending#)"""),
    "of_class": (6, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %kind# = call ptr @field(ptr %node#, i64 $kind_at)
  %out# = call ptr @field(ptr %kind#, i64 $out_at)
  %class# = call ptr @field(ptr %out#, i64 $cls_at)
  %expected# = call ptr @object_at(ptr %at, i64 2)
  ? icmp eq ptr %class#, %expected#
  ? call i1 @has_flags(ptr %out#, ptr %at, i64 3)
  %pending# = call i64 @operand_at(ptr %at, i64 5)
  ? call i1 @is_pending_as(ptr %node#, i64 %pending#)"""),
    "is_kind": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %kind# = call ptr @field(ptr %node#, i64 $kind_at)
  %expected# = call ptr @object_at(ptr %at, i64 2)
  ? icmp eq ptr %kind#, %expected#"""),
    "is_out": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %kind# = call ptr @field(ptr %node#, i64 $kind_at)
  %out# = call ptr @field(ptr %kind#, i64 $out_at)
  %expected# = call ptr @object_at(ptr %at, i64 2)
  ? icmp eq ptr %out#, %expected#"""),
    "rich": (2, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %class# = call ptr @class_of(ptr %node#)
  %rich# = call ptr @own.object(i64 $rich_type)
  ? icmp eq ptr %class#, %rich#
  %hooks# = call ptr @field(ptr %node#, i64 $hooks_at)
  ? call i1 @is_nothing(ptr %hooks#)
  %retained# = call ptr @field(ptr %node#, i64 $retained_at)
  ? call i1 @is_none(ptr %retained#)"""),
    "any_rich": (2, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %class# = call ptr @class_of(ptr %node#)
  %rich# = call ptr @own.object(i64 $rich_type)
  ? icmp eq ptr %class#, %rich#"""),
    "owner": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %leaf# = call ptr @field(ptr %node#, i64 $leaf_at)
  %class# = call ptr @class_of(ptr %leaf#)
  %type# = call ptr @own.object(i64 $leaf_type)
  ? icmp eq ptr %class#, %type#
  call void @bind(ptr %owners, ptr %at, i64 2, ptr %leaf#)"""),
    "leaf": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %leaf# = call ptr @field(ptr %node#, i64 $leaf_at)
  %class# = call ptr @class_of(ptr %leaf#)
  %type# = call ptr @own.object(i64 $leaf_type)
  ? icmp eq ptr %class#, %type#
  %hooks# = call ptr @field(ptr %leaf#, i64 $leaf_hooks_at)
  ? call i1 @is_nothing(ptr %hooks#)
  call void @bind(ptr %owners, ptr %at, i64 2, ptr %leaf#)"""),
    "leaf_is": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %leaf# = call ptr @field(ptr %node#, i64 $leaf_at)
  %known# = call ptr @register(ptr %owners, ptr %at, i64 2)
  ? icmp eq ptr %leaf#, %known#"""),
    "no_leaf": (2, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %leaf# = call ptr @field(ptr %node#, i64 $leaf_at)
  ? call i1 @is_none(ptr %leaf#)"""),
    "no_call": (2, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %call# = call ptr @field(ptr %node#, i64 $call_at)
  ? call i1 @is_none(ptr %call#)"""),
    "inputs": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %size# = call i64 @input_count(ptr %node#)
  %n# = call i64 @operand_at(ptr %at, i64 2)
  ? icmp eq i64 %size#, %n#"""),
    "input": (4, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %k# = call i64 @operand_at(ptr %at, i64 2)
  %input# = call ptr @input_of(ptr %node#, i64 %k#)
  ? icmp ne ptr %input#, null
  call void @bind(ptr %registers, ptr %at, i64 3, ptr %input#)"""),
    "input_is": (4, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %k# = call i64 @operand_at(ptr %at, i64 2)
  %input# = call ptr @input_of(ptr %node#, i64 %k#)
  %known# = call ptr @register(ptr %registers, ptr %at, i64 3)
  ? icmp eq ptr %input#, %known#"""),
    "no_grad": (2, """
  %leaf# = call ptr @register(ptr %owners, ptr %at, i64 1)
  %grad# = call ptr @field(ptr %leaf#, i64 $grad_at)
  ? call i1 @is_none(ptr %grad#)"""),
    "old": (3, """
  %leaf# = call ptr @register(ptr %owners, ptr %at, i64 1)
  %grad# = call ptr @field(ptr %leaf#, i64 $grad_at)
  %node# = call ptr @node_of(ptr %grad#)
  ? icmp ne ptr %node#, null
  call void @bind(ptr %registers, ptr %at, i64 2, ptr %node#)"""),
    "old_is": (3, """
  %leaf# = call ptr @register(ptr %owners, ptr %at, i64 1)
  %grad# = call ptr @field(ptr %leaf#, i64 $grad_at)
  %node# = call ptr @node_of(ptr %grad#)
  %known# = call ptr @register(ptr %registers, ptr %at, i64 2)
  ? icmp eq ptr %node#, %known#"""),
    "apart": (3, """
  %leaf# = call ptr @register(ptr %owners, ptr %at, i64 1)
  %other# = call ptr @register(ptr %owners, ptr %at, i64 2)
  ? icmp ne ptr %leaf#, %other#"""),
    "not": (3, """
  %k# = call i64 @operand_at(ptr %at, i64 1)
  %from# = getelementptr ptr, ptr %arguments, i64 %k#
  %object# = load ptr, ptr %from#
  %other# = call ptr @register(ptr %registers, ptr %at, i64 2)
  ? icmp ne ptr %object#, %other#"""),
    "held": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %count.at# = getelementptr i8, ptr %node#, i64 $REFERENCES
  %count# = load i64, ptr %count.at#
  %n# = call i64 @operand_at(ptr %at, i64 2)
  ? icmp sgt i64 %count#, %n#"""),
    "free": (3, """
  %node# = call ptr @register(ptr %registers, ptr %at, i64 1)
  %count.at# = getelementptr i8, ptr %node#, i64 $REFERENCES
  %count# = load i64, ptr %count.at#
  %n# = call i64 @operand_at(ptr %at, i64 2)
  ? icmp sle i64 %count#, %n#"""),
}  # fmt: skip
