"""Type checkers and editors know the library: the stubs are those of the declarations, and say what is so."""

import ast
import doctest
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Optional, Union

import numpy as np
import pytest
from test_pages import blocks

import autodiff as ad

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "typing"
SPACES = {"": ad, "linalg": ad.linalg, "fft": ad.fft, "special": ad.special, "random": ad.random}
_spec = importlib.util.spec_from_file_location("accepted_programs", PROGRAMS / "accepted.py")
accepted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(accepted)


def stub(space):
    """The statements at the top of a stub by name (several of an overloaded function)."""
    file = ROOT / "autodiff" / f"{space or '__init__'}.pyi"
    found = {}
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets]
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                names = [alias.asname for alias in aliases if alias.asname]
            case _:
                names = []
        for name in names:
            found.setdefault(name, []).append(statement)
    return {name: statements for name, statements in found.items() if not re.fullmatch(r"_[a-zA-Z]\w*|np", name)}


# ---------------------------------------------------------------- the stubs are those of the declarations


def test_the_stubs_are_what_the_script_makes_of_the_declarations():
    command = [sys.executable, "tools/stubs.py", "--check"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, f"run python tools/stubs.py: {made.stdout}{made.stderr}"


@pytest.mark.parametrize("space", SPACES)
def test_a_stub_has_every_public_name_and_no_other(space):
    assert set(stub(space)) - {"__version__"} == set(SPACES[space].__all__)


def parameters_of(function):
    """Names of the parameters of a definition in a stub, without self."""
    a = function.args
    given = [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]
    return [p.arg for p in given if p is not None and p.arg != "self"]


def test_what_is_written_by_hand_has_the_parameters_of_the_function():
    """`grad` is two functions in one; the others take each name that they take, and no other."""
    differing = {}
    for name, statements in stub("").items():
        runs = [s for s in statements if isinstance(s, ast.FunctionDef)]
        if runs and name != "grad":
            told = {p for s in runs for p in parameters_of(s)}
            real = set(inspect.signature(getattr(ad, name)).parameters)
            differing |= {name: (told, real)} if told != real else {}
    assert not differing


def test_a_function_written_by_hand_takes_them_by_place_or_name_as_the_function_does():
    """Those with several signatures say it of the first: it is the one that editors show."""
    differing = []
    for name, (told, *_) in stub("").items():
        if isinstance(told, ast.FunctionDef) and name != "grad":
            real = inspect.signature(getattr(ad, name)).parameters.values()
            by_place = [p.name for p in real if p.kind is p.POSITIONAL_OR_KEYWORD]
            by_name = [p.name for p in real if p.kind is p.KEYWORD_ONLY]
            given = [p.arg for p in (*told.args.posonlyargs, *told.args.args)], [p.arg for p in told.args.kwonlyargs]
            moved = set(given[1]) & set(by_place)  # has_aux, which an overload asks for by name
            given = given[0] + [n for n in given[1] if n in moved], [n for n in given[1] if n not in moved]
            differing += [(name, given)] if given != (by_place, by_name) else []
    assert not differing


@pytest.mark.parametrize("name", ["Tensor", "ForwardContext", "BackwardContext"])
def test_a_method_written_by_hand_has_the_parameters_of_the_method(name):
    (told,) = stub("")[name]
    differing = {}
    for method in told.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("__") and not method.decorator_list:
            real = list(inspect.signature(getattr(getattr(ad, name), method.name)).parameters)[1:]
            is_attached = real == ["args", "keywords"]  # an operation as a method: made from its declaration
            differing |= {} if is_attached or parameters_of(method) == real else {method.name: real}
    assert not differing


@pytest.mark.parametrize("name", ["AbstractTensor", "Tensor", "ForwardContext", "BackwardContext"])
def test_a_class_of_the_stub_has_the_public_attributes_that_there_are(name):
    (told,) = stub("")[name]
    names = {getattr(s, "name", None) or s.target.id for s in told.body if not isinstance(s, ast.Expr)}
    names = {n for n in names if not n.startswith("_")}
    cls = getattr(ad, name)
    real = {n for n in dir(cls) if not n.startswith("_") and n not in getattr(cls, "__slots__", ())}
    refused = {n for n in real if (inspect.getdoc(getattr(cls, n)) or "").startswith("Not here")}
    assert names - real == (LATE if name == "AbstractTensor" else set()) - real
    assert real - names - refused == set()


#: The attributes that tensors of one's own have once there is one.
LATE = {"aval", "detach", "dtype", "grad", "ndim", "numpy", "requires_grad", "requires_grad_", "shape", "size"}


@pytest.mark.parametrize("space", [*SPACES.values(), ad.tree], ids=lambda module: module.__name__)
def test_dir_lists_the_public_names_and_no_other(space):
    assert dir(space) == sorted(space.__all__)
    assert not [name for name in dir(space) if name.startswith("_") or not hasattr(space, name)]


@pytest.mark.parametrize("name", ["Number", "Scalar", "Vector", "Matrix", "Tensor", "AbstractTensor"])
def test_a_type_for_annotations_has_a_documentation_of_its_own(name):
    told = inspect.getdoc(getattr(ad, name))
    others = {inspect.getdoc(getattr(ad, n)) for n in ad.__all__ if n != name}
    assert told and told not in others and told != inspect.getdoc(int | float)


TYPES = {name: getattr(ad, name) for name in ("AbstractTensor", "Tensor", "Scalar", "Vector", "Matrix", "Number")}


@pytest.mark.parametrize("written", ["ad.{}", "ad.{} | None", "Optional[ad.{}]", "'ad.{}'", "Union[str, ad.{}, None]"])
@pytest.mark.parametrize("name", TYPES)
def test_a_bare_decorator_reads_a_type_from_its_annotation_as_it_is_given_by_hand(name, written):
    names = {"ad": ad, "Optional": Optional, "Union": Union}
    exec(f"def f(ctx, x: {written.format(name)}): ...", names)  # its body is never run
    bare, given = ad.function(lambda_of_x()), ad.function(lambda_of_x())
    spec = eval(written.format(name).strip("'"), names)
    assert str(bare.forward(names["f"]).signature) == str(given.forward(spec)(lambda ctx, x: x).signature)


def lambda_of_x():
    def f(x): ...

    return f


# ---------------------------------------------------------------- type checkers


@pytest.mark.parametrize("program", accepted.PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_that_type_checkers_accept_runs(program, capsys):
    program()


#: Rules for the two marked files alone: pages and examples leave annotations out, use packages without types, give a
#: name another value, and show values.
NOT_ASKED = (
    "MissingParameterType MissingTypeStubs Redeclaration UnknownArgumentType UnknownLambdaType UnknownMemberType "
    "UnknownParameterType UnknownVariableType UnusedExpression"
)
PYRIGHT = {
    "extraPaths": [str(ROOT)],
    "typeCheckingMode": "strict",
    "strict": ["accepted.py", "names.py", "refused.py"],
    **{f"report{rule}": False for rule in NOT_ASKED.split()},
}
MYPY = """
[mypy]
follow_imports = silent
ignore_missing_imports = true
check_untyped_defs = true
allow_redefinition = true
disable_error_code = no-redef
[mypy-accepted,refused]
disallow_any_generics = true
disallow_incomplete_defs = true
disallow_subclassing_any = true
disallow_untyped_calls = true
disallow_untyped_decorators = true
disallow_untyped_defs = true
extra_checks = true
strict_equality = true
warn_return_any = true
"""
COMMANDS = {
    "mypy": ["mypy", "--config-file=mypy.ini"],
    "pyright": ["pyright", "--project=.", f"--pythonpath={sys.executable}"],
}


def as_program(text):
    """The Python of a block: of a session what is typed, without what raises."""
    if not text.startswith(">>> "):
        return text
    typed = doctest.DocTestParser().get_examples(text)
    return "".join(example.source if example.exc_msg is None else "pass\n" for example in typed)


def programs():
    """The files to check, by name: the marked ones, every public name, the examples, README.md and the tutorial."""
    files = {file.name: file.read_text(encoding="utf-8") for file in PROGRAMS.glob("*.py")}
    every = [f"{space}.{n}" if space else n for space, module in SPACES.items() for n in module.__all__]
    files["names.py"] = "\n".join(["import autodiff as ad", *[f"print(ad.{name})" for name in every]])
    missing = {f"in_{peer}.py" for peer in ("torch", "jax") if importlib.util.find_spec(peer) is None}
    examples = [f for f in (ROOT / "examples").glob("[!_]*.py") if f.name not in missing]
    files |= {f"example_{f.name}": f.read_text(encoding="utf-8") for f in examples}
    files |= {f.name: f.read_text(encoding="utf-8") for f in (ROOT / "examples").glob("_*.py")}  # what they import
    for page in [ROOT / "README.md", ROOT / "docs" / "index.md", *(ROOT / "docs" / "tutorial").glob("*.md")]:
        text = "\n".join(as_program(block) for _, block in blocks(page, "python"))
        files["page_" + re.sub(r"\W+", "_", page.stem) + ".py"] = text
    return files


@pytest.mark.parametrize("checker", COMMANDS)
def test_a_type_checker_accepts_what_is_right_and_refuses_what_is_not(checker, tmp_path):
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    if sys.version_info < (3, 12) and np.lib.NumpyVersion(np.__version__) < "2.2.0":
        pytest.skip("for the stubs of this NumPy on this Python nothing but an array is like an array")
    files = programs()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(MYPY, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")
    command = [sys.executable, "-m", *COMMANDS[checker], *files]
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    refused = {(n, int(line)) for n, line in re.findall(r"(\w+\.py):(\d+):.*\berror\b", found.stdout)}
    marked = files["refused.py"].splitlines()
    expected = {("refused.py", i) for i, line in enumerate(marked, 1) if line.endswith("# refused")}
    wrong = [f"{name}:{i}: {files[name].splitlines()[i - 1]}" for name, i in sorted(refused ^ expected)]
    assert not wrong and found.returncode == 1, "\n".join([*wrong, found.stdout, found.stderr])
