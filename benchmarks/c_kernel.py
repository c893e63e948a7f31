"""C functions that gcc builds from the hand-written sources of `c_limits`, called from Python as C extensions.
They are the limit with which the library is compared.

    gcc's options: vectors of full width, libmvec's elementary functions, OpenMP threads

A source defines `double run(long n, const T *a0, ..., T *g0, ...)`, which takes the length of the first array, the
inputs and the outputs.  The wrapper allocates the outputs, and returns the number and the outputs.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absence import Absent
from c_limits import FLAGS, LIMITS

__all__ = ["PLAIN", "build", "limit", "vector_functions"]

#: Common compiler flags: scalar elementary functions, exact arithmetic, one thread.
PLAIN = ("-O3", "-march=native")

_WRAPPER = r"""
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>

double run(long n, {parameters});

static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t count) {{
  if (count != {inputs}) return PyErr_Format(PyExc_TypeError, "{inputs} arrays are needed");
  for (int i = 0; i < {inputs}; i++)
    if (!PyArray_CheckExact(args[i]) || !PyArray_ISCARRAY_RO((PyArrayObject *)args[i]))
      return PyErr_Format(PyExc_TypeError, "argument %d is no contiguous array", i);
  PyArrayObject *out[{outputs}];
  static const int like[] = {{ {like} }};
  for (int i = 0; i < {outputs}; i++) {{
    PyArrayObject *a = (PyArrayObject *)args[like[i]];
    out[i] = (PyArrayObject *)PyArray_SimpleNew(PyArray_NDIM(a), PyArray_DIMS(a), PyArray_TYPE(a));
    if (!out[i]) return NULL;
  }}
  double value = run(PyArray_DIM((PyArrayObject *)args[0], 0), {arguments});
  PyObject *result = PyTuple_New({outputs} + 1);
  PyTuple_SET_ITEM(result, 0, PyFloat_FromDouble(value));
  for (int i = 0; i < {outputs}; i++) PyTuple_SET_ITEM(result, i + 1, (PyObject *)out[i]);
  return result;
}}

static PyMethodDef methods[] = {{ {{"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL}}, {{NULL}} }};
static PyModuleDef definition = {{ PyModuleDef_HEAD_INIT, "{name}", NULL, -1, methods }};

PyMODINIT_FUNC PyInit_{name}(void) {{
  import_array();
  return PyModule_Create(&definition);
}}
"""


def limit(name: str, arrays: Sequence[np.ndarray], *, plain: bool = False) -> Callable[[], Any]:
    """The C program of a row, which returns (value, *gradients).  Raises Absent if it cannot be built."""
    source, like = LIMITS[name]
    real, macro = ("float", "name##f") if arrays[0].dtype == np.float32 else ("double", "name")
    head = f"#include <math.h>\ntypedef {real} real;\n#define F(name) {macro}\n"
    call, _ = build(head + source, len(arrays), like, flags=PLAIN if plain else FLAGS, vectors=not plain)
    return lambda: call(*arrays)


def build(
    source: str, inputs: int, outputs: Sequence[int], *, flags: Sequence[str] = FLAGS, vectors: bool = True
) -> tuple[Callable[..., tuple[Any, ...]], Path]:
    """The function `call(*arrays) -> (number, *outputs)`, and the path of the library that contains it.

    inputs    the number of input arrays      outputs   for each output, the number of the input of its shape and dtype
    vectors   True if the comparison is fair only with vector functions: without them the peer is absent

    Raises Absent if gcc, Python.h, or the vector functions are missing.
    """
    headers = sysconfig.get_paths()["include"]
    if not (Path(headers) / "Python.h").exists():
        raise Absent("no Python.h")
    folder, name = Path(tempfile.mkdtemp()), "kernel"
    wrapper = _WRAPPER.format(
        name=name, inputs=inputs, outputs=len(outputs), like=", ".join(map(str, outputs)),
        parameters=", ".join([*["const void *"] * inputs, *["void *"] * len(outputs)]),
        arguments=", ".join([
            *[f"PyArray_DATA((PyArrayObject *)args[{i}])" for i in range(inputs)],
            *[f"PyArray_DATA(out[{i}])" for i in range(len(outputs))],
        ]),
    )  # fmt: skip
    (folder / "kernel.c").write_text(source)
    (folder / "wrapper.c").write_text(wrapper)
    library = folder / f"{name}.so"
    # Linking is a separate command: with -ffast-math gcc links code that makes the whole process flush subnormals.
    compiled = ["gcc", *flags, "-w", "-fPIC", f"-I{headers}", f"-I{np.get_include()}", "-c", "kernel.c", "wrapper.c"]
    linked = ["gcc", "-shared", "-fopenmp", "kernel.o", "wrapper.o", "-o", str(library), "-lmvec", "-lm"]
    for command in (compiled, linked):
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except FileNotFoundError:
            raise Absent("no gcc") from None
        if done.returncode:
            raise Absent(f"gcc: {done.stderr.strip().splitlines()[-1]}")
    if vectors and not vector_functions(library):
        raise Absent("gcc found no vector functions: no libmvec")
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.call, library


def vector_functions(library: Path) -> set[str]:
    """The names of the libmvec functions that a library uses: `_ZGVeN8v_sin` is sin of eight doubles."""
    listed = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    return {word.split("@")[0] for word in listed.split() if word.startswith("_ZGV")}
