"""Long straight code in pieces: it computes the same bits as one function, and no function of it is long."""

import ctypes
import re
import threading

import llvmlite.binding as llvm
import numpy as np
import pytest

import autodiff as ad
from codegen.emit import pieces
from codegen.runtime import engine
from codegen.runtime.llvm import Library

RNG = np.random.default_rng(0)


def chain(x):
    for _ in range(40):
        x = ad.sin(x * 1.1) + 0.1 * ad.exp(-x * x)
    return x.sum()


def lorenz(p):
    x, y, z = 1.0, 1.0, 1.0
    for _ in range(60):
        dx, dy, dz = p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z
        x, y, z = x + 0.01 * dx, y + 0.01 * dy, z + 0.01 * dz
    return x + y + z


def choices(x):
    for _ in range(40):
        x = ad.where(x > 0.5, ad.sin(x), x * x) + 0.1 * (x > 0.2)
        x = ad.maximum(x, 0.1) + ad.floor(x * 3) * 0.01
    return (x * x).sum()


def rows(x):
    for _ in range(12):
        x = ad.tanh(x - x.mean(axis=1, keepdims=True)) + 0.5 * ad.sin(x)
    return (x * x).sum()


def scanned(x):
    def step(carry, _):
        for _ in range(30):
            carry = ad.sin(carry) + 0.1 * carry
        return carry, carry.sum()

    carry, sums = ad.scan(step, x, None, length=7)
    return sums.sum() + carry.sum()


def integers(x):
    for k in range(60):
        x = (x * 3 + k) % 11 + (x >> 1) ^ (x & 1023)
    return x


def bits(x):
    found = x > 0.5
    for k in range(60):
        found = (found & (x > k / 50)) | (x < 0.3) ^ (x > 0.9)
    return found


CASES = {
    **{f"chain of {n}": (ad.value_and_grad(chain), RNG.uniform(0.1, 1, n)) for n in (1, 3, 64, 1000, 1001)},
    "chain f32": (ad.value_and_grad(chain), RNG.uniform(0.1, 1, 777).astype(np.float32)),
    "lorenz": (ad.value_and_grad(lorenz), np.array([10.0, 28.0, 8 / 3])),
    **{f"choices of {n}": (ad.value_and_grad(choices), RNG.uniform(0.1, 1, n)) for n in (5, 1003)},
    **{f"rows {s}": (ad.value_and_grad(rows), RNG.uniform(0.1, 1, s)) for s in ((5, 7), (100, 3), (3, 1000))},
    "scanned": (ad.value_and_grad(scanned), RNG.uniform(0.1, 1, 33)),
    "integers": (integers, RNG.integers(0, 1000, 333)),
    "bits": (bits, RNG.uniform(0, 1, 333)),
}


@pytest.fixture
def small(monkeypatch):
    """Pieces of 20 lines where straight code has more than 60; the number of pieces is counted."""
    made = []
    cut = pieces._Cutter.cut

    def counted(self):
        found = cut(self)
        made.extend(found[1])
        return found

    monkeypatch.setattr(pieces._Cutter, "cut", counted)

    def switched(is_small):
        monkeypatch.setattr(pieces, "LONGEST", 60 if is_small else 10**9)
        monkeypatch.setattr(pieces, "PIECE", 20)
        ad.clear_cache()
        return made

    yield switched
    ad.clear_cache()


def results(f, x):
    return [np.asarray(a) for a in ad.tree.leaves(ad.jit(f)(x))]


@pytest.mark.parametrize("case", CASES)
def test_pieces_compute_the_same_bits_as_one_function(case, small):
    f, x = CASES[case]
    small(False)
    expected = results(f, x)
    made = small(True)
    found = results(f, x)
    assert made, "nothing was long enough"
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]


def picked(x):
    first, order = x, np.random.default_rng(1).integers(0, 50, 50)
    for k in range(40):
        x = ad.sin(x) + 0.1 * k * first[order] + 0.5 * first[::-1]
    return (x * x).sum()


def turned(x):
    z = x + 0.2j
    for _ in range(30):
        z = ad.exp(1j * z) * 0.5 + z * z * 0.1
    return ad.real(z).sum()


@pytest.mark.parametrize("f", [picked, turned])
def test_pieces_compute_the_same_where_a_product_stands_twice(f, small):
    """LLVM keeps one of two equal products of a function, which it then does not join with both of their additions."""
    x = RNG.uniform(0.1, 1, 50)
    small(False)
    expected = results(ad.value_and_grad(f), x)
    made = small(True)
    found = results(ad.value_and_grad(f), x)
    assert made
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_type_of_each_result_is_what_llvm_says(small, monkeypatch):
    """The types that pieces are given by the text of instructions are compared with those of the parsed module."""
    texts = []
    parsed = Library.parsed

    def kept(self, text, machine):
        texts.append(text)
        return parsed(self, text, machine)

    monkeypatch.setattr(Library, "parsed", kept)
    small(True)
    with np.errstate(all="ignore"):
        for f, x in CASES.values():
            results(f, x)
    seen = set()
    for text in filter(re.compile(r"^define internal i32 @\w+\.body\(", re.MULTILINE).search, texts):  # of kernels
        module = llvm.parse_assembly(text, llvm.create_context())
        for function in module.functions:
            for block in function.blocks:
                for instruction in block.instructions:
                    line = str(instruction).strip()
                    _, is_value, right = line.partition(" = ")
                    if is_value and not right.startswith(("call {", "insertvalue")) and " asm " not in right:
                        right = re.sub(r"\b(tail|notail|samesign|nneg|disjoint|exact|fast) ", "", right)
                        seen.add(right.split(" ", 1)[0])
                        assert pieces.result_type(right) == str(instruction.type), line
    assert len(seen) > 15, seen


def test_a_value_of_a_struct_is_read_in_the_piece_that_makes_it():
    lines = ["entry:"]
    for k in range(40):
        lines.append(f"  %s.{k} = call {{ double, double }} @sincos(double %x)")
        lines += [f"  %a.{k} = extractvalue {{ double, double }} %s.{k}, 0"]
        lines += [f"  %b.{k} = extractvalue {{ double, double }} %s.{k}, 1"]
    lines.append("  ret i32 0")
    for size in range(3, 40):
        before = pieces.PIECE
        try:
            pieces.PIECE = size
            for piece in pieces._cut(range(1, len(lines) - 1), lines):
                assert not piece or "extractvalue" not in lines[piece.start]
        finally:
            pieces.PIECE = before


def test_places_of_the_frame_are_used_again():
    """A long chain has few values that live long, so its frame is small; short code has none."""
    assert pieces.in_pieces("f", lines := ["entry:", "  ret i32 0"], {}) == (lines, [])
    lines = ["entry:", "  %t.0 = fadd double %x, %x"]
    lines += [f"  %t.{k} = fadd double %t.{k - 1}, %x" for k in range(1, 5000)]
    lines += ["  store double %t.4999, ptr %out, align 8", "  ret i32 0"]
    whole, made = pieces.in_pieces("f", lines, {"%x": "double", "%out": "ptr noalias"})
    (heap,) = re.findall("call ptr @PyMem_RawRealloc.*", "\n".join(whole))
    assert len(made) > 10 and int(re.search(r"i64 (\d+)", heap)[1]) <= 16 + 63


def test_a_long_chain_of_products_is_not_computed_again_in_each_piece():
    lines = ["entry:", "  %t.0 = fmul contract double %x, %x"]
    lines += [f"  %t.{k} = fmul contract double %t.{k - 1}, %x" for k in range(1, 5000)]
    lines += ["  %sum = fadd contract double %t.4999, %x", "  store double %sum, ptr %out, align 8", "  ret i32 0"]
    _, made = pieces.in_pieces("f", lines, {"%x": "double", "%out": "ptr noalias"})
    assert sum([len(piece.lines) for piece in made]) < 2 * len(lines)


def test_a_long_program_runs_in_a_thread_with_a_small_stack(small):
    """Values that pieces leave for each other are not on the stack."""
    small(True)
    f, x = ad.jit(ad.value_and_grad(lambda x: chain(chain(x) + chain(x) + x))), np.linspace(0.1, 1.0, 1000)
    expected, found = f(x), []
    before = threading.stack_size(64 << 10)
    try:
        thread = threading.Thread(target=lambda: found.extend(f(x)))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_value_of_one_long_block_is_read_in_another_one_and_behind_both(monkeypatch):
    """The product is computed again behind both blocks, from values that the first one left."""
    monkeypatch.setattr(pieces, "LONGEST", 60)
    monkeypatch.setattr(pieces, "PIECE", 20)
    lines = ["entry:", "  %a.0 = fadd double %x, %x"]
    lines += [f"  %a.{k} = fadd double %a.{k - 1}, %x" for k in range(1, 80)]
    lines += ["  br label %second", "second:", "  %b.0 = fmul double %a.9, %x"]
    lines += [f"  %b.{k} = fmul double %b.{k - 1}, %x" for k in range(1, 80)]
    lines += ["  %product = fmul contract double %a.5, %b.30", *[f"  %c.{k} = fsub double %x, %a.5" for k in range(5)]]
    lines += ["  br label %third", "third:", "  %sum = fadd contract double %product, %a.5"]
    lines += ["  store double %sum, ptr %out, align 8", "  ret i32 0"]
    parameters = {"%x": "double", "%out": "ptr noalias"}
    texts = []
    for whole, made in (pieces.in_pieces("f", lines, parameters), (lines, [])):
        heads = [("define i32 @f(double %x, ptr noalias %out)", whole), *made]
        functions = ["\n".join([f"{head} {{", *body, "}"]) for head, body in heads]
        texts.append("\n".join([*functions, *(pieces.ALLOCATION.values() if made else ())]))
    found = []
    for text in texts:
        code = engine.compile(text)
        out = ctypes.c_double()
        f = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double, ctypes.c_void_p)(code.address("f"))
        assert f(1.01, ctypes.addressof(out)) == 0
        found.append(out.value)
    assert found[0] == found[1]


def test_no_function_of_a_long_program_is_long():
    """LLVM's time is that of its functions, so the text of a chain of a thousand steps has only short ones."""

    def f(x):
        for _ in range(1000):
            x = ad.sin(x * 1.1) + 0.1 * ad.exp(-x * x)
        return x.sum()

    text = ad.inspect(ad.jit(ad.value_and_grad(f)), np.linspace(0.1, 1.0, 1009)).llvm
    blocks = re.split(r"^(?:define .*|[\w.]+:)$", text, flags=re.MULTILINE)
    assert text.count("\n") > 20_000 and max(block.count("\n") for block in blocks) < 1000
