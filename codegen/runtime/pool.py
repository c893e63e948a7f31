"""The pool, in native Python: it reuses the memory of outputs and workspaces that are no longer used.

Each fresh block of 80 MB costs 9 ms of page faults; a block from the pool costs none.

    Block    a header of 64 bytes, then the data, at the start of a cache line; large blocks vary the line in the page
    Class    the free blocks of one size: multiples of 64 bytes up to 1 KiB, then four sizes per doubling

`from_pool` returns a free block of the class, or a new one.  `to_pool` puts a block back; while the free bytes exceed
the limit, blocks of the least recently used class are returned to the system.

Output arrays own their blocks through NumPy's allocators (NEP 49): an array holds a capsule with the handler, whose
`free` is `to_pool`.  All functions run under the interpreter's lock and take no other lock.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

import sys

from ..native import Struct, array, extern, fn, i32, native, ptr, static, u8, u64, void
from .recording_objects import allocated, free, set_bytes

#: The number of classes, for sizes up to 2^57 bytes.
CLASSES = 256

#: The size from which huge pages are requested, as NumPy does; 14 is MADV_HUGEPAGE.
HUGE_BYTES, HUGE_PAGES = 1 << 22, 14
HAS_HUGE_PAGES = sys.platform == "linux"

#: Blocks from this size on begin at one of COLOURS places in a page, COLOUR_BYTES apart.  Systems align large memory
#: to pages, and a load waits for an earlier store to another array whose address has the same last 12 bits: the sum of
#: x * y and its gradients, for ten million doubles, took 24 ms without, and takes 6 ms with colours (Zen 3).
COLOURED_BYTES, COLOURS, COLOUR_BYTES = 1 << 16, 6, 576

#: The bytes of a header, and the largest size, so that adding to a size never overflows.
HEADER, MOST = 64, 1 << 62

leading_zeros = extern("llvm.ctlz.i64", u64, u64, bool)
copy_bytes = extern("memcpy", void, ptr, ptr, u64)
advise = extern("madvise", void, ptr, u64, i32)


class PoolBlock(Struct):
    """The header of a block: its class, the next free block of the class, the address to free, the bytes of data."""

    cls: u64
    next: ptr[PoolBlock]
    raw: ptr
    capacity: u64


class Class(Struct):
    """The blocks of one size: the first free one, and the time of last use by the pool's clock."""

    first: ptr[PoolBlock]
    used: u64


class Pool(Struct):
    clock: u64
    free: u64
    limit: u64
    turn: u64


class Handler(Struct):
    """NumPy's PyDataMem_Handler."""

    name: array[u8, 127]
    version: u8
    context: ptr
    malloc: fn[ptr, ptr, u64]
    calloc: fn[ptr, ptr, u64, u64]
    realloc: fn[ptr, ptr, ptr, u64]
    free: fn[void, ptr, ptr, u64]


classes = static(array[Class, CLASSES])
pool, handler = static(Pool), static(Handler)


@native
def from_pool(size: u64) -> ptr:
    """At least `size` bytes at a multiple of 64; null if there is no memory."""
    units = size + 63 >> 6 if size != 0 else u64(1)
    last = units - 1
    number = last
    if last >= 16:
        if size > MOST:
            return None
        # k << shift <= last < (k + 1) << shift, with k in 4..7
        shift = 61 - leading_zeros(last, True)
        k = last >> shift
        units = k + 1 << shift
        number = (shift - 2 << 2) + k + 12
    of = classes[number]
    block = of.first
    if block is None:
        return new_block(number, units << 6)
    of.first = block.next
    note_use(of)
    pool.free -= units << 6
    return ptr(block) + HEADER


@native(inline=True)
def note_use(of: ptr[Class]) -> void:
    pool.clock += 1
    of.used = pool.clock


@native(inline=True)
def ask_for_huge_pages(block: u64, capacity: u64) -> void:
    if capacity >= HUGE_BYTES:
        advise(ptr(block + 4159 & ~u64(4095)), capacity - 4096, HUGE_PAGES)  # whole pages within the block


@native(inline=False)
def new_block(number: u64, capacity: u64) -> ptr:
    colour = (pool.turn % COLOURS + 1) * COLOUR_BYTES if capacity >= COLOURED_BYTES else u64(0)
    pool.turn += 1
    raw = allocated(capacity + 127 + colour)
    if raw is None:
        return None
    start = (u64(raw) + 63 & ~u64(63)) + colour
    block = ptr[PoolBlock](start)
    block.cls = number
    block.raw = raw
    block.capacity = capacity
    if HAS_HUGE_PAGES:
        ask_for_huge_pages(start, capacity)
    return ptr(start + HEADER)


@native
def to_pool(data: ptr) -> void:
    block = ptr[PoolBlock](data - HEADER)
    of = classes[block.cls]
    block.next = of.first
    of.first = block
    note_use(of)
    pool.free += block.capacity
    if pool.free > pool.limit:
        shrink(pool.limit)


@native(inline=False)
def shrink(limit: u64) -> void:
    """Return blocks to the system, least recently used class first, until the pool holds at most `limit` free bytes."""
    while pool.free > limit:
        oldest = ~u64(0)
        victim = classes[0]
        for c in range(CLASSES):
            of = classes[c]
            if of.first is not None and of.used < oldest:
                oldest = of.used
                victim = of
        block = victim.first
        if block is None:
            return
        victim.first = block.next
        pool.free -= block.capacity
        free(block.raw)


# ------------------------------------------------------------------ called by Python


@native
def pool_free_bytes() -> u64:
    """The number of free bytes in the pool."""
    return pool.free


@native
def pool_set_limit(limit: u64) -> void:
    """Set the limit of free bytes."""
    pool.limit = limit
    shrink(limit)


@native
def pool_trim() -> void:
    shrink(0)


@native
def pool_handler() -> ptr:
    """The NumPy handler that arrays with memory of the pool hold."""
    name = "autodiff"
    copy_bytes(handler.name + 0, name, 8)
    handler.version = 1
    handler.malloc = handler_malloc
    handler.calloc = handler_calloc
    handler.realloc = handler_realloc
    handler.free = handler_free
    return ptr(handler)


# ------------------------------------------------------------------ called by NumPy
# `free` ignores the size that NumPy passes: the header has it.


@native
def handler_malloc(context: ptr, size: u64) -> ptr:
    return from_pool(size)


@native
def handler_calloc(context: ptr, count: u64, each: u64) -> ptr:
    if each != 0 and count > MOST // each:
        return None
    data = from_pool(count * each)
    if data is not None:
        set_bytes(data, 0, count * each)
    return data


@native
def handler_realloc(context: ptr, old: ptr, size: u64) -> ptr:
    if old is None:
        return from_pool(size)
    capacity = ptr[PoolBlock](old - HEADER).capacity
    if size <= capacity:
        return old
    data = from_pool(size)
    if data is not None:
        copy_bytes(data, old, capacity)
        to_pool(old)
    return data


@native
def handler_free(context: ptr, data: ptr, size: u64) -> void:
    if data is not None:
        to_pool(data)


#: The functions that Python and other machine code call.
POOL = (pool_free_bytes, pool_set_limit, pool_trim, pool_handler, from_pool, to_pool)
