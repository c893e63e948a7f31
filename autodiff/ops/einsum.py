"""Einstein summation: products of any number of arrays, summed over the labels that the result does not have.

    einsum("ij,jk->ik", a, b)      a @ b
    einsum("...ii->...", x)        the traces of matrices

    read     find the labels of each operand and of the result; the axes of "..." get the labels 0, 1, ...
    tidy     take the diagonal of an operand for a label that it has twice
    pair     sum over labels found nowhere else; multiply two operands at a time, in opt_einsum's order, by one product
    order    bring the result's labels into the order asked for
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..errors import ShapeError, located
from ..tensor import Tensor
from .contraction import as_bool_if, contracted
from .conversion import cast_to
from .declare import in_common_dtype, integer
from .diagonals import diagonal
from .primitive import BOOL, I64
from .reductions import summed
from .shaping import reshaped, transposed
from .template import ITEMS, public

Labels = tuple[str, ...]

#: All labels, in the order in which NumPy sorts them.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@public()
def einsum(subscripts, *arrays):
    """Products of elements of the arrays, summed over every label that the result does not have.

    einsum("ij,jk->ik", a, b)     T[n, k], T[k, m]  →  T[n, m]

    subscripts   one label per axis of each array, after "->" those of the result; without "->" the labels
                 that occur once, in alphabetical order.  "..." stands for axes that broadcast.
                 In place of the string: after each array a list of numbers, one per axis; last a list for the result.

    opt_einsum chooses the order of products of more than two arrays.
    Raises ShapeError when labels and axes, or the extents of one label, do not match.

    dtype, casting   the dtype to compute in, and NumPy's rule for what may be converted to it

    >>> ad.einsum("ij,ij->i", [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])
    f64[2] [17. 53.]
    >>> ad.einsum([[1.0, 2.0], [3.0, 4.0]], [0, 1], [1])
    f64[2] [4. 6.]
    """
    if not arrays:
        raise TypeError(located("einsum: takes a string of labels and arrays"))
    if not isinstance(subscripts, str):
        return einsum(*spelled(subscripts, *arrays))
    return _of_items(arrays, sys.intern(str(subscripts)))


@public(ITEMS)
def _of_items(arrays: Sequence[Any], subscripts: str) -> Tensor:
    """`einsum` with the arrays, in a sequence, as its first argument."""
    xs = in_common_dtype("einsum", [("arrays", x) for x in arrays], "fibc")
    was_bool = xs[0].dtype == BOOL
    xs = [cast_to(x, I64) for x in xs] if was_bool else xs
    inputs, output = _read(subscripts, tuple([x.ndim for x in xs]))
    extents = _extents(subscripts, inputs, xs)
    terms = [_tidied(x, labels, extents) for x, labels in zip(xs, inputs, strict=True)]
    for i, j in _path(tuple([labels for _, labels in terms]), output, tuple(sorted(extents.items()))):
        first, second = terms[i], terms[j]
        terms = [t for n, t in enumerate(terms) if n not in (i, j)]
        others = set(output).union(*[labels for _, labels in terms])
        terms.append(_pair(first, second, others))
    (last,) = terms
    x, labels = _summed_out(last, set(output))
    return as_bool_if(transposed(x, tuple([labels.index(c) for c in output])), was_bool)


def spelled(*operands: Any) -> tuple[Any, ...]:
    """The string of labels, and the operands, for operands that are each followed by a list of numbers."""
    lists = [*operands[1::2], *(operands[-1:] if len(operands) % 2 else ())]
    numbers = [_numbers(each) for each in lists]
    known = sorted({n for each in numbers for n in each if n is not Ellipsis})
    if len(known) > len(_LETTERS):
        raise ShapeError(located(f"einsum: {len(known)} labels are more than {len(_LETTERS)}"))
    letters: dict[Any, str] = {n: letter for n, letter in zip(known, _LETTERS, strict=False)} | {Ellipsis: "..."}
    terms = ["".join([letters[n] for n in each]) for each in numbers]
    text = f"{','.join(terms[:-1])}->{terms[-1]}" if len(operands) % 2 else ",".join(terms)
    return text, *operands[0 : len(operands) - len(operands) % 2 : 2]


def _numbers(labels: Any) -> list[Any]:
    """The labels of one operand: integers and `...`."""
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        first = f"subscripts stand first: ad.einsum({labels!r}, x)" if isinstance(labels, str) else ""
        raise TypeError(located(f"einsum: behind each array stands a list of numbers, not {labels!r}", first))
    return [n if n is Ellipsis else integer(n, "einsum", "a label") for n in labels]


def _refused(subscripts: str, why: str) -> ShapeError:
    return ShapeError(located(f"einsum: {subscripts!r}: {why}"))


def _read(subscripts: str, ranks: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """One label per axis, for each operand and for the result; those of "..." are "0", "1", ... from its last axis."""
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise _refused(subscripts, f"{len(terms)} operands are named, {len(ranks)} given")
    inputs = [_labelled(subscripts, term, rank) for term, rank in zip(terms, ranks, strict=True)]
    broad = max([sum(c.isdigit() for c in labels) for labels in inputs], default=0)
    ellipsis = tuple([str(i) for i in reversed(range(broad))])
    if not arrow:
        letters = [c for labels in inputs for c in labels if not c.isdigit()]
        return inputs, ellipsis + tuple(sorted(c for c in set(letters) if letters.count(c) == 1))
    output = _labels_of(subscripts, result, ellipsis)
    known = {c for labels in inputs for c in labels}
    for c in output:
        if c not in known:
            raise _refused(subscripts, f"the result has the label {c!r}, no operand has")
    if len(set(output)) < len(output):
        raise _refused(subscripts, "the result has a label twice")
    if ellipsis and "..." not in result:
        raise _refused(subscripts, "the operands have '...', the result must have it too")
    return inputs, output


def _labelled(subscripts: str, term: str, rank: int) -> Labels:
    letters = len(term.replace("...", ""))
    if letters > rank or (letters < rank and "..." not in term):
        raise _refused(subscripts, f"{term!r} has {letters} labels for {rank} axes")
    return _labels_of(subscripts, term, tuple([str(i) for i in reversed(range(rank - letters))]))


def _labels_of(subscripts: str, term: str, ellipsis: Labels) -> Labels:
    before, dots, after = term.partition("...")
    for c in before + after:
        if not (c.isascii() and c.isalpha()):
            raise _refused(subscripts, f"{c!r} is no label (labels are letters)")
    return (*before, *(ellipsis if dots else ()), *after)


def _extents(subscripts: str, inputs: Sequence[Labels], xs: Sequence[Tensor]) -> dict[str, int]:
    """The extent of each label.  An extent of 1 broadcasts to that of another operand, not within one operand."""
    found: dict[str, int] = {}
    for labels, x in zip(inputs, xs, strict=True):
        own = dict(zip(labels, x.shape, strict=True))
        for c, n in zip(labels, x.shape, strict=True):
            known = found.setdefault(c, n) if own[c] == n else own[c]
            if known != n and (own[c] != n or 1 not in (known, n)):
                what = "'...'" if c.isdigit() else f"the label {c!r}"
                avals = ", ".join(str(x.aval) for x in xs)
                raise _refused(subscripts, f"{what} has the extents {known} and {n} in {avals}")
            found[c] = n if known == 1 else known
    return found


def _tidied(x: Tensor, labels: Labels, extents: dict[str, int]) -> tuple[Tensor, Labels]:
    """An operand whose labels differ from each other, without the axes of extent 1 that broadcast."""
    drop = [i for i, c in enumerate(labels) if x.shape[i] != extents[c]]
    x = reshaped(x, tuple([n for i, n in enumerate(x.shape) if i not in drop]))
    labels = tuple([c for i, c in enumerate(labels) if i not in drop])
    while len(set(labels)) < len(labels):
        c = next(c for c in labels if labels.count(c) > 1)
        first = labels.index(c)
        second = labels.index(c, first + 1)
        x = diagonal(x, 0, first, second)
        labels = (*[d for i, d in enumerate(labels) if i not in (first, second)], c)
    return x, labels


def _summed_out(term: tuple[Tensor, Labels], kept: set[str]) -> tuple[Tensor, Labels]:
    """A term summed over its labels that are not in `kept`."""
    x, labels = term
    axes = tuple([i for i, c in enumerate(labels) if c not in kept])
    return summed(x, axes), tuple([c for c in labels if c in kept])


def _pair(first: tuple[Tensor, Labels], second: tuple[Tensor, Labels], others: set[str]) -> tuple[Tensor, Labels]:
    """The product of two terms, summed over labels that are not in `others`, those of other terms and of the result."""
    a, a_labels = _summed_out(first, others.union(second[1]))
    b, b_labels = _summed_out(second, others.union(first[1]))
    shared = [c for c in a_labels if c in b_labels]
    batch = [c for c in shared if c in others]
    over = [c for c in shared if c not in others]
    product = contracted(
        a,
        b,
        (tuple([a_labels.index(c) for c in batch]), tuple([b_labels.index(c) for c in batch])),
        (tuple([a_labels.index(c) for c in over]), tuple([b_labels.index(c) for c in over])),
    )
    return product, (*batch, *[c for c in a_labels if c not in shared], *[c for c in b_labels if c not in shared])


@lru_cache(maxsize=1024)
def _path(
    inputs: tuple[Labels, ...], output: Labels, extents: tuple[tuple[str, int], ...]
) -> tuple[tuple[int, int], ...]:
    """For each step the places of the two terms to multiply; their product goes to the end of the terms."""
    if len(inputs) < 3:
        return ((0, 1),) if len(inputs) == 2 else ()
    from opt_einsum.paths import auto  # imported late: that takes longer than the import of this whole library

    path = auto([frozenset(labels) for labels in inputs], frozenset(output), dict(extents), None)
    return tuple([(min(step), max(step)) for step in path if len(step) > 1])
