"""Whole programs as C functions: called by ctypes, from several threads, and with the bits of `jit`."""

import ctypes
import doctest
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(0)
CALL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)


def pointers(arrays):
    return (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])


def workspace(entry):
    memory = np.empty(entry.workspace_bytes + 64, np.uint8)
    return memory, memory.ctypes.data + -memory.ctypes.data % 64


def call(entry, *arguments):
    arrays = [np.ascontiguousarray(a) for a in arguments]
    results = [np.empty(aval.shape, aval.dtype) for aval in entry.results]
    memory, start = workspace(entry)
    code = CALL(entry.function)(entry.program, pointers(arrays), pointers(results), start)
    del memory
    entry.check(code)
    return [results[place] for place in entry.places]


def scanned(x):
    return ad.scan(lambda c, a: (c * 0.5 + a, ad.sin(c)), x[0], x)


def products(x):
    return ad.fori_loop(0, 5, lambda i, c: ad.tanh(c @ c), x)


CONSTANT = RNG.normal(size=(40, 40))
PROGRAMS = {
    "one number": (lambda x: ad.sum(x * x), (30,)),
    "a gradient": (ad.grad(lambda x: ad.sum(ad.exp(ad.sin(x)) * x)), (1000,)),
    "value and gradient": (ad.value_and_grad(lambda x: ad.sum(ad.softmax(x) * x)), (1000,)),
    "a number twice": (lambda x: (ad.sum(x), x + 1.0, ad.sum(x)), (30,)),
    "products": (lambda x: ad.tanh(x @ CONSTANT) @ x.T, (40, 40)),
    "a large loop": (lambda x: (ad.sin(x), ad.sum(ad.cos(x))), (300_000,)),
    "a scan": (scanned, (50, 7)),
    "a loop of products": (products, (20, 20)),
    "sorting": (lambda x: ad.sort(x), (1000,)),
    "solve": (lambda x: ad.linalg.solve(x @ x.T + 40 * ad.eye(40), x), (40, 40)),
    "eigenvalues": (lambda x: ad.linalg.eigvalsh(x @ x.T), (4, 4)),
    "a transform by NumPy": (lambda x: ad.abs(ad.fft.rfft(x)), (17,)),
    "integers and truth": (lambda x: (ad.argmax(x), x > 0.0, 7), (30,)),
    "nested": (lambda x: {"a": [x, (2.0 * x,)]}, (3, 4)),
    "no elements": (lambda x: (x * 2.0, ad.sum(x)), (0, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_c_entry_gives_the_bits_of_jit(name):
    f, shape = PROGRAMS[name]
    x = RNG.normal(size=shape)
    entry = ad.interop.entry(f, x)
    assert [(a.shape, a.dtype) for a in entry.arguments] == [(x.shape, x.dtype)]
    wanted = ad.tree.leaves(ad.jit(f)(x))
    for _ in range(2):
        for a, b in zip(call(entry, x), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == np.asarray(b).dtype


def test_several_threads_call_one_entry_at_once():
    f, shape = PROGRAMS["a large loop"]
    entry = ad.interop.entry(f, np.zeros(shape))
    xs = [RNG.normal(size=shape) for _ in range(4)]
    found = [None] * 4

    def work(i):
        for _ in range(5):
            found[i] = call(entry, xs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, (y, _) in zip(xs, found, strict=True):
        np.testing.assert_array_equal(y, ad.jit(ad.sin)(x))


def test_arguments_are_any_nesting_and_what_is_read_from_outside_is_copied():
    outside = np.array([1.0, 2.0])
    entry = ad.interop.entry(lambda p, k: p["w"] * p["b"] * k + outside, {"w": np.ones(2), "b": 1.0}, np.float32(2))
    assert [str(a) for a in entry.arguments] == ["f64[2]", "f64[]", "f32[]"]
    outside += 100.0
    (y,) = call(entry, np.array([3.0, 4.0]), np.array(2.0), np.array(1.0, np.float32))
    np.testing.assert_array_equal(y, [7.0, 10.0])


def test_numbers_of_the_program_have_the_width_of_the_arrays():
    x = np.ones(3, np.float32)
    (y,) = call(ad.interop.entry(lambda x: x * 2 + 0.5, x), x)
    np.testing.assert_array_equal(y, np.full(3, 2.5, np.float32))
    i = np.arange(3, dtype=np.int32)
    np.testing.assert_array_equal(call(ad.interop.entry(lambda i: i * 3 + 1, i), i)[0], [1, 4, 7])


def test_return_codes_say_what_went_wrong():
    entry = ad.interop.entry(lambda a: ad.linalg.inv(a), np.eye(3))
    call(entry, np.eye(3))
    with pytest.raises(ArithmeticError, match="singular"):
        call(entry, np.zeros((3, 3)))
    with pytest.raises(ArithmeticError, match="a Fourier transform has nan or inf"):
        call(ad.interop.entry(lambda x: ad.abs(ad.fft.rfft(x)), np.ones(16)), np.full(16, np.nan))
    with pytest.raises(RuntimeError, match="status 3"):  # NumPy's eigenvalues do not converge
        call(ad.interop.entry(lambda a: ad.linalg.eigvalsh(a), np.eye(4)), np.full((4, 4), np.nan))
    picked = ad.interop.entry(lambda x, i: x[i], np.ones(3), 0)
    assert call(picked, np.array([1.0, 2.0, 3.0]), np.array(2))[0] == 3.0
    with pytest.raises(IndexError, match="out of range"):
        call(picked, np.ones(3), np.array(3))


def test_programs_that_need_python_are_refused_by_name():
    @ad.function
    def mine(x): ...

    @mine.forward(ad.Tensor, host=True, out=lambda x: x)
    def _(ctx, x):
        return x + 1.0

    says = r"(?s)needs Python for a host function\n.*test_entry\.py.*machine code only"
    with pytest.raises(ad.DispatchError, match=says):
        ad.interop.entry(lambda x: 2.0 * mine(x), np.ones(3))
    for f in (
        lambda x: mine(ad.linalg.svdvals(x)),
        lambda x: ad.scan(lambda c, _: (mine(c), None), x, length=3)[0],
    ):
        with pytest.raises(ad.DispatchError, match=r"needs Python for a host function\n"):
            ad.interop.entry(f, np.ones((3, 3)))
    with pytest.raises(ad.DispatchError, match="takes a function, got 3"):
        ad.interop.entry(3)


# ---------------------------------------------------------------- other languages

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "call-from-c.md").read_text(encoding="utf-8")


def test_numba_calls_it_as_the_page_says():
    pytest.importorskip("numba")
    session = "\n".join(re.findall(r"```(?:python|numba)\n(.*?)```", PAGE, re.DOTALL))
    found = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(session, {}, "page", None, None))
    assert found.attempted > 15 and not found.failed


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_c_calls_it_as_the_page_says(tmp_path):
    text = "#include <stdint.h>\n" + re.findall(r"```c\n(typedef.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / "run.c").write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", "run.so", "run.c"], check=True, cwd=tmp_path)
    w, x, y = np.zeros(2), RNG.normal(size=(50, 2)), np.ones(50)
    f = ad.value_and_grad(lambda w, x, y: ad.mean((x @ w - y) ** 2))
    entry = ad.interop.entry(f, w, x, y)
    value, gradient = np.empty(()), np.empty(2)
    memory, start = workspace(entry)
    run = ctypes.CDLL(str(tmp_path / "run.so")).run
    arrays = [a.ctypes.data for a in (w, x, y, value, gradient)]
    code = run(*[ctypes.c_void_p(a) for a in (entry.function, entry.program, *arrays, start)])
    assert code == 0 and memory.size
    wanted = ad.jit(f)(w, x, y)
    assert value == wanted[0]
    np.testing.assert_array_equal(gradient, wanted[1])
