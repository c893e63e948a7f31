"""The entries of a walk over a recording, one for each node that was met, in native Python (`codegen.native`).

    begin()                begin a walk with no entries
    reach(node, flags)     meet a node, and return the index of its entry
    entry_of(node)         the entry of a node that was met
    put_in_order()         sort the entries of nodes to compute or differentiate by the nodes' numbers

A walk allocates no object and runs no Python, so it holds no reference to a node.  A node keeps the index of its entry
in `mark`, and the entry names the node, so that a mark of an earlier walk is recognised.  The next walk reuses memory.

Numbers of nodes are odd words, or objects in a few nodes (`recorder_nodes`).  A walk that meets an object has to sort.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, held, i32, i64, local, native, own, ptr, static, u32, u64, void
from . import recording_objects as py
from .recording_structs import RawNode, tape

#: Flags of an entry: gradients flow through the node; the node is asked for; an ask only reads it (a cotangent).
IN_HISTORY, ROOT, READ = 1, 2, 4
#: The walk has looked at the node's inputs; the node is ordered by its number, not by its first use.
DONE, ORDERED = 8, 16
#: The value is stored; the value can be computed elementwise from stored values.
KEPT, CHEAP = 64, 128
#: The node has no value.
PENDING = 256


class WalkEntry(Struct):
    """The entry of a node that was met.  The first entry is unused: index 0 means no node.

    links      the number of times that pending nodes read the node
    place      the node's place in canonical order, -1 before it has one
    identity   for a version of a leaf: the place of the first node that is a version of this leaf
    """

    node: ptr[RawNode]
    links: u32
    flags: u32
    place: i32
    identity: i32


class NumberedEntry(Struct):
    """The index of an entry, with the number of its node."""

    number: u64
    at: u64


class LeafPlace(Struct):
    """A slot of the hash table of leaves' identities."""

    leaf: ptr
    identity: i64


class WalkWords(Struct):
    """The entries of the present walk, and lists of their indices.

    queue      entries whose inputs are to be looked at; later the entries with `ORDERED`, by number
    order      entries by place
    bodies, roots    entries of pending boundaries; entries of nodes that are asked for, or read
    calls        entries of the custom calls of the history
    n_versions   an upper bound of the number of leaves that have an identity
    n_ordered  the number of entries with `ORDERED`;   largest, smallest: the largest and the smallest of their numbers
    held       the number of references that the caller has to each node of the history
    has_number_objects   True if the number of some node is an object
    is_hooked  True if there are hooks in the history;   is_full: True if there was no memory
    """

    met: ptr[WalkEntry]
    count: u64
    capacity: u64
    queue: ptr[u32]
    head: u64
    tail: u64
    order: ptr[u32]
    n_versions: u64
    calls: ptr[u32]
    n_calls: u64
    bodies: ptr[u32]
    n_bodies: u64
    roots: ptr[u32]
    n_roots: u64
    window: ptr[u32]
    numbered: ptr[NumberedEntry]
    identities: ptr[LeafPlace]
    identity_mask: u64
    largest: u64
    smallest: u64
    n_ordered: u64
    held: u32
    has_number_objects: bool
    is_hooked: bool
    is_full: bool


walk = static(WalkWords)


#: The words of `walk` that hold the addresses of its tables, and the bytes per entry of each table.
TABLES = tuple([(WalkWords.fields()[name].offset // 8, size) for name, size in (
    ("met", 24), ("queue", 8), ("order", 4), ("calls", 4), ("bodies", 4), ("roots", 4), ("window", 16),
    ("numbered", 16), ("identities", 32),
)])  # fmt: skip


@native(inline=False)
def grow() -> void:
    """Make room for twice as many entries."""
    n = walk.capacity * 2 if walk.capacity != 0 else u64(1024)
    tables = ptr[ptr](walk)
    for word, size in TABLES:
        larger = py.resized(tables[word], n * size + 256)
        if larger is None:
            walk.is_full = True
            return
        tables[word] = larger
    walk.capacity = n


@native(inline=True)
def has_room(more: i64) -> bool:
    """Make room for `more` entries.  False without memory."""
    while walk.count + u64(more) > walk.capacity:
        grow()
        if walk.is_full:
            return False
    return True


@native
def begin() -> void:
    """Begin a walk."""
    walk.is_full = False
    walk.count = 0
    if has_room(1):
        walk.met[0].node = None
        walk.met[0].flags = 0
        walk.count = 1
    walk.head = 0
    walk.tail = 0
    walk.n_versions = 0
    walk.n_calls = 0
    walk.n_bodies = 0
    walk.n_roots = 0
    walk.largest = 0
    walk.smallest = ~u64(0)
    walk.n_ordered = 0
    walk.has_number_objects = False
    walk.is_hooked = False


@native(inline=True)
def entry_of(n: ptr[RawNode]) -> ptr[WalkEntry]:
    """The entry of a node; null for one that was not met."""
    at = n.mark
    if at < walk.count and walk.met[at].node is n:
        return walk.met[at]
    return None


@native(inline=True)
def reach(n: ptr[RawNode], flags: u32) -> u64:
    """Meet a node, and return the index of its entry.  The caller has made room for a new one (`has_room`)."""
    e = entry_of(n)
    if e is not None:
        if flags & ~e.flags & IN_HISTORY != 0:
            walk.queue[walk.tail] = u32(n.mark)
            walk.tail += 1
        e.flags |= flags
        return n.mark
    at = walk.count
    walk.count = at + 1
    n.mark = at
    made = walk.met[at]
    all_flags = flags | u32(n.value is tape.none) << 8
    made.node = n
    made.links = 0
    made.flags = all_flags
    made.place = -1
    if all_flags & (IN_HISTORY | PENDING) != 0:
        walk.queue[walk.tail] = u32(at)
        walk.tail += 1
    return at


@native(inline=True)
def note_ordered(e: ptr[WalkEntry]) -> void:
    """Note that a node is ordered by its number."""
    if e.flags & ORDERED == 0:
        word = e.node.number
        walk.n_ordered += 1
        if word & 1 == 0:
            walk.has_number_objects = True
        walk.largest = word if word > walk.largest else walk.largest
        walk.smallest = word if word < walk.smallest else walk.smallest
    e.flags |= ORDERED | DONE


@native
def hold(to: ptr[own], indices: ptr[u32], count: u64) -> void:
    """Write references to the nodes of entries, given by `count` indices, to `to`."""
    for i in range(count):
        to[i] = held(walk.met[indices[i]].node)


@native
def nodes_of(indices: ptr[u32], count: u64) -> own:
    """A list of the nodes of `count` entries, a new reference; null with an exception.  Any Python may run here."""
    nearby = local(ptr, py.FEW)
    nodes = py.room(nearby, py.FEW, i64(count))
    if nodes is None:
        return None
    hold(nodes, indices, count)
    made: own = py.list_of(nodes, i64(count))
    py.free_room(nodes, i64(count), nearby)
    return made


@native(inline=False)
def number_word(n: ptr[RawNode]) -> u64:
    """Twice a node's number plus one, also for a number that is an object.  A float lies between two whole numbers."""
    if n.number & 1 != 0:
        return n.number
    thing = ptr[py.RawObject](n.number)
    if thing.type is tape.int_type:
        return u64(2 * py.int_value(thing) + 1)
    return u64(i64(2.0 * py.float_value(thing))) + 1


@native(inline=False)
def sort_numbered(count: u64) -> void:
    """Sort entries by their numbers: Shell's sort with the gaps of Gonnet and Baeza-Yates."""
    gap = count // 2
    while gap > 0:
        for i in range(gap, count):
            number = walk.numbered[i].number
            entry = walk.numbered[i].at
            at = u64(i)
            while at >= gap and walk.numbered[at - gap].number > number:
                walk.numbered[at].number = walk.numbered[at - gap].number
                walk.numbered[at].at = walk.numbered[at - gap].at
                at -= gap
            walk.numbered[at].number = number
            walk.numbered[at].at = entry
        gap = u64(1) if gap == 2 else gap * 5 // 11


@native
def put_in_order() -> u64:
    """Write the entries with `ORDERED` to `queue`, sorted by number, and return how many there are.

    The numbers of one recording are close together, so that each entry has a slot of its own in a window of numbers.
    """
    width = u64(0)
    first = u64(0)
    if not walk.has_number_objects and walk.n_ordered > 0:
        width = (walk.largest - walk.smallest >> 1) + 1
        if width > 4 * walk.n_ordered + 64:
            width = 4 * walk.n_ordered + 64
        first = walk.largest - 2 * (width - 1)
        py.set_bytes(walk.window, 0, width * 4)
    n_numbered = u64(0)
    met = walk.met
    window = walk.window
    for i in range(walk.count):
        e = met[i]
        if e.flags & ORDERED == 0:
            continue
        if width == 0 or e.node.number < first:
            walk.numbered[n_numbered].number = number_word(e.node)
            walk.numbered[n_numbered].at = u64(i)
            n_numbered += 1
        else:
            window[(e.node.number - first) >> 1] = u32(i)
    sort_numbered(n_numbered)
    queue = walk.queue
    n = u64(0)
    for i in range(n_numbered):
        queue[n] = u32(walk.numbered[i].at)
        n += 1
    for i in range(width):
        queue[n] = window[i]
        n += u64(window[i] != 0)
    return n
