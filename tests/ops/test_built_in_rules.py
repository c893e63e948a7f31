"""`ad.which_backward` of built-in operations: where the library states their derivatives."""

from pathlib import Path

import numpy as np
import pytest

import autodiff as ad
from autodiff.dispatch import all_functions
from autodiff.tape.lines import rule_code
from codegen.ir import Aval

LIBRARY = [f for f in all_functions() if (f.__module__ or "").startswith("autodiff")]
STATED = [f for f in LIBRARY if f.primitive is not None and rule_code(f.primitive) is not None]


def needed(f):
    """As many tensors as a call of f must have."""
    return [ad.Tensor] * (len(f.declaration.fixed) - len(f.declaration.defaults))


@pytest.mark.parametrize("f", STATED, ids=lambda f: f.__name__)
def test_which_backward_names_the_file_and_line_of_the_derivative(f):
    found, code = ad.which_backward(f, *needed(f)), rule_code(f.primitive)
    assert found.method.place == f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    assert str(found).startswith(f"{f.__name__}(") and "  backward  " in str(found)


def test_most_of_the_library_is_asked():
    assert len(STATED) > 90


def test_values_and_classes_have_one_answer():
    for x in (1.0, np.ones(3), ad.ones(3), ad.Vector, ad.Scalar):
        assert ad.which_backward(ad.exp, x).method.place == ad.which_backward(ad.exp, ad.Tensor).method.place


def test_a_function_made_of_others_has_no_rule_of_its_own():
    assert ad.which_backward(ad.mean, ad.Vector) is None
    assert ad.which_backward(ad.matmul, ad.Diagonal, ad.Vector) is None, "a structured method is a program"
    assert ad.which_backward(ad.argmax, ad.Vector) is None


def test_methods_and_rules_of_the_users_come_first():
    class Scaled(ad.AbstractTensor):
        shape, dtype = (2,), np.dtype(np.float64)
        aval = Aval((2,), np.dtype(np.float64))

    method = ad.sinh.method(Scaled)(lambda x: x)
    rule = ad.tanh.backward(ad.Matrix)(lambda ctx, g: g)
    try:
        assert ad.which_backward(ad.sinh, Scaled) is None
        assert ad.which_backward(ad.tanh, ad.Matrix).method is rule
        assert ad.which_backward(ad.tanh, ad.Vector).method is not rule
    finally:
        method.delete()
        rule.delete()
