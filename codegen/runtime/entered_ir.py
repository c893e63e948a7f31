"""From the call of a Python object into a plan and back, as LLVM IR text: `enter`, a `tp_call`.

An object that is called has a slot with its *site*: a bytes object of addresses of *entries*, tried one after the
other.  An entry says what the arguments of its call look like, and what its result does, as data:

    entry      words: number of arguments, whether there are keywords, number of registers, instructions of five
               words that check and take apart (`TAKE_APART`), registers of the plan's inputs, objects that are
               further inputs (or handles on nodes that have a value then), whether somebody else may let inputs
               go, whether the arguments are the inputs as they are, plan, program of the result
    program    see `result_ir`

Registers hold borrowed objects, first the arguments in order, then the dict of keywords.  Where no entry fits, or
the settings ask for care, the Python function `slow(self, args, kwargs)` is called.  The site, and with it the
entries and what they run, is held while a call is on.
"""

from __future__ import annotations

from .entered_again_ir import AGAIN
from .result_ir import result_ir
from .template import Template

__all__ = ["ENTRY", "TAKE_APART", "WORDS", "entered_ir"]

#: What is the same for all calls: where the flag of care is and what it must be, where objects have their site,
#: of which class sites are, who is called otherwise; Python's own; where handles have a node, and that a value.
WORDS = ("settings", "careful_at", "false", "site_at", "site_type", "slow", "none", "dict_type",
         "node_at", "value_at", "lookers", "array_type", "int_type", "float_type", "str_type")
#: The words of an entry.
ENTRY = (
    "given", "has_keywords", "registers", "n_checks", "checks", "n_places", "places", "n_hidden", "hidden", "holds",
    "is_flat", "entry_plan", "entry_program",
)  # fmt: skip
#: (code, register, object, first register for the parts, count): an exact class; an object, or one of its class and
#: value if it is an int, a float or a str; a tuple of a class; a list of one; a dict whose keys are these of a tuple,
#: in order.
TAKE_APART = ("class", "object", "tuple", "list", "dict")

#: Takes a sequence of a class and a length apart.
_SEQUENCE = Template("""
is.$kind:
  %same.$kind = icmp eq ptr %class, %object
  br i1 %same.$kind, label %$kind.size, label %miss
$kind.size:
  %$kind.length = call i64 @$size(ptr %x)
  %$kind.fits = icmp eq i64 %$kind.length, %count
  br i1 %$kind.fits, label %$kind.item, label %miss
$kind.item:
  %$kind.i = phi i64 [ 0, %$kind.size ], [ %$kind.next, %$kind.one ]
  %$kind.done = icmp eq i64 %$kind.i, %count
  br i1 %$kind.done, label %good, label %$kind.one
$kind.one:
  %$kind.part = call ptr @$item(ptr %x, i64 %$kind.i)
  %$kind.to = getelementptr ptr, ptr %to, i64 %$kind.i
  store ptr %$kind.part, ptr %$kind.to
  %$kind.next = add i64 %$kind.i, 1
  br label %$kind.item
""")

_TEXT = """
@entering = internal global [$COUNT x i64] zeroinitializer
define ptr @entering_words() { ret ptr @entering }

declare i64 @PyTuple_Size(ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)

define internal ptr @class.of(ptr %object) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 $TYPE
  %class = load ptr, ptr %at
  ret ptr %class
}
define internal i64 @size.of(ptr %object) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 $SIZE
  %size = load i64, ptr %at
  ret i64 %size
}
define internal ptr @item(ptr %tuple, i64 %place) alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 $ITEMS
  %at = getelementptr ptr, ptr %items, i64 %place
  %item = load ptr, ptr %at
  ret ptr %item
}

define ptr @enter(ptr %self, ptr %args, ptr %kwargs) {
entry:
  %settings = call ptr @address(ptr @entering, i64 $settings)
  %careful.offset = call i64 @word(ptr @entering, i64 $careful_at)
  %careful.at = getelementptr i8, ptr %settings, i64 %careful.offset
  %careful = load ptr, ptr %careful.at
  %false = call ptr @address(ptr @entering, i64 $false)
  %is.careless = icmp eq ptr %careful, %false
  br i1 %is.careless, label %keywords, label %python
keywords:
  %no.dict = icmp eq ptr %kwargs, null
  br i1 %no.dict, label %positional, label %count.keywords
count.keywords:
  %n.keywords = call i64 @PyDict_Size(ptr %kwargs)
  %no.keywords = icmp eq i64 %n.keywords, 0
  br label %positional
positional:
  %is.positional = phi i1 [ true, %keywords ], [ %no.keywords, %count.keywords ]
  %keywords.word = select i1 %is.positional, i64 0, i64 1
  %site.offset = call i64 @word(ptr @entering, i64 $site_at)
  %site.at = getelementptr i8, ptr %self, i64 %site.offset
  %site = load ptr, ptr %site.at
  %no.site = icmp eq ptr %site, null
  br i1 %no.site, label %python, label %is.ours
is.ours:
  %site.class = call ptr @class.of(ptr %site)
  %site.type = call ptr @address(ptr @entering, i64 $site_type)
  %is.site = icmp eq ptr %site.class, %site.type
  br i1 %is.site, label %hold, label %python
hold:
  call void @Py_IncRef(ptr %site)
  %bytes = call i64 @size.of(ptr %site)
  %n.entries = lshr i64 %bytes, 3
  %entries = getelementptr i8, ptr %site, i64 $PAYLOAD
  %n.args = call i64 @size.of(ptr %args)
  %first = getelementptr i8, ptr %args, i64 $ITEMS
  br label %next
next:
  %e = phi i64 [ 0, %hold ], [ %e.next, %other ]
  %none.left = icmp eq i64 %e, %n.entries
  br i1 %none.left, label %missed, label %try
try:
  %known.at = getelementptr ptr, ptr %entries, i64 %e
  %known = load ptr, ptr %known.at, align 1
  %given = call i64 @word(ptr %known, i64 $given)
  %as.many = icmp eq i64 %given, %n.args
  %has.keywords = call i64 @word(ptr %known, i64 $has_keywords)
  %same.way = icmp eq i64 %has.keywords, %keywords.word
  %may.fit = and i1 %as.many, %same.way
  br i1 %may.fit, label %look, label %other
look:
  %result = call ptr @tried(ptr %known, ptr %first, ptr %kwargs)
  %is.miss = icmp eq ptr %result, inttoptr (i64 1 to ptr)
  br i1 %is.miss, label %other, label %done
other:
  %e.next = add i64 %e, 1
  br label %next
done:
  call void @Py_DecRef(ptr %site)
  ret ptr %result
missed:
  call void @Py_DecRef(ptr %site)
  br label %python
python:
  %stack = alloca [3 x ptr]
  %second = getelementptr ptr, ptr %stack, i64 1
  %third = getelementptr ptr, ptr %stack, i64 2
  %is.null = icmp eq ptr %kwargs, null
  %none = call ptr @address(ptr @entering, i64 $none)
  %dict = select i1 %is.null, ptr %none, ptr %kwargs
  store ptr %self, ptr %stack
  store ptr %args, ptr %second
  store ptr %dict, ptr %third
  %slow = call ptr @address(ptr @entering, i64 $slow)
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %stack, i64 3, ptr null)
  ret ptr %answer
}

; What counts of a further input now: of a handle the value of its node, null where there is none, or while somebody
; looks at more of handles than their values.
define internal ptr @present(i64 %is.handle, ptr %x) alwaysinline {
entry:
  %is.array = icmp eq i64 %is.handle, 0
  br i1 %is.array, label %itself, label %handle
itself:
  ret ptr %x
handle:
  %node.offset = call i64 @word(ptr @entering, i64 $node_at)
  %node.at = getelementptr i8, ptr %x, i64 %node.offset
  %node = load ptr, ptr %node.at
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %absent, label %look
look:
  %value.offset = call i64 @word(ptr @entering, i64 $value_at)
  %value.at = getelementptr i8, ptr %node, i64 %value.offset
  %value = load ptr, ptr %value.at
  %none = call ptr @address(ptr @entering, i64 $none)
  %is.none = icmp eq ptr %value, %none
  br i1 %is.none, label %absent, label %present
present:
  %lookers = call ptr @address(ptr @entering, i64 $lookers)
  %n.lookers = call i64 @PyDict_Size(ptr %lookers)
  %is.unseen = icmp eq i64 %n.lookers, 0
  br i1 %is.unseen, label %found, label %absent
found:
  ret ptr %value
absent:
  ret ptr null
}

; What an entry gives for these arguments: 1 where they do not fit.
define internal ptr @tried(ptr %known, ptr %arguments, ptr %kwargs) noinline {
entry:
  %given = call i64 @word(ptr %known, i64 $given)
  %n.checks = call i64 @word(ptr %known, i64 $n_checks)
  %checks = call ptr @address(ptr %known, i64 $checks)
  %n.registers = call i64 @word(ptr %known, i64 $registers)
  %n.places = call i64 @word(ptr %known, i64 $n_places)
  %places = call ptr @address(ptr %known, i64 $places)
  %n.hidden = call i64 @word(ptr %known, i64 $n_hidden)
  %hidden = call ptr @address(ptr %known, i64 $hidden)
  %n.inputs = add i64 %n.places, %n.hidden
  %cursor = alloca i64
  %key.cell = alloca ptr
  %value.cell = alloca ptr
  %is.flat.word = call i64 @word(ptr %known, i64 $is_flat)
  %is.flat = icmp ne i64 %is.flat.word, 0
  br i1 %is.flat, label %check, label %apart
apart:
  %own.registers = alloca ptr, i64 %n.registers
  %own.inputs = alloca ptr, i64 %n.inputs
  br label %argument
argument:
  %a = phi i64 [ 0, %apart ], [ %a.next, %copy ]
  %copied = icmp eq i64 %a, %given
  br i1 %copied, label %named, label %copy
named:
  %has.keywords = call i64 @word(ptr %known, i64 $has_keywords)
  %no.names = icmp eq i64 %has.keywords, 0
  br i1 %no.names, label %check, label %keep.names
keep.names:
  %names.at = getelementptr ptr, ptr %own.registers, i64 %given
  store ptr %kwargs, ptr %names.at
  br label %check
copy:
  %argument.at = getelementptr ptr, ptr %arguments, i64 %a
  %argument.object = load ptr, ptr %argument.at
  %own.at = getelementptr ptr, ptr %own.registers, i64 %a
  store ptr %argument.object, ptr %own.at
  %a.next = add i64 %a, 1
  br label %argument

check:
  %c = phi i64 [ 0, %entry ], [ 0, %named ], [ 0, %keep.names ], [ %c.next, %good ]
  %registers = phi ptr [ %arguments, %entry ], [ %own.registers, %named ], [ %own.registers, %keep.names ],
                       [ %registers, %good ]
  %inputs = phi ptr [ %arguments, %entry ], [ %own.inputs, %named ], [ %own.inputs, %keep.names ], [ %inputs, %good ]
  %checked = icmp eq i64 %c, %n.checks
  br i1 %checked, label %fits, label %one
one:
  %at = getelementptr [5 x i64], ptr %checks, i64 %c
  %code = load i64, ptr %at
  %register.at = getelementptr i64, ptr %at, i64 1
  %register = load i64, ptr %register.at
  %object.at = getelementptr i64, ptr %at, i64 2
  %object = load ptr, ptr %object.at
  %parts.at = getelementptr i64, ptr %at, i64 3
  %parts = load i64, ptr %parts.at
  %count.at = getelementptr i64, ptr %at, i64 4
  %count = load i64, ptr %count.at
  %x.at = getelementptr ptr, ptr %registers, i64 %register
  %x = load ptr, ptr %x.at
  %class = call ptr @class.of(ptr %x)
  %to = getelementptr ptr, ptr %registers, i64 %parts
  switch i64 %code, label %miss [ i64 0, label %is.class  i64 1, label %is.object  i64 2, label %is.tuple
                                  i64 3, label %is.list  i64 4, label %is.dict ]
is.class:
  %same.class = icmp eq ptr %class, %object
  br i1 %same.class, label %good, label %miss
is.object:
  %same.object = icmp eq ptr %x, %object
  br i1 %same.object, label %good, label %equal
equal:
  %same.value = call i1 @same_value(ptr %x, ptr %object)
  br i1 %same.value, label %good, label %miss

$tuples$lists
is.dict:
  %dict.type = call ptr @address(ptr @entering, i64 $dict_type)
  %same.dict = icmp eq ptr %class, %dict.type
  br i1 %same.dict, label %dict.size, label %miss
dict.size:
  %entries = call i64 @PyDict_Size(ptr %x)
  %same.entries = icmp eq i64 %entries, %count
  store i64 0, ptr %cursor
  br i1 %same.entries, label %dict.item, label %miss
dict.item:
  %d = phi i64 [ 0, %dict.size ], [ %d.next, %dict.key ]
  %dict.done = icmp eq i64 %d, %count
  br i1 %dict.done, label %good, label %dict.one
dict.one:
  %is.there = call i32 @PyDict_Next(ptr %x, ptr %cursor, ptr %key.cell, ptr %value.cell)
  %key = load ptr, ptr %key.cell
  %known.key = call ptr @item(ptr %object, i64 %d)
  %same.key = icmp eq ptr %key, %known.key
  br i1 %same.key, label %dict.key, label %miss
dict.key:
  %value = load ptr, ptr %value.cell
  %dict.to = getelementptr ptr, ptr %to, i64 %d
  store ptr %value, ptr %dict.to
  %d.next = add i64 %d, 1
  br label %dict.item
good:
  %c.next = add i64 %c, 1
  br label %check

fits:
  br i1 %is.flat, label %run, label %place
place:
  %p = phi i64 [ 0, %fits ], [ %p.next, %place.one ]
  %placed = icmp eq i64 %p, %n.places
  br i1 %placed, label %further, label %place.one
place.one:
  %from.at = getelementptr i64, ptr %places, i64 %p
  %from = load i64, ptr %from.at
  %leaf.at = getelementptr ptr, ptr %registers, i64 %from
  %leaf = load ptr, ptr %leaf.at
  %input.at = getelementptr ptr, ptr %inputs, i64 %p
  store ptr %leaf, ptr %input.at
  %p.next = add i64 %p, 1
  br label %place
further:
  %h = phi i64 [ 0, %place ], [ %h.next, %further.good ]
  %are.all = icmp eq i64 %h, %n.hidden
  br i1 %are.all, label %run, label %further.one
further.one:
  %hidden.at = getelementptr [2 x i64], ptr %hidden, i64 %h
  %hidden.is.handle = load i64, ptr %hidden.at
  %hidden.given.at = getelementptr i64, ptr %hidden.at, i64 1
  %hidden.given = load ptr, ptr %hidden.given.at
  %hidden.object = call ptr @present(i64 %hidden.is.handle, ptr %hidden.given)
  %is.absent = icmp eq ptr %hidden.object, null
  br i1 %is.absent, label %miss, label %further.good
further.good:
  %hidden.place = add i64 %n.places, %h
  %hidden.to = getelementptr ptr, ptr %inputs, i64 %hidden.place
  store ptr %hidden.object, ptr %hidden.to
  %h.next = add i64 %h, 1
  br label %further

run:
  %plan = call ptr @address(ptr %known, i64 $entry_plan)
  %program = call ptr @address(ptr %known, i64 $entry_program)
  %holds = call i64 @word(ptr %known, i64 $holds)
  %is.ours = icmp eq i64 %holds, 0
  br i1 %is.ours, label %run.once, label %keep
run.once:
  %found = call ptr @run_plan(ptr %plan, ptr %inputs, ptr %program)
  %is.missed = icmp eq ptr %found, inttoptr (i64 1 to ptr)
  br i1 %is.missed, label %again, label %done
again:
  %packed = call ptr @run_packed(ptr %plan, ptr %inputs, i64 %n.inputs, ptr %program)
  ret ptr %packed
done:
  ret ptr %found
keep:
  ; Somebody may change a container, or what a handle is on, while this runs.
  %k = phi i64 [ 0, %run ], [ %k.next, %keep.one ]
  %are.kept = icmp eq i64 %k, %n.inputs
  br i1 %are.kept, label %run.kept, label %keep.one
keep.one:
  %keep.at = getelementptr ptr, ptr %inputs, i64 %k
  %kept = load ptr, ptr %keep.at
  call void @Py_IncRef(ptr %kept)
  %k.next = add i64 %k, 1
  br label %keep
run.kept:
  %kept.result = call ptr @run_plan(ptr %plan, ptr %inputs, ptr %program)
  %kept.missed = icmp eq ptr %kept.result, inttoptr (i64 1 to ptr)
  br i1 %kept.missed, label %kept.again, label %let.go
kept.again:
  %kept.packed = call ptr @run_packed(ptr %plan, ptr %inputs, i64 %n.inputs, ptr %program)
  br label %let.go
let.go:
  %result = phi ptr [ %kept.result, %run.kept ], [ %kept.packed, %kept.again ]
  call void @release(ptr %inputs, i64 %n.inputs)
  ret ptr %result
miss:
  ret ptr inttoptr (i64 1 to ptr)
}
"""


def entered_ir(offsets: dict[str, int]) -> str:
    """`enter` and what it calls, for the module of the launcher.

    offsets   TYPE of any object, PAYLOAD of a bytes object, ITEMS of a tuple, SIZE of both, FLAGS of an array
    """
    words: dict[str, object] = {name: number for block in (WORDS, ENTRY) for number, name in enumerate(block)}
    assert len(words) == len(WORDS) + len(ENTRY)
    sequences = {
        "tuples": _SEQUENCE.substitute(kind="tuple", size="PyTuple_Size", item="item"),
        "lists": _SEQUENCE.substitute(kind="list", size="PyList_Size", item="PyList_GetItem"),
    }
    return Template(_TEXT + AGAIN).substitute(words | sequences, COUNT=len(WORDS), **offsets) + result_ir(offsets)
