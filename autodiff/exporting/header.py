"""The C header of an exported function: its declaration, and all that a caller must know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from codegen import compiler
from codegen.export import C_FUNCTIONS, Exported
from codegen.ir import Aval, dtype_name

__all__ = ["CArray", "header", "is_reserved"]

#: Element types in C.  A complex number is two numbers beside each other, its real part first.
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
    """True for a word that C or C++ keeps for itself, or that the object calls."""
    return name in _RESERVED or name.startswith("__")


class CArray(NamedTuple):
    """An argument or result of the C function.

    name    in C          label   in Python: params['w']          aval    shape and dtype
    """

    name: str
    label: str
    aval: Aval


def header(name: str, place: str, arguments: Sequence[CArray], results: Sequence[CArray], made: Exported) -> str:
    """The text of the header."""
    upper = name.upper()
    facts = compiler.facts()
    rows = [_row(v, "in ") for v in arguments] + [_row(v, "out") for v in results]
    widths = [max([len(row[k]) for row in rows], default=0) for k in range(4)]
    table = "\n".join([f" *   {'  '.join([f'{c:<{w}}' for c, w in zip(row, widths, strict=True)]).rstrip()}"
                       for row in rows])  # fmt: skip
    sizes = "\n".join([f"#define {upper}_{v.name.upper()}_SIZE {v.aval.size}" for v in (*arguments, *results)])
    parameters = [f"const {_type(v)} *{v.name}" for v in arguments] + [f"{_type(v)} *{v.name}" for v in results]
    declared = ",\n    ".join([*parameters, "void *workspace"])
    calls = f"The object calls {', '.join(made.calls)} of the C library: link with -lm." if made.calls else (
        "The object calls no function of any library.")  # fmt: skip
    return f"""\
/* {name}{f", written in Python at {place}" if place else ""}; compiled for {facts["target"]}.
 * It needs neither Python nor the library that made it.  {calls}
 *
{table}
 *
 * Memory: arrays are packed, by rows (C's order); strides are in elements.  A 0-d array is a pointer to one element.
 * A bool is a byte, 0 or 1; a complex number is two numbers, the real part first.  Arrays begin at a multiple of their
 * element's size.  Results overlap neither each other nor arguments nor the workspace; arguments may overlap.
 *
 * Workspace: {upper}_WORKSPACE_BYTES bytes that begin at a multiple of {upper}_WORKSPACE_ALIGNMENT; it may be NULL
 * where that is 0.  Nothing is kept in it between calls.  Several threads may call the function at once, each with
 * results and a workspace of its own.
 *
 * Returned: 0, or step << 32 | status, when results are not to be used.
 */
#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

#define {upper}_WORKSPACE_BYTES {made.workspace_bytes}
#define {upper}_WORKSPACE_ALIGNMENT 64

/* Elements of each array. */
{sizes}

/* The low 32 bits of what is returned. */
#define {upper}_INDEX_OUT_OF_RANGE 1
#define {upper}_NO_MEMORY 2
#define {upper}_NOT_DEFINITE 4 /* a matrix is singular, or not positive definite */

#ifdef __cplusplus
extern "C" {{
#endif

int64_t {name}(
    {declared});

#ifdef __cplusplus
}}
#endif

#endif
"""


def _type(value: CArray) -> str:
    return TYPES[dtype_name(value.aval.dtype)]


def _row(value: CArray, way: str) -> tuple[str, str, str, str]:
    """Direction, name, shape and dtype, strides, and the name in Python where it is another."""
    strides, step = [], 1
    for n in reversed(value.aval.shape):
        strides.append(step)
        step *= n
    shape = "strides " + ", ".join(map(str, reversed(strides))) if strides else "one element"
    label = "" if value.label == value.name else f"{value.label} in Python"
    return way, f"{value.name}: {value.aval}", shape, label
