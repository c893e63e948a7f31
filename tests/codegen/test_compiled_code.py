"""Machine code: made from text, linked, unloaded, kept apart by what it is compiled from."""

import ctypes
import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from codegen.runtime import engine, objects
from codegen.runtime.objects import key_of

SUCCESSOR = """
declare double @sin(double)
declare i64 @given(i64)
define i64 @successor(i64 %x) {
  %y = add i64 %x, 1
  ret i64 %y
}
define double @sine(double %x) {
  %y = call double @sin(double %x)
  ret double %y
}
define i64 @twice(i64 %x) {
  %y = call i64 @given(i64 %x)
  %z = call i64 @given(i64 %y)
  ret i64 %z
}
define internal void @hidden() {
  ret void
}
"""


def test_code_has_addresses_of_what_it_exports_and_finds_what_it_imports():
    double = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 2 * x)
    code = engine.compile(SUCCESSOR, {"given": ctypes.cast(double, ctypes.c_void_p).value})
    assert code.names == ("successor", "sine", "twice")
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("successor"))(41) == 42
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("twice"))(3) == 12
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("sine"))(1.0) == np.sin(1.0)
    with pytest.raises(KeyError):
        code.address("hidden")
    assert "@successor" in engine.optimized_text(SUCCESSOR) and "successor:" in engine.assembly_text(SUCCESSOR)
    assert code.size > 100


def test_an_object_can_be_linked_again():
    object_bytes, exports = engine.object_of("define i64 @one() {\n  ret i64 1\n}\n")
    for _ in range(2):
        code = engine.link("", object_bytes, exports)
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("one"))() == 1


@pytest.mark.parametrize(
    "text,stage,message",
    [
        ("define i64 @f( {", "read", "expected type"),
        ("define i64 @f() {\n  ret i32 0\n}", "read", "type"),
        ("declare void @nowhere_at_all()\ndefine void @f() {\n  call void @nowhere_at_all()\n  ret void\n}", "link",
         "nowhere_at_all"),
    ],
)  # fmt: skip
def test_llvm_s_refusal_is_a_typed_error_that_holds_the_text(text, stage, message, capfd):
    with pytest.raises(engine.CompileError, match=f"(?s)could not {stage} .*{message}") as caught:
        engine.compile(text)
    assert caught.value.text == text
    assert capfd.readouterr().err == ""


def test_code_is_unloaded_when_nobody_holds_it():
    code = engine.compile("define void @f() {\n  ret void\n}\n")
    tracker = weakref.ref(code._loaded)
    del code
    gc.collect()
    assert tracker() is None


def test_an_object_does_not_depend_on_what_was_compiled_before():
    def text(constant):
        return (
            "define double @f(double %x, double %y) {\n"
            f"  %a = fmul double %x, {constant}\n  %b = fmul double %x, {constant}\n  %c = fadd double %a, %b\n"
            "  %d = call double @g(double %c, double %y)\n  ret double %d\n}\n"
            "define internal double @g(double %x, double %y) alwaysinline {\n"
            "  %s = fcmp olt double %x, %y\n  br i1 %s, label %yes, label %no\n"
            "yes:\n  ret double %y\nno:\n  ret double %x\n}\n"
        )

    first = engine.object_of(text("2.5"))
    for k in range(8):
        engine.object_of(text(f"{k}.25"))
    assert engine.object_of(text("2.5")) == first


def test_threads_may_compile_at_once():
    wrong = []

    def work(number):
        for i in range(5):
            value = 10 * number + i
            code = engine.compile(f"define i64 @f() {{\n  ret i64 {value}\n}}\n")
            if ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("f"))() != value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_process_ends_cleanly_with_code_still_loaded():
    script = (
        "from codegen.runtime import engine\n"
        "code = engine.compile('define void @f() {\\n  ret void\\n}\\n')\n"
        "import builtins; builtins.kept = code\n"
    )
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{script}"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_key_of_code_depends_on_its_text():
    assert key_of("a") == key_of("a") != key_of("b")


@pytest.mark.parametrize("number", ["FORMAT", "VERSION"])
def test_another_version_of_the_library_looks_for_other_files(number, monkeypatch):
    before = key_of("a")
    monkeypatch.setattr(objects, number, getattr(objects, number) + 1)
    assert key_of("a") != before
