"""Templates of machine code: names are filled in, with braces or without."""

import pytest

from codegen.runtime.template import TextTemplate


def test_names_are_filled_in_with_braces_or_without():
    text = TextTemplate("call $V @llvm.umin.v${LANES}i64($V %a) ; $ ${ $1 $LANES")
    assert text.substitute(V="<8 x i64>", LANES=8) == "call <8 x i64> @llvm.umin.v8i64(<8 x i64> %a) ; $ ${ $1 8"
    assert text.safe_substitute({"V": "x"}) == "call x @llvm.umin.v${LANES}i64(x %a) ; $ ${ $1 $LANES"


def test_a_name_that_nothing_is_given_for_is_an_error():
    with pytest.raises(KeyError, match="LANES"):
        TextTemplate("v${LANES}i64").substitute(V=1)
