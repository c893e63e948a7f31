"""`help` of every public name says what a user has to know: what it is for, shapes, parameters; examples are run."""

import doctest
import inspect
import re
import types

import numpy as np

import autodiff as ad
from autodiff.custom.context import BackwardContext, ForwardContext
from autodiff.custom.function import Function

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
#: Values without documentation of their own: numbers, an instance, and NumPy's dtypes.
PLAIN = {"tree.LEAF"} | {
    name
    for name, x in NAMES.items()
    if x is None or isinstance(x, float) or (isinstance(x, type) and issubclass(x, np.generic))
}
OURS = {name: x for name, x in NAMES.items() if name not in PLAIN}
#: What rules are written with.
OF_RULES = {
    name: getattr(cls, name)
    for cls, names in {
        Function: "method forward backward jvp invoke",
        ForwardContext: "needs_input_grad save_for_backward mark_dirty mark_non_differentiable set_materialize_grads",
        BackwardContext: "inputs",
    }.items()
    for name in names.split()
}
OF_TENSORS = {
    f"Tensor.{name}": getattr(ad.Tensor, name)
    for name in dir(ad.Tensor)
    if not name.startswith("_") and name not in ad.Tensor.__slots__
}


def told_of(value) -> str:
    return inspect.getdoc(value) or ""


def test_each_name_has_a_sentence_of_its_own():
    without = [n for n, x in OURS.items() if not told_of(x) or (told_of(x) == told_of(type(x)) and x is not ad.config)]
    assert not without and not [n for n, x in OF_TENSORS.items() if not told_of(x)]


def test_the_first_line_names_a_thing_or_says_what_to_do():
    clause = re.compile(r"(What|Whether|Where|Which|How|Who|When|That|Why|If|So|Inside)\b")
    assert not [n for n, x in (OURS | OF_RULES | OF_TENSORS).items() if clause.match(told_of(x))]


def test_each_name_has_an_example_and_what_it_says_is_what_happens(capsys, monkeypatch):
    """Also of operations, which are no functions, so that pytest does not find what their documentation says."""
    monkeypatch.setattr(ad.config, "patience", 8)  # as users have it: what is met once need not be compiled
    by_text = {told_of(x): (n, x) for n, x in (OURS | OF_RULES | OF_TENSORS).items()}  # other names of one thing: once
    assert not [n for text, (n, _) in by_text.items() if ">>>" not in text]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    parser = doctest.DocTestParser()
    wrong = []
    for text, (name, _) in by_text.items():
        around = vars(ad.tree) if name.startswith("tree.") else {}  # there they are written as inside the module
        found = runner.run(parser.get_doctest(text, dict(around), name, None, None))
        if found.failed:
            wrong.append(name)
    assert not wrong, capsys.readouterr().out


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
