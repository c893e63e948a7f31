"""`help` of every public name says what a user has to know: what it is for, shapes, parameters; examples are run."""

import inspect
import re
import types

import numpy as np

import autodiff as ad

SPACES = {"": ad, "linalg.": ad.linalg, "fft.": ad.fft, "special.": ad.special, "random.": ad.random, "tree.": ad.tree}
NAMES = {
    prefix + name: getattr(space, name)
    for prefix, space in SPACES.items()
    for name in getattr(space, "__all__", dir(space))
    if not isinstance(getattr(space, name), types.ModuleType)
}
FUNCTIONS = {name: f for name, f in NAMES.items() if callable(f) and not isinstance(f, type)}
#: Parameters that mean the same everywhere.
USUAL = {"axis", "keepdims", "dtype", "shape"}


def told_of(value) -> str:
    return inspect.getdoc(value) or ""


def test_each_name_has_a_sentence_of_its_own():
    plain = {"Number", "tree.LEAF"} | {name for name, x in NAMES.items() if x is None or isinstance(x, float)}
    ours = {n: x for n, x in NAMES.items() if n not in plain and not (type(x) is type and issubclass(x, np.generic))}
    without = [n for n, x in ours.items() if not told_of(x) or (told_of(x) == told_of(type(x)) and x is not ad.config)]
    public = [n for n in dir(ad.Tensor) if not n.startswith("_") and n not in ad.Tensor.__slots__]
    assert not without and not [n for n in public if not told_of(getattr(ad.Tensor, n))]


def test_functions_of_arrays_say_shapes_and_dtypes():
    ops = [n for n, f in FUNCTIONS.items() if re.match(r"autodiff($|\.ops)", f.__module__)]
    structured = {"dense", "project"}
    assert len(ops) > 280 and {n for n in ops if "→" not in told_of(FUNCTIONS[n])} == structured


def test_parameters_that_may_be_left_out_are_explained_here_or_in_what_is_referred_to():
    def is_told(parameter, name, seen):
        told = told_of(NAMES.get(name))
        others = {prefix + other for other in re.findall(r"`(\w+)`", told) for prefix in SPACES} - seen
        found = re.search(rf"\b{parameter}\b", told)
        return found or any(is_told(parameter, other, seen | others) for other in others)

    silent = [
        f"{name}({p.name}=)"
        for name, f in FUNCTIONS.items()
        for p in inspect.signature(f).parameters.values()
        if p.default is not p.empty and p.name not in USUAL and not is_told(p.name, name, {name})
    ]
    assert not silent
