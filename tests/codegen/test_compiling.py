"""Any thread compiles, one after the other: the same objects, on a deep stack; and each once in a process."""

import os
import subprocess
import sys
import threading

import llvmlite.binding as llvm
import pytest

from codegen.program import Gemm
from codegen.runtime import engine, executable, objects, orders, products
from codegen.runtime.disk import DiskCache
from codegen.runtime.engine import with_deep_stack


def text_of(number):
    """A module of its own: x + number * x + x * x."""
    vector = "<4 x double>"
    return f"""
define i32 @f{number}(ptr %pointers, ptr %extents) {{
  %at = load ptr, ptr %pointers
  %x = load {vector}, ptr %at, align 8
  %square = fmul {vector} %x, %x
  %scaled = fmul {vector} %x, splat (double {float(number)})
  %sum = fadd {vector} %square, %scaled
  %all = fadd {vector} %sum, %x
  store {vector} %all, ptr %at, align 8
  ret i32 0
}}
define internal void @unseen() {{
  ret void
}}
define private void @hidden() {{
  ret void
}}
declare void @elsewhere()
"""


def in_threads(works):
    """What each gives, from a thread of its own."""
    found = [None] * len(works)

    def work(place):
        try:
            found[place] = works[place]()
        except engine.CompileError as error:
            found[place] = error

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_threads_compile_the_same_objects_as_one_alone():
    texts = [text_of(number) for number in range(12)]
    alone = [engine.object_of(text) for text in texts]
    assert [exports for _, exports in alone] == [(f"f{number}",) for number in range(12)]
    assert in_threads([lambda text=text: engine.object_of(text) for text in texts]) == alone


def test_functions_are_made_once_in_a_process_and_found_on_disk_by_the_next(monkeypatch, tmp_path):
    monkeypatch.setattr(objects, "default", lambda: DiskCache(tmp_path / "objects"))
    monkeypatch.setattr(objects, "package_identity", lambda name: name)
    monkeypatch.setattr(objects, "_codes", {})
    first = objects.codes_of({"f7": "seven"}, lambda names: text_of(7))["f7"]
    assert objects.codes_of({"f7": "seven"}, lambda names: pytest.fail("it is there"))["f7"] is first
    objects._codes.clear()  # as in another process
    again = objects.codes_of({"f7": "seven"}, lambda names: pytest.fail("it is on disk"))["f7"]
    assert first.names == again.names == ("f7",)
    assert first.size == again.size


def test_text_that_llvm_refuses_is_told_from_another_thread_too():
    (error,) = in_threads([lambda: engine.object_of("define i32 @f() { ret i64 0 }")])
    assert "read" in str(error)


def test_products_of_a_tile_share_their_functions_and_no_thread_stays(monkeypatch):
    monkeypatch.setattr(objects, "_codes", {})
    monkeypatch.setattr(products, "_loaded", {})
    before = threading.active_count()
    gemms = [Gemm("f64", 8, 2, 8), Gemm("f64", 8, 1, 8)]  # two columns: one vector on any machine
    codes = [products.product_step(gemm).codes[1:] for gemm in gemms]
    functions = {name: code for (name, *_), code in objects._codes.items() if name != "product"}
    assert sorted(functions) == ["dots", "narrow", "pack", "put"]
    assert {id(code) for found in codes for code in found} == {id(code) for code in functions.values()}
    assert [len(set(map(id, found))) for found in codes] == [1, 1]  # one module for what was missing
    assert threading.active_count() == before


def test_what_a_test_puts_into_a_module_is_seen_by_those_who_knew_the_name(request):
    assert executable.orders.order_step is orders.order_step  # which the stand-in keeps
    request.getfixturevalue("monkeypatch").setattr(orders, "order_step", None)
    assert executable.orders.order_step is None


def test_what_is_made_deeply_is_made_in_the_main_thread_or_in_one_with_a_deep_stack_and_raises(monkeypatch):
    def look(x):
        seen.append(threading.current_thread())
        return 1 / x

    def interrupted():
        lock.__enter__()
        look(0)

    def in_another_thread():
        results.append(with_deep_stack(lambda: with_deep_stack(look, 2)))
        with pytest.raises(ZeroDivisionError):
            with_deep_stack(interrupted)

    def run():
        other = threading.Thread(target=in_another_thread)
        other.start()
        other.join()
        assert lock._lock.acquire(timeout=10)  # LLVM's lock is left to other threads
        lock._lock.release()
        return other

    def refused(self):
        raise RuntimeError("can't start new thread")

    engine.object_of(text_of(1))  # loads LLVM
    lock = llvm.ffi.lib._lock
    seen = []
    results = [with_deep_stack(look, 4)]
    other = run()
    assert results == [0.25, 0.5]
    assert seen[0] is threading.main_thread()
    assert other not in seen and all(thread.name == "autodiff compiles" for thread in seen[1:])
    monkeypatch.setattr(engine._Deep, "start", refused)
    other = run()
    assert results == [0.25, 0.5, 0.5] and seen[-2:] == [other, other]


#: From 3.14 on Python's own compiler refuses a line of some brackets where there is less.
SMALL = 65536 if sys.version_info < (3, 14) else 98304
SMALL_STACKS = f"""
import sys, threading, numpy as np, autodiff as ad
threading.stack_size({SMALL})
def work():
    x = np.linspace(0.0, 1.0, 40)
    slope = ad.grad(lambda x: ad.sum(ad.sin(x) * ad.exp(x)))(x)
    assert np.allclose(slope, np.exp(x) * (np.sin(x) + np.cos(x)), rtol=1e-13)
    rows = -x.reshape(8, 5)
    assert (ad.jit(lambda x: ad.sort(x, axis=1))(rows) == np.sort(rows, 1)).all()
    done.append(1)
done = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert done and threading.stack_size(0) == {SMALL}
"""


def test_threads_with_small_stacks_may_compile():
    run = [sys.executable, "-c", SMALL_STACKS]
    subprocess.run(run, check=True, env={**os.environ, "AUTODIFF_CACHE": "0"}, timeout=120)
