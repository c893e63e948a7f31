"""The walk over a recording that gives its key, in native Python (`codegen.native`): a hash, and its nodes in order.

    begin()                                  a walk
    root(node, flags)                        what is asked for, what is read: `ROOT`, `READ`, `PAST`
    gather()                                 all that these need, with the history of what is `PAST`
    number(digest, tracks)                   nodes in canonical order; their kinds, wires and states into the hash

The walk allocates no object and runs no Python, so it holds no node: whether a pending node is looked at from outside
is told by its references, less those that pending readers in the recording have.

A node keeps the place of its entry in `mark`.  The entry names the node, so a mark that an earlier walk left is none.
Order and hash say what `autodiff.tape.walk.structure` says, which is the same in plain Python.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import (
    Struct,
    extern,
    f64,
    i32,
    i64,
    likely,
    local,
    native,
    ptr,
    static,
    u32,
    u64,
    u128,
    unlikely,
    void,
)

__all__ = [
    "CHEAP", "KEPT", "OWN", "PAST", "READ", "ROOT", "Digest", "Handle", "Kind", "Leaf", "Met", "Node", "Object", "Out",
    "Rich", "begin", "count_of", "entry_of", "gather", "input_at", "is_filled", "known_identity", "mix", "number",
    "place_given", "root", "tape", "walk",
]  # fmt: skip

#: Of an entry: gradients go through it; asked for; only read by what is asked (a cotangent, an old gradient).
PAST, ROOT, READ = 1, 2, 4
#: Its inputs were looked at; it has a place by its number; a leaf that was noted.
DONE, OWN, NOTED = 8, 16, 32
#: It is stored; it can be computed elementwise from what is stored.
KEPT, CHEAP = 64, 128
#: It has no value; it has more than two inputs, or room for more, so it is looked at with care.
PENDING, WIDE = 256, 512
#: The place of what is no input: larger than all others.
NO_PLACE = 0x7FFFFFFF


# Slots stand in the order of their names, a leading underscore first; those that are not read, and stand behind, are
# left out.  `recording_asks.has_known_slots` compares them.


class Object(Struct):
    """The head of all objects."""

    references: u32
    rest: u32
    type: ptr


class Out(Struct):
    head: Object
    as_leaf: ptr
    aval: ptr
    cls: ptr
    flows: ptr
    requires_grad: ptr
    shape: ptr
    small: ptr
    weak: ptr


class Kind(Struct):
    head: Object
    told: ptr
    freed: ptr[Kind]
    heavy: ptr
    op: ptr
    out: ptr[Out]
    params: ptr
    released: ptr
    rules: ptr
    runs: ptr
    tracks: ptr


class Node(Struct):
    """A node: `first` and `second` are its inputs where `inputs` is null; `number` is odd, or an object."""

    references: u32
    rest: u32
    type: ptr
    first: ptr[Node]
    inputs: ptr
    kind: ptr[Kind]
    mark: u64
    number: u64
    second: ptr[Node]
    value: ptr


class Rich(Struct):
    """A node with room for more."""

    references: u32
    rest: u32
    type: ptr
    first: ptr[Node]
    inputs: ptr
    kind: ptr[Kind]
    mark: u64
    number: u64
    second: ptr[Node]
    value: ptr
    body: ptr
    call: ptr
    flow: ptr
    hooks: ptr
    leaf: ptr[Leaf]
    line: ptr
    retained: ptr
    slot: ptr


class Leaf(Struct):
    head: Object
    after: ptr
    grad: ptr[Handle]
    hooks: ptr
    owner: ptr


class Handle(Struct):
    head: Object
    masked: ptr
    node: ptr[Node]


class Met(Struct):
    """The entry of a node that was met.  The first one stands for no node: it is the input that a node has not.

    links      how often pending nodes read it
    place      in canonical order, -1 before it has one
    identity   of a leaf: the place of the first node that is a version of it
    first, second    the entries of its inputs, of a node that is not `WIDE`
    """

    node: ptr[Node]
    links: u32
    flags: u32
    place: i32
    identity: i32
    first: u32
    second: u32


class Dated(Struct):
    """An entry with the number of its node."""

    number: u64
    at: u64


class Place(Struct):
    """A leaf's identity in a table of such."""

    leaf: ptr
    identity: i64


class Tape(Struct):
    """The objects that nodes are compared with."""

    none: ptr
    true: ptr
    plain_type: ptr
    handle_type: ptr
    int_type: ptr
    leaf_op: ptr
    constant_op: ptr


class Walk(Struct):
    """The entries of the present walk.

    queue      entries whose inputs are to be looked at; later those with a place by their number, in order
    order      entries by place
    leaves, bodies, roots    entries: leaves of the history, pending boundaries, what was asked for; once nodes have
                             places, the first version of each leaf, by place
    calls        the calls of the history, by place
    n_asked      of the roots: the first, which take a place even where nothing reads them
    n_versions   at most how many leaves have an identity
    most, least    the largest number and the smallest;   own: how many have a place by their number
    held       how often the caller holds each node of the history
    is_dated   some have a number that is an object
    is_hooked  there are hooks in the history;   is_full: there is no memory
    """

    met: ptr[Met]
    count: u64
    capacity: u64
    queue: ptr[u32]
    head: u64
    tail: u64
    order: ptr[u32]
    leaves: ptr[u32]
    n_leaves: u64
    n_versions: u64
    calls: ptr[u32]
    n_calls: u64
    bodies: ptr[u32]
    n_bodies: u64
    roots: ptr[u32]
    n_roots: u64
    n_asked: u64
    window: ptr[u32]
    dated: ptr[Dated]
    identities: ptr[Place]
    identity_mask: u64
    most: u64
    least: u64
    own: u64
    held: u32
    is_dated: bool
    is_hooked: bool
    is_full: bool


class Digest(Struct):
    """The hash so far, and how many nodes have a place; where entries are (see `Hot`)."""

    low: u64
    high: u64
    count: u64
    met: ptr[Met]
    order: ptr[u32]


class Hot(Struct):
    """The state that the loops of a walk use most: as their local it is in registers, not in memory."""

    met: ptr[Met]
    queue: ptr[u32]
    count: u64
    tail: u64
    capacity: u64
    most: u64
    least: u64
    least: u64
    own: u64


tape, walk = static(Tape), static(Walk)

tuple_size = extern("PyTuple_Size", i64, ptr, runs_python=False, plain=len)
tuple_item = extern("PyTuple_GetItem", ptr[Node], ptr, i64, runs_python=False, plain=lambda t, i: t[i])
dict_size = extern("PyDict_Size", i64, ptr, runs_python=False, plain=len)
int_value = extern("PyLong_AsLongLong", i64, ptr, runs_python=False, plain=int)
float_value = extern("PyFloat_AsDouble", f64, ptr, runs_python=False, plain=float)
slice_ends = extern("PySlice_Unpack", i32, ptr, ptr[i64], ptr[i64], ptr[i64], runs_python=False)
set_bytes = extern("memset", ptr, ptr, i32, u64, runs_python=False)
resized = extern("PyMem_RawRealloc", ptr, ptr, u64, runs_python=False)


@native(inline=True)
def mix(d: ptr[Digest], a: u64, b: u64) -> void:
    """Add two words to the hash: two lanes, each with a product of its own."""
    x = u128(d.low ^ a) * u128(b ^ 0xA0761D6478BD642F)
    y = u128(d.high ^ b ^ 0xE7037ED1A0B428DB) * u128(a ^ 0x8EBC6AF09C88C6E3)
    d.low = u64(x) ^ u64(x >> 64) ^ b
    d.high = u64(y) ^ u64(y >> 64) ^ a


# ------------------------------------------------------------------ nodes


@native(inline=True)
def count_of(n: ptr[Node]) -> i64:
    """The number of a node's inputs."""
    if likely(n.inputs is None):
        return i64(n.first is not None) + i64(n.second is not None)
    return tuple_size(n.inputs)


@native(inline=True)
def input_at(n: ptr[Node], i: i64) -> ptr[Node]:
    if likely(n.inputs is None):
        return n.first if i == 0 else n.second
    return tuple_item(n.inputs, i)


@native(inline=True)
def is_filled(dictionary: ptr) -> bool:
    """True for a dictionary with entries; it may be None."""
    return dictionary is not tape.none and dictionary is not None and dict_size(dictionary) > 0


@native(inline=True)
def body_of(r: ptr[Rich], count: i64) -> i64:
    """The number of the input that has a boundary's value; -1 for another node."""
    if r.body is tape.none or count == 0:
        return -1
    return int_value(r.body)


# ------------------------------------------------------------------ what is needed


@native(inline=False)
def grow() -> void:
    """Room for twice as many entries."""
    n = walk.capacity * 2 if walk.capacity != 0 else u64(1024)
    met = ptr[Met](resized(ptr(walk.met), n * 32))
    if met is not None:
        walk.met = met
    queue = ptr[u32](resized(ptr(walk.queue), n * 8))
    if queue is not None:
        walk.queue = queue
    order = ptr[u32](resized(ptr(walk.order), n * 4))
    if order is not None:
        walk.order = order
    leaves = ptr[u32](resized(ptr(walk.leaves), n * 4))
    if leaves is not None:
        walk.leaves = leaves
    calls = ptr[u32](resized(ptr(walk.calls), n * 4))
    if calls is not None:
        walk.calls = calls
    bodies = ptr[u32](resized(ptr(walk.bodies), n * 4))
    if bodies is not None:
        walk.bodies = bodies
    roots = ptr[u32](resized(ptr(walk.roots), n * 4))
    if roots is not None:
        walk.roots = roots
    window = ptr[u32](resized(ptr(walk.window), n * 16 + 256))
    if window is not None:
        walk.window = window
    dated = ptr[Dated](resized(ptr(walk.dated), n * 16))
    if dated is not None:
        walk.dated = dated
    identities = ptr[Place](resized(ptr(walk.identities), n * 32))
    if identities is not None:
        walk.identities = identities
    are_lists = queue is not None and order is not None and leaves is not None and calls is not None
    are_others = bodies is not None and roots is not None and window is not None and dated is not None
    if met is not None and are_lists and are_others and identities is not None:
        walk.capacity = n
    else:
        walk.is_full = True


@native(inline=True)
def has_room(more: i64) -> bool:
    """Make room for so many more entries."""
    while unlikely(walk.count + u64(more) > walk.capacity):
        grow()
        if walk.is_full:
            return False
    return True


@native(inline=True)
def entry_of(n: ptr[Node]) -> ptr[Met]:
    """The entry of a node; null for one that was not met."""
    at = n.mark
    if at < walk.count and walk.met[at].node is n:
        return walk.met[at]
    return None


@native(inline=True)
def reach(h: ptr[Hot], n: ptr[Node], flags: u32) -> u64:
    """Meet a node: the place of its entry, for which there is room."""
    at = n.mark
    if at < h.count and h.met[at].node is n:
        e = h.met[at]
        if unlikely(flags & ~e.flags & PAST != 0):
            h.queue[h.tail] = u32(at)
            h.tail += 1
        e.flags |= flags
        return at
    at = h.count
    h.count = at + 1
    n.mark = at
    made = h.met[at]
    said = flags | u32(n.value is tape.none) << 8
    made.node = n
    made.links = 0
    made.flags = said
    made.place = -1
    if said & (PAST | PENDING) != 0:
        h.queue[h.tail] = u32(at)
        h.tail += 1
    return at


@native(inline=True)
def load(h: ptr[Hot]) -> void:
    h.met = walk.met
    h.queue = walk.queue
    h.count = walk.count
    h.tail = walk.tail
    h.capacity = walk.capacity
    h.most = walk.most
    h.least = walk.least
    h.own = walk.own


@native(inline=True)
def save(h: ptr[Hot]) -> void:
    walk.count = h.count
    walk.tail = h.tail
    walk.most = h.most
    walk.least = h.least
    walk.own = h.own


@native(inline=True)
def tracked(q: ptr[Node], past: u32) -> u32:
    """PAST for an input of a history that gradients go to."""
    return past if q.kind.tracks is tape.true else u32(0)


@native(inline=True)
def note_own(h: ptr[Hot], e: ptr[Met]) -> void:
    """It has a place by its number."""
    if e.flags & OWN == 0:
        word = e.node.number
        h.own += 1
        if unlikely(word & 1 == 0):
            walk.is_dated = True
        h.most = word if word > h.most else h.most
        h.least = word if word < h.least else h.least
    e.flags |= OWN | DONE


@native(inline=True)
def read_by(h: ptr[Hot], q: ptr[Node], past: u32, links: u32) -> u32:
    """Meet an input that is there, or not: the place of its entry."""
    if q is None:
        return 0
    at = reach(h, q, tracked(q, past) if past != 0 else u32(0))
    h.met[at].links += links
    return u32(at)


@native(inline=True)
def look_at(h: ptr[Hot], at: u64) -> void:
    """Meet the inputs of a plain node that is pending, or in the history; it has two at most."""
    e = h.met[at]
    n = e.node
    past = e.flags & PAST
    links = u32(e.flags & (DONE | PENDING) == PENDING)
    note_own(h, e)
    e.first = read_by(h, n.first, past, links)
    e.second = read_by(h, n.second, past, links)


@native(inline=False)
def look_at_wide(at: u64) -> void:
    """Meet the inputs of any node."""
    n = walk.met[at].node
    r = ptr[Rich](n)
    is_rich = n.type is not tape.plain_type
    count = count_of(n)
    if unlikely(not has_room(count)):
        return
    h = local(Hot, 1)[0]
    load(h)
    e = h.met[at]
    past = e.flags & PAST
    pending = e.flags & PENDING != 0
    has_leaf = is_rich and ptr(r.leaf) is not tape.none
    walk.n_versions += u64(has_leaf and e.flags & DONE == 0)
    if is_rich and past != 0 and e.flags & NOTED == 0:
        e.flags |= NOTED
        if is_filled(r.hooks) or r.retained is not tape.none:
            walk.is_hooked = True
        if has_leaf:
            walk.leaves[walk.n_leaves] = u32(at)
            walk.n_leaves += 1
            if is_filled(r.leaf.hooks):
                walk.is_hooked = True
    if has_leaf and not pending:
        return
    e.flags |= u32(is_rich or count > 2) * WIDE
    e.first = 0
    e.second = 0
    body = body_of(r, count) if is_rich else i64(-1)
    if past == 0 and body >= 0:
        if e.flags & DONE == 0:
            walk.bodies[walk.n_bodies] = u32(at)
            walk.n_bodies += 1
        note_own(h, e)
        reach(h, input_at(n, body), 0)
        save(h)
        return
    links = u32(pending and e.flags & DONE == 0)
    note_own(h, e)
    ends = local(i64, 3)
    ends[0] = 0
    ends[1] = count
    if has_leaf:
        ends[1] = 0
    elif is_rich and r.flow is not tape.none:
        slice_ends(r.flow, ends, ends + 1, ends + 2)
    for i in range(count):
        read = read_by(h, input_at(n, i), past if i >= ends[0] and i < ends[1] else u32(0), links)
        if i == 0:
            e.first = read
        elif i == 1:
            e.second = read
    save(h)


@native
def begin() -> void:
    """Begin a walk."""
    walk.is_full = False
    walk.count = 0
    if has_room(1):
        nothing = walk.met[0]
        nothing.node = None
        nothing.flags = CHEAP
        nothing.place = NO_PLACE
        walk.count = 1
    walk.head = 0
    walk.tail = 0
    walk.n_leaves = 0
    walk.n_versions = 0
    walk.n_calls = 0
    walk.n_bodies = 0
    walk.n_roots = 0
    walk.n_asked = 0
    walk.most = 0
    walk.least = ~u64(0)
    walk.own = 0
    walk.is_dated = False
    walk.is_hooked = False


@native
def root(n: ptr[Node], flags: u32) -> void:
    """Meet a node that is asked for, or read; with PAST where gradients are asked of it and it tracks them."""
    if unlikely(not has_room(1)):
        return
    e = entry_of(n)
    is_new = e is None or e.flags & ROOT == 0
    past = flags & PAST
    h = local(Hot, 1)[0]
    load(h)
    reach(h, n, flags & ~u32(PAST) | ROOT | (tracked(n, past) if past != 0 else u32(0)))
    save(h)
    if is_new:
        walk.roots[walk.n_roots] = u32(n.mark)
        walk.n_roots += 1


@native
def gather() -> void:
    """Meet all that was not yet met; hooks in a history end it, as there is no key then."""
    h = local(Hot, 1)[0]
    load(h)
    head = walk.head
    while head < h.tail and not walk.is_full and not walk.is_hooked:
        at = u64(h.queue[head])
        n = h.met[at].node
        head += 1
        if likely(n.type is tape.plain_type and n.inputs is None and h.count + 2 <= h.capacity):
            look_at(h, at)
        else:
            save(h)
            look_at_wide(at)
            load(h)
    save(h)
    walk.head = head


# ------------------------------------------------------------------ order


@native(inline=False)
def number_word(n: ptr[Node]) -> u64:
    """Twice a node's number, and one."""
    if n.number & 1 != 0:
        return n.number
    thing = ptr[Object](n.number)
    if thing.type is tape.int_type:
        return u64(2 * int_value(ptr(thing)) + 1)
    return u64(i64(2.0 * float_value(ptr(thing)))) + 1


@native(inline=True)
def sink(first: u64, count: u64) -> void:
    """Let an entry sink to its place in a heap, the largest number on top."""
    at = first
    moved = walk.dated[at].number
    entry = walk.dated[at].at
    while True:
        down = 2 * at + 1
        if down >= count:
            break
        if down + 1 < count and walk.dated[down + 1].number > walk.dated[down].number:
            down += 1
        if walk.dated[down].number <= moved:
            break
        walk.dated[at].number = walk.dated[down].number
        walk.dated[at].at = walk.dated[down].at
        at = down
    walk.dated[at].number = moved
    walk.dated[at].at = entry


@native(inline=False)
def sort_dated(count: u64) -> void:
    """Sort entries by their numbers."""
    start = count // 2
    while start > 0:
        start -= 1
        sink(start, count)
    left = count
    while left > 1:
        left -= 1
        number = walk.dated[left].number
        entry = walk.dated[left].at
        walk.dated[left].number = walk.dated[0].number
        walk.dated[left].at = walk.dated[0].at
        walk.dated[0].number = number
        walk.dated[0].at = entry
        sink(0, left)


@native
def put_in_order() -> u64:
    """The entries with a place by their number, in order, into `queue`: how many.

    Numbers of one recording lie side by side: each finds its place in a window by its number.
    """
    width = u64(0)
    first = u64(0)
    if not walk.is_dated and walk.own > 0:
        width = (walk.most - walk.least >> 1) + 1
        if unlikely(width > 4 * walk.own + 64):
            width = 4 * walk.own + 64
        first = walk.most - 2 * (width - 1)
        set_bytes(ptr(walk.window), 0, width * 4)
    n_dated = u64(0)
    met = walk.met
    window = walk.window
    for i in range(walk.count):
        e = met[i]
        if e.flags & OWN == 0:
            continue
        if unlikely(width == 0 or e.node.number < first):
            walk.dated[n_dated].number = number_word(e.node)
            walk.dated[n_dated].at = u64(i)
            n_dated += 1
        else:
            window[(e.node.number - first) >> 1] = u32(i)
    sort_dated(n_dated)
    queue = walk.queue
    n = u64(0)
    for i in range(n_dated):
        queue[n] = u32(walk.dated[i].at)
        n += 1
    for i in range(width):
        queue[n] = window[i]
        n += u64(window[i] != 0)
    return n


# ------------------------------------------------------------------ the hash


@native(inline=True)
def identity_of(leaf: ptr[Leaf], place: i32) -> i32:
    """The place of the first node that is a version of a leaf."""
    word = u64(leaf)
    at = (word >> 4) * 0x9E3779B97F4A7C15 >> 20 & walk.identity_mask
    while walk.identities[at].leaf is not None and walk.identities[at].leaf is not ptr(leaf):
        at = at + 1 & walk.identity_mask
    if walk.identities[at].leaf is None:
        walk.identities[at].leaf = ptr(leaf)
        walk.identities[at].identity = i64(place)
    return i32(walk.identities[at].identity)


@native
def known_identity(leaf: ptr[Leaf]) -> i64:
    """The identity of a leaf that was met; -1 of another."""
    if walk.n_versions == 0:
        return -1
    at = (u64(leaf) >> 4) * 0x9E3779B97F4A7C15 >> 20 & walk.identity_mask
    while walk.identities[at].leaf is not None:
        if walk.identities[at].leaf is ptr(leaf):
            return walk.identities[at].identity
        at = at + 1 & walk.identity_mask
    return -1


@native(inline=True)
def note_version(e: ptr[Met], at: u64) -> void:
    """Note the first version of a leaf of the history."""
    if e.identity == e.place and e.flags & PAST != 0:
        walk.leaves[walk.n_leaves] = u32(at)
        walk.n_leaves += 1


@native(inline=True)
def take_place(d: ptr[Digest], e: ptr[Met], at: u64) -> void:
    d.order[d.count] = u32(at)
    e.place = i32(d.count)
    d.count += 1


@native(inline=True)
def take_given(d: ptr[Digest], at: u64) -> void:
    """Place a node that has a value and is not gone through, where it is first used."""
    e = d.met[at]
    take_place(d, e, at)
    e.flags |= CHEAP


@native(inline=False)
def take_inputs(d: ptr[Digest], at: u64) -> void:
    """Place those inputs of a node that have no place yet."""
    e = d.met[at]
    if e.flags & WIDE == 0:
        if d.met[e.first].place < 0:
            take_given(d, u64(e.first))
        if d.met[e.second].place < 0:
            take_given(d, u64(e.second))
        return
    body = body_of_wide(e)
    for i in range(count_of(e.node)):
        read = input_at(e.node, i).mark
        if (body < 0 or i == body) and d.met[read].place < 0:
            take_given(d, read)


@native(inline=True)
def body_of_wide(e: ptr[Met]) -> i64:
    """The number of the input that has a boundary's value, where nothing else of it is gone through; else -1."""
    n = e.node
    if n.type is tape.plain_type or e.flags & PAST != 0:
        return -1
    return body_of(ptr[Rich](n), count_of(n))


@native(inline=True)
def decide(e: ptr[Met], cheap: u32, tracks: bool, is_stored: bool) -> void:
    """Decide if a node is stored, and if it can be computed elementwise from what is stored.

    cheap        `CHEAP` if all of its inputs can be
    tracks       a heavy result is stored where it tracks gradients
    is_stored    it is in any case
    """
    flags = e.flags
    if unlikely(flags & (PENDING | ROOT) != PENDING):
        e.flags = flags | (u32(CHEAP | KEPT) if flags & (PENDING | READ) == PENDING else u32(CHEAP))
        return
    n = e.node
    kind = n.kind
    held = walk.held if flags & PAST != 0 else u32(0)
    if kind.heavy is not tape.true:
        if cheap & CHEAP != 0:
            flags |= CHEAP
        elif n.references > e.links + held:
            flags |= KEPT | CHEAP
    elif n.references > e.links + held or (tracks and kind.tracks is tape.true):
        flags |= KEPT | CHEAP
    if is_stored:
        flags |= KEPT | CHEAP
    e.flags = flags


@native(inline=False)
def decide_wide(d: ptr[Digest], at: u64, tracks: bool) -> void:
    """Decide that of any node."""
    e = d.met[at]
    n = e.node
    r = ptr[Rich](n)
    is_rich = n.type is not tape.plain_type
    count = count_of(n)
    body = body_of(r, count) if is_rich else i64(-1)
    cheap = u32(CHEAP)
    for i in range(count):
        if body < 0 or i == body:
            cheap &= d.met[input_at(n, i).mark].flags
    if is_several(e):
        return
    decide(e, cheap, tracks, is_rich and ptr(r.leaf) is not tape.none)


@native(inline=True)
def is_several(e: ptr[Met]) -> bool:
    """True for a call of several results, which have the values."""
    r = ptr[Rich](e.node)
    if e.flags & (PENDING | ROOT) != PENDING or e.node.type is tape.plain_type:
        return False
    return r.call is not tape.none and r.body is tape.none


@native(inline=True)
def state(e: ptr[Met]) -> u64:
    """A node's state as the hash says it, above the bits of an address."""
    return u64(e.flags & (PAST | KEPT | PENDING)) << 48


@native(inline=False)
def version_of(at: u64) -> u64:
    """The identity of a leaf that has a value, and whether it has hooks, as the hash says it."""
    e = walk.met[at]
    r = ptr[Rich](e.node)
    e.identity = identity_of(r.leaf, e.place)
    note_version(e, at)
    return u64(e.identity) << 1 | u64(is_filled(r.hooks))


@native(inline=True)
def mix_given(d: ptr[Digest], e: ptr[Met], at: u64) -> void:
    """Add a node that has a value and is not gone through."""
    past = e.flags & PAST
    mix(d, u64(e.node.kind.out) | u64(past) << 48, 0x67)
    if unlikely(past != 0):
        mix(d, version_of(at), 0x71)


@native(inline=True)
def place_given(d: ptr[Digest], at: u64) -> void:
    """Place and add such a node."""
    take_given(d, at)
    mix_given(d, d.met[at], at)


@native(inline=False)
def mix_wide(d: ptr[Digest], at: u64) -> void:
    """Add the kind, wires and state of any node."""
    e = d.met[at]
    n = e.node
    r = ptr[Rich](n)
    is_rich = n.type is not tape.plain_type
    body = body_of_wide(e)
    wires = u64(count_of(n))
    for i in range(count_of(n)):
        if body < 0 or i == body:
            wires = wires * 0x2545F4914F6CDD1D + u64(d.met[input_at(n, i).mark].place) + 1
    kind = n.kind
    has_leaf = is_rich and ptr(r.leaf) is not tape.none
    what = u64(kind)
    if e.flags & PENDING == 0 and is_rich and (has_leaf or kind.op is tape.leaf_op):
        what = u64(kind.out)
    mix(d, what | state(e) | 1 << 58, wires)
    if not is_rich:
        return
    e.identity = -1
    if has_leaf:
        e.identity = identity_of(r.leaf, e.place)
        note_version(e, at)
    is_called = r.call is not tape.none and e.flags & PAST != 0
    if is_called:
        walk.calls[walk.n_calls] = u32(at)
        walk.n_calls += 1
    mix(d, u64(u32(e.identity)), u64(is_filled(r.hooks)) | u64(is_called) << 1)


@native
def make_room_for_versions() -> void:
    """Empty the table of leaves' identities."""
    if walk.n_versions != 0:
        size = u64(2)
        while size < 2 * walk.n_versions:
            size *= 2
        walk.identity_mask = size - 1
        set_bytes(ptr(walk.identities), 0, size * 16)


@native(inline=True)
def copy(to: ptr[Digest], of: ptr[Digest]) -> void:
    to.low = of.low
    to.high = of.high
    to.count = of.count
    to.met = of.met
    to.order = of.order


@native
def number(d: ptr[Digest], tracks: bool) -> void:
    """Give all nodes their places, and add them to the hash.

    tracks   gradients may be asked for later: what they need is then stored
    """
    for i in range(walk.n_bodies):
        n = walk.met[walk.bodies[i]].node
        for k in range(count_of(n)):
            e = entry_of(input_at(n, k))
            if e is not None:
                e.links += 1
    make_room_for_versions()
    walk.n_leaves = 0
    own = put_in_order()
    d.met = walk.met
    d.order = walk.order
    take_places(d, own, tracks)
    h = local(Digest, 1)[0]
    copy(h, d)
    for i in range(h.count):
        at = u64(h.order[i])
        e = h.met[at]
        if likely(e.flags & (OWN | WIDE) == OWN):
            wires = u64(h.met[e.first].place) | u64(h.met[e.second].place) << 32
            mix(h, u64(e.node.kind) | state(e), wires)
        elif e.flags & WIDE == 0:
            mix_given(h, e, at)
        else:
            copy(d, h)
            mix_wide(d, at)
            copy(h, d)
    copy(d, h)


@native
def take_places(d: ptr[Digest], own: u64, tracks: bool) -> void:
    """Give nodes their places, and decide what is stored."""
    h = local(Digest, 1)[0]
    copy(h, d)
    queue = walk.queue
    for i in range(own):
        at = u64(queue[i])
        e = h.met[at]
        is_wide = e.flags & WIDE != 0
        if unlikely(is_wide or (h.met[e.first].place | h.met[e.second].place) < 0):
            copy(d, h)
            take_inputs(d, at)
            if is_wide:
                decide_wide(d, at, tracks)
            copy(h, d)
        if likely(not is_wide):
            decide(e, h.met[e.first].flags & h.met[e.second].flags, tracks, False)
        take_place(h, e, at)
    for i in range(walk.n_asked):
        if h.met[walk.roots[i]].place < 0:
            take_given(h, u64(walk.roots[i]))
    copy(d, h)
