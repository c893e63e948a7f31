"""An operation that has no method for a user's type says which method to add, and that pastes and runs."""

import re

import numpy as np
import pytest

import autodiff as ad


@pytest.fixture
def Length():
    class Length(ad.AbstractTensor):
        """A number of metres."""

        shape, dtype = (), ad.float64

        def __init__(self, metres):
            self.metres = metres

    return Length


CALLS = {
    "Length * number": lambda x: x * 3.0,
    "number * Length": lambda x: 3 * x,
    "Length + Length": lambda x: x + x,
    "Length / array": lambda x: x / np.ones(2),
    "Length > number": lambda x: x > 1,
    "sin": ad.sin,
    "sum": ad.sum,
    "sum along an axis": lambda x: ad.sum(x, 0),
    "method": lambda x: x.mean(),
    "det": ad.linalg.det,
    "erf": ad.special.erf,
    "np.exp": np.exp,
    "maximum": lambda x: ad.maximum(x, ad.tensor([1.0])),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_suggested_method_is_the_one_that_the_call_runs(name, Length):
    x = Length(2.0)
    with pytest.raises(ad.DispatchError) as caught:
        CALLS[name](x)
    message = str(caught.value)
    assert "test_own_types_messages.py" in message and message.count("@ad.dense.method(Length)") == 1
    suggested = re.search(r"for this operation:  @(.*)$", message, re.MULTILINE).group(1)
    known = {"ad": ad, "np": np, "Length": Length}

    def own(*args, **keywords):
        return "own"

    own.__signature__ = eval(suggested.partition(".method(")[0], known).declaration.signature
    method = eval(suggested, known)(own)
    try:
        assert CALLS[name](x) == "own"
    finally:
        method.delete()  # else a later test would trace once more


def test_a_list_of_an_own_type_is_told_of_dense_alone(Length):
    with pytest.raises(
        ad.DispatchError, match=r"dense: no method for Length(.|\n)*add one:  @ad.dense.method\(Length\)"
    ):
        ad.stack([Length(1.0), Length(2.0)])
