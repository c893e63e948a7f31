"""The public names are a contract: each is there, and takes what it is promised to take."""

import inspect

import numpy as np
import pytest

import autodiff as ad

#: Of each function the parameters that it is promised to have, in this order at its start.  What is always given by
#: place is called as it is here: "f" of DESIGN's `methods` is `function`, "g" of `project` is `gradient`.
PROMISED = {
    "tensor": "data dtype requires_grad", "asarray": "data dtype copy", "dense": "x", "project": "gradient like",
    "unbroadcast": "x like", "methods": "function", "coverage": "function",
    "ambiguities": "", "no_grad": "", "enable_grad": "",
    "is_grad_enabled": "", "detect_anomaly": "", "value_and_grad": "f argnums has_aux", "vjp": "f",
    "jvp": "f primals tangents",
    "jacobian": "f argnums mode", "hessian": "f argnums", "hvp": "f primals tangents", "vmap": "f in_axes out_axes",
    "checkpoint": "f", "stop_gradient": "", "backward": "tensors grad_tensors retain_graph create_graph inputs",
    "jit": "f static_argnums static_argnames", "inspect": "f", "explain": "", "cache_info": "", "clear_cache": "",
    "max_compiles": "n", "check_gradients": "f", "which": "function", "which_backward": "function", "function": "",
    "cond": "", "while_loop": "", "fori_loop": "", "scan": "",
}  # fmt: skip
OF_TENSORS = (
    "shape", "dtype", "ndim", "size", "T", "mT", "grad", "requires_grad", "is_leaf", "numpy", "item", "detach",
    "backward", "requires_grad_", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "grad_fn",
    "__dlpack__",
)  # fmt: skip


@pytest.mark.parametrize("name", PROMISED)
def test_functions_take_what_is_promised(name):
    found = inspect.signature(getattr(ad, name))
    promised = PROMISED[name].split()
    assert list(found.parameters)[: len(promised)] == promised
    kinds = {found.parameters[p].kind for p in promised}
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}


def test_tensors_types_errors_and_settings_are_there():
    t = ad.tensor(np.ones((2, 3)), requires_grad=True)
    assert all(hasattr(t, name) for name in OF_TENSORS)
    assert list(inspect.signature(t.backward).parameters) == ["gradient", "retain_graph", "create_graph", "inputs"]
    for name in ("AbstractTensor", "Tensor", "Scalar", "Vector", "Matrix", "Number", "Diagonal", "Symmetric",
                 "LowerTriangular", "UpperTriangular"):
        assert isinstance(getattr(ad, name), type) or name == "Number", name
    assert ad.Diagonal(np.ones(2)).diagonal.shape == (2,)
    assert all(callable(getattr(ad.tree, name)) for name in ("map", "leaves", "flatten", "unflatten", "register"))
    assert issubclass(ad.AmbiguityError, ad.DispatchError)
    for name in ("ShapeError", "DTypeError", "GradientError", "ConcretizationError", "DispatchError"):
        assert issubclass(getattr(ad, name), ad.Error), name
    assert {"eager", "threads", "patience", "fast_math", "deterministic"} <= set(dir(ad.config))
    assert {"hits", "misses", "compiles", "entries", "bytes"} <= set(ad.cache_info()._fields)


def test_static_arguments_are_given_by_position_or_by_name():
    for f in (ad.jit(lambda x, n: x * n, (1,)), ad.jit(lambda x, n: x * n, (), ("n",)),
              ad.jit(static_argnums=1)(lambda x, n: x * n)):
        assert f(np.ones(2), 3).tolist() == [3, 3]
