"""In-place operators (`record_ir`), as LLVM IR text: `t += x` and its kin.

    update        records `t + x` at the operator's site, and gives the handle its node
    updated_leaf  a leaf that wants gradients stays one: the node of its update is a rich one of the same leaf

The kind of such a node is what the Out of the result knows of once Python has made one (`as_leaf`).  Where the aval
changes, gradients are recorded, or the node has more than a leaf, `rebind` of Python is asked.
"""

from __future__ import annotations

from .record_life_ir import RICH

__all__ = ["IN_PLACE_SITE", "UPDATE"]

UPDATE = """
; What a site says is called with these two; a new reference, or null with an exception.
define internal ptr @ask_site(ptr %site, i64 %who, ptr %x1, ptr %x2) {
  %arguments = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %x1, ptr %arguments
  store ptr %x2, ptr %second
  %function.at = getelementptr ptr, ptr %site, i64 %who
  %function = load ptr, ptr %function.at
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 2, ptr null)
  ret ptr %result
}

; The node of an update of this leaf, whose value is that of `y.node`; null with an exception.
define internal ptr @updated_leaf(ptr %kind, ptr %leaf, ptr %y.node) {
entry:
  call void @Py_IncRef(ptr %kind)
  call void @Py_IncRef(ptr %leaf)
  call void @Py_IncRef(ptr %y.node)
  %node = call ptr @new_rich_object()
  %failed = icmp eq ptr %node, null
  br i1 %failed, label %no, label %fill
fill:
  %none = call ptr @own.object(i64 $none)
  call void @set_field(ptr %node, i64 $kind_at, ptr %kind)
  call void @set_field(ptr %node, i64 $leaf_at, ptr %leaf)
  call void @set_field(ptr %node, i64 $first_at, ptr %y.node)
$NOTHING  %number = call i64 @next_number()
  call void @set_number(ptr %node, i64 %number)
  ret ptr %node
no:
  call void @Py_DecRef(ptr %y.node)
  call void @Py_DecRef(ptr %leaf)
  call void @Py_DecRef(ptr %kind)
  ret ptr null
}

; t += x at a site: where that of `t + x` is, who updates instead, who rebinds.
define internal ptr @update(ptr %site, ptr %t, ptr %x) {
entry:
  %mode.cell = alloca ptr
  %t.cell = alloca ptr
  %y.cell = alloca ptr
  %arguments = alloca [2 x ptr]
  %none = call ptr @own.object(i64 $none)
  %recording = call ptr @recording_now(ptr %mode.cell)
  %is.not.now = icmp eq ptr %recording, null
  br i1 %is.not.now, label %slow, label %compute
compute:
  %operator = load ptr, ptr %site
  %y = call ptr @at_site(ptr %operator, ptr %t, ptr %x)
  %no.y = icmp eq ptr %y, null
  br i1 %no.y, label %error, label %is.known
is.known:
  %not.implemented = call ptr @own.object(i64 $not_implemented)
  %is.none.of.ours = icmp eq ptr %y, %not.implemented
  br i1 %is.none.of.ours, label %leave, label %again
leave:
  call void @Py_DecRef(ptr %y)
  br label %slow

again:
  ; Python may have run meanwhile.
  %here = call ptr @recording_now(ptr %mode.cell)
  %is.elsewhere = icmp eq ptr %here, null
  br i1 %is.elsewhere, label %python, label %result
result:
  %y.out = call ptr @key_of(ptr %y, ptr %here, ptr %y.cell)
  %y.bits = ptrtoint ptr %y.out to i64
  %y.is.none = icmp ule i64 %y.bits, 2
  br i1 %y.is.none, label %python, label %handle
handle:
  %t.out = call ptr @key_of(ptr %t, ptr %here, ptr %t.cell)
  %t.bits = ptrtoint ptr %t.out to i64
  %t.is.none = icmp ule i64 %t.bits, 2
  br i1 %t.is.none, label %python, label %nodes
nodes:
  %y.node = load ptr, ptr %y.cell
  %t.node = load ptr, ptr %t.cell
  %no.y.node = icmp eq ptr %y.node, null
  %no.t.node = icmp eq ptr %t.node, null
  %no.node = or i1 %no.y.node, %no.t.node
  br i1 %no.node, label %python, label %value
value:
  %y.value = call ptr @field(ptr %y.node, i64 $value_at)
  %is.pending = icmp eq ptr %y.value, %none
  %node.type = call ptr @own.object(i64 $node_type)
  %t.class = call ptr @class_of(ptr %t.node)
  %is.plain = icmp eq ptr %t.class, %node.type
  %body = call ptr @field(ptr %here, i64 $body_at)
  %zero = call ptr @own.object(i64 $zero)
  %is.outside = icmp eq ptr %body, %zero          ; in a custom forward the handle's mask changes as well
  %is.usual = and i1 %is.pending, %is.outside
  br i1 %is.usual, label %which, label %python
which:
  br i1 %is.plain, label %plain, label %rich

plain:
  %same.out = icmp eq ptr %y.out, %t.out
  %is.captured = call i1 @is_captured(ptr %t.node, ptr %here)
  %is.own = xor i1 %is.captured, true
  %is.renamed = and i1 %same.out, %is.own
  br i1 %is.renamed, label %rename, label %python
rename:
  call void @Py_IncRef(ptr %y.node)
  call void @Py_IncRef(ptr %y.out)
  call void @replace_field(ptr %t, i64 $node_at, ptr %y.node)
  call void @Py_DecRef(ptr %y)
  %small = call ptr @field(ptr %y.out, i64 $is_small_at)
  call void @Py_DecRef(ptr %y.out)                ; its fields stay: the node of the handle has it
  %true = call ptr @own.object(i64 $true)
  %is.small = icmp eq ptr %small, %true
  br i1 %is.small, label %note, label %done
note:
  %noted = call i32 @note(ptr %here, ptr %t)
  %note.failed = icmp ne i32 %noted, 0
  br i1 %note.failed, label %error, label %done

rich:
  %mode = load ptr, ptr %mode.cell
  %false = call ptr @own.object(i64 $false)
  %is.untracked = icmp eq ptr %mode, %false
  br i1 %is.untracked, label %leaf, label %python
leaf:
  %leaf.of = call ptr @field(ptr %t.node, i64 $leaf_at)
  %no.leaf = icmp eq ptr %leaf.of, null
  br i1 %no.leaf, label %python, label %leaf.class
leaf.class:
  %class = call ptr @class_of(ptr %leaf.of)
  %leaf.type = call ptr @own.object(i64 $leaf_type)
  %is.leaf = icmp eq ptr %class, %leaf.type
  %kind = call ptr @field(ptr %y.out, i64 $as_leaf_at)
  %no.kind = icmp eq ptr %kind, null
  %is.other = xor i1 %is.leaf, true
  %is.unknown = or i1 %no.kind, %is.other
  br i1 %is.unknown, label %python, label %kind.class
kind.class:
  %a.class = call ptr @class_of(ptr %kind)
  %kind.type = call ptr @own.object(i64 $kind_type)
  %is.kind = icmp eq ptr %a.class, %kind.type
  br i1 %is.kind, label %kind.out, label %python
kind.out:
  %out = call ptr @field(ptr %kind, i64 $out_at)
  %is.same = icmp eq ptr %out, %t.out
  br i1 %is.same, label %put.leaf, label %python
put.leaf:
  %large = call ptr @field(ptr %out, i64 $is_small_at)
  %no = call ptr @own.object(i64 $false)
  %is.large = icmp eq ptr %large, %no
  %new = call ptr @updated_leaf(ptr %kind, ptr %leaf.of, ptr %y.node)
  %no.new = icmp eq ptr %new, null
  br i1 %no.new, label %drop, label %name
name:
  call void @replace_field(ptr %t, i64 $node_at, ptr %new)
  call void @Py_DecRef(ptr %y)
  br i1 %is.large, label %tell, label %note
tell:
  %function = call ptr @own.object(i64 $note_updated)
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %here, ptr %arguments
  store ptr %t, ptr %second
  %told = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 2, ptr null)
  call void @Py_DecRef(ptr %told)
  %not.told = icmp eq ptr %told, null
  br i1 %not.told, label %error, label %done

python:
  %rebound = call ptr @ask_site(ptr %site, i64 2, ptr %t, ptr %y)
  call void @Py_DecRef(ptr %y)
  ret ptr %rebound
slow:
  %updated = call ptr @ask_site(ptr %site, i64 1, ptr %t, ptr %x)
  ret ptr %updated
done:
  call void @Py_IncRef(ptr %t)
  ret ptr %t
drop:
  call void @Py_DecRef(ptr %y)
  br label %error
error:
  ret ptr null
}
""".replace("$NOTHING", "".join([
    f"  call void @Py_IncRef(ptr %none)\n  call void @set_field(ptr %node, i64 ${name}, ptr %none)\n"
    for name in ("value_at", *RICH[1:])
]))

IN_PLACE_SITE = """
define ptr @in_place_$NUMBER(ptr %t, ptr %x) {
  %y = call ptr @update(ptr getelementptr ([4 x ptr], ptr @sites, i64 $SITE), ptr %t, ptr %x)
  ret ptr %y
}
"""
