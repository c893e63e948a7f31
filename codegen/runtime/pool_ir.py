"""The pool as LLVM IR text: memory of outputs and workspaces that comes back when it is no longer used.

A fresh block of 80 MB costs 9 ms of page faults, every time; one from the pool costs none.

    block    header of 64 bytes, then the data, which start at a cache line; of large blocks at one of several in a page
    header   words: class, next free block of the class, address to free, bytes of data
    class    blocks of one size: multiples of 64 bytes up to 1 KiB, then four sizes per doubling
    @classes per class: the first free block, and when the class was last used

`take` gives a free block of the class, or a new one.  `give` puts it back; while more than `@limit`
bytes are free, blocks of the class that was not used for longest go back to the system.

Output arrays own their blocks by way of NumPy's allocators (NEP 49): an array holds a capsule with
`@handler`, whose `free` is `give`.  All this runs under the interpreter's lock and takes no other.
"""

from __future__ import annotations

from .template import Template

__all__ = ["pool_ir"]

#: Sizes up to 2^57 bytes.
CLASSES = 256

#: From this size on NumPy, too, asks for huge pages.
HUGE_BYTES = 1 << 22

#: Blocks from this size on begin at different places of a page, one after the other: so many, so far apart.  The system
#: gives large memory whole pages, all with the same beginning, and NumPy's arrays are 16 bytes behind that.  A load
#: waits for a store before it, of another array, whose address has the same last 12 bits: of ten million doubles the
#: sum of x * y and its gradients took 24 ms, and takes 6 (Zen 3).
COLOURED_BYTES, COLOURS, COLOUR_BYTES = 1 << 16, 6, 576

_POOL = Template("""
%Class = type { ptr, i64 }
%Header = type { i64, ptr, ptr, i64 }
%Handler = type { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }

@classes = internal global [$CLASSES x %Class] zeroinitializer, align 64
@clock = internal global i64 0
@free.bytes = internal global i64 0
@limit = internal global i64 0
@turn = internal global i64 0
@handler = internal global %Handler {
  [127 x i8] c"autodiff$padding", i8 1, ptr null,
  ptr @handler_malloc, ptr @handler_calloc, ptr @handler_realloc, ptr @handler_free
}

declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
$declare_advice

; At least `size` bytes at a multiple of 64, or null.
define internal ptr @take(i64 %size) {
entry:
  %up = add i64 %size, 63
  %whole = lshr i64 %up, 6
  %units = call i64 @llvm.umax.i64(i64 %whole, i64 1)
  %last = sub i64 %units, 1
  %is.small = icmp ult i64 %last, 16
  br i1 %is.small, label %found, label %sized
sized:
  ; From 2^62 bytes on nothing here may be added to a size any more; one of nearly 2^64 has come around.
  %is.huge = icmp ugt i64 %size, 4611686018427387904
  br i1 %is.huge, label %refuse, label %large
refuse:
  ret ptr null
large:
  ; k << shift <= last < (k + 1) << shift, with k in 4..7
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %shift = sub i64 61, %zeros
  %k = lshr i64 %last, %shift
  %k.next = add i64 %k, 1
  %large.units = shl i64 %k.next, %shift
  %doublings = sub i64 %shift, 2
  %fours = shl i64 %doublings, 2
  %step = add i64 %k, 12
  %large.class = add i64 %fours, %step
  br label %found
found:
  %class = phi i64 [ %last, %entry ], [ %large.class, %large ]
  %capacity.units = phi i64 [ %units, %entry ], [ %large.units, %large ]
  %capacity = shl i64 %capacity.units, 6
  %class.at = getelementptr %Class, ptr @classes, i64 %class
  %block = load ptr, ptr %class.at
  %is.empty = icmp eq ptr %block, null
  br i1 %is.empty, label %new, label %pop
pop:
  %next.at = getelementptr %Header, ptr %block, i64 0, i32 1
  %next = load ptr, ptr %next.at
  store ptr %next, ptr %class.at
  call void @used(ptr %class.at)
  %free = load i64, ptr @free.bytes
  %free.less = sub i64 %free, %capacity
  store i64 %free.less, ptr @free.bytes
  %data = getelementptr i8, ptr %block, i64 64
  ret ptr %data
new:
  %made = call ptr @new_block(i64 %class, i64 %capacity)
  ret ptr %made
}

define internal ptr @new_block(i64 %class, i64 %capacity) noinline {
entry:
  %is.large = icmp uge i64 %capacity, $COLOURED_BYTES
  %turn = load i64, ptr @turn
  %turn.next = add i64 %turn, 1
  store i64 %turn.next, ptr @turn
  %which = urem i64 %turn, $COLOURS
  %which.next = add i64 %which, 1
  %colour = mul i64 %which.next, $COLOUR_BYTES
  %shift = select i1 %is.large, i64 %colour, i64 0
  %room = add i64 %capacity, 127
  %bytes = add i64 %room, %shift
  %raw = call ptr @PyMem_RawMalloc(i64 %bytes)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %place
fail:
  ret ptr null
place:
  %number = ptrtoint ptr %raw to i64
  %up = add i64 %number, 63
  %line = and i64 %up, -64
  %aligned = add i64 %line, %shift
  %block = inttoptr i64 %aligned to ptr
  store i64 %class, ptr %block
  %raw.at = getelementptr %Header, ptr %block, i64 0, i32 2
  store ptr %raw, ptr %raw.at
  %capacity.at = getelementptr %Header, ptr %block, i64 0, i32 3
  store i64 %capacity, ptr %capacity.at
  %data = getelementptr i8, ptr %block, i64 64
$advise
  ret ptr %data
}

; Back into the pool.
define internal void @give(ptr %data) {
entry:
  %block = getelementptr i8, ptr %data, i64 -64
  %class = load i64, ptr %block
  %capacity.at = getelementptr %Header, ptr %block, i64 0, i32 3
  %capacity = load i64, ptr %capacity.at
  %class.at = getelementptr %Class, ptr @classes, i64 %class
  %first = load ptr, ptr %class.at
  %next.at = getelementptr %Header, ptr %block, i64 0, i32 1
  store ptr %first, ptr %next.at
  store ptr %block, ptr %class.at
  call void @used(ptr %class.at)
  %free = load i64, ptr @free.bytes
  %free.more = add i64 %free, %capacity
  store i64 %free.more, ptr @free.bytes
  %limit = load i64, ptr @limit
  %is.over = icmp ugt i64 %free.more, %limit
  br i1 %is.over, label %over, label %done
over:
  call void @shrink(i64 %limit)
  br label %done
done:
  ret void
}

define internal void @used(ptr %class.at) alwaysinline {
  %now = load i64, ptr @clock
  %then = add i64 %now, 1
  store i64 %then, ptr @clock
  %time.at = getelementptr %Class, ptr %class.at, i64 0, i32 1
  store i64 %then, ptr %time.at
  ret void
}

; Frees blocks, those of the class that was not used for longest first, until at most `limit` bytes are free.
define internal void @shrink(i64 %limit) noinline {
entry:
  br label %check
check:
  %free = load i64, ptr @free.bytes
  %is.over = icmp ugt i64 %free, %limit
  br i1 %is.over, label %look, label %done
look:
  %c = phi i64 [ 0, %check ], [ %c.next, %looked ]
  %oldest = phi i64 [ -1, %check ], [ %oldest.next, %looked ]
  %victim = phi ptr [ null, %check ], [ %victim.next, %looked ]
  %class.at = getelementptr %Class, ptr @classes, i64 %c
  %first = load ptr, ptr %class.at
  %time.at = getelementptr %Class, ptr %class.at, i64 0, i32 1
  %time = load i64, ptr %time.at
  %is.older = icmp ult i64 %time, %oldest
  %has.block = icmp ne ptr %first, null
  %is.better = and i1 %is.older, %has.block
  %oldest.next = select i1 %is.better, i64 %time, i64 %oldest
  %victim.next = select i1 %is.better, ptr %class.at, ptr %victim
  br label %looked
looked:
  %c.next = add i64 %c, 1
  %more = icmp ult i64 %c.next, $CLASSES
  br i1 %more, label %look, label %chosen
chosen:
  %none = icmp eq ptr %victim.next, null
  br i1 %none, label %done, label %drop
drop:
  %block = load ptr, ptr %victim.next
  %next.at = getelementptr %Header, ptr %block, i64 0, i32 1
  %next = load ptr, ptr %next.at
  store ptr %next, ptr %victim.next
  %capacity.at = getelementptr %Header, ptr %block, i64 0, i32 3
  %capacity = load i64, ptr %capacity.at
  %less = sub i64 %free, %capacity
  store i64 %less, ptr @free.bytes
  %raw.at = getelementptr %Header, ptr %block, i64 0, i32 2
  %raw = load ptr, ptr %raw.at
  call void @PyMem_RawFree(ptr %raw)
  br label %check
done:
  ret void
}

; What Python asks for: bytes that are free now; a new limit, obeyed at once.
define i64 @pool_free_bytes() {
  %free = load i64, ptr @free.bytes
  ret i64 %free
}
define void @pool_set_limit(i64 %limit) {
  store i64 %limit, ptr @limit
  call void @shrink(i64 %limit)
  ret void
}
define void @pool_trim() {
  call void @shrink(i64 0)
  ret void
}
define ptr @pool_handler() {
  ret ptr @handler
}

; NumPy's allocator.  The sizes that NumPy hands to `free` are not needed: the header knows.
define internal ptr @handler_malloc(ptr %context, i64 %size) {
  %data = call ptr @take(i64 %size)
  ret ptr %data
}
define internal ptr @handler_calloc(ptr %context, i64 %count, i64 %each) {
entry:
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %size = extractvalue { i64, i1 } %product, 0
  %is.over = extractvalue { i64, i1 } %product, 1
  br i1 %is.over, label %refuse, label %ask
refuse:
  ret ptr null
ask:
  %data = call ptr @take(i64 %size)
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  br label %done
done:
  ret ptr %data
}
define internal ptr @handler_realloc(ptr %context, ptr %old, i64 %size) {
entry:
  %is.new = icmp eq ptr %old, null
  br i1 %is.new, label %take, label %look
take:
  %fresh = call ptr @take(i64 %size)
  ret ptr %fresh
look:
  %capacity.at = getelementptr i8, ptr %old, i64 -40
  %capacity = load i64, ptr %capacity.at
  %fits = icmp ule i64 %size, %capacity
  br i1 %fits, label %same, label %grow
same:
  ret ptr %old
grow:
  %data = call ptr @take(i64 %size)
  %none = icmp eq ptr %data, null
  br i1 %none, label %fail, label %copy
fail:
  ret ptr null
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %old, i64 %capacity, i1 false)
  call void @give(ptr %old)
  ret ptr %data
}
define internal void @handler_free(ptr %context, ptr %data, i64 %size) {
entry:
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %back
back:
  call void @give(ptr %data)
  br label %done
done:
  ret void
}
declare i64 @llvm.umax.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
""")

_DECLARE_ADVICE = "declare i32 @madvise(ptr, i64, i32)"

# Whole pages within the block; 14 is MADV_HUGEPAGE.
_ADVISE = Template("""
  %is.huge = icmp uge i64 %capacity, $HUGE_BYTES
  br i1 %is.huge, label %huge, label %done
huge:
  %first = add i64 %aligned, 4159
  %page = and i64 %first, -4096
  %start = inttoptr i64 %page to ptr
  %advised = sub i64 %capacity, 4096
  %ignored = call i32 @madvise(ptr %start, i64 %advised, i32 14)
  br label %done
done:""")


def pool_ir(*, has_huge_pages: bool) -> str:
    """The functions `take` and `give` for the launcher, and what Python calls.

    has_huge_pages   whether the system has Linux's `madvise`
    """
    return _POOL.substitute(
        CLASSES=CLASSES,
        COLOURS=COLOURS,
        COLOUR_BYTES=COLOUR_BYTES,
        COLOURED_BYTES=COLOURED_BYTES,
        padding="\\00" * (127 - len("autodiff")),
        declare_advice=_DECLARE_ADVICE if has_huge_pages else "",
        advise=_ADVISE.substitute(HUGE_BYTES=HUGE_BYTES) if has_huge_pages else "",
    )
