"""Imports go down only, and LLVM stays behind one door."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Lowest first.  A module may import what stands on its own floor or below it.
ENGINE = [
    ["autodiff.frames"],
    ["autodiff.mode"],
    ["autodiff.errors", "autodiff.config", "autodiff.elsewhere", "autodiff.sending", "autodiff.session"],
    ["autodiff.tracebacks"],
    ["autodiff.containers"],
    ["autodiff.tree"],
    ["autodiff.dispatch"],
    ["autodiff.tensor", "autodiff.named_types", "autodiff.stand_ins"],
    ["autodiff.tape"],
    ["autodiff.custom"],
    ["autodiff.ops"],
    ["autodiff.transforms"],
    ["autodiff.control"],
    ["autodiff.structured"],
    ["autodiff.argument_leaves"],
    ["autodiff.entering", "autodiff.entry"],
    ["autodiff.profiling.steps"],
    ["autodiff.explorer"],
    [
        "autodiff.api", "autodiff.array_api", "autodiff.jit", "autodiff.inspection_data",
        "autodiff.inspection", "autodiff.tangents",
        "autodiff.testing", "autodiff.traces",
    ],
    ["autodiff.workers", "autodiff.interop"],
    ["autodiff.exporting", "autodiff.profiling"],
    ["autodiff.fft", "autodiff.linalg", "autodiff.random", "autodiff.special"],
    ["autodiff"],
    ["autodiff.cli"],
    ["autodiff.__main__"],
]
COMPILER = [
    [
        "codegen.blas", "codegen.ending", "codegen.forks", "codegen.garbage", "codegen.lazily", "codegen.modes",
        "codegen.records", "codegen.symbols", "codegen.written",
    ],
    ["codegen.native"],
    ["codegen.ir"],
    ["codegen.nested"],
    ["codegen.lowering"],
    ["codegen.kernel", "codegen.program"],
    ["codegen.passes"],
    ["codegen.emit"],
    ["codegen.runtime"],
    ["codegen.numbers"],
    ["codegen.export"],
    ["codegen.sized_products"],
    ["codegen.sized_code"],
    ["codegen.families"],
    ["codegen.compiler"],
    ["codegen"],
]


def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its full name."""
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in sorted((ROOT / package).rglob("*.py"))
    }


MODULES = modules("autodiff") | modules("codegen")


def imports(name: str, file: Path) -> set[str]:
    """The modules that a file imports anywhere in it, functions included, except for type checkers only."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_checkers = {
        id(inner)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in block.body
        for inner in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            # `from . import tree` names a module; `from .tree import map` names what is in one.
            found.update(full if (full := f"{source}.{alias.name}") in MODULES else source for alias in node.names)
    return found


def floor(name: str, floors: list[list[str]]) -> int:
    """The floor of a module: that of the longest entry which is the module or a package around it."""
    fits = [
        (len(entry), level)
        for level, entries in enumerate(floors)
        for entry in entries
        if name == entry or (name.startswith(entry + ".") and entry not in ("autodiff", "codegen"))
    ]
    assert fits, f"{name} stands on no floor: add it to tests/test_layers.py"
    return max(fits)[1]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_go_down_only(name):
    floors = ENGINE if name.partition(".")[0] == "autodiff" else COMPILER
    here = floor(name, floors)
    above = [
        other
        for other in sorted(imports(name, MODULES[name]))
        if other.partition(".")[0] == name.partition(".")[0] and floor(other, floors) > here
    ]
    assert not above, f"{name} imports what stands above it: {', '.join(above)}"


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n.startswith("codegen")))
def test_the_compiler_has_never_heard_of_a_derivative(name):
    assert not [other for other in imports(name, MODULES[name]) if other.partition(".")[0] == "autodiff"]


def test_llvmlite_is_imported_in_at_most_two_files_both_of_the_compiler():
    users = [n for n in MODULES if any(o.partition(".")[0] == "llvmlite" for o in imports(n, MODULES[n]))]
    assert len(users) <= 2
    assert all(name.startswith(("codegen.runtime", "codegen.emit")) for name in users)


def test_no_two_files_of_tests_have_one_name():
    """Goldens are kept by the name of the file, and helpers are imported by it."""
    files = [f for f in (ROOT / "tests").rglob("*.py") if f.name not in ("__init__.py", "conftest.py")]
    names = sorted(f.name for f in files)
    assert [a for a, b in pairwise(names) if a == b] == []
