"""Constants with a copy of an array (`record_ir`), as LLVM IR text: `copy_leaf(array)`, `learn_leaf(array, kind)`.

Which kind the leaf of an array has is found by its descr and extents, in a small table that Python fills.  An array of
more extents, of another class, or met where machine code may not record is left to Python: the answer is None.
"""

from __future__ import annotations

__all__ = ["LEAF", "LEAF_WORDS", "MOST_EXTENTS"]

#: Extents that are looked at; an entry has the descr, how many there are, they, and the kind.
MOST_EXTENTS = 4
LEAF_WORDS = MOST_EXTENTS + 3

LEAF = """
declare ptr @new_copy(ptr, i32)

@leaf.kinds = internal global [$LEAVES x [$LEAF_WORDS x i64]] zeroinitializer

; The words of an array go to `cell`: where its entry is in the table; null for one that has none.
define internal ptr @leaf_entry(ptr %array, ptr %cell) {
entry:
  %class = call ptr @class_of(ptr %array)
  %array.type = call ptr @own.object(i64 $array_type)
  %is.array = icmp eq ptr %class, %array.type
  br i1 %is.array, label %rank, label %no
rank:
  %nd.at = getelementptr i8, ptr %array, i64 $ND
  %nd = load i32, ptr %nd.at
  %is.much = icmp ugt i32 %nd, $MOST_EXTENTS
  br i1 %is.much, label %no, label %words
words:
  %n = zext i32 %nd to i64
  %descr.at = getelementptr i8, ptr %array, i64 $DESCR
  %descr = load i64, ptr %descr.at
  %dims.at = getelementptr i8, ptr %array, i64 $DIMS
  %dims = load ptr, ptr %dims.at
  store i64 %descr, ptr %cell
  %rank.at = getelementptr i64, ptr %cell, i64 1
  store i64 %n, ptr %rank.at
  %extents = getelementptr i64, ptr %cell, i64 2
  %low = lshr i64 %descr, 4
  %start = add i64 %low, %n
  br label %next
next:
  %i = phi i64 [ 0, %words ], [ %i.next, %one ]
  %hash = phi i64 [ %start, %words ], [ %mixed, %one ]
  %all = icmp eq i64 %i, %n
  br i1 %all, label %found, label %one
one:
  %dim.at = getelementptr i64, ptr %dims, i64 %i
  %dim = load i64, ptr %dim.at
  %to = getelementptr i64, ptr %extents, i64 %i
  store i64 %dim, ptr %to
  %scaled = mul i64 %hash, 31
  %mixed = add i64 %scaled, %dim
  %i.next = add i64 %i, 1
  br label %next
found:
  %high = lshr i64 %hash, 8
  %folded = xor i64 %hash, %high
  %place = and i64 %folded, $LEAVES_MASK
  %at = getelementptr [$LEAVES x [$LEAF_WORDS x i64]], ptr @leaf.kinds, i64 0, i64 %place
  ret ptr %at
no:
  ret ptr null
}

define ptr @copy_leaf(ptr %self, ptr %arguments, i64 %count) {
entry:
  %mode.cell = alloca ptr
  %cell = alloca [$LEAF_WORDS x i64]
  %array = load ptr, ptr %arguments
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %python, label %look
look:
  %at = call ptr @leaf_entry(ptr %array, ptr %cell)
  %no.entry = icmp eq ptr %at, null
  br i1 %no.entry, label %python, label %known
known:
  %kind.at = getelementptr ptr, ptr %at, i64 $LEAF_KIND
  %kind = load ptr, ptr %kind.at
  %is.empty = icmp eq ptr %kind, null
  br i1 %is.empty, label %python, label %compare
compare:
  %rank.at = getelementptr i64, ptr %cell, i64 1
  %rank = load i64, ptr %rank.at
  %last = add i64 %rank, 2
  br label %next
next:
  %i = phi i64 [ 0, %compare ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %last
  br i1 %all, label %make, label %one
one:
  %mine.at = getelementptr i64, ptr %cell, i64 %i
  %mine = load i64, ptr %mine.at
  %theirs.at = getelementptr i64, ptr %at, i64 %i
  %theirs = load i64, ptr %theirs.at
  %i.next = add i64 %i, 1
  %is.same = icmp eq i64 %mine, %theirs
  br i1 %is.same, label %next, label %python
make:
  ; Memory is asked for: the table may change meanwhile.
  call void @Py_IncRef(ptr %kind)
  %value = call ptr @new_copy(ptr %array, i32 0)    ; NPY_CORDER
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %drop, label %lock
lock:
  %flags.at = getelementptr i8, ptr %value, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %locked = and i32 %flags, -1025                 ; NPY_ARRAY_WRITEABLE is 0x400
  store i32 %locked, ptr %flags.at
  %empty = call ptr @PyTuple_New(i64 0)
  %no.empty = icmp eq ptr %empty, null
  br i1 %no.empty, label %drop.value, label %leaf
leaf:
  %out = call ptr @field(ptr %kind, i64 $out_at)
  %class = call ptr @field(ptr %out, i64 $cls_at)
  %handle = call ptr @new_leaf(ptr %kind, ptr %class, ptr %value, ptr %empty)
  call void @Py_DecRef(ptr %empty)
  br label %drop.value
drop.value:
  %made = phi ptr [ null, %lock ], [ %handle, %leaf ]
  call void @Py_DecRef(ptr %value)
  br label %drop
drop:
  %result = phi ptr [ null, %make ], [ %made, %drop.value ]
  call void @Py_DecRef(ptr %kind)
  ret ptr %result
python:
  %none = call ptr @own.object(i64 $none)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

define ptr @learn_leaf(ptr %self, ptr %arguments, i64 %count) {
entry:
  %cell = alloca [$LEAF_WORDS x i64]
  %array = load ptr, ptr %arguments
  %second = getelementptr ptr, ptr %arguments, i64 1
  %kind = load ptr, ptr %second
  %at = call ptr @leaf_entry(ptr %array, ptr %cell)
  %no.entry = icmp eq ptr %at, null
  br i1 %no.entry, label %done, label %put
put:
  %kind.at = getelementptr ptr, ptr %at, i64 $LEAF_KIND
  %old = load ptr, ptr %kind.at
  call void @Py_IncRef(ptr %kind)
  br label %next
next:
  %i = phi i64 [ 0, %put ], [ %i.next, %one ]
  %all = icmp eq i64 %i, $LEAF_KIND
  br i1 %all, label %name, label %one
one:
  %from = getelementptr i64, ptr %cell, i64 %i
  %word = load i64, ptr %from
  %to = getelementptr i64, ptr %at, i64 %i
  store i64 %word, ptr %to
  %i.next = add i64 %i, 1
  br label %next
name:
  store ptr %kind, ptr %kind.at
  call void @Py_DecRef(ptr %old)                  ; null, of an empty one, is fine
  br label %done
done:
  %none = call ptr @own.object(i64 $none)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}
"""
