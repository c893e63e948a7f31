"""Large loops are shared among threads, and nobody can tell from the results."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from graphs import graphs
from hypothesis import given, note, settings
from programs import coarsest

import autodiff.ops  # noqa: F401  (declares the operations that graphs are made of)
from codegen import compiler
from codegen.ir import Aval, evaluate, parse, print_graph
from codegen.runtime import engine, share, threads
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable
from codegen.runtime.launcher import LaunchPlan, NativeStep, Share, launcher

COUNTING = """
; adds 1 to each of the elements [extents[0], extents[1]) of the first pointer, which starts as zeros
define i32 @count(ptr %pointers, ptr %extents) {
entry:
  %data = load ptr, ptr %pointers
  %begin = load i64, ptr %extents
  %end.at = getelementptr i64, ptr %extents, i64 1
  %end = load i64, ptr %end.at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %one, label %done
one:
  %at = getelementptr i64, ptr %data, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
; sets all of the first pointer's extents[0] bytes to zero
define i32 @clear(ptr %pointers, ptr %extents) {
  %data = load ptr, ptr %pointers
  %bytes = load i64, ptr %extents
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %bytes, i1 false)
  ret i32 0
}
; fails where its range holds extents[0]
define i32 @fail(ptr %pointers, ptr %extents) {
  %place = load i64, ptr %extents
  %begin.at = getelementptr i64, ptr %extents, i64 1
  %begin = load i64, ptr %begin.at
  %end.at = getelementptr i64, ptr %extents, i64 2
  %end = load i64, ptr %end.at
  %after = icmp sge i64 %place, %begin
  %before = icmp slt i64 %place, %end
  %bad = and i1 %after, %before
  %status = zext i1 %bad to i32
  ret i32 %status
}
; a block takes 150 ms and counts in the first pointer, but for the thread extents[0]: until another one has come its
; blocks take 0.2 ms, then none, so that it works less long than it waits, however late a busy machine lets it go on
define i32 @slow_elsewhere(ptr %pointers, ptr %extents) {
  %caller = load i64, ptr %extents
  %here = call i64 @pthread_self()
  %is.caller = icmp eq i64 %caller, %here
  br i1 %is.caller, label %quick, label %slow
quick:
  %came = load ptr, ptr %pointers
  %helpers = load atomic i64, ptr %came seq_cst, align 8
  %has.come = icmp ne i64 %helpers, 0
  br i1 %has.come, label %done, label %waits
waits:
  %rested = call i32 @usleep(i32 200)
  br label %done
done:
  ret i32 0
slow:
  %count = load ptr, ptr %pointers
  %before = atomicrmw add ptr %count, i64 1 seq_cst
  %slept = call i32 @usleep(i32 150000)
  ret i32 0
}
; takes 1 ms; the element of the block says when it was taken, in another thread than extents[0] below zero
define i32 @stamp(ptr %pointers, ptr %extents) {
  %caller = load i64, ptr %extents
  %here = call i64 @pthread_self()
  %is.caller = icmp eq i64 %caller, %here
  %block.at = getelementptr i64, ptr %extents, i64 1
  %block = load i64, ptr %block.at
  %stamps = load ptr, ptr %pointers
  %before = atomicrmw add ptr %stamps, i64 1 seq_cst
  %order = add i64 %before, 1
  %below = sub i64 0, %order
  %stamp = select i1 %is.caller, i64 %order, i64 %below
  %slot = add i64 %block, 1
  %slot.at = getelementptr i64, ptr %stamps, i64 %slot
  store i64 %stamp, ptr %slot.at
  %slept = call i32 @usleep(i32 1000)
  ret i32 0
}
declare i32 @usleep(i32)
declare i64 @pthread_self()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

GRAPHS = {
    "elements": "f(x: f64[100003]) { a = mul(x, x)  b = sin(a)  c = exp(b)  return c }",
    "rows": """f(x: f64[1501,64]) {
        m = max(x, axis=(1,))  k = reshape(m, shape=(1501, 1))  d = sub(x, k)  e = exp(d)
        s = sum(e, axis=(1,))  t = reshape(s, shape=(1501, 1))  y = div(e, t)  return y }""",
    "sum and elements": "f(x: f64[100003]) { a = sin(x)  b = exp(a)  c = sum(b, axis=(0,))  d = cos(x)  return c, d }",
    "mean of squares": "f(x: f32[300,400]) { a = sin(x)  b = mul(a, a)  c = sum(b, axis=(0, 1))  return c }",
    "columns": "f(x: f64[2000,50]) { a = sin(x)  b = exp(a)  c = sum(b, axis=(0,))  return b, c }",
}


@pytest.fixture
def any_threads():
    """set_threads, undone afterwards."""
    before = threads.threads()
    yield threads.set_threads
    threads.set_threads(before)


@pytest.fixture(scope="module")
def code():
    return engine.compile(COUNTING)


@pytest.mark.parametrize("name", GRAPHS)
def test_results_have_the_same_bits_for_any_number_of_threads(any_threads, rng, name):
    graph = parse(GRAPHS[name])
    x = rng.standard_normal(graph.inputs[0].aval.shape).astype(graph.inputs[0].aval.dtype)
    call = compiler.compile_graph(graph).call
    found = []
    for count in (1, 2, 5, 2, 1):
        any_threads(count)
        found += [call(x) for _ in range(20)]
    for results in found[1:]:
        for got, first in zip(results, found[0], strict=True):
            assert got.tobytes() == first.tobytes()
    for got, expected in zip(found[0], evaluate(graph, x), strict=True):
        scale = np.finfo(expected.dtype).eps * 256
        np.testing.assert_allclose(got, expected, rtol=scale, atol=scale)


@pytest.mark.parametrize("total,chunk", [(1, 1), (2, 1), (7, 3), (1000, 1), (1000, 7), (64, 64), (65, 64), (9999, 100)])
def test_every_iteration_is_done_once(any_threads, code, total, chunk):
    counts = Aval((total,), "i8")
    steps = (
        NativeStep(code.address("clear"), (0,), (8 * total,)),
        NativeStep(code.address("count"), (0,), (), Share(total, chunk)),
        NativeStep(code.address("count"), (0,), (), Share(total, chunk)),
    )
    f = launcher(LaunchPlan("f", (), (counts,), (), 0, steps, False, (code,)))
    for count in (2, 4, 1):
        any_threads(count)
        for _ in range(50):
            np.testing.assert_array_equal(f()[0], np.full(total, 2))


@pytest.mark.parametrize("count", [1, 3])
def test_a_block_that_fails_fails_the_step(any_threads, code, count):
    any_threads(count)
    for place, fails in ((0, True), (999, True), (500, True), (1000, False)):
        steps = (NativeStep(code.address("fail"), (), (place,), Share(1000, 10)),)
        f = launcher(LaunchPlan("f", (), (), (), 0, steps, False, (code,)))
        for _ in range(10):
            if fails:
                with pytest.raises(IndexError):
                    f()
            else:
                assert f() == ()


def test_several_python_threads_may_share_at_once(any_threads, rng):
    any_threads(3)
    call = compiler.compile_graph(parse(GRAPHS["sum and elements"])).call
    inputs = [rng.standard_normal(100_003) for _ in range(4)]
    expected = [call(x) for x in inputs]
    wrong = []

    def work(number):
        for _ in range(30):
            got = call(inputs[number])
            if any(g.tobytes() != e.tobytes() for g, e in zip(got, expected[number], strict=True)):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_where_sharing_loses_the_next_job_is_done_alone(any_threads, code):
    any_threads(2)
    steps = (
        NativeStep(code.address("clear"), (0,), (8,)),
        NativeStep(code.address("slow_elsewhere"), (0,), (threading.get_ident(),), Share(40, 1)),
    )
    f = launcher(LaunchPlan("f", (), (Aval((), "i8"),), (), 0, steps, False, (code,)))
    was_alone = []
    for _ in range(1000):
        if f()[0]:  # another thread has come to help, and was slow
            was_alone.append(not f()[0])
            if was_alone.count(True) == 5:
                break
    # A caller who was interrupted meanwhile took as long, and did not lose.
    assert was_alone.count(True) == 5 > was_alone.count(False)


def test_each_thread_begins_with_blocks_of_its_own(any_threads, code):
    any_threads(2)
    steps = (
        NativeStep(code.address("clear"), (0,), (8 * 21,)),
        NativeStep(code.address("stamp"), (0,), (threading.get_ident(),), Share(20, 1)),
    )
    f = launcher(LaunchPlan("f", (), (Aval((21,), "i8"),), (), 0, steps, False, (code,)))
    for _ in range(300):
        (stamps,) = f()
        elsewhere = np.flatnonzero(stamps[1:] < 0)
        if elsewhere.size:
            first = elsewhere[np.argmax(stamps[1:][elsewhere])]
            assert first >= 10 and stamps[1] > 0
            return
    pytest.fail("no other thread ever took a block")


FORKING = """
import os, sys
import numpy as np
import autodiff.ops
from codegen import compiler
from codegen.ir import parse
from codegen.runtime import threads
threads.set_threads(3)
call = compiler.compile_graph(parse({graph!r})).call
x = np.random.default_rng(0).standard_normal(100_003)
first = [y.tobytes() for y in call(x)]
while threads.started() < 2:  # calls are on one thread until the launcher is there
    call(x)
for _ in range(5):
    pid = os.fork()
    if not pid:
        for _ in range(20):
            assert [y.tobytes() for y in call(x)] == first
        assert threads.started() == 2
        os._exit(7)
    assert [y.tobytes() for y in call(x)] == first
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_threads_of_its_own():
    script = FORKING.format(graph=GRAPHS["elements"])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_without_work_sleep(any_threads):
    any_threads(4)
    call = compiler.compile_graph(parse(GRAPHS["elements"])).call
    for _ in range(2):  # the first call is on one thread
        call(np.ones(100_003))
    assert threads.started() >= 3

    def worked():
        """Seconds that this process works in a fifth of one: it may have other things to do, but not for ever."""
        time.sleep(0.02)
        before = time.process_time()
        time.sleep(0.2)
        return time.process_time() - before

    assert any(worked() < 0.1 for _ in range(20))


@pytest.mark.parametrize("count", [0, -1, 257, 1.5, "two"])
def test_an_impossible_number_of_threads_is_refused(count):
    with pytest.raises(ValueError, match=f"from 1 to 256, got {count!r}"):
        threads.set_threads(count)


@pytest.mark.parametrize("given,said", [("3", "3"), ("", "True"), ("0", "ValueError"), ("many", "ValueError")])
def test_the_environment_gives_the_number_of_threads(given, said):
    script = (
        "import os\nfrom codegen.runtime import threads\n"
        "try:\n    n = threads.threads()\n"
        "except ValueError as error:\n    print('ValueError', error)\n"
        "else:\n    print(n if os.environ['AUTODIFF_THREADS'] else n >= 1)\n"
    )
    environment = os.environ | {"AUTODIFF_THREADS": given, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(said)


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_every_loop_that_may_be_shared_gives_the_same_shared(graph):
    note(print_graph(graph))
    random = np.random.default_rng(0)
    arrays = [np.asarray(random.standard_normal(i.aval.shape) * 2).astype(i.aval.dtype) for i in graph.inputs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(share, "SHARED", 1)
        patch.setattr(share, "CHUNK", 1)
        patch.setattr(share, "CHUNKS", 7)
        executable = Executable(compiler.make_program(graph), KernelTable(8))
    got = executable.call(*arrays)
    for g, e in zip(got, evaluate(graph, *arrays), strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape
        scale = coarsest(graph) * 128 if e.dtype.kind == "f" else 0
        np.testing.assert_allclose(g, e, rtol=scale, atol=scale)
