"""The reference in docs/ has an entry for every public name, and no other."""

import contextlib
import re
from collections import Counter
from pathlib import Path

import numpy as np
from test_documentation import SPACES

import autodiff as ad
from autodiff import errors, interop

DOCS = Path(__file__).parent.parent / "docs"
#: `{names} ad.linalg`, with the names in the block; or an entry by hand, `{py:data} ad.pi`.
LISTED = re.compile(r"^```\{names\} (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Modules that need other libraries for their examples, which stand on a page.
OTHERS = {"interop.": interop, "interop.torch.": interop.torch, "interop.jax.": interop.jax}
BY_HAND = re.compile(r"^:*`*\{py:\w+\} ([\w.]+)", re.MULTILINE)


def test_every_public_name_stands_in_the_reference_once():
    spaces = SPACES | OTHERS
    public = {f"ad.{space}{name}" for space, module in spaces.items() for name in module.__all__}
    modules = {f"ad.{space}".rstrip(".") for space in spaces} - {"ad"} | {"ad.ops", "ad.interop"}
    entries = Counter()
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        entries.update(f"{space}.{name}" for space, names in LISTED.findall(text) for name in names.split())
        entries.update(BY_HAND.findall(text))
    assert {name for name, times in entries.items() if times > 1} == set()
    assert public - modules - set(entries) == set()
    assert set(entries) - public == set()


def test_the_page_of_limits_names_every_function_of_numpy_that_is_not_there():
    told = set(re.findall(r"`([\w.]+)`", (DOCS / "limits.md").read_text(encoding="utf-8")))
    spaces = {"": (np, ad), "linalg.": (np.linalg, ad.linalg), "fft.": (np.fft, ad.fft)}
    missing = {
        prefix + name
        for prefix, (theirs, ours) in spaces.items()
        for name in theirs.__all__
        if not name.startswith("_")
        and callable(f := getattr(theirs, name)) and not isinstance(f, type) and name not in ours.__all__
    }
    assert missing - told - {"test"} == set()


def test_the_page_of_limits_names_every_elementwise_function_that_takes_no_complex_numbers_where_numpy_does():
    told = set(re.findall(r"`([\w.]+)`", (DOCS / "limits.md").read_text(encoding="utf-8")))
    z = np.array([0.3 + 0.2j, 0.5 - 0.1j])
    real_only = set()
    for name in ad.__all__:
        theirs = getattr(np, name, None)
        if not ((isinstance(theirs, np.ufunc) and theirs.signature is None) or name in ("clip", "sinc")):
            continue
        arguments = (z,) * (3 if name == "clip" else getattr(theirs, "nin", 1))
        with contextlib.suppress(TypeError):  # NumPy refuses them too
            theirs(*arguments)
            try:
                getattr(ad, name)(*arguments)
            except ad.DTypeError:
                real_only.add(name)
    assert len(real_only) > 20 and real_only - told == set()


def test_every_kind_of_error_stands_on_the_page_of_error_messages():
    told = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert [name for name in errors.__all__ if isinstance(getattr(errors, name), type)
            and issubclass(getattr(errors, name), Exception) and f"## ad.{name}" not in told] == []  # fmt: skip
