"""Cut known segments off the end of a recording and run them, in native Python: see `autodiff.tape.parts`.

    cut_known_segments(...)    cut off the known segments
    compute_parts(parts)       compute the pending nodes of parts, from the beginning of the recording
    pull_parts(...)            carry cotangents through parts, from the end

A part is a tuple: a segment, and its nodes in the order in which the walk over the segment meets them.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, extern, held, i32, i64, local, moved, native, own, ptr, row, u64, void
from . import recording_objects as py
from .call_objects import set_in_dict
from .recording_entries import number_word, walk
from .recording_piece import CodeBlock, PieceBlock, is_alike
from .recording_run import settle
from .recording_structs import RawNode, RawSegment, is_plain_or_no_leaf, new_none, tape

set_has = extern("PySet_Contains", i32, ptr, ptr)  # for nodes, which compare by identity: no Python runs
add_to_set = extern("PySet_Add", i32, ptr, ptr, fails=FAILS)
drop_from_set = extern("PySet_Discard", i32, ptr, ptr)
put_in_list = extern("PyList_Insert", i32, ptr, i64, ptr, fails=FAILS)
set_slice = extern("PyList_SetSlice", i32, ptr, i64, i64, ptr, fails=FAILS)
drop_from_dict = extern("PyDict_DelItem", i32, ptr, ptr)

#: First words of a table's entry that is no place: an object, a given cotangent by number, a result by number.
OBJECT, GIVEN, RESULT = -1, -2, -3


@native(inline=True)
def block_of(segment: ptr) -> ptr[PieceBlock]:
    return ptr[PieceBlock](py.bytes_at(ptr[RawSegment](segment).block)[0])


# ------------------------------------------------------------------ cut


@native(inline=False)
def can_be_cut(p: ptr[PieceBlock], frontier: ptr, gone: ptr) -> bool:
    """True if the piece that was walked over holds no other node of the frontier, and reads no node of `gone`."""
    oldest = ~u64(0)
    for i in range(p.count):
        if p.words[i] & 1 != 0:
            word = number_word(walk.met[i + 1].node)
            oldest = word if word < oldest else oldest
    for i in range(p.reads):
        if set_has(gone, walk.met[p.read_table[i] + 1].node) != 0:
            return False
    k = py.list_size(frontier) - p.roots
    while k > 0:
        k -= 1
        n = ptr[RawNode](py.list_item(frontier, k))
        if number_word(n) < oldest:
            break
        at = n.mark
        if at > 0 and at < walk.count and walk.met[at].node is n and p.words[at - 1] & 1 != 0:
            return False
    return True


@native
def part_of(segment: ptr, count: i64) -> own:
    """A part of the nodes that were walked over; null with an exception."""
    nearby = local(ptr, py.FEW)
    memory = py.room(nearby, py.FEW, count)
    if memory is None:
        return None
    for i in range(count):
        memory[i] = held(walk.met[i + 1].node)
    nodes: own = py.tuple_of(memory, count)  # may run any Python: the walk is not read any more
    py.free_room(memory, count, nearby)
    return py.tuple_of(row(held(segment), nodes), 2)


@native
def add_to_frontier(n: ptr[RawNode], frontier: ptr, ends: ptr, is_end: ptr) -> bool:
    """Insert a node that a part reads into the frontier, which is sorted by number, unless the node is there already or
    gradients end at the node.  False with an exception."""
    if set_has(ends, n) != 0:
        return True
    if n.type is not tape.plain_type:
        answer: own = py.call_one(is_end, n)
        if answer is not tape.false:
            return answer is not None
    word = number_word(n)
    k = py.list_size(frontier)
    while k > 0 and number_word(ptr[RawNode](py.list_item(frontier, k - 1))) >= word:
        k -= 1
        if py.list_item(frontier, k) is n:
            return True
    return put_in_list(frontier, k, n) == 0


@native(inline=False)
def cut_segment(segment: ptr, frontier: ptr, parts: ptr, gone: ptr, ends: ptr, is_end: ptr) -> i32:
    """Cut a segment off the end.  1: done, 0: the recording does not end with this segment, -1: an exception."""
    p = block_of(segment)
    if not is_alike(p, frontier, False) or not can_be_cut(p, frontier, gone):
        return 0
    part: own = part_of(segment, i64(p.count))
    if part is None:
        return -1
    status = py.append(parts, part)
    nodes = py.tuple_item(part, 1)
    if status == 0:
        status = set_slice(frontier, py.list_size(frontier) - p.roots, py.list_size(frontier), None)
    for i in range(p.roots):
        if status == 0:
            status = add_to_set(gone, py.tuple_item(nodes, i))
    for i in range(p.reads):
        n = ptr[RawNode](py.tuple_item(nodes, p.read_table[i]))
        if status == 0 and not add_to_frontier(n, frontier, ends, is_end):
            status = -1
    return i32(1) if status == 0 else i32(-1)


@native
def move_to_front(items: ptr, k: i64) -> void:
    """Move the item at place k of a list to the front.  The caller holds a reference to the item."""
    item: own = held(py.list_item(items, k))
    while k > 0:
        k -= 1
        py.set_list(items, k + 1, held(py.list_item(items, k)))
    py.set_list(items, 0, moved(item))


@native
def cut_known_segments(known: ptr, frontier: ptr, parts: ptr, gone: ptr, ends: ptr, is_end: ptr) -> own:
    """Cut known segments off the end of a recording, as long as there are any.  Returns None.

    known     for each kind of node the segments that end in such a node, the one that was met last first
    frontier  a list of the nodes that are still to be computed or gone through, by number
    parts     a list to which the parts that come off are appended
    gone, ends    sets of nodes: the roots of these parts; the nodes at which gradients end, so far
    is_end    is_end(node): True if gradients end at a node that is a `RichNode`, which is then added to `ends`
    """
    found = i32(1)
    while found == 1 and py.list_size(frontier) > 0:
        found = 0
        latest = ptr[RawNode](py.list_item(frontier, py.list_size(frontier) - 1))
        segments = py.dict_item(known, latest.kind)
        k = i64(0)
        while found == 0 and segments is not None and k < py.list_size(segments):
            segment: own = held(py.list_item(segments, k))
            found = cut_segment(segment, frontier, parts, gone, ends, is_end)
            if found == 1:
                move_to_front(segments, k)
            k += 1
    return new_none() if found >= 0 else ptr(None)


# ------------------------------------------------------------------ run


@native(inline=True)
def object_at(words: ptr[i64], nodes: ptr, given: ptr[ptr], results: ptr) -> ptr:
    """The object that two words of a table name: the value of a node by place, or see `OBJECT`, `GIVEN`, `RESULT`."""
    if words[0] >= 0:
        return ptr[RawNode](py.tuple_item(nodes, words[0])).value
    if words[0] == GIVEN:
        return given[words[1]]
    if words[0] == RESULT:
        return py.tuple_item(results, words[1])
    return ptr(words[1])


@native(inline=False)
def call_code(code: ptr[CodeBlock], nodes: ptr, given: ptr[ptr]) -> own:
    """Call code on a part's nodes: its results, a new reference; null with an exception.   given: cotangents"""
    values = local(own, code.arguments + 1)
    values[0] = held(code.executable[0])
    for i in range(code.arguments):
        values[i + 1] = held(object_at(code.argument_table + 2 * i, nodes, given, None))
    return py.call_method(tape.call_name, ptr[ptr](values), u64(code.arguments + 1), None)


@native
def compute_parts(parts: ptr) -> own:
    """Compute and store the pending nodes of parts, the last part first.  Returns None."""
    for i in range(py.list_size(parts)):
        part = py.list_item(parts, py.list_size(parts) - 1 - i)
        code = block_of(py.tuple_item(part, 0)).forward
        if code is None:
            continue
        nodes = py.tuple_item(part, 1)
        results: own = call_code(code, nodes, None)
        if results is None:
            return None
        for k in range(code.results):
            word = code.result_table + 3 * k
            settle(ptr[RawNode](py.tuple_item(nodes, word[0])), results, word)
    return new_none()


@native
def pull_of(p: ptr[PieceBlock], flags: ptr[i64], count: i64) -> ptr:
    """The pull of a segment for a pattern of cotangents, given as flags; null for none."""
    for k in range(py.list_size(p.pulls)):
        pull = py.list_item(p.pulls, k)
        code = ptr[CodeBlock](py.bytes_at(pull)[0])
        i = i64(0)
        while i < count and code.flag_table[i] == flags[i]:
            i += 1
        if i == count:
            return pull
    return None


@native
def new_pull(segment: ptr, flags: ptr[i64], count: i64, make: ptr) -> bool:
    """Have Python make a pull for a pattern.  False with an exception."""
    numbers = local(own, count)
    for i in range(count):
        numbers[i] = py.int_of(flags[i])
    pattern: own = py.list_of(numbers, count)
    if pattern is None:
        return False
    made: own = py.call_two(make, segment, pattern)
    return made is not None


@native
def cotangent_of(n: ptr[RawNode], is_root: bool, cotangents: ptr, masked: ptr, zeros: ptr, flag: ptr[i64]) -> own:
    """The cotangent of a node, a new reference, and its flag; that of a root leaves `cotangents`.  Null for none, or
    with an exception and a flag of -1."""
    bar: own = held(py.dict_item(cotangents, n))
    flag[0] = 0
    if bar is None:
        if not is_root and not is_plain_or_no_leaf(n):
            bar = py.call_one(zeros, n)
            flag[0] = i64(1) if bar is not None else i64(-1)
        return bar
    flag[0] = 1 + i64(set_has(masked, n))
    if is_root and drop_from_dict(cotangents, n) != 0:
        flag[0] = -1
    return bar


@native
def put_cotangents(code: ptr[CodeBlock], nodes: ptr, given: ptr[ptr], cotangents: ptr, masked: ptr) -> bool:
    """Run a pull, and store the cotangents of the nodes that a part reads.  False with an exception."""
    results: own = ptr(None)
    if code.executable is not None:
        results = call_code(code, nodes, given)
        if results is None:
            return False
    is_right = True
    for k in range(code.results):
        word = code.result_table + 4 * k
        n = ptr[RawNode](py.tuple_item(nodes, word[0]))
        # A leaf that only has the zero of `zeros`, which the pull passes on unchanged, is not reached by a gradient.
        is_reached = word[1] == RESULT or is_plain_or_no_leaf(n) or py.dict_item(cotangents, n) is not None
        if is_right and is_reached:
            bar = object_at(word + 1, nodes, given, results)
            status = add_to_set(masked, n) if word[3] == 2 else drop_from_set(masked, n)
            is_right = status >= 0 and set_in_dict(cotangents, n, bar) == 0
    return is_right


@native(inline=False)
def pull_part(segment: ptr, nodes: ptr, cotangents: ptr, masked: ptr, make: ptr, zeros: ptr) -> bool:
    """Carry cotangents through a part.  False with an exception."""
    p = block_of(segment)
    count = p.roots + p.tracked
    given = local(own, count)
    flags = local(i64, count)
    is_right = True
    for k in range(count):
        is_root = k < p.roots
        n = ptr[RawNode](py.tuple_item(nodes, k if is_root else p.tracked_table[k - p.roots]))
        given[k] = cotangent_of(n, is_root, cotangents, masked, zeros, flags + k)
        is_right = is_right and flags[k] >= 0
    pull = pull_of(p, flags, count) if is_right else ptr(None)
    if pull is None and is_right:
        is_right = new_pull(segment, flags, count, make)
        pull = pull_of(p, flags, count)
    if is_right and pull is not None:
        code: own = held(pull)
        is_right = put_cotangents(ptr[CodeBlock](py.bytes_at(code)[0]), nodes, ptr[ptr](given), cotangents, masked)
    return is_right


@native
def pull_parts(parts: ptr, cotangents: ptr, masked: ptr, make: ptr, zeros: ptr) -> own:
    """Carry cotangents through parts.  Returns None.

    cotangents    by node; those of ends are left over;   masked: a set of nodes with masked cotangents
    make          make(segment, pattern) adds a missing pull to a segment
    zeros         zeros(leaf) is the cotangent of a leaf that no earlier part has reached
    """
    for i in range(py.list_size(parts)):
        part = py.list_item(parts, i)
        if not pull_part(py.tuple_item(part, 0), py.tuple_item(part, 1), cotangents, masked, make, zeros):
            return None
    return new_none()
