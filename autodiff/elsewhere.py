"""Names that other libraries have for things, and the words for a message that say how they are called here.

    ad.cat         AttributeError: module 'autodiff' has no attribute 'cat': it is called ad.concatenate here
    ad.solve       AttributeError: module 'autodiff' has no attribute 'solve': it is called ad.linalg.solve here
"""

from __future__ import annotations

from typing import NoReturn

from codegen.lazily import imported

_CPU = "tensors are on the CPU: leave it out"
_KEYS = "random numbers are drawn with keys: ad.random.normal(ad.random.key(seed), shape)"
_WINDOWS = "a few lines of slices do it, see docs/howto/windows; rows: ad.convolve, ad.correlate"

#: Functions and modules of PyTorch, JAX and NumPy, and their names here.
_CALLED = {
    "array": "tensor", "as_tensor": "asarray", "bmm": "matmul", "cat": "concatenate", "chunk": "array_split",
    "clamp": "clip", "compile": "jit", "flatten": "ravel", "gather": "take_along_axis", "index_select": "take",
    "inverse": "linalg.inv", "jacfwd": "jacobian", "jacrev": "jacobian", "loggamma": "special.gammaln",
    "make_jaxpr": "inspect", "mm": "matmul", "mv": "matmul", "ndarray": "Tensor", "permute": "permute_dims",
    "PRNGKey": "random.key", "psi": "special.digamma", "trapz": "trapezoid", "tree_map": "tree.map",
    "tree_util": "tree", "unsqueeze": "expand_dims", "vectorize": "vmap", "view": "reshape",
}  # fmt: skip

#: Such functions that have no counterpart of one name, with advice.
OF_FUNCTIONS = {
    **{name: f"it is called ad.{here} here" for name, here in _CALLED.items()},
    **dict.fromkeys((
        "as_strided", "conv2d", "convolve2d", "correlate2d", "lib", "max_pool2d", "signal", "sliding_window_view",
        "unfold",
    ), _WINDOWS),
    **dict.fromkeys(("cuda", "device", "device_put"), _CPU),
    **dict.fromkeys(("default_rng", "Generator", "manual_seed", "RandomState", "seed"), _KEYS),
    **dict.fromkeys(("eig", "eigvals", "schur"), "there are ad.linalg.eigh and ad.linalg.svd"),
    **dict.fromkeys(("cho_factor", "cho_solve"), "ad.Cholesky(a) is a factor that ad.linalg.solve takes"),
    "bfloat16": "dtypes of floats are ad.float32 and ad.float64",
    "associative_scan": "sums and products are ad.cumsum and ad.cumprod; ad.scan takes any step",
    "block": "rows of blocks are ad.vstack([ad.hstack([a, b]), ad.hstack([c, d])])",
    "block_until_ready": "a value is computed when it is read: float(t), t.numpy()",
    "clone": "write t.copy()",
    "custom_gradient": "declare a function by ad.function and add f.forward and f.backward",
    "custom_jvp": "declare a function by ad.function and add f.jvp",
    "custom_vjp": "declare a function by ad.function and add f.forward and f.backward",
    "detach": "write t.detach(), or ad.stop_gradient(t)",
    "eval_shape": "t.shape and t.dtype are known before t is computed",
    "float16": "dtypes of floats are ad.float32 and ad.float64",
    "from_numpy": "it is called ad.tensor here, which copies",
    "is_tensor": "write isinstance(x, ad.Tensor)",
    "lax": "loops are ad.scan, ad.fori_loop, ad.while_loop and ad.cond",
    "linearize": "ad.jvp gives a value and its tangent",
    "load": "values are written and read by NumPy: np.load",
    "logdet": "write ad.linalg.slogdet(a)[1]",
    "lognormal": "write ad.exp(ad.random.normal(key, shape))",
    "map": "write ad.vmap(f)(xs), or, one step after the other, ad.scan",
    "masked_select": "write x[mask]",
    "multivariate_normal": "write mean + ad.linalg.cholesky(cov) @ ad.random.normal(key, mean.shape)",
    "nn": "there are no layers; docs/gallery has a convolutional network and a transformer",
    "numel": "write t.size",
    "numpy": "NumPy's functions are here by their names: ad.sin, ad.sum",
    "optim": "there are no optimisers; docs/gallery has Adam in a few lines",
    "Parameter": "write ad.tensor(data, requires_grad=True)",
    "pmap": "there is one device: ad.vmap",
    "pure_callback": "add f.forward(..., host=True) to a function declared by ad.function",
    "rand": "it is called ad.random.uniform here, and takes a key",
    "randn": "it is called ad.random.normal here, and takes a key",
    "save": "values are written and read by NumPy: np.save",
    "shuffle": "it is called ad.random.permutation here, and gives a new array",
    "segment_max": "write i = ad.argsort(x); y = ad.full(n, -ad.inf, x.dtype); y[ids[i]] = x[i]; columns by ad.vmap",
    "segment_min": "write i = ad.argsort(-x); y = ad.full(n, ad.inf, x.dtype); y[ids[i]] = x[i]; columns by ad.vmap",
    "set_default_dtype": "give dtype=ad.float32 where data are made",
    "switch": "nest ad.cond, or compute all and choose by ad.select",
    "topk": "write ad.argsort(x, descending=True)[:k]",
}  # fmt: skip

#: Methods of tensors of PyTorch that are functions here.
_FUNCTIONS = (
    "ceil", "diag", "erf", "flip", "floor", "isnan", "log1p", "log2", "median", "nonzero", "norm", "outer",
    "quantile", "roll", "sign", "split", "tan", "tril", "triu", "where",
)

#: Attributes of tensors of PyTorch and JAX, and their names here.
_CALLED_OF_TENSORS = {
    "amax": "max", "amin": "min", "clamp": "clip", "clone": "copy", "dim": "ndim", "expand": "broadcast_to",
    "ndimension": "ndim", "nelement": "size", "numel": "size", "permute": "transpose", "stride": "strides",
    "view": "reshape",
}  # fmt: skip

#: Such attributes, and the code that is written here.
_WRITTEN = {
    "add": "t + other", "at": "x[i] = v, or ad.add_at(x, i, v)", "bmm": "t @ other", "bool": "t.astype(bool)",
    "chunk": "ad.array_split(t, parts)", "detach_": "t = t.detach()", "div": "t / other",
    "double": "t.astype(ad.float64)", "float": "t.astype(ad.float32)",
    "gather": "ad.take_along_axis(t, indices, axis)", "index_add": "ad.add_at(t, i, v)",
    "index_add_": "ad.add_at(t, i, v)", "index_select": "t.take(indices, axis)", "int": "t.astype(ad.int32)",
    "long": "t.astype(ad.int64)",
    "masked_fill": "ad.where(mask, value, t)", "masked_select": "t[mask]",
    "matmul": "t @ other, or ad.matmul(t, other)", "mm": "t @ other", "mul": "t * other", "mv": "t @ other",
    "neg": "-t", "pow": "t ** other", "scatter_": "t[i] = v", "scatter_add": "ad.add_at(t, i, v)",
    "scatter_add_": "ad.add_at(t, i, v)",
    "sort": "ad.sort(t)", "sub": "t - other", "t": "t.T", "to": "t.astype(dtype); there is one device, the CPU",
    "topk": "ad.sort(t, descending=True)[:k]", "type": "t.astype(dtype); t.dtype is its dtype",
    "unbind": "ad.unstack(t)", "unsqueeze": "ad.expand_dims(t, axis), or t[None]", "zero_grad": "t.grad = None",
}  # fmt: skip

#: Attributes and methods of tensors of PyTorch and JAX, by name.
OF_TENSORS = {
    **{name: f"write ad.{name}(t)" for name in _FUNCTIONS},
    **{name: f"it is called {here} here" for name, here in _CALLED_OF_TENSORS.items()},
    **{name: f"write {code}" for name, code in _WRITTEN.items()},
    **dict.fromkeys(("cpu", "cuda", "is_cuda"), _CPU),
    "block_until_ready": "a value is computed when it is read: float(t), t.numpy()",
    "contiguous": "a tensor has no layout: leave it out",
    "data": "t.detach() is the value without the history",
    "half": "there is no half precision: t.astype(ad.float32)",
}


def hint(names: dict[str, str], name: str) -> str:
    """The end of a message about a missing name: nothing where no library has it."""
    told = names.get(name)
    return "" if told is None else f": {told}"


def hint_of_module(module: str, name: str) -> str:
    """The end of a message about a name that a module of ours lacks; a module below or above it may have the name."""
    if name in OF_FUNCTIONS or name.startswith("_"):
        return hint(OF_FUNCTIONS, name)
    others = ("fft", "linalg", "random", "special") if module == "autodiff" else ("",)
    homes = [home for other in others if name in imported(home := f"autodiff.{other}".strip(".")).__all__]
    return "".join([f": it is called {home.replace('autodiff', 'ad')}.{name} here" for home in homes])


class Missing:
    """In the place of an attribute that tensors do not have, to say its name here.

    Not a `__getattr__`: NumPy looks for some of its protocols in each `np.asarray(t)`, which would take twice as long.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, t: object, owner: type | None = None) -> NoReturn:
        name = owner.__name__ if owner is not None else type(t).__name__
        raise AttributeError(f"{name!r} object has no attribute {self.name!r}{hint(OF_TENSORS, self.name)}")
