"""Products of unknown extents: formulas say what `product_step` says of each size by itself."""

import ctypes
import itertools
import random

import pytest

from codegen import sized_products
from codegen.program import Gemm
from codegen.runtime import products
from codegen.runtime.plan_words import STEP_WORDS
from codegen.sized_products import SizedProduct
from codegen.symbols import formula, symbol

SHARE, SLOTS = 4, (5, 7, 9)
SIZES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 130, 255, 256, 257, 300, 700, 2000]


class Step:
    """A step of a program in memory, and the product that does it."""

    def __init__(self, gemm):
        numbers = gemm.m, gemm.n, gemm.k
        names = [str(n).rpartition(" ")[2] for n in map(formula, numbers) if not n.isdigit()]
        self.product = SizedProduct(gemm, names)
        self.table = (ctypes.c_int64 * (2 * STEP_WORDS))(*[-1] * STEP_WORDS)
        self.slots, self.extents = (ctypes.c_int64 * 3)(), (ctypes.c_int64 * products.WORDS)()
        self.put = self.product.placed(self.table, STEP_WORDS, self.slots, self.extents, SLOTS)

    def write(self, *values):
        """True if formulas wrote it."""
        asked = []
        step = self.product._step
        self.product._step = lambda values: asked.append(values) or step(values)
        try:
            self.put(*values)
        finally:
            self.product._step = step
        return not asked

    def says(self, gemm):
        """True if the step is the one that this product needs."""
        right = products.product_step(gemm)
        first = self.table[STEP_WORDS : 2 * STEP_WORDS]
        share = right.share
        shared = [len(right.extents) + 2, share.blocks, share.chunk, share.total] if share else [0] * 4
        a, b, c = SLOTS
        return (
            first[0] == right.address
            and self.slots[:] == ([b, a, c] if right.is_swapped else [a, b, c])
            and self.extents[: len(right.extents)] == [*right.extents]
            and first[SHARE + 1 :] == shared
            and bool(first[SHARE]) is bool(share)
            and self.table[:STEP_WORDS] == [-1] * STEP_WORDS
        )


def gemm_of(dtype, unknown, sizes, transposes, batch):
    """A product, and one that has formulas for what is unknown of m, n, k: symbols are 2 at least, extents may be 0."""
    known = [symbol(name, 103) - 2 if name in unknown else size for name, size in zip("mnk", sizes, strict=True)]
    return [
        Gemm(dtype, m, n, k, *transposes, batch, (m * k, k * n, m * n) if batch > 1 else (0, 0, 0))
        for m, n, k in (sizes, known)
    ]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("unknown", ["m", "n", "k", "mk", "nk", "mn", "mnk"])
@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True)])
def test_formulas_say_what_is_said_of_each_size(dtype, unknown, transposes):
    rng = random.Random(f"{dtype} {unknown} {transposes}")
    for batch in (1, 3):
        known = dict(zip("mnk", rng.choices(SIZES[1:], k=3), strict=True))
        _, general = gemm_of(dtype, unknown, known.values(), transposes, batch)
        step = Step(general)
        for _ in range(150):
            sizes = {name: rng.choice(SIZES) if name in unknown else n for name, n in known.items()}
            right, _ = gemm_of(dtype, unknown, sizes.values(), transposes, batch)
            step.write(*[sizes[name] + 2 for name in unknown])
            assert step.says(right), sizes
        assert len(step.product._cuts) <= sized_products._MOST_CUTS


def test_a_size_that_was_never_met_is_written_by_formulas(monkeypatch):
    step = Step(Gemm("f64", symbol("m", 101), 16, symbol("k", 103)))
    step.write(5, 7)
    monkeypatch.setattr(sized_products, "product_step", None)  # nothing is asked any more
    for m, k in itertools.product(range(5, 60, 7), range(2, 50, 9)):
        assert step.write(m, k)
        assert step.says(Gemm("f64", m, 16, k))


def test_columns_that_fill_vectors_in_another_way_are_another_cut():
    step = Step(Gemm("f64", 20, symbol("n", 103) - 2, 30))
    for n in (64, 65, 79, 64, 65, 79):
        step.write(n + 2)
        assert step.says(Gemm("f64", 20, n, 30))
    count = len(step.product._cuts)
    for n in (80, 81, 95, 96, 97):
        step.write(n + 2)
        assert step.says(Gemm("f64", 20, n, 30))
    assert count == len(step.product._cuts) > 1


def test_a_size_that_equals_a_number_in_the_choice_of_a_step_is_asked_for_once():
    """Each turn of lengths from 3 to 20 asked for two, four and eight again, which took ten times a step."""
    step = Step(Gemm("f64", 16, symbol("n", 101), 16))
    asked = [n for _ in range(3) for n in (2, 3, 4, 5, 8, 9) if not step.write(n)]
    assert len(asked) == len(set(asked)) and step.product._cuts
    for n in (2, 3, 4, 5, 8, 9, 4):
        assert step.write(n) and step.says(Gemm("f64", 16, n, 16))


def test_a_product_of_known_extents_is_written_once():
    step = Step(Gemm("f64", 20, 30, 40))
    assert not step.write() and step.write() and step.write()
    assert step.says(Gemm("f64", 20, 30, 40))


def test_what_no_formula_says_is_asked_for_each_size(monkeypatch):
    monkeypatch.setattr(sized_products, "_MOST_CUTS", 0)
    step = Step(Gemm("f64", symbol("m", 101), 16, 8))
    for m in (3, 4, 5, 6, 3, 4, 9):
        assert not step.write(m)
        assert step.says(Gemm("f64", m, 16, 8))
    assert not step.product._cuts
