"""Rooms behind the command line: its reading of arguments, the places of derivatives, the demo."""

import re

import pytest
import typer

from autodiff.cli.targets import parse_argnums, parse_arguments
from codegen.ir import parse_aval


def test_arguments_are_avals_and_literals():
    f64 = parse_aval
    assert parse_arguments("f64[2,3], (1, f32[]), [True], 'a', None, -2.5") == (
        f64("f64[2,3]"), (1, f64("f32[]")), [True], "a", None, -2.5,
    )
    assert parse_arguments("") == ()
    (made,) = parse_arguments("pair(f64[2])", {"pair": lambda x: (x, x)})
    assert made[0].shape == (2,)
    with pytest.raises(typer.BadParameter, match=r"'np\.ones\(3\)' is no literal\n"):
        parse_arguments("np.ones(3)")


def test_argnums_count_from_either_end():
    assert parse_argnums("0, -1", 3) == (0, -1)
    with pytest.raises(typer.BadParameter):
        parse_argnums("3", 3)


def test_the_derivative_of_every_built_in_has_a_file_and_a_line():
    from autodiff.cli.rules import _derivative, _of_library

    rows = [(name, row) for name, function in _of_library().items() for row in _derivative(function)]
    assert len(rows) > 200 and "special.gammaln" in dict(rows)
    assert [pair for pair in rows if not re.search(r"mode  autodiff/[\w/]+\.py:\d+$", pair[1])] == []


def test_the_demo_reports_what_it_saw():
    from autodiff.cli.running import run_demo

    report = run_demo(quiet=True)
    assert report["accuracy"] > 0.95
    assert report["compiles"] <= 6 < report["hits"]
    assert set(report["step_s"]) == {"recorded", "jit", "numpy"}
