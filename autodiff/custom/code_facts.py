"""Facts of the user's code, found in its instructions: what a function reads by name, beside its arguments and cells.

A code object never changes, so its facts are found once.  They count the functions that it defines, too.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType

from codegen.records import NamedTuple

__all__ = ["CodeFacts", "facts_of"]

#: The instructions that read a global, and those that read an attribute, in any version of Python that was tried.
_GLOBAL_READS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_ATTRIBUTE_READS = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
#: Instructions by which a thing that was read may change while a rule runs, or which find names in other ways.
_UNWATCHABLE = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_BUILD_CLASS", "IMPORT_NAME", "LOAD_NAME"))


class CodeFacts(NamedTuple):
    """The reads of a code object, and of the functions that it defines.

    reads          globals and their attributes, `np.pi` being ("global", "np", "pi"), and ("import", a module)
    attributes     that are read of anything, in order
    is_watchable   they can be run with watched numbers
    """

    reads: tuple[tuple[str, ...], ...]
    attributes: tuple[str, ...]
    is_watchable: bool


@lru_cache(maxsize=1024)
def facts_of(code: CodeType) -> CodeFacts:
    """The facts of a code object."""
    reads: dict[tuple[str, ...], None] = {}
    attributes: dict[str, None] = {}
    is_watchable = True
    path: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        argument = value if type(value) is str else ""
        reads_attribute = name in _ATTRIBUTE_READS
        if path and reads_attribute:
            path = (*path, argument)
        elif name in _GLOBAL_READS or (path and name not in ("CACHE", "PUSH_NULL")):
            if path:
                reads[path] = None
            path = ("global", argument) if name in _GLOBAL_READS else ()
        if reads_attribute:
            attributes[argument] = None
        if name == "IMPORT_NAME":
            reads["import", argument] = None
        if (
            name in _UNWATCHABLE
            or (name in ("STORE_DEREF", "DELETE_DEREF") and argument in code.co_freevars)
            or ((reads_attribute or name == "STORE_ATTR") and argument.startswith("__"))
        ):
            is_watchable = False
    if path:
        reads[path] = None
    for inner in [facts_of(c) for c in code.co_consts if isinstance(c, CodeType)]:
        reads |= dict.fromkeys(inner.reads)
        attributes |= dict.fromkeys(inner.attributes)
        is_watchable = is_watchable and inner.is_watchable
    return CodeFacts(tuple(reads), tuple(attributes), is_watchable)
