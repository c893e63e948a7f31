"""Make stubs for type checkers and editors from the declarations of the operations.

    python tools/stubs.py            write autodiff/*.pyi
    python tools/stubs.py --check    write nothing; name the stubs that would change (exit code 1)

    autodiff/__init__.pyi     tools/face.pyi.in, which is written by hand, and the operations, methods and operators
    autodiff/linalg.pyi ...   the operations of linalg (with tools/linalg.pyi.in), fft, special and random

An operation's parameters, their order and their defaults come from its signature (`inspect.signature`).  Types come
from the annotations of its declaration.  The type of a parameter without annotation follows from its name (`_NAMES`) or
its default; a result without annotation is a Tensor.  `tests/test_type_checkers.py` runs this tool.

Editors show the docstring of the `def` of the same name in the source.  Functions without such a `def`, for example
`exp = unary(...)` and the methods of tensors, get the first line of their docstring in the stub.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import autodiff as ad  # noqa: E402  after the path
from autodiff.custom.function import Function  # noqa: E402  after the path
from autodiff.ops.operators import BINARY, COMPARISONS, METHODS, PREFIX  # noqa: E402  after the path

INDEX, INDICES, OPERAND, DTYPE = "SupportsIndex", "_Axes", "_ArrayLike", "DTypeLike"

#: The names of parameters by their type, which is equal in all functions; `| None` is added if None is the default.
_NAMES = {
    OPERAND: "A a append atol aweights b bins condition data default dx element f fill_value fp fweights g indices "
    "initial key left like logits lower m max maxval mean min minval nan neginf p period posinf prepend q "
    "rcond repeats right rtol seed segment_ids sorter start step stop t test_elements to_begin to_end tol "
    "upper v value values varargs weights where x x1 x2 xp y z",
    INDEX: "M N axis1 axis2 axisa axisb axisc classes d decimals k length minlength n n_cols n_rows num num_segments "
    "offset",
    INDICES: "destination repetitions s shift source",
    DTYPE: "dtype",
    "_Casting": "casting",
    "_Order": "order",
    "_Shape": "shape",
    f"Sequence[{INDEX}]": "dimensions",
    f"Sequence[{OPERAND}]": "choicelist condlist",
    f"Sequence[{OPERAND}] | {OPERAND}": "arrays tensors",
    f"{INDICES} | Sequence[{INDICES}]": "axes",
    f"{INDICES} | {OPERAND}": "indices_or_sections",
    "bool | None": "copy density",
    "float | None": "correction ddof discont",
    "float | str | None": "ord",
    "str | None": "device norm reflect_type",
    "tuple[float, float] | None": "range",
    "Any": "constant_values end_values operands pad_width stat_length",
}
BY_NAME = {name: what for what, names in _NAMES.items() for name in names.split()}
#: The functions whose `axis` may be several axes; for all other functions it is one axis.
_SEVERAL = (
    "all amax amin any average count_nonzero expand_dims flip gradient log_softmax logsumexp max mean median min "
    "nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar norm percentile prod ptp "
    "quantile roll softmax squeeze std sum var vector_norm"
)
ALONG_SEVERAL = frozenset(_SEVERAL.split())
#: The types of parameters whose name has another meaning in this function than elsewhere.
BY_FUNCTION = {
    ("add_at", "key"): "Any",
    ("broadcast_arrays", "tensors"): OPERAND,
    ("cond", "p"): "float | str | None",
    ("fftfreq", "d"): "float",
    ("histogram", "bins"): f"int | str | {OPERAND}",
    ("matrix_norm", "ord"): "float | str",
    ("meshgrid", "arrays"): OPERAND,
    ("meshgrid", "indexing"): 'Literal["xy", "ij"]',
    ("rfftfreq", "d"): "float",
    ("searchsorted", "side"): 'Literal["left", "right"]',
    ("tensordot", "axes"): "int | Sequence[Any]",
}
_EMPTY = inspect.Parameter.empty
SPACES = {"linalg": ad.linalg, "fft": ad.fft, "special": ad.special, "random": ad.random}
_FACE, _SPACE = ROOT / "tools" / "face.pyi.in", ROOT / "tools" / "space.pyi.in"
_NOTE = "# Made by tools/stubs.py from tools/{} and the declarations in autodiff/ops: change those, and run it again.\n"


# ---------------------------------------------------------------- one operation


def type_of(function: str, p: inspect.Parameter) -> str:
    """The type of a parameter, as text for a stub."""
    written = p.annotation if isinstance(p.annotation, str) else ""
    if written and written != "Any":
        return _outside(written)
    if p.name == "like" and p.default is None:  # NumPy's parameter for the library that makes the array
        return "None"
    if isinstance(p.default, bool) and p.name != "where":
        found = "bool"
    elif p.name == "axis":
        found = INDICES if function in ALONG_SEVERAL else INDEX
    elif (function, p.name) in BY_FUNCTION:
        found = BY_FUNCTION[function, p.name]
    elif p.name in BY_NAME:
        found = BY_NAME[p.name]
    elif p.default is _EMPTY or p.default is None:
        raise LookupError(f"{function}: nothing says what its parameter {p.name} is: name it in _NAMES or annotate it")
    else:
        found = {bool: "bool", int: INDEX, float: OPERAND, str: "str", tuple: INDICES}[type(p.default)]
    return f"{found} | None" if p.default is None and "None" not in found and found != "Any" else found


def _outside(annotation: str) -> str:
    """An annotation of a declaration, in the names that stubs use."""
    return annotation.replace("np.ndarray", "NDArray[Any]")


def _default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, type) and value.__module__ == "numpy":
        return f"np.{value.__name__}"
    return repr(value) if value is None or isinstance(value, (bool, int, float, tuple)) else "..."


def parameters(function: str, given: list[inspect.Parameter], first: str = "") -> str:
    """The text of a parameter list, without the parentheses."""
    parts = [first] if first else []
    has_star = False
    for p in given:
        if p.kind is p.KEYWORD_ONLY and not has_star:
            parts.append("*")
        has_star = has_star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        default = "" if p.default is _EMPTY else f" = {_default(p.default)}"
        parts.append(f"{star}{p.name}: {type_of(function, p)}{default}")
    return ", ".join(parts)


def result_of(function: Callable[..., Any]) -> str:
    """The type of the result: Tensor, unless the declaration has another annotation."""
    declared = getattr(function, "__wrapped__", function)
    written = declared.__annotations__.get("return", "Tensor")
    return f"_{written}" if written.endswith("Result") else _outside(written)


def named_tuples(space: ModuleType) -> Iterator[str]:
    """The lines of the named tuples that functions of a module return."""
    for name in space.__all__:
        module = sys.modules[getattr(getattr(space, name), "__module__", "")]
        for result, cls in vars(module).items():
            if result.lower() == f"{name}result":
                yield f"class _{result}(NamedTuple):"
                yield f'    """{summary(cls)}"""'
                yield ""
                yield from (f"    {field}: Tensor" for field in cls._fields)
                yield ""


def summary(function: Callable[..., Any]) -> str:
    """The first line of a function's docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0].replace("\\", "\\\\").rstrip()


def _definition(head: str, doc: str, indent: str = "") -> list[str]:
    """The lines of a `def` with its documentation, wrapped if it is longer than a line may be."""
    if len(f"{indent}{head} ...") > 120:
        start, _, rest = head.partition("(")
        inner, _, end = rest.rpartition(")")
        parts = _split(inner)
        one = indent + "    " + ", ".join(parts)
        body = [one] if len(one) <= 119 else [f"{indent}    {part}," for part in parts]
        lines = [f"{indent}{start}(", *body, f"{indent}){end}"]
    else:
        lines = [indent + head]
    while len(f'{indent}    """{doc}"""') > 120:  # drop the parts after three spaces: shapes and notes on them
        doc = doc.rpartition("   ")[0].rstrip()
    lines[-1] += "" if doc else " ..."
    return [*lines, f'{indent}    """{doc}"""'] if doc else lines


def _split(parameters: str) -> list[str]:
    """The parameters in a list, split at the commas between them."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(parameters):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(parameters[start:i])
            start = i + 2
    return [*parts, parameters[start:]]


def operation(name: str, function: Callable[..., Any]) -> list[str]:
    """The stub of a public function; a generic one is marked, since it has methods."""
    given = list(inspect.signature(function).parameters.values())
    head = f"def {name}({parameters(function.__name__.rstrip('_'), given)}) -> {result_of(function)}:"
    marks = ["@_operation"] if isinstance(function, Function) else []
    # Functions of other modules have docstrings in the source, which editors find.
    return [*marks, *_definition(head, summary(function) if function.__module__ == "autodiff" else "")]


# ---------------------------------------------------------------- files


def operations(names: list[str], space: ModuleType) -> Iterator[str]:
    """The stubs of all functions of a module; a second name of a function is an assignment."""
    found: dict[int, str] = {}
    for name in sorted(names, key=lambda n: (getattr(getattr(space, n), "__name__", n).rstrip("_") != n, n)):
        function = getattr(space, name)
        if id(function) in found:
            yield f"{name} = {found[id(function)]}"
        else:
            found[id(function)] = name
            yield from operation(name, function)


def methods() -> Iterator[str]:
    """The stubs of the methods and properties of tensors, without double-underscore methods."""
    for name, (function, gathers) in sorted(METHODS.items()):
        if name.startswith("__"):
            continue
        given = list(inspect.signature(function).parameters.values())[1:]
        if gathers is not None:
            first, *rest = given
            given = [first.replace(kind=first.VAR_POSITIONAL, default=_EMPTY, annotation=type_of(name, first))]
            given += [p.replace(kind=p.KEYWORD_ONLY) for p in rest]
        called = function.__name__.rstrip("_")
        head = f"def {name}({parameters(called, given, 'self')}) -> {result_of(function)}:"
        yield from _definition(head, summary(function), "    ")
    for name in ("T", "imag", "mT", "real"):
        yield "    @property"
        yield from _definition(f"def {name}(self) -> Tensor:", summary(getattr(ad.Tensor, name)), "    ")


def operators(result: str = "Tensor", other: str = "_Other") -> Iterator[str]:
    """The stubs of Python's operators on tensors."""
    for name in BINARY:
        for mark in ("", "r", *(("i",) if result == "Tensor" else ())):
            yield f"    def __{mark}{name}__(self, other: {other}, /) -> {result}: ..."
    for name in COMPARISONS:
        if name not in ("eq", "ne"):
            yield f"    def __{name}__(self, other: {other}, /) -> {result}: ..."
    for name in PREFIX:
        yield f"    def __{name}__(self) -> {result}: ..."


def abstract() -> Iterator[str]:
    """The attributes that all tensors have, also tensor classes of a user, with results of type Any."""
    for name in sorted({"T", "imag", "mT", "real", *METHODS}):
        if not name.startswith("__"):
            yield f"    {name}: Any"
    yield from operators("Any", "Any")
    yield "    def __getitem__(self, key: Any, /) -> Any: ..."
    yield "    def __iter__(self) -> Iterator[Any]: ..."
    yield "    def __contains__(self, element: object, /) -> bool: ..."


def fill_template(template: Path, made: dict[str, Iterator[str]]) -> str:
    """The text of a template, with each mark replaced by the generated lines, and without its first comment."""
    lines: list[str] = []
    for line in template.read_text(encoding="utf-8").splitlines():
        lines += made.get(line, [line])
    first = next(i for i, line in enumerate(lines) if not line.startswith("# "))
    return _NOTE.format(template.name) + "\n".join(lines[first:]) + "\n"


def names_in(template: Path) -> set[str]:
    """The names that a template defines or imports."""
    text = template.read_text(encoding="utf-8")
    found = re.findall(r"^(?:def|class) (\w+)|^(\w+)(?:: | = )|^(?:from .*)?import .* as (\w+)$", text, re.M)
    return {name for group in found for name in group if name}


def package_stub() -> str:
    """The text of autodiff/__init__.pyi."""
    names = [name for name in ad.__all__ if name not in names_in(_FACE)]
    return fill_template(_FACE, {
        "#: operations": operations(names, ad),
        "    #: methods": methods(),
        "    #: operators": operators(),
        "    #: abstract": abstract(),
    })  # fmt: skip


def module_stub(name: str) -> str:
    """The text of autodiff/<name>.pyi."""
    module = SPACES[name]
    template = ROOT / "tools" / f"{name}.pyi.in"
    template = template if template.exists() else _SPACE
    shared = [n for n in module.__all__ if getattr(ad, n, None) is getattr(module, n)]
    rest = [n for n in module.__all__ if n not in shared and n not in names_in(template)]
    made = list(operations(rest, module))
    return fill_template(template, {
        "#: imports": imports("\n".join(made)),
        "#: shared": (f"from . import {n} as {n}" for n in shared),
        "#: named tuples": named_tuples(module),
        "#: operations": iter(made),
    })  # fmt: skip


def imports(text: str) -> Iterator[str]:
    """The lines that import the names which a stub uses."""
    sources: dict[str, tuple[str, ...]] = {
        "collections.abc": ("Sequence",),
        "typing": ("SupportsIndex",),
        "numpy.typing": ("DTypeLike",),
        ".": ("_ArrayLike", "_Axes", "_operation", "_Shape"),
    }
    if "Tensor" in text:
        sources["."] = ("Tensor", *sources["."])
    for source, names in sources.items():
        if source == "numpy.typing" and "np." in text:
            yield "import numpy as np"
        used = [name for name in names if re.search(rf"\b{name}\b", text)]
        yield from [f"from {source} import {', '.join(used)}"] if used else []
        yield from [""] if source == "typing" or (used and source == "numpy.typing") else []


def files() -> dict[Path, str]:
    """The text of every stub."""
    package = ROOT / "autodiff"
    return {package / "__init__.pyi": package_stub(), **{package / f"{name}.pyi": module_stub(name) for name in SPACES}}


def main() -> int:
    """Write the stubs, or compare them with the files."""
    options = argparse.ArgumentParser(description="stubs for type checkers, from the declarations of operations")
    options.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a stub would change")
    check = options.parse_args().check
    stale = [f for f, text in files().items() if not f.exists() or f.read_text(encoding="utf-8") != text]
    for file in stale:
        print(f"{file.relative_to(ROOT)} {'differs' if check else 'written'}")
        if not check:
            file.write_text(files()[file], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
