"""LLVM is used in the same way with and without `llvmlite.binding`."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.runtime import engine, llvm
from codegen.runtime.engine import Passes

TEXT = """
@table = internal constant [2 x double] [double 2.0, double 3.0]
declare double @exp(double)
declare double @given(double)
define internal double @twice(double %x) alwaysinline {
  %y = fmul double %x, 2.0
  ret double %y
}
define double @f(double %x) noinline "spare" {
  %y = call double @twice(double %x)
  %z = call double @exp(double %y)
  %w = call double @given(double %z)
  %t = load double, ptr getelementptr (double, ptr @table, i64 1)
  %v = fmul double %w, %t
  ret double %v
}
"""

GIVEN = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x + 1.0)


@pytest.fixture(params=["Library", "Binding"])
def library(request, monkeypatch):
    """Each of the two, as the one that the engine uses."""
    if request.param == "Library":
        file = Path(llvm.llvmlite.__file__).parent / "binding" / llvm._FILES.get(sys.platform, "libllvmlite.so")
        made = llvm.Library(str(file))
    else:
        from codegen.runtime.llvm_binding import Binding

        made = Binding()
    monkeypatch.setattr(engine, "library", lambda: made)
    monkeypatch.setattr(engine, "_compiler", engine._Compiler())
    monkeypatch.setattr(engine, "_linkers", [])
    monkeypatch.setattr(engine, "_linked", engine.itertools.count())
    yield made
    engine._linkers.clear()


def both(get):
    """The words of the two."""
    from codegen.runtime.llvm_binding import Binding

    file = Path(llvm.llvmlite.__file__).parent / "binding" / llvm._FILES.get(sys.platform, "libllvmlite.so")
    return get(llvm.Library(str(file))), get(Binding())


@pytest.mark.parametrize("passes", Passes)
def test_code_runs_and_finds_what_it_declares(library, passes, capfd):
    address = ctypes.cast(GIVEN, ctypes.c_void_p).value
    code = engine.compile(TEXT, {"given": address}, passes)
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))
    assert f(0.0) == 6.0
    assert code.names == ("f",)
    assert "call double @twice" not in code.optimized
    assert "f:" in code.assembly
    assert "optnone" in code.optimized
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["this is not IR", "define i32 @f() {\n  ret i64 0\n}\n"])
def test_what_is_wrong_with_a_text_is_said(library, text):
    with pytest.raises(engine.CompileError, match="read"):
        engine.object_of(text)


def test_what_a_module_lacks_is_said(library, capfd):
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(engine.CompileError, match=r"(?s)link.*no_such_function"):
        engine.compile(text)
    assert capfd.readouterr().err == ""


def test_both_say_the_same_of_this_machine():
    for name in ("triple", "cpu", "features"):
        direct, binding = both(lambda library, name=name: getattr(library, name)())
        assert direct == binding and direct
    direct, binding = both(lambda library: library.llvm_version)
    assert direct == binding


@pytest.mark.parametrize("passes", [engine._INLINE, engine._VECTORS])
def test_both_make_the_same_object(passes):
    def made(library):
        machine = library.machine(2, "small", library.features())
        module = library.parsed(TEXT, machine)
        library.pipeline(passes, machine)(module)
        library.spare(module, ["f", "not there"])
        return library.text(module), library.emitted(machine, module)

    direct, binding = both(made)
    assert direct == binding


def test_functions_are_declared_as_llvmlite_declares_them():
    from llvmlite import binding

    for name, (*arguments, result) in llvm._FUNCTIONS.items():
        theirs = getattr(binding.ffi.lib, f"LLVMPY_{name}")
        if theirs.argtypes is not None:
            assert len(theirs.argtypes) == len(arguments), name
            for letter, kind in zip(arguments, theirs.argtypes, strict=True):
                assert ctypes.sizeof(llvm._TYPES[letter]) == ctypes.sizeof(kind), name
        if result != "-" and theirs.restype is not None:
            assert ctypes.sizeof(llvm._TYPES[result]) == ctypes.sizeof(theirs.restype), name
    assert ctypes.sizeof(llvm._Element) == ctypes.sizeof(binding.orcjit._LinkElement)
    assert ctypes.sizeof(llvm._ExportedSymbol) == ctypes.sizeof(binding.orcjit._SymbolAddress)


def test_without_the_binding_s_inner_name_its_lock_is_taken():
    from codegen.runtime.llvm_binding import _beside_others

    def function():
        return 3

    assert _beside_others(function) is function


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("0.46.1", False), ("0.47.0", True), ("0.50.0", True), ("0.50.0rc1", True), ("0.51.0", False), ("1.0.0", False),
     ("0+unknown", False)],
)  # fmt: skip
def test_functions_of_other_versions_are_not_called(version, is_known):
    assert llvm.is_known(version) == is_known


START = "import sys\n{FIRST}\nimport numpy as np, autodiff as ad\nfrom codegen.runtime import llvm\n"
GRADIENT = "assert np.allclose(ad.grad(lambda x: ad.sum(ad.sin(x)))(np.ones(3)), np.cos(1.0))\n"


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_llvm_is_loaded_when_it_is_first_needed_and_without_llvmlite_s_binding():
    show = "print(llvm.is_loaded(), 'llvmlite.binding' in sys.modules)\n"
    assert run(START.format(FIRST="") + show + GRADIENT + show).split() == ["False", "False", "True", "False"]


def test_where_somebody_uses_llvmlite_its_binding_is_used():
    show = "print(type(llvm.library()).__name__)\n"
    assert run(START.format(FIRST="import llvmlite.binding") + GRADIENT + show).split() == ["Binding"]


def test_llvmlite_may_be_imported_later_and_works_beside():
    later = (
        "import llvmlite.binding as b\n"
        "b.initialize_native_target(); b.initialize_native_asmprinter()\n"
        "m = b.parse_assembly('define i32 @f() { ret i32 7 }'); m.verify()\n"
        "assert b.Target.from_default_triple().create_target_machine().emit_object(m)\n"
    )
    run(START.format(FIRST="") + GRADIENT + later + GRADIENT.replace("sin", "sinh").replace("np.cos(1", "np.cosh(1"))


def test_what_a_module_takes_is_freed_where_an_interrupt_is_not_lost():
    """An exception within `__del__` is printed and forgotten: by then there is nothing left to do that takes long."""
    disposed = []
    owned = llvm._Owned(1, disposed.append)
    module = llvm._Module(2, disposed.append, owned)

    def interrupted(one):
        raise KeyboardInterrupt

    module.close()
    assert disposed == [module, 1]
    module.close()
    del module
    assert len(disposed) == 2
    with pytest.raises(KeyboardInterrupt):
        llvm._Module(3, interrupted, llvm._Owned(4, disposed.append)).close()


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


def test_other_threads_run_python_while_llvm_is_mapped():
    # A function that ctypes calls leaves the interpreter to others, and a library opened so is the same library.
    program = f"""
import ctypes
from codegen.runtime import llvm
made = []
real = ctypes.CDLL
def opened(name, *, handle=None):
    made.append((name, handle))
    return real(name, handle=handle)
llvm.ctypes.CDLL = opened
file = {str(llvm.library_file())!r}
assert llvm.Library(file).llvm_version
(first, _), (name, handle) = made
assert first is None and name == file and handle == real(file)._handle
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_library_that_is_nowhere_is_named():
    with pytest.raises(OSError, match="no-such-library"):
        llvm.Library("/no-such-library.so")


def test_a_module_exports_what_says_nothing_of_its_linkage_and_spares_what_says_so():
    text = """define i32 @first.of.all(ptr %x) noinline "spare" {
  ret i32 0
}
; define i32 @no.function() {
define internal fastcc i32 @inner(ptr %define) noinline cold "spare" {
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
    assert engine._spared(text) == ["first.of.all", "inner"]
