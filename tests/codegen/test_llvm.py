"""LLVM makes code, says what is wrong with a text, and is loaded when it is first needed."""

import ctypes
import subprocess
import sys

import pytest

from codegen.runtime import engine

TEXT = """
@table = internal constant [2 x double] [double 2.0, double 3.0]
declare double @exp(double)
declare double @given(double)
define internal double @twice(double %x) alwaysinline {
  %y = fmul double %x, 2.0
  ret double %y
}
define double @f(double %x) noinline {
  %y = call double @twice(double %x)
  %z = call double @exp(double %y)
  %w = call double @given(double %z)
  %t = load double, ptr getelementptr (double, ptr @table, i64 1)
  %v = fmul double %w, %t
  ret double %v
}
"""

GIVEN = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x + 1.0)


@pytest.fixture
def linkers(monkeypatch):
    """A compiler of its own, whose code LLVM links."""
    monkeypatch.setattr(engine.elf, "is_here", lambda: False)
    monkeypatch.setattr(engine, "_compiler", engine._Compiler())
    monkeypatch.setattr(engine, "_linkers", [])
    monkeypatch.setattr(engine, "_linked", engine.itertools.count())


def test_code_runs_and_finds_what_it_declares(linkers, capfd):
    address = ctypes.cast(GIVEN, ctypes.c_void_p).value
    code = engine.compile(TEXT, {"given": address})
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))
    assert f(0.0) == 6.0
    assert code.names == ("f",)
    assert "call double @twice" not in engine.optimized_text(TEXT)
    assert "f:" in engine.assembly_text(TEXT)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["this is not IR", "define i32 @f() {\n  ret i64 0\n}\n"])
def test_what_is_wrong_with_a_text_is_said(text):
    with pytest.raises(engine.CompileError, match="read"):
        engine.object_of(text)


def test_what_a_module_lacks_is_said(linkers, capfd):
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(engine.CompileError, match=r"(?s)link.*no_such_function"):
        engine.compile(text)
    assert capfd.readouterr().err == ""


def test_without_the_binding_s_inner_name_its_lock_is_taken():
    from codegen.runtime.llvm import _without_lock

    def function():
        return 3

    assert _without_lock(function) is function


START = "import sys\n{FIRST}\nimport numpy as np, autodiff as ad\nfrom codegen.runtime import llvm\n"
GRADIENT = "assert np.allclose(ad.grad(lambda x: ad.sum(ad.sin(x)))(np.ones(3)), np.cos(1.0))\n"


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_llvm_is_loaded_when_it_is_first_needed():
    show = "print(llvm.is_loaded(), 'llvmlite.binding' in sys.modules)\n"
    assert run(START.format(FIRST="") + show + GRADIENT + show).split() == ["False", "False", "True", "True"]


def test_llvmlite_may_be_imported_later_and_works_beside():
    later = (
        "import llvmlite.binding as b\n"
        "b.initialize_native_target(); b.initialize_native_asmprinter()\n"
        "m = b.parse_assembly('define i32 @f() { ret i32 7 }'); m.verify()\n"
        "assert b.Target.from_default_triple().create_target_machine().emit_object(m)\n"
    )
    run(START.format(FIRST="") + GRADIENT + later + GRADIENT.replace("sin", "sinh").replace("np.cos(1", "np.cosh(1"))


def test_the_compiler_closes_its_modules(monkeypatch):
    closed = []
    parsed = engine.library().parsed

    def noted(text, machine):
        module = parsed(text, machine)
        close = module.close
        module.close = lambda: (closed.append(module), close())
        return module

    monkeypatch.setattr(engine.library(), "parsed", noted)
    text = "define i32 @f() {\n  ret i32 3\n}\n"
    engine.object_of(text), engine.optimized_text(text), engine.assembly_text(text)
    assert len(closed) == 3


def test_a_module_exports_what_says_nothing_of_its_linkage():
    text = """define i32 @first.of.all(ptr %x) noinline {
  ret i32 0
}
; define i32 @no.function() {
define internal fastcc i32 @inner(ptr %define) noinline cold {
  ret i32 0
}
define private void @own() {
  ret void
}
define <4 x float> @wide(ptr %x,
                         ptr %y) {
  ret <4 x float> zeroinitializer
}
declare i32 @elsewhere(ptr)
"""
    assert engine.exported_names(text) == ("first.of.all", "wide")
