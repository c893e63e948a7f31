"""The native launcher and the ctypes path: one behaviour, two ways."""

import gc
import pickle
import resource
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from codegen.ir import DTYPES, Aval, parse_aval
from codegen.runtime import engine, launcher
from codegen.runtime.launcher import LaunchPlan, NativeStep, PackedCall

COPIES = """
; copies extents[0] bytes from the first pointer to the second
define i32 @copy(ptr %pointers, ptr %extents) {
  %from = load ptr, ptr %pointers
  %to.at = getelementptr ptr, ptr %pointers, i64 1
  %to = load ptr, ptr %to.at
  %bytes = load i64, ptr %extents
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret i32 0
}
; returns extents[0]
define i32 @status(ptr %pointers, ptr %extents) {
  %wide = load i64, ptr %extents
  %status = trunc i64 %wide to i32
  ret i32 %status
}
; the low bits of the first pointer, as one i64 in the second
define i32 @place(ptr %pointers, ptr %extents) {
  %from = load ptr, ptr %pointers
  %to.at = getelementptr ptr, ptr %pointers, i64 1
  %to = load ptr, ptr %to.at
  %number = ptrtoint ptr %from to i64
  %low = and i64 %number, 63
  store i64 %low, ptr %to
  ret i32 0
}
; sleeps for extents[0] microseconds
define i32 @sleep(ptr %pointers, ptr %extents) {
  %wide = load i64, ptr %extents
  %time = trunc i64 %wide to i32
  %slept = call i32 @usleep(i32 %time)
  ret i32 0
}
declare i32 @usleep(i32)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""


@pytest.fixture(scope="module")
def code():
    return engine.compile(COPIES)


@pytest.fixture(params=["native", "ctypes"])
def make(request):
    """make(plan) -> callable, by each way of calling."""
    if request.param == "native" and not launcher.is_native():
        pytest.skip("no native launcher here")
    return launcher.launcher if request.param == "native" else PackedCall


def identity_plan(code, *avals, is_long=False, through_workspace=False):
    """Gives back copies of its arguments, by way of the workspace or directly."""
    n, steps, offsets, place = len(avals), [], [], 0
    for i, aval in enumerate(avals):
        route = (i, n + i)
        if through_workspace:
            steps.append(NativeStep(code.address("copy"), (i, 2 * n + i), (aval.nbytes,)))
            route = (2 * n + i, n + i)
            offsets.append(place)
            place += -(-aval.nbytes // 64) * 64
        steps.append(NativeStep(code.address("copy"), route, (aval.nbytes,)))
    return LaunchPlan("identity", avals, avals, tuple(offsets), place, tuple(steps), is_long, (code,))


def same(got, expected):
    expected = np.asarray(expected)
    assert type(got) is np.ndarray
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert got.flags.c_contiguous and got.flags.writeable
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", [n for n in DTYPES if n[0] != "c"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0,), (3, 0, 2), (1,) * 12])
@pytest.mark.parametrize("through_workspace", [False, True])
def test_what_goes_in_comes_out(make, code, rng, name, shape, through_workspace):
    x = rng.integers(-3, 3, shape).astype(DTYPES[name])
    y = (rng.standard_normal(shape) * 5).astype(DTYPES[name])
    f = make(identity_plan(code, Aval(shape, x.dtype), Aval(shape, y.dtype), through_workspace=through_workspace))
    for got, expected in zip(f(np.asarray(x), np.asarray(y)), (x, y), strict=True):
        same(got, expected)
        assert not np.shares_memory(got, expected)


def test_specials_pass_through_unchanged(make, code):
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308])
    same(make(identity_plan(code, Aval((7,), "f8")))(x)[0], x)


def test_a_large_workspace_is_used_as_a_small_one(make, code, rng):
    x, y = rng.standard_normal((2, 5000))
    f = make(identity_plan(code, Aval((5000,), "f8"), Aval((5000,), "f8"), through_workspace=True, is_long=True))
    for got, expected in zip(f(x, y), (x, y), strict=True):
        same(got, expected)


@pytest.mark.parametrize("bytes_", [8, 100_000])
def test_temporaries_start_at_cache_lines(make, code, bytes_):
    steps = tuple(NativeStep(code.address("place"), (2 + t, t)) for t in range(2))
    aval = Aval((), "i8")
    for _ in range(10):
        f = make(LaunchPlan("f", (), (aval, aval), (0, 64), 64 + bytes_, steps, False, (code,)))
        assert [int(p) for p in f()] == [0, 0]


def test_a_plan_without_anything_gives_an_empty_tuple(make):
    assert make(LaunchPlan("nothing", (), (), (), 0, (), False))() == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
        lambda x: np.vstack([x[:1], x])[1:],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(x.shape),
        lambda x: x.astype(">f8"),
        lambda x: x.view(type("Sub", (np.ndarray,), {})),
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: np.lib.stride_tricks.as_strided(x, x.shape, x.strides, writeable=False),
    ],
    ids=["fortran", "strided", "negative", "offset", "misaligned", "swapped", "subclass", "unpickled", "readonly"],
)
def test_every_layout_is_right(make, code, rng, change):
    x = rng.standard_normal((3, 4))
    changed = change(x)
    np.testing.assert_array_equal(changed, x)
    same(make(identity_plan(code, Aval((3, 4), "f8")))(changed)[0], x)


def test_another_name_of_the_same_dtype_is_accepted(make, code):
    x = np.arange(5, dtype=np.longlong)
    same(make(identity_plan(code, Aval((5,), np.int64)))(x)[0], x.astype(np.int64))
    same(make(identity_plan(code, Aval((5,), np.dtype("longlong"))))(x.astype(np.int64))[0], x.astype(np.int64))


def test_one_array_may_be_two_arguments(make, code, rng):
    x = rng.standard_normal(4)
    for got in make(identity_plan(code, Aval((4,), "f8"), Aval((4,), "f8")))(x, x):
        same(got, x)


NUMBERS = {
    "f64": [1.5, -0.0, float("nan"), float("inf"), 5e-324, 7, -(2**40), 2**60 + 1, 10**25, True, np.float64(2.5)],
    "f32": [1.5, 0.1, 1e300, 7, 2**24 + 1, 2**60 + 2**36 + 1, False, np.float32(2.5)],
    "i64": [0, -1, 2**63 - 1, -(2**63), True, np.int64(5)],
    "i32": [0, -1, 2**31 - 1, -(2**31), False, np.int32(5)],
    "bool": [True, False, np.True_, np.False_],
}


@pytest.mark.parametrize("name,value", [(n, v) for n, values in NUMBERS.items() for v in values])
def test_a_number_is_converted_as_numpy_does(make, code, name, value):
    with np.errstate(over="ignore"):
        expected = np.asarray(value, DTYPES[name])
    same(make(identity_plan(code, Aval((), DTYPES[name])))(value)[0], expected)


REFUSED = [
    ("f64[]", np.float32(1), TypeError, r"argument 0 should be f64\[\], got f32\[\]"),
    ("f64[]", np.int64(1), TypeError, r"argument 0 should be f64\[\], got i64\[\]"),
    ("f64[]", "1.0", TypeError, "not a str"),
    ("f64[]", None, TypeError, "not a NoneType"),
    ("f64[]", 1j, TypeError, "got the complex 1j"),
    ("f64[]", 10**400, OverflowError, "does not fit"),
    ("i64[]", 1.0, TypeError, "got the float 1.0"),
    ("i64[]", 2**63, OverflowError, "does not fit"),
    ("i32[]", 2**31, OverflowError, "does not fit"),
    ("i32[]", -(2**31) - 1, OverflowError, "does not fit"),
    ("bool[]", 1, TypeError, "got the int 1"),
    ("f64[3]", 1.0, ValueError, r"should be an array f64\[3\], got the number 1.0"),
    ("f64[3]", [1.0, 2.0, 3.0], TypeError, "not a list"),
    ("f64[3]", np.zeros(4), ValueError, r"argument 0 should be f64\[3\], got f64\[4\]"),
    ("f64[3]", np.zeros((3, 1)), ValueError, r"got f64\[3,1\]"),
    ("f64[1]", np.zeros(()), ValueError, r"got f64\[\]"),
    ("f64[]", np.zeros(1), ValueError, r"got f64\[1\]"),
    ("f64[3]", np.zeros(3, np.float32), TypeError, r"got f32\[3\]\n  convert it with .astype\('float64'\)"),
    ("i64[3]", np.zeros(3), TypeError, r"got f64\[3\]"),
    ("i64[3]", np.zeros(3, "m8[s]"), TypeError, "timedelta"),
    ("f64[3]", np.array([None] * 3), TypeError, "object"),
]


@pytest.mark.parametrize("aval,value,error,message", REFUSED)
def test_what_does_not_fit_is_refused_by_name(make, code, aval, value, error, message):
    f = make(identity_plan(code, parse_aval(aval)))
    with pytest.raises(error, match=f"identity: .*{message}"):
        f(value)


def test_the_number_of_arguments_is_checked(make, code):
    f = make(identity_plan(code, Aval((), "f8")))
    for arguments in ((), (1.0, 2.0)):
        with pytest.raises(TypeError, match=rf"expected 1 arguments \(f64\[\]\), got {len(arguments)}"):
            f(*arguments)
    with pytest.raises(TypeError):
        f(x=1.0)


@pytest.mark.parametrize("is_long", [False, True])
def test_a_failing_step_raises_and_the_next_call_is_right(make, code, is_long):
    aval = Aval((1000,), "f8")
    x = np.ones(1000)
    for status, error in ((1, IndexError), (7, RuntimeError)):
        steps = (NativeStep(code.address("copy"), (0, 1), (8000,)), NativeStep(code.address("status"), (), (status,)))
        f = make(LaunchPlan("f", (aval,), (aval,), (0,), 100_000, steps, is_long, (code,)))
        for _ in range(3):
            with pytest.raises(error):
                f(x)
    assert make(identity_plan(code, aval))(x)[0][0] == 1.0


@pytest.mark.smoke
def test_results_are_independent_of_each_other_and_of_later_calls(make, code):
    f = make(identity_plan(code, Aval((4,), "f8")))
    x = np.arange(4.0)
    first = f(x)[0]
    second = f(first)[0]
    first[:] = -1
    same(second, x)
    same(f(x)[0], x)


def test_too_many_dimensions_are_numpy_s_error_and_leak_nothing(make, code):
    aval = Aval((1,) * 70, "f8")
    f = make(LaunchPlan("f", (), (Aval((), "f8"), aval), (), 0, (), False, (code,)))
    with pytest.raises(ValueError, match="64"):
        f()


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_stays_flat_over_many_calls(make, code):
    avals = (Aval((8,), "f8"), Aval((), "f8"), Aval((200,), "f8"))
    f = make(identity_plan(code, *avals, through_workspace=True))
    x, y = np.ones(8), np.ones(400)[::2]
    bad = np.ones(7)
    count = 100_000 if make is launcher.launcher else 20_000
    z = np.ones(200)

    def spend(calls):
        for _ in range(calls):
            f(x, 1.5, z)
        for _ in range(calls // 50):
            f(x, 1.5, y)
            with pytest.raises(ValueError):
                f(bad, 1.5, y)

    spend(count // 10)
    gc.collect()  # what earlier tests left would go meanwhile, and with it references to the dtype
    references = sys.getrefcount(x), sys.getrefcount(np.dtype("f8")), sys.getrefcount(z)
    before = resident_bytes()
    spend(count)
    assert resident_bytes() - before < 2_000_000
    after = sys.getrefcount(x), sys.getrefcount(np.dtype("f8")), sys.getrefcount(z)
    assert np.abs(np.subtract(after, references)).max() < 20


@pytest.mark.parametrize("is_long", [False, True])
def test_threads_call_one_launcher_at_once(make, code, is_long):
    f = make(identity_plan(code, Aval((300,), "f8"), through_workspace=True, is_long=is_long))
    wrong = []

    def work(number):
        x = np.full(300, float(number))
        for _ in range(500):
            if (f(x)[0] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def sleeping_plan(code, aval, *, is_long):
    """Gives back a copy of its argument after a fifth of a second."""
    steps = (NativeStep(code.address("sleep"), (), (200_000,)), *identity_plan(code, aval).steps)
    return LaunchPlan("slow", (aval,), (aval,), (), 0, steps, is_long, (code,))


@pytest.mark.parametrize("is_long", [False, True])
def test_other_threads_run_during_a_long_call_and_only_then(make, code, is_long):
    f = make(sleeping_plan(code, Aval((), "f8"), is_long=is_long))
    turns, done = [], threading.Event()

    def turns_during_a_call():
        before = len(turns)
        f(1.0)
        return len(turns) - before

    def count():
        while not done.wait(0.001):
            turns.append(None)

    other = threading.Thread(target=count)
    other.start()
    try:
        time.sleep(0.02)
        # On a busy machine either thread may be late; not each time.
        assert any((turns_during_a_call() > 5) == is_long for _ in range(10))
    finally:
        done.set()
        other.join()


def test_a_launcher_that_is_dropped_while_it_runs_goes_on_to_its_end(make):
    own = engine.compile(COPIES)
    box = [make(sleeping_plan(own, Aval((300,), "f8"), is_long=True))]
    watched, results = weakref.ref(own), []
    del own
    thread = threading.Thread(target=lambda: results.append(box.pop()(np.arange(300.0))))
    started = time.monotonic()
    thread.start()
    while box:
        time.sleep(0.001)
    while thread.is_alive():
        is_there = watched() is not None
        assert is_there or time.monotonic() - started > 0.2  # how long the call sleeps
        time.sleep(0.01)
    thread.join()
    same(results[0][0], np.arange(300.0))
    assert watched() is None


def test_dropping_a_launcher_frees_everything_without_the_collector(make):
    gc.collect()
    gc.disable()
    try:
        own = engine.compile(COPIES)
        f = make(identity_plan(own, Aval((4,), "f8")))
        f(np.ones(8)[::2])
        watched = weakref.ref(own)
        del own
        assert watched() is not None
        del f
        assert watched() is None
    finally:
        gc.enable()


def leaving_to(slow, plan):
    """The native launcher of a plan, with a function that gets what does not fit."""
    return launcher.builtin_of("f", launcher.PlanBlock(plan, launcher.StepTable(plan.steps), slow))


def test_a_miss_calls_the_given_function_with_the_same_arguments(code):
    if not launcher.is_native():
        pytest.skip("no native launcher here")
    seen = []

    def slow(*arguments):
        seen.append(arguments)

    f = leaving_to(slow, identity_plan(code, Aval((4,), "f8")))
    x, y = np.ones(4), np.ones(5)
    same(f(x)[0], x)
    assert f(y) is None and f(x, y) is None and f() is None
    assert [len(a) for a in seen] == [1, 2, 0] and seen[0][0] is y


def test_an_exception_of_the_slow_path_arrives_unchanged(code):
    if not launcher.is_native():
        pytest.skip("no native launcher here")

    class Refusal(Exception):
        pass

    def slow(*arguments):
        raise Refusal

    f = leaving_to(slow, identity_plan(code, Aval((4,), "f8")))
    with pytest.raises(Refusal):
        f(1)
