"""LLVM's objects go when nothing needs them any more, in this order."""

import gc

from codegen.runtime import llvm

TEXT = "define i32 @one() { ret i32 1 }"


def test_a_module_in_a_cycle_goes_before_the_context_that_it_is_in(monkeypatch):
    """Finalisers of a cycle run in any order; the other way round is a crash, and a caught interrupt may be in one."""
    library, gone = llvm.Library(llvm.library_file()), []
    machine = library.machine(0, "default", library.features())
    monkeypatch.setattr(library, "_DisposeModule", lambda _: gone.append("module"))
    monkeypatch.setattr(library, "_ContextDispose", lambda _: gone.append("context"))
    for _ in range(3):
        ring = [library.parsed(TEXT, machine)]
        ring.append(ring)
        del ring
        gc.collect()
    assert gone == ["module", "context"] * 3


def test_a_module_is_closed_once():
    library = llvm.Library(llvm.library_file())
    module = library.parsed(TEXT, library.machine(0, "default", library.features()))
    assert "ret i32 1" in library.text(module)
    module.close()
    module.close()
    del module
    gc.collect()


def test_code_in_a_cycle_goes_before_the_linker_that_it_is_in(monkeypatch):
    library, gone = llvm.Library(llvm.library_file()), []
    machine = library.machine(2, "jitdefault", library.features())
    code = library.emitted(machine, library.parsed(TEXT, machine))
    monkeypatch.setattr(library, "_LLJITDispose", lambda _: gone.append("linker"))
    monkeypatch.setattr(library, "_LLJIT_Dylib_Tracker_Dispose", lambda *_: gone.append("code"))
    linker = library.linker(machine, is_near=False)
    ring = [library.linked(linker, name, code, {}, ["one"]) for name in ("first", "second")]
    ring += [linker, ring]
    del ring, linker
    gc.collect()
    assert gone == ["code", "code", "linker"]
