"""Kernels of a single operation: scatter, running sums, and products that are small (or not of floats).

Producers are fused into scatters and running sums, but these kernels do not write one value per iteration.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

import numpy as np

from ..ir import Aval, Node
from .accumulators import fill
from .body import OpenLoop
from .edges import kept_first_axes, kept_last_axes
from .elements import Built, Elements, Placed, Temporary, element_type, finish
from .group import strides_of
from .index import Index, constant_index, flatten, unflatten
from .monoids import Accumulator, combine, multiplied, start, sum_and_rest, with_rest
from .nest import F32, F64, Value
from .operands import Product
from .scalar import Scalar


def build_scatter(
    node: Node, is_stored, name: str, placed: Placed | None = None, exact: Collection[Node] = ()
) -> Built:
    """Zeros, then out[target(j)] += updates[j], in index order, so that collisions add up in the same order each time.

    For a scatter that replaces: the first input, then out[target(j)] = updates[j]; of collisions the last one stays.
    """
    k = Scalar()
    k.node = node
    elements = Elements(k, is_stored, placed=placed, exact=exact)
    *others, updates = node.inputs
    replaces = node.op.lower.replaces
    out = elements.target(node)
    if replaces:
        _copy(k, elements, node.inputs[0], out)
    else:
        fill(k, [out], [k.literal(0.0 if element_type(node).is_float else 0, element_type(node))], node.aval.size)
    if updates.aval.size == 0:
        return finish(name, k, elements, [node])
    # Rows that are added at one place each run over their elements side by side; the rows are taken in order.
    shape = updates.aval.shape
    split = len(shape) - kept_last_axes(node)
    first = min(kept_first_axes(node), split)
    # The status of a failed check and the sums are shared by all iterations: no parallel loop.
    outer = k.open_loop(prod(shape[:first])) if first else None
    rows = k.open_loop(prod(shape[first:split]))
    loop = k.open_loop(prod(shape[split:])) if split < len(shape) else None
    index = (*_index(outer, shape[:first]), *_index(rows, shape[first:split]), *_index(loop, shape[split:]))
    readers = [elements.reader(i) for i in (*others, updates)]
    target = node.op.lower.target(k, index, *readers, **node.keywords)
    # A target that failed its check is clamped, so that nothing is ever written out of bounds.
    inside = [
        k.maximum(k.minimum(i, constant_index(max(n - 1, 0))), constant_index(0))
        for i, n in zip(target, node.aval.shape, strict=True)
    ]
    place = flatten(inside, node.aval.shape)
    update = elements.at(updates, index)
    k.store(update if replaces else k.add(k.load(out, place, stable=False), update), out, place)
    if loop:
        k.close_loop(loop)
    k.close_loop(rows)
    if outer:
        k.close_loop(outer)
    return finish(name, k, elements, [node])


def _index(loop: OpenLoop | None, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """One index per axis of a loop over all of a shape."""
    return unflatten(loop.index, shape) if loop else ()


def _copy(k: Scalar, elements: Elements, node: Node, out: Value) -> None:
    """Store every element of a node."""
    with k.loop(node.aval.size) as loop:
        k.store(elements.at(node, unflatten(loop.index, node.aval.shape)), out, loop.index)


def build_scan(node: Node, is_stored, name: str, placed: Placed | None = None, exact: Collection[Node] = ()) -> Built:
    """out[t] = out[t-1] + x[t], or *, along one axis, for all positions of the axes before and after it.

    Or out[t] = x[t] + a[t] * out[t-1]; from the end if `reverse`.  Sums of f32 are accumulated as an f64, and for f64
    the rounding errors are summed beside the total, so the error of a sum does not grow with the number of elements.
    Along the last axis the total is in registers; along another axis there is a total in memory for each position of
    the other axes, so that positions after the axis run side by side.
    """
    k = Scalar()
    k.node = node
    elements = Elements(k, is_stored, placed=placed, exact=exact)
    axis, monoid, reverse = node.keywords["axis"], node.op.lower.monoid, node.keywords.get("reverse", False)
    shape, type = node.aval.shape, element_type(node)
    stride = strides_of(shape)[axis]
    before, length = node.aval.size // (stride * shape[axis]), shape[axis]
    out = elements.target(node)
    is_wide, has_rest = (monoid in ("add", "affine") and type is kind for kind in (F32, F64))
    begin = start(k, "add" if monoid == "affine" else monoid, F64 if is_wide else type)
    begin = (*begin, *begin) if has_rest else begin

    def step(lead: Index, time: Index, inner: Index, so_far: Accumulator) -> Accumulator:
        """Build and store one element; return the accumulator for the next one."""
        time = constant_index(length - 1).plus(time.times(-1)) if reverse else time
        index = (*unflatten(lead, shape[:axis]), time, *unflatten(inner, shape[axis + 1 :]))
        value, *by = (k.cast(elements.at(i, index), "f64") if is_wide else elements.at(i, index) for i in node.inputs)
        if by:
            so_far = multiplied(k, so_far, by[0])
        if has_rest:
            total, lost = sum_and_rest(k, so_far[0], value)
            found: Accumulator = (total, k.add(so_far[1], lost))
            value = with_rest(k, *found)
        else:
            found = combine(k, "add" if by else monoid, so_far, (value,), free_order=False)
            value = k.cast(found[0], "f32") if is_wide else found[0]
        k.store(value, out, lead.times(stride * length).plus(time.times(stride)).plus(inner))
        return found

    temporaries: list[Temporary] = []
    with k.loop(before, parallel=True) as leads:
        if stride == 1:
            times = k.open_loop(length, begin)
            k.close_loop(times, step(leads.index, times.index, constant_index(0), tuple(times.carried)))
        else:
            dtype = np.dtype(np.float64) if is_wide else node.aval.dtype
            temporaries = [Temporary(Aval((before * stride,), dtype)) for _ in begin]
            totals = [elements.place(one) for one in temporaries]
            first = leads.index.times(stride)
            fill(k, totals, begin, stride, first)
            with k.loop(length) as times, k.loop(stride) as inner:
                inner.independent_except_carried = True
                place = first.plus(inner.index)
                so_far = tuple([k.load(total, place, stable=False) for total in totals])
                for total, value in zip(totals, step(leads.index, times.index, inner.index, so_far), strict=True):
                    k.store(value, total, place)
    return finish(name, k, elements, [node, *temporaries])


def build_product(node: Node, product: Product, name: str) -> Built:
    """c[b,i,j] = sum over l of a[b,i,l] * b[b,l,j], row by row: the innermost loop runs along rows of b and c."""
    k = Scalar()
    k.node = node
    elements = Elements(k, lambda _: True)
    a, b = product.a, product.b
    left, right = elements.place(a.base), elements.place(b.base)
    out = elements.place(node)
    type = element_type(node)
    zero = k.literal(0.0 if type.is_float else False if type.bits == 1 else 0, type)
    with k.loop(product.batch, parallel=True) as batches, k.loop(product.m) as rows:
        first = batches.index.times(product.m * product.n).plus(rows.index.times(product.n))
        if b.transposed or product.n < 4:
            with k.loop(product.n) as columns:
                terms = k.open_loop(product.k, [zero])
                x = k.load(left, a.position(batches.index, rows.index, terms.index))
                y = k.load(right, b.position(batches.index, terms.index, columns.index))
                (total,) = k.close_loop(terms, [k.accumulate(terms.carried[0], k.mul(x, y))])
                k.store(total, out, first.plus(columns.index))
        else:
            fill(k, [out], [zero], product.n, first)
            with k.loop(product.k) as terms:
                x = k.load(left, a.position(batches.index, rows.index, terms.index))
                with k.loop(product.n) as columns:
                    y = k.load(right, b.position(batches.index, terms.index, columns.index))
                    place = first.plus(columns.index)
                    k.store(k.add(k.load(out, place, stable=False), k.mul(x, y)), out, place)
    return finish(name, k, elements, [node])
