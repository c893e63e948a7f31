"""Constants with the values of an array (`record_ir`), as LLVM IR text: `copy_leaf(array)`, `learn_leaf(array, kind)`.

Which kind the leaf of an array has is found by its descr and extents, in a small table that Python fills.  An array of
more extents, of another class, or met where machine code may not record is left to Python: the answer is None.

    new_leaf      a handle on a new node that has a value (`recording_run`)
    array_node    the leaf of an operand that is an array: a copy; where the recording lends, a large array that owns
                  its memory is lent (`record_loan_ir`) or, if nobody can write to it, the value itself
"""

from __future__ import annotations

from .record_table import MOST_EXTENTS

__all__ = ["LEAF", "LEAF_WORDS", "POOLED"]

#: Copies of more elements lie in memory of the pool.  Ten million doubles take 18 ms so, and 42 where the system hands
#: out new pages for them; a hundred thousand take 25 us in either (two cores of a Zen 4, 2026-11).
POOLED = 8192

#: An entry has the descr, how many extents there are, they, and the kind.
LEAF_WORDS = MOST_EXTENTS + 3

LEAF = """
; A handle on a new node that has this value, or null.
define ptr @new_leaf(ptr %kind, ptr %class, ptr %value) {
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

declare ptr @new_copy(ptr, i32)
declare ptr @set_handler(ptr)

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

; The kind of the leaf of an array, borrowed: null where it can have none, 2 where none is known.
define internal ptr @kind_of_array(ptr %array) {
entry:
  %cell = alloca [$LEAF_WORDS x i64]
  %at = call ptr @leaf_entry(ptr %array, ptr %cell)
  %no.entry = icmp eq ptr %at, null
  br i1 %no.entry, label %no, label %known
known:
  %kind.at = getelementptr ptr, ptr %at, i64 $LEAF_KIND
  %kind = load ptr, ptr %kind.at
  %is.empty = icmp eq ptr %kind, null
  br i1 %is.empty, label %unknown, label %compare
compare:
  %rank.at = getelementptr i64, ptr %cell, i64 1
  %rank = load i64, ptr %rank.at
  %last = add i64 %rank, 2
  br label %next
next:
  %i = phi i64 [ 0, %compare ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %last
  br i1 %all, label %yes, label %one
one:
  %mine.at = getelementptr i64, ptr %cell, i64 %i
  %mine = load i64, ptr %mine.at
  %theirs.at = getelementptr i64, ptr %at, i64 %i
  %theirs = load i64, ptr %theirs.at
  %i.next = add i64 %i, 1
  %is.same = icmp eq i64 %mine, %theirs
  br i1 %is.same, label %next, label %unknown
yes:
  ret ptr %kind
unknown:
  ret ptr inttoptr (i64 2 to ptr)
no:
  ret ptr null
}

; How many elements an array has.
define internal i64 @size_of(ptr %array) {
entry:
  %nd.at = getelementptr i8, ptr %array, i64 $ND
  %nd = load i32, ptr %nd.at
  %dims.at = getelementptr i8, ptr %array, i64 $DIMS
  %dims = load ptr, ptr %dims.at
  br label %axis
axis:
  %i = phi i32 [ 0, %entry ], [ %i.next, %extent ]
  %size = phi i64 [ 1, %entry ], [ %more, %extent ]
  %all = icmp eq i32 %i, %nd
  br i1 %all, label %done, label %extent
extent:
  %dim.at = getelementptr i64, ptr %dims, i32 %i
  %dim = load i64, ptr %dim.at
  %more = mul i64 %size, %dim
  %i.next = add i32 %i, 1
  br label %axis
done:
  ret i64 %size
}

; A packed copy of an array, or null: a large one in memory of the pool, which is there already.
define internal ptr @own_copy(ptr %array) {
entry:
  %size = call i64 @size_of(ptr %array)
  %is.large = icmp sgt i64 %size, $POOLED
  br i1 %is.large, label %large, label %small
small:
  %plain = call ptr @new_copy(ptr %array, i32 0)    ; NPY_CORDER
  ret ptr %plain
large:
  %allocator = call ptr @own.object(i64 $allocator)
  %usual = call ptr @set_handler(ptr %allocator)
  %not.set = icmp eq ptr %usual, null
  br i1 %not.set, label %no, label %copy
copy:
  %pooled = call ptr @new_copy(ptr %array, i32 0)
  %pools = call ptr @set_handler(ptr %usual)
  call void @Py_DecRef(ptr %usual)
  call void @Py_DecRef(ptr %pools)
  %not.back = icmp eq ptr %pools, null
  br i1 %not.back, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %pooled)
  br label %no
done:
  ret ptr %pooled
no:
  ret ptr null
}

; The leaf of an array of this kind, or null.
define internal ptr @array_node(ptr %array, ptr %kind, ptr %recording) {
entry:
  %lends = call ptr @field(ptr %recording, i64 $lends_at)
  %true = call ptr @own.object(i64 $true)
  %may.lend = icmp eq ptr %lends, %true
  br i1 %may.lend, label %count, label %copy
count:
  %size = call i64 @size_of(ptr %array)
  %few = call i64 @own(i64 $few)
  %are.few = icmp sle i64 %size, %few
  br i1 %are.few, label %copy, label %look.at
look.at:
  %flags.at = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %bits = and i32 %flags, 261                     ; C_CONTIGUOUS 0x1, OWNDATA 0x4, ALIGNED 0x100
  %is.own = icmp eq i32 %bits, 261
  br i1 %is.own, label %own, label %copy
copy:
  %fresh = call ptr @own_copy(ptr %array)
  %no.fresh = icmp eq ptr %fresh, null
  br i1 %no.fresh, label %no, label %lock
lock:
  call void @set_writeable(ptr %fresh, i1 false)
  br label %value
own:
  %is.open = call i1 @is_writeable(ptr %array)
  br i1 %is.open, label %lend, label %closed
closed:
  ; By a loan, or by the user.
  %key = call ptr @PyLong_FromVoidPtr(ptr %array)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %no, label %look
look:
  %lender = call ptr @lender_of(ptr %key)
  call void @Py_DecRef(ptr %key)
  %is.lent = icmp ne ptr %lender, null
  br i1 %is.lent, label %lend, label %share
share:
  call void @Py_IncRef(ptr %array)
  br label %value
lend:
  %loans = call ptr @field(ptr %recording, i64 $lent_at)
  %view = call ptr @lent_view(ptr %array, ptr %loans)
  %no.view = icmp eq ptr %view, null
  br i1 %no.view, label %no, label %value
value:
  %held = phi ptr [ %fresh, %lock ], [ %array, %share ], [ %view, %lend ]
  %node = call ptr @new_node(ptr %kind, ptr %held)
  call void @Py_DecRef(ptr %held)
  ret ptr %node
no:
  ret ptr null
}

define ptr @copy_leaf(ptr %self, ptr %arguments, i64 %count) {
entry:
  %mode.cell = alloca ptr
  %array = load ptr, ptr %arguments
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %python, label %look
look:
  %kind = call ptr @kind_of_array(ptr %array)
  %bits = ptrtoint ptr %kind to i64
  %is.unknown = icmp ule i64 %bits, 2
  br i1 %is.unknown, label %python, label %make
make:
  ; Memory is asked for: the table may change meanwhile.
  call void @Py_IncRef(ptr %kind)
  %value = call ptr @own_copy(ptr %array)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %drop, label %lock
lock:
  %flags.at = getelementptr i8, ptr %value, i64 $FLAGS
  %flags = load i32, ptr %flags.at
  %locked = and i32 %flags, -1025                 ; NPY_ARRAY_WRITEABLE is 0x400
  store i32 %locked, ptr %flags.at
  %out = call ptr @field(ptr %kind, i64 $out_at)
  %class = call ptr @field(ptr %out, i64 $cls_at)
  %handle = call ptr @new_leaf(ptr %kind, ptr %class, ptr %value)
  call void @Py_DecRef(ptr %value)
  br label %drop
drop:
  %result = phi ptr [ null, %make ], [ %handle, %lock ]
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
