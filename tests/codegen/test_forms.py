"""Functions of one form have one text, and functions of one text one form (`codegen.kernel.nest`)."""

import numpy as np
import pytest

import autodiff as ad
from codegen.emit import emit_function, nameless
from codegen.kernel.nest import form_of
from codegen.runtime import kernels as kernel_table


def softmax_twice(x):
    for _ in range(4):
        x = ad.exp(x - ad.max(x, axis=0, keepdims=True))
        x = x / ad.sum(x, axis=0, keepdims=True)
    return x


PROGRAMS = {
    "elementwise": (lambda x: ad.sum(ad.sin(x) * -0.0 + x * 0.0), (np.ones(7),)),
    "column softmax again and again": (lambda x: ad.sum(softmax_twice(x) ** 2), (np.ones((100, 40)),)),
    "sums of slices": (lambda x: ad.sum((x[1:] - x[:-1]) ** 2) + ad.sum((x[2:] - x[:-2]) ** 2), (np.ones((50, 3)),)),
    "a product and a norm": (lambda x: ad.sum(ad.tanh(x @ x.T)) + ad.sqrt(ad.sum(x * x)), (np.ones((60, 60)),)),
    "of other dtypes": (lambda x: ad.sum(ad.where(x > 0, x, -x)), (np.ones((40, 33), np.float32),)),
    "gathers": (lambda x: ad.sum(x[np.array([0, 2, 2, 5])] * x[np.array([1, 1, 3, 0])]), (np.ones((6, 50)),)),
    "a scan": (lambda x: ad.scan(lambda c, a: (ad.tanh(c + a), c * a), x[0], x)[0].sum(), (np.ones((9, 40)),)),
}  # fmt: skip


def functions_of(program, arguments, monkeypatch):
    """All functions that are compiled for value and gradient."""
    ad.clear_cache()
    found, load = [], kernel_table.KernelTable.load

    def loading(table, functions):
        functions = list(functions)
        found.extend(f for f in functions if hasattr(f, "body"))
        return load(table, functions)

    monkeypatch.setattr(kernel_table.KernelTable, "load", loading)
    ad.jit(ad.value_and_grad(program))(*arguments)
    monkeypatch.undo()
    return found


def text_of(function):
    return emit_function(nameless(function)).text


@pytest.mark.parametrize("name", PROGRAMS)
def test_forms_tell_apart_what_texts_do(name, monkeypatch):
    functions = functions_of(*PROGRAMS[name], monkeypatch)
    forms, texts = [form_of(f) for f in functions], [text_of(f) for f in functions]
    for form, text in zip(forms, texts, strict=True):
        assert {t for f, t in zip(forms, texts, strict=True) if f == form} == {text}


def test_functions_of_one_text_have_one_form_all_over_all_programs(monkeypatch):
    seen = {}
    for program, arguments in PROGRAMS.values():
        for function in functions_of(program, arguments, monkeypatch):
            assert seen.setdefault(form_of(function), text_of(function)) == text_of(function)
    assert len(set(seen.values())) > 10


def test_steps_that_are_alike_are_compiled_once(monkeypatch):
    functions = functions_of(*PROGRAMS["column softmax again and again"], monkeypatch)
    assert len({form_of(f) for f in functions}) <= 0.6 * len(functions)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_piece_has_no_argument_that_it_does_not_need(name, monkeypatch):
    for function in functions_of(*PROGRAMS[name], monkeypatch):
        used = set()
        blocks = [function.body]
        while blocks:
            for operation in blocks.pop().operations:
                used.update(operation.operands)
                blocks += operation.regions
        is_range = function.names[-2:] == ("begin", "end")
        assert used.issuperset(function.arguments[:-2] if is_range else function.arguments)
