"""`x[key]` and `x[key] = v` (`record_ir`), as LLVM IR text: an `mp_subscript` and an `mp_ass_subscript`."""

from __future__ import annotations

__all__ = ["SUBSCRIPT"]

#: What `read_key` and `put_key` fill and read.
_ROOM = """\
  %mode.cell = alloca ptr
  %counts = alloca [3 x i64]
  %pairs = alloca [$MOST_STATICS x [2 x i64]]
  %starts = alloca [$MOST_STATICS x i64]
  %keys = alloca [$MOST_OPERANDS x ptr]
  %xs = alloca [$MOST_NODES x ptr]
  %nodes = alloca [$MOST_NODES x ptr]
"""

SUBSCRIPT = """
define ptr @subscript(ptr %x, ptr %key) {
entry:
  %arguments = alloca [2 x ptr]
$ROOM  %site = getelementptr [4 x ptr], ptr @sites, i64 $SUBSCRIPT
  %recording = call ptr @recording_operations(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %slow, label %operand
operand:
  %out = call ptr @key_of(ptr %x, ptr %recording, ptr %nodes)
  %out.bits = ptrtoint ptr %out to i64
  %no.key = icmp ule i64 %out.bits, 2
  br i1 %no.key, label %slow, label %is.handle
is.handle:
  %node = load ptr, ptr %nodes
  %masked = call i1 @is_masked(ptr %x, ptr %node)
  br i1 %masked, label %slow, label %read
read:
  store ptr %out, ptr %keys
  store ptr %x, ptr %xs
  %shape = call ptr @field(ptr %out, i64 $shape_at)
  %status = call i32 @read_key(ptr %shape, ptr %key, ptr %recording, i64 1, ptr %keys, ptr %nodes, ptr %xs, ptr %pairs,
                               ptr %starts, ptr %counts)
  switch i32 %status, label %record [ i32 0, label %slow  i32 2, label %unknown ]
record:
  %mode = load ptr, ptr %mode.cell
  %y = call ptr @put_key(ptr %site, ptr %recording, ptr %mode, i64 1, ptr %keys, ptr %nodes, ptr %xs, ptr %pairs,
                         ptr %starts, ptr %counts)
  %bits = ptrtoint ptr %y to i64
  switch i64 %bits, label %done [ i64 1, label %slow  i64 2, label %unknown ]
done:
  ret ptr %y
unknown:
  br label %slow
slow:
  %who = phi i64 [ 1, %entry ], [ 1, %operand ], [ 1, %is.handle ], [ 1, %read ], [ 1, %record ], [ 2, %unknown ]
  %function.at = getelementptr ptr, ptr %site, i64 %who
  %function = load ptr, ptr %function.at
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %x, ptr %arguments
  store ptr %key, ptr %second
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 2, ptr null)
  ret ptr %result
}

; x[key] = value: the handle gets what is recorded.  Deleting, and a leaf that wants gradients, is for Python.
define i32 @assign(ptr %x, ptr %key, ptr %value) {
entry:
  %arguments = alloca [3 x ptr]
$ROOM  %site = getelementptr [4 x ptr], ptr @sites, i64 $ASSIGN
  %is.deletion = icmp eq ptr %value, null
  br i1 %is.deletion, label %slow, label %now
now:
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %slow, label %operand
operand:
  %out = call ptr @key_of(ptr %x, ptr %recording, ptr %nodes)
  %out.bits = ptrtoint ptr %out to i64
  %no.key = icmp ule i64 %out.bits, 2
  br i1 %no.key, label %slow, label %is.plain
is.plain:
  %node = load ptr, ptr %nodes
  %masked = call i1 @is_masked(ptr %x, ptr %node)
  %node.class = call ptr @class_of(ptr %node)
  %node.type = call ptr @own.object(i64 $node_type)
  %is.rich = icmp ne ptr %node.class, %node.type
  %is.captured = call i1 @is_captured(ptr %node, ptr %recording)
  %is.hidden = or i1 %masked, %is.captured
  %is.other = or i1 %is.hidden, %is.rich
  br i1 %is.other, label %slow, label %value.key
value.key:
  %second.node = getelementptr ptr, ptr %nodes, i64 1
  %known = call ptr @key_of(ptr %value, ptr %recording, ptr %second.node)
  %known.bits = ptrtoint ptr %known to i64
  switch i64 %known.bits, label %value.mask [ i64 0, label %slow  i64 1, label %slow  i64 2, label %unknown ]
value.mask:
  %value.node = load ptr, ptr %second.node
  %value.masked = call i1 @is_masked(ptr %value, ptr %value.node)
  br i1 %value.masked, label %slow, label %read
read:
  %second.key = getelementptr ptr, ptr %keys, i64 1
  %second.x = getelementptr ptr, ptr %xs, i64 1
  store ptr %out, ptr %keys
  store ptr %x, ptr %xs
  store ptr %known, ptr %second.key
  store ptr %value, ptr %second.x
  %shape = call ptr @field(ptr %out, i64 $shape_at)
  %status = call i32 @read_key(ptr %shape, ptr %key, ptr %recording, i64 2, ptr %keys, ptr %nodes, ptr %xs, ptr %pairs,
                               ptr %starts, ptr %counts)
  switch i32 %status, label %record [ i32 0, label %slow  i32 2, label %unknown ]
record:
  %small = call ptr @field(ptr %out, i64 $is_small_at)    ; now: once the handle has another node this may be gone
  %mode = load ptr, ptr %mode.cell
  %y = call ptr @put_key(ptr %site, ptr %recording, ptr %mode, i64 2, ptr %keys, ptr %nodes, ptr %xs, ptr %pairs,
                         ptr %starts, ptr %counts)
  %bits = ptrtoint ptr %y to i64
  switch i64 %bits, label %rebind [ i64 0, label %error  i64 1, label %slow  i64 2, label %unknown ]
rebind:
  ; The handle that was noted is about to go; this one is found at the next ask instead.
  %y.node = call ptr @field(ptr %y, i64 $node_at)
  call void @Py_IncRef(ptr %y.node)
  call void @replace_field(ptr %x, i64 $node_at, ptr %y.node)
  call void @Py_DecRef(ptr %y)
  %true = call ptr @own.object(i64 $true)
  %is.small = icmp eq ptr %small, %true
  br i1 %is.small, label %note, label %done
note:
  %noted = call i32 @note(ptr %recording, ptr %x)
  ret i32 %noted
done:
  ret i32 0
error:
  ret i32 -1
unknown:
  br label %slow
slow:
  %who = phi i64 [ 1, %entry ], [ 1, %now ], [ 1, %operand ], [ 1, %is.plain ], [ 1, %value.key ], [ 1, %value.key ],
                 [ 1, %value.mask ], [ 1, %read ], [ 1, %record ], [ 2, %unknown ]
  %count = select i1 %is.deletion, i64 2, i64 3
  %function.at = getelementptr ptr, ptr %site, i64 %who
  %function = load ptr, ptr %function.at
  %second = getelementptr ptr, ptr %arguments, i64 1
  %third = getelementptr ptr, ptr %arguments, i64 2
  store ptr %x, ptr %arguments
  store ptr %key, ptr %second
  store ptr %value, ptr %third
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 %count, ptr null)
  call void @Py_DecRef(ptr %result)
  %failed = icmp eq ptr %result, null
  %answer = select i1 %failed, i32 -1, i32 0
  ret i32 %answer
}
""".replace("$ROOM", _ROOM)
