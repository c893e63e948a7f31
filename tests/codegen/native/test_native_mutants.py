"""Faults planted in the compiler are seen by the comparison with plain Python.

Each changes lines of the text that the compiler writes.  What has a fault runs in a process of its own, as some of them
crash.
"""

import faulthandler
import os
import re
import signal
from contextlib import suppress

import pytest
from test_native_objects import COUNTED, USES, faulty
from typed_programs import FUNCTIONS, compiled, differences, forget, loaded

from codegen.native import Translation
from codegen.native.writer import TextWriter

#: The name of each fault, what is looked for in an instruction, and what stands there instead.
VALUES = {
    "narrow numbers widen without their sign": (r"= sext i(8|16|32)", r"= zext i\1"),
    "unsigned numbers widen with a sign": (r"= zext i(8|16|32)", r"= sext i\1"),
    "a shift forgets the sign": ("ashr", "lshr"),
    "unsigned shifts have a sign": ("lshr", "ashr"),
    "unsigned numbers are compared as signed": (r"icmp u(\w)", r"icmp s\1"),
    "a range goes on to its end": ("icmp slt i64 %v", "icmp sle i64 %v"),
    "a range downwards goes on to its end": ("icmp sgt i64 %v", "icmp sge i64 %v"),
    "a quotient rounds towards zero": (r"sext i1 (\S+) to", r"sext i1 false to"),
    "nan equals nan": ("fcmp une", "fcmp one"),
    "a field lies two bytes further": (r"(%v\S+ = getelementptr i8, ptr \S+, i64) 2", r"\1 4"),
    "division takes the other instruction": ("udiv", "urem"),
    "an unsigned product is half as wide": (r"lshr i128 (\S+), 64", r"lshr i128 \1, 63"),
    "not does nothing": (r"xor i1 (\S+), 1", r"xor i1 \1, 0"),
    "an atomic maximum has a sign": ("atomicrmw umax", "atomicrmw min"),
    "an exchange that fails says it did not": (r"extractvalue { i64, i1 } (\S+), 1", r"icmp eq i1 0, 0"),
    "an element of a vector is the first": (r"(extractelement \S.*), i64 \S+", r"\1, i64 0"),
    "a choice between vectors is turned round": (r"(select <4 x i1> \S+), (.*), (<4 x double>.*)", r"\1, \3, \2"),
}


#: Faults in references: what is written where a local releases its reference, moves it, or begins.
REFERENCES = {
    "a reference is not released": (r"call void @release_reference\(ptr %v\S+\)", "fence seq_cst"),
    "a moved local keeps its reference": (r"store ptr null, ptr %(\w+)\.at", "fence seq_cst"),
    "the last value of a local is not released": (r"load ptr, ptr %more\.at$", "load ptr, ptr @box"),
    "an object is not held": (r"call void @Py_IncRef\(ptr %\S+\)", "fence seq_cst"),
    "places on the stack are not released": (r"call void @release_references\(.*\)", "fence seq_cst"),
    "a place that an object was moved from keeps it": (r"store ptr null, ptr %v\S+$", "fence seq_cst"),
}


def planted(monkeypatch, pattern, instead):
    """Put a fault into the text; gives the number of lines that it changed."""
    changed = [0]
    emit = TextWriter.emit

    def with_fault(self, text):
        new, count = re.subn(pattern, instead, text)
        changed[0] += count
        emit(self, new)

    monkeypatch.setattr(TextWriter, "emit", with_fault)
    return changed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("name", VALUES)
def test_a_fault_in_values_is_seen(name, monkeypatch):
    changed = planted(monkeypatch, *VALUES[name])
    library = compiled(FUNCTIONS)
    assert changed[0]
    forget()
    assert is_seen(lambda: next(differences(library, seed=3, rounds=60), None) is not None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_without_a_fault_nothing_is_seen():
    library = compiled(FUNCTIONS)
    forget()
    assert not is_seen(lambda: next(differences(library, seed=3, rounds=60), None) is not None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("name", REFERENCES)
def test_a_fault_in_references_is_seen(name, monkeypatch):
    changed = planted(monkeypatch, *REFERENCES[name])
    library = compiled(COUNTED, faults=True)
    assert changed[0]
    assert is_seen(lambda: any(faulty(library, use)[0] for use in USES))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("name", ["found", "more", "total", "pair", "first", "second", "b", "made", "last"])
def test_a_way_out_that_does_not_give_a_local_back_is_seen(name):
    functions = Translation(faults=True).text([], builtins=COUNTED).split("define ")
    for number, function in enumerate(functions):
        body, leave, end = function.partition("leave:")
        functions[number] = body + leave + end.replace(f"load ptr, ptr %{name}.at", "inttoptr i64 0 to ptr")
    library = loaded("define ".join(functions), COUNTED)
    assert is_seen(lambda: any(faulty(library, use)[0] for use in USES))


def is_seen(look):
    """The output of a child process, or its end by a signal."""
    child = os.fork()
    if not child:
        faulthandler.disable()
        signal.alarm(20)
        with suppress(Exception):
            os._exit(0 if look() else 1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 1
