"""`ad.export`: an object file, LLVM's and MLIR's text, and a C header."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codegen.export import KNOWN_SIZES, Exported, NotExportable
from codegen.ir import Aval, parse_aval

from .. import tree
from ..api import asarray
from ..argument_leaves import aval_of
from ..errors import DispatchError, Error, check_callable, located, writing
from ..frames import written_at
from ..named_types import Number
from ..tensor import AbstractTensor
from ..tracebacks import border
from ..transforms import value_and_grad
from ..transforms.arguments import argument_names
from .header import CArray, header, is_reserved
from .sizes import MOST_SIZES, SizedAval, parse_sized, plain_text, program, sized_program


class Export:
    """The files of one exported function.

    name             the name of the C function
    files            the object file, `.ll`, `.mlir` and the header, in this order
    sizes            the names of sizes: the first arguments of the C function
    arguments        name, shape and dtype of each array argument of the C function
    results          name, shape and dtype of each result; a value that f returns twice is one result
    workspace_bytes  bytes of memory that a call needs, at an address that is a multiple of 64; None if sizes decide
    calls            the functions of the C library that the object calls
    """

    __slots__ = ("arguments", "calls", "files", "name", "results", "sizes", "workspace_bytes")

    def __init__(
        self, name: str, files: Sequence[Path], sizes: Sequence[str], arguments: Sequence[CArray],
        results: Sequence[CArray], made: Exported,
    ) -> None:  # fmt: skip
        self.name, self.files, self.sizes = name, tuple(files), tuple(sizes)
        self.arguments, self.results = tuple(arguments), tuple(results)
        self.workspace_bytes = None if sizes else made.workspace_bytes
        self.calls = made.calls

    def __repr__(self) -> str:
        given, made = (", ".join([f"{v.name}: {v.aval}" for v in vs]) for vs in (self.arguments, self.results))
        given = ", ".join([*self.sizes, given])
        workspace = "workspace by sizes" if self.sizes else f"{self.workspace_bytes} bytes of workspace"
        return f"<Export {self.name}({given}) -> ({made}), {workspace}>"


@border
def export(
    f: Callable[..., Any],
    *args: Any,
    out: str | os.PathLike[str],
    name: str | None = None,
    argnums: int | Sequence[int] = 0,
    gradient: bool = True,
) -> Export:
    """Write f's value and gradient as files for C, for arguments of these shapes and dtypes.

    f          a function of arrays, written with functions of `ad`, that returns a float scalar
    args       any nesting of arrays, numbers and descriptions such as "f64[256,10]"; only shapes and dtypes count.
               In "f64[batch,10]" or "f64[4 * batch]" batch is any number from 1 on, an argument of the C function;
               the same name is the same number everywhere
    out        a folder, which is made if it does not exist
    name       the name of the C function and of the files; by default that of f
    argnums    arguments to differentiate
    gradient   False: the results of f alone, of any shape and number

    The files are NAME.o (an object file for this processor), NAME.h (shapes, strides, alignment, workspace), NAME.ll
    and NAME.mlir.  The object needs the C library and its mathematics (`-lm`), and no Python; its results have the bits
    of `ad.jit` with `config.deterministic`.  Every loop runs on one thread.  Arrays that f reads from outside become
    constants of the object.

    Raises DispatchError, with their names, for operations that need Python, NumPy or LAPACK, or tables that Python
    makes; Error for a name that is not possible in C, for a path that is no folder, and, with the line, for a program
    that is not the same for every size.

    >>> import autodiff as ad, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = ad.export(lambda w, x: ad.sum(ad.tanh(x @ w)), "f64[3]", "f64[5,3]", out=folder, name="loss")
    ...     [file.name for file in made.files]
    ['loss.o', 'loss.ll', 'loss.mlir', 'loss.h']
    >>> made
    <Export loss(w: f64[3], x: f64[5,3]) -> (value: f64[], grad_w: f64[3]), 64 bytes of workspace>
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ad.export(lambda w, x: ad.sum(ad.tanh(x @ w)), "f64[3]", "f64[batch,3]", out=folder, name="loss")
    <Export loss(batch, w: f64[3], x: f64[batch,3]) -> (value: f64[], grad_w: f64[3]), workspace by sizes>
    """
    check_callable(f, "export")
    name = _checked_name(f, name)
    folder = _checked_folder(out)
    leaves, structure = tree.flatten((args, {}))
    avals = [_described(x) for x in leaves]
    given = [a for a in avals if a is not None]
    labels = [label for label, a in zip(argument_names(f, structure), avals, strict=True) if a is not None]
    roots = argument_names(f, tree.flatten(((0,) * len(args), {}))[1])
    run = value_and_grad(f, argnums) if gradient else f
    made: list[str] = []

    def flat(*arrays: Any) -> Any:
        given = iter(arrays)
        full = [x if a is None else next(given) for x, a in zip(leaves, avals, strict=True)]
        result = run(*tree.unflatten(structure, full)[0])
        found = _named_results(result, roots, argnums) if gradient else _named(result, "result")
        made[:] = [label for label, _ in found]
        if not made:
            raise Error(located(f"export: {name} gives no array: there is nothing to compute"))
        return tuple([asarray(x) for _, x in found])

    flat.__name__ = flat.__qualname__ = name
    sizes = _sizes_of(given)
    try:
        found = sized_program(flat, name, given, sizes, made) if sizes else program(flat, name, given)
    except NotExportable as error:
        raise _refused(name, error, sizes) from None
    taken: set[str] = {"workspace", *sizes}
    arguments = [CArray(_c_name(label, taken), label, a) for label, a in zip(labels, given, strict=True)]
    of_result = [[label for label, p in zip(made, found.outputs, strict=True) if p == k]
                 for k in range(len(found.avals))]  # fmt: skip
    results = [CArray(_c_name(names[0], taken), " and ".join(names), aval)
               for names, aval in zip(of_result, found.avals, strict=True)]  # fmt: skip
    contents = {
        ".obj" if sys.platform == "win32" else ".o": found.made.object_bytes,
        ".ll": found.made.llvm.encode(),
        ".mlir": found.made.mlir.encode(),
        ".h": header(name, written_at(f), arguments, results, found.made, sizes).encode(),
    }
    files = {folder / f"{name}{ending}": content for ending, content in contents.items()}
    with writing("export: ", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            file.write_bytes(content)
    return Export(name, [*files], sizes, arguments, results, found.made)


def _named_results(result: Any, roots: Sequence[str], argnums: Any) -> list[tuple[str, Any]]:
    """The value and the gradients of a function, with their names in Python; `roots`: names of its arguments."""
    value, gradients = result
    if not isinstance(argnums, (tuple, list)):
        argnums, gradients = [argnums], [gradients]
    found = [("value", value)]
    for number, g in zip(argnums, gradients, strict=True):
        found += _named(g, f"grad_{roots[number]}")
    return found


def _named(x: Any, root: str) -> list[tuple[str, Any]]:
    """The arrays in a tree, with their names."""
    leaves, structure = tree.flatten(x)
    named = zip(tree.names(structure, root), leaves, strict=True)
    return [(label, x) for label, x in named if isinstance(x, (AbstractTensor, np.ndarray, Number))]


def _described(x: Any) -> Aval | SizedAval | None:
    """The aval of an argument, which a text may describe with names of sizes; None for an argument that is no array."""
    if not isinstance(x, str):
        return aval_of(x, "export")
    try:
        found = parse_sized(x)
        if found is None and re.fullmatch(r"\w+\[.*", x):
            parse_aval(x)
    except ValueError as error:
        hint = "extents are numbers and names of sizes: f64[3], f64[batch,3], f64[4 * batch + 1]"
        raise Error(located(f"export: {error}", hint)) from None
    return found if found is None or found.names else found.at({})


def _sizes_of(given: Sequence[Aval | SizedAval]) -> list[str]:
    """The names of sizes, in order of appearance.  Raises Error for too many, or one that is not possible in C."""
    names = list(dict.fromkeys([name for a in given if isinstance(a, SizedAval) for name in a.names]))
    if len(names) > MOST_SIZES:
        raise Error(located(f"export: {len(names)} sizes ({', '.join(names)}), and there are at most {MOST_SIZES}"))
    for name in names:
        if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or is_reserved(name):
            raise Error(located(f"export: {name!r} cannot be the name of a size in C"))
    return names


# ---------------------------------------------------------------- names, places


def _checked_name(f: Callable, name: str | None) -> str:
    """The name of the C function.  Raises Error for a name that is not possible in C."""
    found = getattr(f, "__name__", type(f).__name__) if name is None else name
    if not isinstance(found, str) or not re.fullmatch(r"[A-Za-z_][0-9A-Za-z_]*", found) or is_reserved(found):
        raise Error(located(
            f"export: {found!r} cannot be the name of a C function",
            'give one: name="loss", on the command line --name loss',
        ))
    return found


def _checked_folder(out: Any) -> Path:
    """The path of the folder.  Raises Error for a file, or an object that is no path."""
    if not isinstance(out, (str, os.PathLike)):
        raise Error(located(f"export: out is a folder's path, not {out!r}"))
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise Error(located(f"export: {folder} is a file, and files are written into a folder"))
    return folder


def _c_name(label: str, taken: set[str]) -> str:
    """A new name in C for a name in Python: params_w_0 for `params['w'][0]`."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", label).strip("_") or "x"
    name = f"x{name}" if name[0].isdigit() else name
    name = f"{name}_" if is_reserved(name) else name
    found, number = name, 1
    while {found, found.upper()} & taken:  # names of macros are in capitals
        number += 1
        found = f"{name}_{number}"
    taken.add(found.upper())
    return found


def _refused(name: str, error: NotExportable, sizes: Sequence[str]) -> DispatchError:
    if sizes and all([what.startswith(KNOWN_SIZES) for _, what in error.steps]):
        told = "".join([f"\n  {step} needs {plain_text(what, sizes)}" for step, what in error.steps])
        return DispatchError(located(
            f"export: {name} has no code for every {' and '.join(sizes)}{told}",
            "describe arguments of known extents: f64[64,3]",
        ))
    needs = "".join([f"\n  {step} needs {what}" for step, what in error.steps])
    return DispatchError(located(
        f"export: {name} cannot leave Python{needs}",
        "compute that part outside, and pass its result as an argument",
    ))
