"""`ad.config.flush_subnormals`: compiled code takes subnormal numbers for zeros, and nobody else finds it out."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from command_line import autodiff

import autodiff as ad
from codegen import compiler, modes
from codegen.ir import parse
from codegen.native import Translation
from codegen.runtime import engine, threads
from codegen.runtime.launcher import PackedCall
from codegen.runtime.system_calls import control, set_control

pytestmark = pytest.mark.skipif(not modes.processor(), reason="the control register of this processor is not known")

each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])

#: LLVM's text for the processor that the first argument names.
TEXT = """
import sys
from codegen import modes
modes._machine = lambda: sys.argv[1]
from codegen.native import Translation
from codegen.runtime.run_steps import run_program
from codegen.runtime.system_calls import adopt
print(Translation().text([adopt, run_program]))
"""


class Register:
    """The control register of the thread that asks."""

    def __init__(self):
        self._code = engine.compile(Translation().text([control, set_control]))
        self._read = ctypes.CFUNCTYPE(ctypes.c_int64)(self._code.address("control"))
        self._write = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._code.address("set_control"))
        self.flush = {"x86_64": 0x8040, "aarch64": 1 << 24}[modes.processor()]
        #: What says how results are computed, without what is noted of earlier ones.
        self.meant = {"x86_64": 0xFFC0, "aarch64": ~0}[modes.processor()]

    @property
    def value(self):
        return self._read() & self.meant

    @value.setter
    def value(self, new):
        self._write(new)


@pytest.fixture(scope="module")
def register():
    return Register()


@pytest.fixture(autouse=True)
def as_before(register):
    """Whatever a test does, the next one finds things as they were."""
    own, count = register.value, ad.config.threads
    yield
    register.value = own
    ad.config.flush_subnormals, ad.config.threads = False, count


@pytest.fixture
def flushing():
    ad.config.flush_subnormals = True


def around_the_smallest(dtype):
    """Numbers whose halves are subnormal, with what halving gives in the mode; and some that stay."""
    tiny = np.finfo(dtype).tiny
    x = np.array([tiny, tiny * 1.5, tiny * 2, tiny * 3, -tiny, -tiny * 4, 1.0] * 20, dtype)
    half = x / 2
    return x, half, np.where(np.abs(half) < tiny, np.copysign(np.zeros_like(x), x), half)


@each_dtype
def test_results_below_the_smallest_normal_number_are_zero_in_the_mode_and_stay_without(dtype):
    x, exact, flushed = around_the_smallest(dtype)
    f = ad.jit(lambda x: x * dtype(0.5))
    for flag in (False, True, False, True):
        ad.config.flush_subnormals = flag
        for _ in range(3):  # the first, the second, and by machine code alone
            y = f(x)
            np.testing.assert_array_equal(y, flushed if flag else exact)
            np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


@each_dtype
def test_operands_below_it_are_read_as_zeros(dtype, flushing):
    x = np.full(100, np.finfo(dtype).tiny / 2)
    assert (ad.jit(lambda x: x * dtype(1e10))(x) == 0).all()
    assert (ad.jit(lambda x: x > 0)(x) == False).all()  # noqa: E712  elementwise
    ad.config.flush_subnormals = False
    assert (ad.jit(lambda x: x * dtype(1e10))(x) > 0).all()
    assert (ad.jit(lambda x: x > 0)(x)).all()


def test_sums_products_recorded_work_and_gradients_flush(flushing, rng):
    tiny = np.finfo(np.float64).tiny
    a, b = rng.uniform(1, 2, (2, 40, 40))
    w = ad.tensor(a, requires_grad=True)
    for _ in range(4):
        assert (np.asarray(ad.tensor(a * tiny) @ ad.tensor(b / 1e4)) == 0).all()
        assert ad.sum(ad.tensor(a * tiny) * 0.25).item() == 0
        w.grad = None
        ad.sum(w * 1e-200 * 1e-120).backward()
        assert (w.grad.numpy() == 0).all()
    assert (ad.grad(lambda w: ad.sum(w * 1e-200 * 1e-120))(a) == 0).all()
    ad.config.flush_subnormals = False
    assert (ad.grad(lambda w: ad.sum(w * 1e-200 * 1e-120))(a) == 1e-320).all()
    w.grad = None
    ad.sum(w * 1e-200 * 1e-120).backward()
    assert (w.grad.numpy() == 1e-320).all()


@each_dtype
def test_functions_of_normal_numbers_with_normal_values_have_the_same_bits(dtype, rng):
    x = rng.uniform(0.1, 0.9, 4001).astype(dtype)
    for f in (ad.exp, ad.log, ad.sin, ad.tan, ad.tanh, ad.arctanh, ad.log1p, ad.expm1, ad.erf, ad.cbrt, ad.sqrt):
        exact = ad.jit(f)(x)
        ad.config.flush_subnormals = True
        np.testing.assert_array_equal(ad.jit(f)(x), exact)
        ad.config.flush_subnormals = False


@each_dtype
@pytest.mark.parametrize("told", ["by the mode", "by others"])
def test_orders_are_exact_whoever_flushes(told, dtype, register, rng):
    """A sort cuts rows at numbers between their elements, which went on for ever where those were zeros."""
    for n in (5, 100, 3000, 300_000):
        x = (rng.normal(size=n) * np.finfo(dtype).tiny).astype(dtype)
        x[::7] = rng.normal(size=len(x[::7]))
        values, numbers = ad.jit(ad.sort), ad.jit(ad.argsort)
        wanted, own = np.argsort(x, kind="stable"), register.value
        for count in (1, 2):
            ad.config.threads = count
            if told == "by others":
                register.value = own | register.flush
            else:
                ad.config.flush_subnormals = True
            found = values(x), numbers(x)
            register.value, ad.config.flush_subnormals = own, False
            np.testing.assert_array_equal(found[0], x[wanted])
            np.testing.assert_array_equal(found[1], wanted)


def test_numpy_s_part_stays_exact(flushing):
    """References, the rules of a host, and decompositions, whose LAPACK has threads of its own."""
    x = np.array([1e-310, 3.0])
    ad.config.eager = True
    try:
        np.testing.assert_array_equal((ad.tensor(x) * 0.5).numpy(), x * 0.5)
    finally:
        ad.config.eager = False
    seen = []

    @ad.function
    def halved(x): ...

    @halved.forward(ad.Tensor, host=True)
    def _(ctx, x):
        seen.append((x * 0.5).copy())
        return x * 0.5

    for f in (lambda x: halved(x * 0.5) * 1e9, ad.jit(lambda x: halved(x * 0.5) * 1e9)):
        for _ in range(3):
            assert np.asarray(f(x))[0] == 0
    assert seen[-1][0] == 0  # what enters was computed by us
    seen.clear()
    assert np.asarray(ad.jit(lambda x: halved(x) * 2.0)(x)).tolist() == [0.0, 3.0] and seen[0][0] == 5e-311
    a = np.array([[1.0, 1.0], [1.0, 1.0001]]) * 3e-308
    singular = ad.jit(lambda a: ad.linalg.svd(a)[1])
    found = singular(a)
    ad.config.flush_subnormals = False
    np.testing.assert_array_equal(found, singular(a))
    assert 0 < found[1] < 1e-311


# ------------------------------------------------------------ the caller's thread


def outside(x, i):
    return (x * 0.5)[i]


@pytest.mark.parametrize("own", ["plain", "flushes", "reads zeros", "rounds up"])
def test_a_thread_has_its_register_back_after_every_call(register, own, flushing):
    flags = {"plain": 0, "flushes": register.flush, "reads zeros": register.flush & 0x40, "rounds up": 0}[own]
    if own == "rounds up":
        flags = {"x86_64": 0x4000, "aarch64": 1 << 22}[modes.processor()]
    wanted = register.value | flags
    x, loop = np.full(1000, 1e-308), ad.jit(lambda x: ad.scan(lambda c, _: (c * 0.5, None), x, length=10)[0])
    index, factor = ad.jit(outside), ad.jit(lambda a: ad.linalg.cholesky(a))
    index(x, np.array([3])), factor(np.eye(3)), loop(x)
    register.value = wanted
    for _ in range(3):
        assert (loop(x) == 0).all() and register.value == wanted
        with pytest.raises(IndexError):
            index(x, np.array([1000]))
        assert register.value == wanted
        with pytest.raises(ad.LinAlgError):
            factor(-np.eye(3))
        assert register.value == wanted
        (ad.tensor(x, requires_grad=True) * 0.5).sum().backward()
        assert register.value == wanted


def test_calls_by_ctypes_flush_too(register, flushing):
    graph = parse("f(x: f64[9]) { y = mul(x, x)  return y }")
    call, before = PackedCall(compiler.compile_graph(graph).plan), register.value
    assert (call(np.full(9, 1e-160))[0] == 0).all() and register.value == before
    ad.config.flush_subnormals = False
    assert (call(np.full(9, 1e-160))[0] > 0).all()


def test_a_call_within_a_call_flushes_and_leaves_the_outer_one_its_mode(flushing):
    inner = ad.jit(lambda x: x * 0.5)
    seen = []

    @ad.function
    def asks(x): ...

    @asks.forward(ad.Tensor, host=True)
    def _(ctx, x):
        seen.append(inner(np.array([3e-308]))[0])
        seen.append(np.float64(1e-310) * np.float64(0.5))
        return x

    f = ad.jit(lambda x: asks(x * 0.5) * 2.0)
    for _ in range(3):
        assert f(np.array([3e-308]))[0] == 0
    assert set(seen) == {0.0, 5e-311}


# ------------------------------------------------------------ threads


def test_results_have_the_same_bits_for_any_number_of_threads(flushing, rng):
    tiny = np.finfo(np.float32).tiny
    x = (rng.uniform(0, 4, 2_000_000) * tiny).astype(np.float32)
    f = ad.jit(lambda x: x * np.float32(0.5))
    exact = x * np.float32(0.5)
    wanted = np.where((exact < tiny) | (x < tiny), np.float32(0), exact)
    for flag in (True, False, True):
        ad.config.flush_subnormals = flag
        for count in (1, 2, 3):
            ad.config.threads = count
            for _ in range(5):
                np.testing.assert_array_equal(f(x), wanted if flag else exact)
    assert threads.started() >= 2  # somebody else may have worked


def test_the_crew_computes_as_its_caller_does_whatever_that_thread_was_told(register):
    """As by `torch.set_flush_denormal`, which holds for one thread; threads that are begun then have it from there."""
    x, f, own = np.full(2_000_000, 3e-308), ad.jit(lambda x: x * 0.5), register.value
    for count in (2, 3, 2):
        ad.config.threads = count
        for _ in range(5):
            register.value = own | register.flush
            assert (f(x) == 0).all()
            register.value = own
            assert (f(x) == HALVES[1]).all()


def test_threads_of_python_s_flush_each_in_its_own_calls(register, flushing):
    x, f, found = np.full(100_000, 3e-308), ad.jit(lambda x: x * 0.5), []
    f(x)

    def work():
        before = register.value
        for _ in range(50):
            found.append((f(x) == 0).all() and float(np.float64(1e-310) * 0.5) > 0 and register.value == before)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 200 and all(found)


# ------------------------------------------------------------ loops


LOOPS = {
    "scan": lambda x: ad.scan(lambda c, _: (c * 0.5, None), x, length=1030)[0],
    "fori": lambda x: ad.fori_loop(0, 1030, lambda i, c: c * 0.5, x),
    "while": lambda x: ad.while_loop(lambda v: v[1] < 1030, lambda v: (v[0] * 0.5, v[1] + 1), (x, 0))[0],
    "products": lambda x: ad.scan(lambda c, _: (c @ (0.5 * np.eye(16)), None), x, length=1030)[0],
    "branches": lambda x: ad.cond(ad.sum(x) > 0, lambda x: x * 0.5**1000 * 0.5**30, lambda x: x, x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_flush(name, register):
    f, x, before = ad.jit(LOOPS[name]), np.ones((16, 16)), register.value
    for flag in (False, True, False, True):
        ad.config.flush_subnormals = flag
        for _ in range(3):
            assert (f(x) == (0.0 if flag else 0.5**1030)).all() and register.value == before


@each_dtype
def test_the_gradient_of_a_long_scan_vanishes_to_zero_in_the_mode(dtype):
    def loss(w, xs):
        return ad.mean(ad.scan(lambda h, x: (ad.tanh(h @ w + x), None), ad.zeros((4, 8), dtype=dtype), xs)[0] ** 2)

    rng = np.random.default_rng(0)
    w, xs = rng.normal(size=(8, 8)).astype(dtype) / 10, rng.normal(size=(1000, 4, 8)).astype(dtype)
    gradient = ad.jit(ad.grad(loss, argnums=(0, 1)))
    exact = gradient(w, xs)
    tiny = np.finfo(dtype).tiny
    assert ((exact[1] != 0) & (np.abs(exact[1]) < tiny)).any()
    ad.config.flush_subnormals = True
    flushed = gradient(w, xs)
    assert not ((flushed[1] != 0) & (np.abs(flushed[1]) < tiny)).any()
    np.testing.assert_array_equal(flushed[1][-20:], exact[1][-20:])
    np.testing.assert_array_equal(flushed[0], exact[0])


#: As a handler computes them in a thread that flushes nothing.
NUMBERS = np.array([1e-310, 3e-308])
HALVES = (NUMBERS * 0.5).tolist()


def handled(f, *arguments):
    """The findings of a signal's handler during calls: True for each time that its own numbers were exact."""
    seen, halve = [], ad.jit(lambda x: x * 0.5)
    halve(NUMBERS)

    def handler(*_):
        seen.append(((NUMBERS * 0.5).tolist(), halve(NUMBERS).tolist()))

    before = signal.signal(signal.SIGINT, handler)
    timer = threading.Timer(0.02, signal.raise_signal, (signal.SIGINT,))
    results = [f(*arguments)]
    try:
        timer.start()
        while not seen:
            results.append(f(*arguments))
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    return seen, results


@pytest.mark.parametrize("width", [1, 16], ids=["kernels only", "with products"])
def test_handlers_of_signals_compute_exactly_and_the_loop_goes_on_flushing(width, flushing, register):
    x, n = np.full((width, width), 1e-320), {1: 3_000_000, 16: 150_000}[width]
    if width == 1:
        f = ad.jit(lambda x: ad.fori_loop(0, n, lambda i, c: c + x * (i + 1.0), x))
    else:
        f = ad.jit(lambda x: ad.fori_loop(0, n, lambda i, c: c @ np.eye(16) + x * (i + 1.0), x))
    before = register.value
    seen, results = handled(f, x)
    assert seen == [(HALVES, [0.0, 0.0])]
    assert all((r == 0).all() for r in results) and register.value == before
    ad.config.flush_subnormals = False
    assert (f(x) > 0).all()


# ------------------------------------------------------------ processes

SAYS = """
import os, numpy as np, autodiff as ad
x = np.full({n}, 3e-308)
f = ad.jit(lambda x: x * 0.5)
def said():
    return [bool((f(x) == 0).all()) for _ in range(4)], float(np.float64(1e-310) * 0.5) > 0
print(ad.config.flush_subnormals, *said())
"""
FORKS = """
pid = os.fork()
if not pid:
    os._exit(7 if said() == ([True] * 4, True) else 8)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def printed(program, environment, **more):
    run = [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", program]  # of its forks
    return subprocess.run(run, env={**environment, **more}, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "more",
    [{}, {"AUTODIFF_LAUNCHER": "0"}, {"AUTODIFF_CACHE": "0"}],
    ids=["launcher", "ctypes", "nothing kept"],
)
def test_a_process_that_is_told_so_flushes_from_its_first_call_on(more, sharing):
    program = SAYS.format(n=100)
    assert printed(program, sharing, AUTODIFF_FLUSH_SUBNORMALS="1", **more) == "True [True, True, True, True] True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_child_flushes_as_its_parent_with_threads_of_its_own(sharing):
    program = SAYS.format(n=2_000_000) + FORKS
    found = printed(program, sharing, AUTODIFF_FLUSH_SUBNORMALS="1", AUTODIFF_THREADS="2")
    assert found == "True [True, True, True, True] True\n7\n"


def test_the_mode_takes_true_or_false_and_is_shown():
    with pytest.raises(ValueError, match=r"config\.flush_subnormals is True or False, not 'no'"):
        ad.config.flush_subnormals = "no"
    assert "flush_subnormals=False" in repr(ad.config)
    facts = json.loads(autodiff("doctor", "--json").stdout)
    assert facts["subnormal numbers"] == "exact"
    ad.config.flush_subnormals = True
    assert "flush_subnormals=True" in repr(ad.config)
    facts = json.loads(autodiff("doctor", "--json").stdout)
    assert facts["subnormal numbers"] == "flushed to zero by compiled code" and facts["ok"]


def test_a_processor_that_is_not_known_is_named(monkeypatch):
    monkeypatch.setattr(modes, "_machine", lambda: "riscv64")
    with pytest.raises(ValueError, match=r"of x86-64 and 64-bit ARM, not of riscv64\n.*AUTODIFF_FLUSH_SUBNORMALS=0"):
        ad.config.flush_subnormals = True
    assert not ad.config.flush_subnormals
    ad.config.flush_subnormals = False  # what it is already


@pytest.mark.parametrize("processor", ["x86_64", "aarch64", ""])
def test_the_text_for_every_processor_is_llvm_s(processor):
    run = [sys.executable, "-c", TEXT, processor or "riscv64"]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    found = engine.optimized_text(text)
    names = {"x86_64": "llvm.x86.sse.ldmxcsr", "aarch64": "llvm.aarch64.set.fpcr"}
    assert [name for name in names if names[name] in found] == [processor] * bool(processor)
