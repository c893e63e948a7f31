"""Modes of the compiler: code of one is not found in another, and BLAS has one thread where bits must not differ."""

import subprocess
import sys

import numpy as np
import pytest

import autodiff as ad
from codegen import blas, compiler
from codegen.ir import parse
from codegen.runtime import kept

pytestmark = pytest.mark.usefixtures("modes_as_before")

X = np.linspace(0.5, 9.5, 1000)


def test_code_of_one_mode_is_not_found_in_the_other_in_memory_or_on_disk(fast):
    graph = parse("f(x: f64[7], s: f64[]) { b = broadcast_to(s, shape=(7,))  y = div(x, b)  return y }")
    loose, key = compiler.compile_graph(graph), kept.key_of(graph)
    ad.config.fast_math = False
    assert not compiler.is_known(graph)
    exact = compiler.compile_graph(graph)
    assert exact is not loose and kept.key_of(graph) != key
    x, s = X[:7], np.array(3.7)
    assert (exact.call(x, s)[0] == x / 3.7).all() and (loose.call(x, s)[0] == x * (1 / 3.7)).all()


needs_blas = pytest.mark.skipif(not blas.is_settable(), reason="NumPy's BLAS is not one whose threads can be set")


@needs_blas
def test_nested_blocks_have_one_thread_and_leave_the_number_as_it_was():
    before = blas.threads_of_blas()
    ad.config.deterministic = True
    with blas.one_thread():
        with blas.one_thread():
            assert set(blas.threads_of_blas()) == {1}
        assert set(blas.threads_of_blas()) == {1}
    assert blas.threads_of_blas() == before
    ad.config.deterministic = False
    with blas.one_thread():
        assert blas.threads_of_blas() == before


@needs_blas
def test_an_error_inside_leaves_the_number_as_it_was():
    before = blas.threads_of_blas()
    ad.config.deterministic = True
    with pytest.raises(ad.LinAlgError):
        ad.jit(lambda a: ad.linalg.eigh(a)[0])(np.full((3, 3), np.nan))
    assert blas.threads_of_blas() == before


DECOMPOSE = """
import hashlib, numpy as np, autodiff as ad
from codegen import blas
for b in blas._loaded_libraries():
    b.set({threads})
rng = np.random.default_rng(0)
a = rng.normal(size=(1100, 300))
values = ad.jit(lambda a: ad.linalg.svd(a, full_matrices=False)[1])(a)
product = (ad.tensor(a.T) @ ad.tensor(a)).numpy()
print(hashlib.sha256(values.tobytes() + product.tobytes()).hexdigest(), ad.config.deterministic, ad.config.patience)
"""


@needs_blas
def test_decompositions_have_the_same_bits_for_any_number_of_threads(sharing):
    environment = {**sharing, "AUTODIFF_DETERMINISTIC": "1", "AUTODIFF_PATIENCE": "8"}
    found = {
        subprocess.run(
            [sys.executable, "-c", DECOMPOSE.format(threads=n)],
            env={**environment, "AUTODIFF_THREADS": str(n)}, check=True, capture_output=True, text=True,
        ).stdout
        for n in (1, 2, 3)
    }  # fmt: skip
    assert len(found) == 1
    assert found.pop().split()[1:] == ["True", "0"]  # nothing is evaluated by NumPy first


def test_a_blas_that_is_not_known_is_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(blas, "is_settable", lambda: False)
    with pytest.raises(ValueError, match="OPENBLAS_NUM_THREADS=1"):
        ad.config.deterministic = True
    assert not ad.config.deterministic
