"""What is done with the results of a known run, as LLVM IR text: `finish(results, gathered, is_released)`.

    settle    nodes of the graph keep their values
    commit    each leaf gets its gradient, a new handle: all of them or none
    release   the history is marked as given up; what it kept for gradients is freed

A METH_FASTCALL function; `gathered` is what the check gave.  Its `self` holds the address of a *finish block*,
whose words `FINISH` names:

    stored_table   per node: position of its value, and whether what led to it is dropped
    group_table    per leaf: position of its gradient or -1, kind and class of the node and handle made for it;
                   0 for both where `gathered` has the kinds of all, behind everything else

Gives False, and writes no gradient, when a `.grad` is another than the check saw.
"""

from __future__ import annotations

__all__ = ["COMMIT", "FINISH"]

#: The words of a finish block.
FINISH = ("settled", "settled_table", "groups", "group_table")

COMMIT = """
declare ptr @PyErr_NoMemory()

; A handle on a new node that has this value, or null.
define internal ptr @new_leaf(ptr %kind, ptr %class, ptr %value) {
entry:
  %node = call ptr @new_node(ptr %kind, ptr %value)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %no, label %wire
wire:
  %handle = call ptr @new_handle(ptr %class)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %drop, label %name
name:
  call void @set_field(ptr %handle, i64 $node_at, ptr %node)
  %false = call ptr @own.object(i64 $false)
  call void @Py_IncRef(ptr %false)
  call void @set_field(ptr %handle, i64 $masked_at, ptr %false)
  ret ptr %handle
drop:
  call void @Py_DecRef(ptr %node)
  br label %no
no:
  ret ptr null
}

; Give each of these nodes its value of the results, by a table of two words a node.
define internal void @settle_all(ptr %nodes, i64 %count, ptr %table, ptr %results) {
entry:
  br label %next
next:
  %s = phi i64 [ 0, %entry ], [ %s.next, %settled ]
  %all = icmp eq i64 %s, %count
  br i1 %all, label %done, label %one
one:
  %twice = shl i64 %s, 1
  %at = getelementptr i64, ptr %table, i64 %twice
  %position = call i64 @operand_at(ptr %at, i64 0)
  %drops = call i64 @operand_at(ptr %at, i64 1)
  %node.at = getelementptr ptr, ptr %nodes, i64 %s
  %node = load ptr, ptr %node.at
  %value = call ptr @item_of(ptr %results, i64 %position)
  %old = call ptr @field(ptr %node, i64 $value_at)
  %is.pending = call i1 @is_none(ptr %old)
  br i1 %is.pending, label %now, label %settled   ; another thread was first: its value stays
now:
  call void @Py_IncRef(ptr %value)
  call void @set_field(ptr %node, i64 $value_at, ptr %value)
  call void @Py_DecRef(ptr %old)
  %keeps = icmp eq i64 %drops, 0
  br i1 %keeps, label %settled, label %drop
drop:
  call void @drop_inputs(ptr %node)
  br label %settled
settled:
  %s.next = add i64 %s, 1
  br label %next
done:
  ret void
}

; Mark these nodes of a history as given up; those that have a value drop what led to it.
define internal void @release_past(ptr %nodes, i64 %count, ptr %freed) {
entry:
  br label %next
next:
  %r = phi i64 [ 0, %entry ], [ %r.next, %released ]
  %all = icmp eq i64 %r, %count
  br i1 %all, label %done, label %one
one:
  %node.at = getelementptr ptr, ptr %nodes, i64 %r
  %node = load ptr, ptr %node.at
  %kind = call ptr @item_of(ptr %freed, i64 %r)
  %old = call ptr @field(ptr %node, i64 $kind_at)
  call void @Py_IncRef(ptr %kind)
  call void @set_field(ptr %node, i64 $kind_at, ptr %kind)
  call void @Py_DecRef(ptr %old)
  %value = call ptr @field(ptr %node, i64 $value_at)
  %is.pending = call i1 @is_none(ptr %value)
  br i1 %is.pending, label %released, label %inputs
inputs:
  call void @drop_inputs(ptr %node)
  br label %released
released:
  %r.next = add i64 %r, 1
  br label %next
done:
  ret void
}

define ptr @finish(ptr %self, ptr %arguments, i64 %count) {
entry:
  %block.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %block = load ptr, ptr %block.at, align 1
  %n.settled = call i64 @operand_at(ptr %block, i64 $settled)
  %settled = call ptr @object_at(ptr %block, i64 $settled_table)
  %n.groups = call i64 @operand_at(ptr %block, i64 $groups)
  %groups = call ptr @object_at(ptr %block, i64 $group_table)
  %grads = alloca ptr, i64 %n.groups
  %results = call ptr @object_at(ptr %arguments, i64 0)
  %gathered = call ptr @object_at(ptr %arguments, i64 1)
  %flag = call ptr @object_at(ptr %arguments, i64 2)
  %stored = call ptr @item_of(ptr %gathered, i64 1)
  %leaves = call ptr @item_of(ptr %gathered, i64 2)
  %olds = call ptr @item_of(ptr %gathered, i64 3)
  %past = call ptr @item_of(ptr %gathered, i64 4)
  %freed = call ptr @item_of(ptr %gathered, i64 5)
  %true = call ptr @own.object(i64 $true)
  %stored.items = getelementptr i8, ptr %stored, i64 $ITEMS
  call void @settle_all(ptr %stored.items, i64 %n.settled, ptr %settled, ptr %results)
  br label %make

make:
  %m = phi i64 [ 0, %entry ], [ %m.next, %made.one ]
  %all.made = icmp eq i64 %m, %n.groups
  br i1 %all.made, label %verify, label %make.one
make.one:
  %m.thrice = mul i64 %m, 3
  %m.at = getelementptr i64, ptr %groups, i64 %m.thrice
  %m.position = call i64 @operand_at(ptr %m.at, i64 0)
  %m.grad.at = getelementptr ptr, ptr %grads, i64 %m
  store ptr null, ptr %m.grad.at
  %m.is.absent = icmp slt i64 %m.position, 0
  br i1 %m.is.absent, label %made.one, label %make.handle
make.handle:
  %m.value = call ptr @item_of(ptr %results, i64 %m.position)
  %m.known = call ptr @object_at(ptr %m.at, i64 1)
  %m.known.class = call ptr @object_at(ptr %m.at, i64 2)
  %m.is.known = icmp ne ptr %m.known, null
  br i1 %m.is.known, label %make.leaf, label %make.given
make.given:
  %m.kinds = call ptr @item_of(ptr %gathered, i64 6)
  %m.given = call ptr @item_of(ptr %m.kinds, i64 %m)
  %m.given.out = call ptr @field(ptr %m.given, i64 $out_at)
  %m.given.class = call ptr @field(ptr %m.given.out, i64 $cls_at)
  br label %make.leaf
make.leaf:
  %m.kind = phi ptr [ %m.known, %make.handle ], [ %m.given, %make.given ]
  %m.class = phi ptr [ %m.known.class, %make.handle ], [ %m.given.class, %make.given ]
  %m.handle = call ptr @new_leaf(ptr %m.kind, ptr %m.class, ptr %m.value)
  store ptr %m.handle, ptr %m.grad.at
  %m.failed = icmp eq ptr %m.handle, null
  br i1 %m.failed, label %drop, label %made.one
made.one:
  %m.next = add i64 %m, 1
  br label %make

; From here to the last exchange nothing is allocated or freed: nobody sees some of the gradients only.
verify:
  %v = phi i64 [ 0, %make ], [ %v.next, %verified.one ]
  %all.verified = icmp eq i64 %v, %n.groups
  br i1 %all.verified, label %exchange, label %verify.one
verify.one:
  %v.grad.at = getelementptr ptr, ptr %grads, i64 %v
  %v.grad = load ptr, ptr %v.grad.at
  %v.is.absent = icmp eq ptr %v.grad, null
  br i1 %v.is.absent, label %verified.one, label %verify.old
verify.old:
  %v.leaf = call ptr @item_of(ptr %leaves, i64 %v)
  %v.present = call ptr @field(ptr %v.leaf, i64 $grad_at)
  %v.old = call ptr @item_of(ptr %olds, i64 %v)
  %v.had.none = call i1 @is_none(ptr %v.old)
  %v.has.none = call i1 @is_none(ptr %v.present)
  br i1 %v.had.none, label %verify.none, label %verify.same
verify.none:
  br i1 %v.has.none, label %verified.one, label %changed
verify.same:
  %v.node = call ptr @node_of(ptr %v.present)
  %v.is.same = icmp eq ptr %v.node, %v.old
  br i1 %v.is.same, label %verified.one, label %changed
verified.one:
  %v.next = add i64 %v, 1
  br label %verify

exchange:
  %x = phi i64 [ 0, %verify ], [ %x.next, %exchanged.one ]
  %all.exchanged = icmp eq i64 %x, %n.groups
  br i1 %all.exchanged, label %release, label %exchange.one
exchange.one:
  %x.grad.at = getelementptr ptr, ptr %grads, i64 %x
  %x.grad = load ptr, ptr %x.grad.at
  %x.is.absent = icmp eq ptr %x.grad, null
  br i1 %x.is.absent, label %exchanged.one, label %exchange.grad
exchange.grad:
  %x.leaf = call ptr @item_of(ptr %leaves, i64 %x)
  %x.old = call ptr @field(ptr %x.leaf, i64 $grad_at)
  call void @set_field(ptr %x.leaf, i64 $grad_at, ptr %x.grad)
  store ptr %x.old, ptr %x.grad.at                ; dropped below
  br label %exchanged.one
exchanged.one:
  %x.next = add i64 %x, 1
  br label %exchange

release:
  %is.released = icmp eq ptr %flag, %true
  %n.past = call i64 @count_of(ptr %past)
  %n.released = select i1 %is.released, i64 %n.past, i64 0
  %past.items = getelementptr i8, ptr %past, i64 $ITEMS
  call void @release_past(ptr %past.items, i64 %n.released, ptr %freed)
  br label %done

done:
  br label %drop
changed:
  br label %drop
drop:
  ; What stands in `grads` is not wanted any more: old gradients, or new ones that were not committed.
  %until = phi i64 [ %m, %make.leaf ], [ %n.groups, %done ], [ %n.groups, %changed ]
  %answer.word = phi i64 [ 0, %make.leaf ], [ 1, %done ], [ 2, %changed ]
  br label %drop.next
drop.next:
  %d = phi i64 [ 0, %drop ], [ %d.next, %drop.one ]
  %all.dropped = icmp eq i64 %d, %until
  br i1 %all.dropped, label %answer, label %drop.one
drop.one:
  %d.at = getelementptr ptr, ptr %grads, i64 %d
  %d.object = load ptr, ptr %d.at
  call void @Py_DecRef(ptr %d.object)
  %d.next = add i64 %d, 1
  br label %drop.next
answer:
  %false = call ptr @own.object(i64 $false)
  switch i64 %answer.word, label %error [ i64 1, label %yes  i64 2, label %not ]
yes:
  call void @Py_IncRef(ptr %true)
  ret ptr %true
not:
  call void @Py_IncRef(ptr %false)
  ret ptr %false
error:
  ret ptr null
}
"""
