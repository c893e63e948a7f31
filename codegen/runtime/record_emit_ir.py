"""Putting many nodes down behind given ones, as LLVM IR text: what rules recorded once, without the rules.

`put_steps(nodes)` is a METH_FASTCALL function from a tuple of nodes to a tuple of nodes.  Its `self` holds the address
of a block:

    EMIT       counts, and the addresses of two tables
    steps      per node: kind, value (or None), number of inputs, which: the given nodes first, then the steps
    results    which of them all are given back

Unlike the programs of the recorder (`record_put_ir`) it makes no handle, and has room for as many nodes as there are.
"""

from __future__ import annotations

__all__ = ["EMIT", "PUT_STEPS"]

#: The words of a block.
EMIT = ("emit_given", "emit_steps", "emit_results", "emit_step_table", "emit_result_table")

PUT_STEPS = """
define ptr @put_steps(ptr %self, ptr %arguments, i64 %count) {
entry:
  %block.at = getelementptr i8, ptr %self, i64 $PAYLOAD
  %block = load ptr, ptr %block.at, align 1
  %given = call i64 @operand_at(ptr %block, i64 $emit_given)
  %steps = call i64 @operand_at(ptr %block, i64 $emit_steps)
  %n.results = call i64 @operand_at(ptr %block, i64 $emit_results)
  %steps.at = call ptr @object_at(ptr %block, i64 $emit_step_table)
  %results.at = call ptr @object_at(ptr %block, i64 $emit_result_table)
  %total = add i64 %given, %steps
  %nodes = alloca ptr, i64 %total
  %is.one = icmp eq i64 %count, 1
  br i1 %is.one, label %look, label %wrong
look:
  %tuple = load ptr, ptr %arguments               ; the caller holds it, and it holds the given nodes
  %n.given = call i64 @count_of(ptr %tuple)
  %are.all = icmp eq i64 %n.given, %given
  br i1 %are.all, label %take, label %wrong
take:
  %t = phi i64 [ 0, %look ], [ %t.next, %take.one ]
  %taken = icmp eq i64 %t, %given
  br i1 %taken, label %step, label %take.one
take.one:
  %given.node = call ptr @item_of(ptr %tuple, i64 %t)
  %given.at = getelementptr ptr, ptr %nodes, i64 %t
  store ptr %given.node, ptr %given.at
  %t.next = add i64 %t, 1
  br label %take

step:
  %held = phi i64 [ %given, %take ], [ %held.next, %stepped ]
  %at = phi ptr [ %steps.at, %take ], [ %at.next, %stepped ]
  %all.put = icmp eq i64 %held, %total
  br i1 %all.put, label %give, label %step.one
step.one:
  %node = call ptr @put_step(ptr %at, ptr %nodes)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %failed, label %stepped
stepped:
  %node.at = getelementptr ptr, ptr %nodes, i64 %held
  store ptr %node, ptr %node.at
  %held.next = add i64 %held, 1
  %at.next = call ptr @step_behind(ptr %at)
  br label %step

give:
  %results = call ptr @PyTuple_New(i64 %n.results)
  %no.results = icmp eq ptr %results, null
  br i1 %no.results, label %failed, label %result
result:
  %r = phi i64 [ 0, %give ], [ %r.next, %result.one ]
  %given.back = icmp eq i64 %r, %n.results
  br i1 %given.back, label %release, label %result.one
result.one:
  %which = call i64 @operand_at(ptr %results.at, i64 %r)
  %which.at = getelementptr ptr, ptr %nodes, i64 %which
  %found = load ptr, ptr %which.at
  call void @Py_IncRef(ptr %found)
  call void @put_item(ptr %results, i64 %r, ptr %found)
  %r.next = add i64 %r, 1
  br label %result

failed:
  %made = phi i64 [ %held, %step.one ], [ %total, %give ]
  br label %release
release:
  %answer = phi ptr [ %results, %result ], [ null, %failed ]
  %to = phi i64 [ %total, %result ], [ %made, %failed ]
  %own = getelementptr ptr, ptr %nodes, i64 %given
  %n.own = sub i64 %to, %given
  call void @release_all(ptr %own, i64 %n.own)
  ret ptr %answer
wrong:
  %is.error = call i32 @PyErr_BadArgument()
  ret ptr null
}
"""
