"""`autodiff demo`: runs examples/digits.py, from a checkout or from where it was installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from .errors import Error

__all__ = ["example_file", "run"]


def example_file(name: str) -> Path:
    """The file of an example: beside the package in a checkout, inside of it when installed.

    Raises Error when it is in neither place.

    >>> example_file("digits.py").name
    'digits.py'
    """
    package = Path(__file__).resolve().parent
    places = [package.parent / "examples", package / "examples"]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise Error(f"the example {name} is not there: looked in {' and '.join(map(str, places))}")


def run(quiet: bool = False) -> dict[str, Any]:
    """Train the classifier of examples/digits.py; its report.

    quiet   print nothing

    Raises Error when scikit-learn, which ships the data, is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise Error(
            "the demo reads scikit-learn's handwritten digits, and scikit-learn is not installed\n"
            "  pip install scikit-learn, or all that the examples need: pip install 'autodiff-native[examples]'"
        )
    spec = importlib.util.spec_from_file_location("digits", example_file("digits.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main(quiet=quiet)
