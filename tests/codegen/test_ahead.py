"""Modules are compiled beside each other: the same objects, no thread that stays, right over forks and at the end."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from codegen import compiler
from codegen.ir import Aval
from codegen.program import Gemm
from codegen.runtime import ahead, engine, executable, fourier, kernels, objects, orders, products
from codegen.runtime.ahead import Ahead, deeply
from codegen.runtime.disk import DiskCache
from codegen.runtime.engine import Passes


@pytest.fixture(params=[True, False], ids=["beside", "alone"])
def gains(request, monkeypatch):
    monkeypatch.setattr(ahead, "gains", lambda: request.param)
    return request.param


def test_the_result_is_what_was_made_and_is_made_once(gains):
    made = []
    work = Ahead(lambda: made.append(threading.current_thread()) or made)
    assert work.result() is made
    assert work.result() is made
    assert [thread is threading.main_thread() for thread in made] == [not gains]


def test_what_making_raises_is_raised_where_the_result_is_asked_for(gains):
    work = Ahead(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            work.result()


def test_where_no_thread_can_be_started_the_work_is_done_when_it_is_asked_for(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ahead, "gains", lambda: True)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert Ahead(threading.current_thread).result() is threading.main_thread()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_the_work_itself(monkeypatch):
    monkeypatch.setattr(ahead, "gains", lambda: True)
    go = threading.Event()
    work = Ahead(lambda: go.wait() and os.getpid())
    pid = os.fork()
    if not pid:
        go.set()
        os._exit(7 if work.result() == os.getpid() else 1)
    go.set()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert work.result() == os.getpid()


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


def test_threads_compile_the_same_objects_as_one_alone():
    texts = [text_of(number) for number in range(12)]
    alone = [engine.object_of(text, Passes.VECTORS) for text in texts]
    assert [exports for _, exports in alone] == [(f"f{number}",) for number in range(12)]
    beside = [Ahead(lambda text=text: engine.object_of(text, Passes.VECTORS)) for text in texts]
    assert [work.result() for work in beside] == alone


def test_what_a_thread_looks_for_on_disk_is_known_before_it_begins_and_not_written_again(monkeypatch, tmp_path):
    monkeypatch.setattr(ahead, "gains", lambda: True)
    monkeypatch.setattr(objects, "default", lambda: DiskCache(tmp_path / "objects"))
    lookers = []
    monkeypatch.setattr(objects, "package_identity", lambda name: lookers.append(threading.current_thread()) or name)
    monkeypatch.setattr(objects, "_begun", {})
    first = objects.begun({"f7": "seven"}, lambda names: text_of(7)).result()["f7"]
    assert lookers[0] is threading.main_thread() is not lookers[1]
    assert objects.begun({"f7": "seven"}, lambda names: pytest.fail("it is there")).result()["f7"] is first
    objects._begun.clear()  # as in another process
    again = objects.begun({"f7": "seven"}, lambda names: pytest.fail("it is on disk")).result()["f7"]
    assert first.names == again.names == ("f7",)
    assert first.size == again.size


def test_text_that_llvm_refuses_is_told_from_another_thread_too():
    with pytest.raises(engine.CompileError, match="read"):
        Ahead(lambda: engine.object_of("define i32 @f() { ret i64 0 }")).result()


def test_no_thread_stays_when_a_program_of_products_and_kernels_is_ready(monkeypatch):
    monkeypatch.setattr(ahead, "gains", lambda: True)
    monkeypatch.setattr(products, "gains", lambda: True)
    monkeypatch.setattr(products, "_codes", {})
    monkeypatch.setattr(products, "_loaded", {})
    before = threading.active_count()
    gemms = [Gemm("f64", 8, 2, 8), Gemm("f64", 8, 1, 8)]  # two columns: one vector on any machine
    products.begin(gemms)
    assert sorted(name for _, name in products._codes) == ["dots", "narrow", "pack", "put"]
    codes = {id(code) for gemm in gemms for code in products.product_step(gemm).codes[1:]}
    assert codes == {id(code) for work in products._codes.values() for code in work.result().values()}
    assert len(codes) == len({tile for tile, _ in products._codes})  # one module for all of a tile
    assert threading.active_count() == before


def test_what_a_test_puts_into_a_module_is_seen_by_those_who_knew_the_name(request):
    assert executable.orders.begin is orders.begin  # which the stand-in keeps
    request.getfixturevalue("monkeypatch").setattr(orders, "begin", None)
    assert executable.orders.begin is None


def test_what_orders_and_transforms_need_is_begun_before_their_steps_are_made(monkeypatch):
    import autodiff as ad

    began, begun = [], set()
    for room, make in ((orders, "order_of"), (fourier, "fourier_of")):
        monkeypatch.setattr(room, "begin", lambda node, begin=room.begin: (began.append(node), begin(node))[1])
        made = getattr(room, make)

        def look(node, *given, made=made):
            begun.add(node in began)
            return made(node, *given)

        monkeypatch.setattr(room, make, look)
    monkeypatch.setattr(objects, "_begun", {})
    monkeypatch.setattr(ahead, "gains", lambda: True)
    before = threading.active_count()
    monkeypatch.setattr(compiler, "store", compiler.Store())
    x = np.linspace(1.0, 0.0, 18)
    np.testing.assert_allclose(ad.jit(lambda x: ad.abs(ad.fft.rfft(ad.sort(x))))(x), np.abs(np.fft.rfft(x[::-1])))
    assert begun == {True} and len({node.op.name for node in began}) == 2
    assert threading.active_count() == before


def test_long_kernels_are_compiled_as_two_modules_with_the_same_results(monkeypatch):
    import autodiff as ad

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 37, 23))

    def f(x, y):
        return ad.sum(ad.softmax(x @ y.T)) + ad.sum(ad.exp(ad.sin(x)), axis=0) @ ad.tanh(ad.sum(y, axis=0))

    found = []
    for is_beside in (False, True):
        ad.clear_cache()
        monkeypatch.setattr(kernels, "_LONG", 0)
        monkeypatch.setattr(kernels, "gains", lambda is_beside=is_beside: is_beside)
        monkeypatch.setenv("AUTODIFF_CACHE", "0")
        found.append(ad.value_and_grad(f, (0, 1))(x, y))
    for alone, beside in zip((found[0][0], *found[0][1]), (found[1][0], *found[1][1]), strict=True):
        np.testing.assert_array_equal(alone, beside)


ENDING = """
import numpy as np
from codegen.runtime import ahead, engine, products
from codegen.program import Gemm
ahead.gains = products.gains = lambda: True
products.begin([Gemm("f64", 8, 8, 8), Gemm("f32", 8, 1, 8)])
{THEN}
"""


@pytest.mark.parametrize("then", ["", "raise SystemExit(0)", "import autodiff"])
def test_a_process_that_ends_meanwhile_ends_well(then):
    environment = {**os.environ, "AUTODIFF_CACHE": "0"}
    run = [sys.executable, "-c", ENDING.format(THEN=then)]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_result_is_waited_for():
    work = Ahead(lambda: time.sleep(0.02) or Aval((), np.float64))
    assert work.result() == Aval((), np.float64)


def test_what_is_made_deeply_is_made_in_the_main_thread_or_in_one_with_a_deep_stack_and_raises():
    def look(x):
        seen.append(threading.current_thread())
        return 1 / x

    def in_another_thread():
        results.append(deeply(lambda: deeply(look, 2)))
        with pytest.raises(ZeroDivisionError):
            deeply(look, 0)

    seen = []
    results = [deeply(look, 4)]
    other = threading.Thread(target=in_another_thread)
    other.start()
    other.join()
    assert results == [0.25, 0.5]
    assert seen[0] is threading.main_thread()
    assert other not in seen and all(thread.name == "autodiff compiles" for thread in seen[1:])


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
