"""Type checkers and editors know the library: the stubs are those of the declarations, and say what is so."""

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import autodiff as ad

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "typing"
SPACES = {"": ad, "linalg": ad.linalg, "fft": ad.fft, "special": ad.special, "random": ad.random}
_spec = importlib.util.spec_from_file_location("accepted_programs", PROGRAMS / "accepted.py")
accepted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(accepted)


def stub(space):
    """What a stub defines at its top: by name, its statements (several of an overloaded function)."""
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


#: What tensors of one's own have once there is one.
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


# ---------------------------------------------------------------- type checkers


@pytest.mark.parametrize("program", accepted.PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_that_type_checkers_accept_runs(program, capsys):
    program()


#: How each is called, with the names of files behind it.
CHECKERS = {
    "mypy": ["mypy", "--strict", "--follow-imports=silent", "--python-version=3.11", "--config-file="],
    "pyright": ["pyright", "--project", "."],
}


def refusals(checker, folder):
    """Lines in which a type checker finds an error, by the name of the file; programs are copied into a folder."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    for file in PROGRAMS.glob("*.py"):
        (folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(
        f'{{"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": ["{ROOT}"]}}', encoding="utf-8"
    )
    command = [sys.executable, "-m", *CHECKERS[checker], "accepted.py", "refused.py"]
    found = subprocess.run(
        command, cwd=folder, env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True, timeout=600
    )
    assert found.returncode in (0, 1) and not found.stderr, found.stdout + found.stderr
    lines = {file.name: set() for file in PROGRAMS.glob("*.py")}
    for name, line in re.findall(r"(\w+\.py):(\d+):.*\berror\b", found.stdout):
        lines[name].add(int(line))
    return lines, found.stdout


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_accepts_what_is_right_and_refuses_what_is_not(checker, tmp_path):
    lines, told = refusals(checker, tmp_path)
    marked = (PROGRAMS / "refused.py").read_text(encoding="utf-8").splitlines()
    assert not lines["accepted.py"], told
    assert lines["refused.py"] == {i for i, line in enumerate(marked, 1) if line.endswith("# refused")}, told
