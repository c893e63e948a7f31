"""The C header of an exported function: its declaration, and what a caller must know about arrays and memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from codegen import compiler
from codegen.export import BAD_SIZES, C_FUNCTIONS, Exported
from codegen.ir import Aval, dtype_name

from .sizes import SizedAval

#: Element types in C.  A complex number is two adjacent numbers, the real part first.
TYPES = {
    "f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "bool": "uint8_t", "c64": "float",
    "c128": "double",
}  # fmt: skip

_WORDS = """
    alignas alignof auto bool break case catch char class const continue default delete do double else enum
    explicit extern false float for friend goto if inline int long main mutable namespace new nullptr operator
    private protected public register restrict return short signed sizeof static struct switch template this throw
    true try typedef union unsigned using virtual void volatile while asm typename
    workspace
"""
_RESERVED = frozenset(_WORDS.split()) | C_FUNCTIONS


def is_reserved(name: str) -> bool:
    """True for a reserved word of C or C++, or the name of a C function that objects may call."""
    return name in _RESERVED or name.startswith("__")


class CArray(NamedTuple):
    """An argument or result of the C function.

    name    its name in C     label   its name in Python: params['w']     aval    shape and dtype
    """

    name: str
    label: str
    aval: Aval | SizedAval


def _about(names: Sequence[str], tried: Sequence[tuple[int, ...]], found: Sequence[tuple[int, ...]]) -> str:
    """The sizes that there is code for, in words: `found` among those that were `tried`."""
    if len(found) == len(tried):
        return f"{', '.join(names)}: any number from 1 on."
    if len(names) == 1:
        return f"{names[0]}: {_spans([n for n, in tried], {n for n, in found})}."
    known = set(found)
    missing = min((s for s in tried if s not in known), key=lambda s: (sum(s), s))
    told = ", ".join([f"{name} = {n}" for name, n in zip(names, missing, strict=True)])
    return f"{', '.join(names)}: numbers from 1 on; there is no code for some, such as {told}."


def _spans(tried: Sequence[int], found: set[int]) -> str:
    """The sizes that were found, in words, as spans."""
    spans: list[list[int]] = []
    every = sorted(tried)
    for before, n in zip([0, *every], every, strict=False):
        if n in found:
            if before in found:
                spans[-1][1] = n
            else:
                spans.append([n, n])
    told = [f"{a} to {b}" if b > a else f"{a}" for a, b in spans]
    if spans and spans[-1][1] == every[-1]:
        told[-1] = f"from {spans[-1][0]} on"
    more = ["and some of those above"] if len(told) > _SPANS else []
    return ", ".join([*told[:_SPANS], *more])


#: The most spans of sizes that the header names.
_SPANS = 6


def header(
    name: str, place: str, arguments: Sequence[CArray], results: Sequence[CArray], made: Exported,
    sizes: Sequence[str],
) -> str:  # fmt: skip
    """The text of the header; `sizes`: the names of sizes, which are the first arguments of the C function."""
    upper = name.upper()
    facts = compiler.facts()
    rows = [_row(v, "in ") for v in arguments] + [_row(v, "out") for v in results]
    widths = [max([len(row[k]) for row in rows], default=0) for k in range(4)]
    table = "\n".join([f" *   {'  '.join([f'{c:<{w}}' for c, w in zip(row, widths, strict=True)]).rstrip()}"
                       for row in rows])  # fmt: skip
    arrays = *arguments, *results
    macros = "\n".join([f"#define {upper}_{v.name.upper()}_SIZE{_size(v, sizes)}" for v in arrays])
    numbers = [f"int64_t {n}" for n in sizes]
    parameters = [f"const {_type(v)} *{v.name}" for v in arguments] + [f"{_type(v)} *{v.name}" for v in results]
    declared = ",\n    ".join([*numbers, *parameters, "void *workspace"])
    workspace = f"{upper}_WORKSPACE_BYTES"
    about_sizes, first, status, measures = " *", "", "", ""
    if sizes:
        workspace = f"{name}_workspace_bytes({', '.join(sizes)})"
        about_sizes = (f" *\n * Sizes: {_about(sizes, made.tried, made.sizes)}\n"
                       f" * For sizes that there is no code for {workspace} is -1,\n"
                       f" * and {name} returns {upper}_BAD_SIZES and touches nothing.\n *")  # fmt: skip
        status = f"\n#define {upper}_BAD_SIZES {BAD_SIZES}"
        measures = f"int64_t {name}_workspace_bytes({', '.join(numbers)});\n\n"
    else:
        first = f"#define {upper}_WORKSPACE_BYTES {made.workspace_bytes}\n"
    calls = f"The object calls {', '.join(made.calls)} of the C library: link with -lm." if made.calls else (
        "The object calls no function of any library.")  # fmt: skip
    return f"""\
/* {name}{f", written in Python at {place}" if place else ""}; compiled for {facts["target"]}.
 * It needs neither Python nor the library that made it.  {calls}
 *
{table}
{about_sizes}
 * Memory: arrays are packed, by rows (C's order); strides are in elements.  A 0-d array is a pointer to one element.
 * A bool is a byte, 0 or 1; a complex number is two numbers, the real part first.  Arrays begin at a multiple of their
 * element's size.  Results overlap neither each other nor arguments nor the workspace; arguments may overlap.
 *
 * Workspace: {workspace} bytes that begin at a multiple of {upper}_WORKSPACE_ALIGNMENT; it may be NULL
 * where that is 0.  Nothing is kept in it between calls.  Several threads may call the function at once, each with
 * results and a workspace of its own.
 *
 * Returned: 0, or step << 32 | status, when results are not to be used.
 */
#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

{first}#define {upper}_WORKSPACE_ALIGNMENT 64

/* Elements of each array. */
{macros}

/* The low 32 bits of what is returned. */
#define {upper}_INDEX_OUT_OF_RANGE 1
#define {upper}_NO_MEMORY 2
#define {upper}_NOT_DEFINITE 4 /* a matrix is singular or not definite, or a transform has nan or inf */{status}

#ifdef __cplusplus
extern "C" {{
#endif

{measures}int64_t {name}(
    {declared});

#ifdef __cplusplus
}}
#endif

#endif
"""


def _type(value: CArray) -> str:
    return TYPES[dtype_name(value.aval.dtype)]


def _extents(value: CArray) -> list[str]:
    """The extents of an array, as expressions in C."""
    if isinstance(value.aval, SizedAval):
        return [text.replace("//", "/") for text in value.aval.extents]
    return [str(n) for n in value.aval.shape]


def _size(value: CArray, names: Sequence[str]) -> str:
    """The parameters and the body of the macro for the number of elements of an array."""
    product = _product(_extents(value))
    used = [name for name in names if re.search(rf"\b{name}\b", product)]
    if not used:
        return f" {product}"
    wide = re.sub(rf"\b({'|'.join(used)})\b", r"(int64_t)(\1)", product)
    return f"({', '.join(used)}) ({wide})"


def _product(extents: Sequence[str]) -> str:
    """The product of extents as an expression in C: a number, times the extents that depend on sizes."""
    known = math.prod([int(text) for text in extents if text.isdigit()])
    others = [text if text.isidentifier() else f"({text})" for text in extents if not text.isdigit()]
    return " * ".join([*([str(known)] if known != 1 or not others else []), *others])


def _row(value: CArray, way: str) -> tuple[str, str, str, str]:
    """(direction, name with shape and dtype, strides, name in Python if it differs) of an array."""
    extents = _extents(value)
    strides = [_product(extents[axis:]) for axis in range(1, len(extents) + 1)]
    shape = "strides " + ", ".join(strides) if strides else "one element"
    label = "" if value.label == value.name else f"{value.label} in Python"
    return way, f"{value.name}: {value.aval}", shape, label
