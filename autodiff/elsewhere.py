"""Names that other libraries have for things, and the words for a message that say how they are called here.

    import autodiff as ad
    ad.cat         AttributeError: module 'autodiff' has no attribute 'cat': it is called ad.concatenate here

A program that is right pays nothing for it.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["OF_FUNCTIONS", "OF_TENSORS", "Missing", "hint"]

_CPU = "tensors are on the CPU: leave it out"
_WINDOWS = "a few lines of slices do it, see docs/howto/windows; rows: ad.convolve, ad.correlate"

#: Functions and modules of PyTorch, JAX and NumPy, by name.
OF_FUNCTIONS = {
    "array": "it is called ad.tensor here",
    "as_strided": _WINDOWS,
    "as_tensor": "it is called ad.asarray here",
    "bfloat16": "dtypes of floats are ad.float32 and ad.float64",
    "block": "rows of blocks are ad.vstack([ad.hstack([a, b]), ad.hstack([c, d])])",
    "block_until_ready": "a value is computed when it is read: float(t), t.numpy()",
    "bmm": "it is called ad.matmul here",
    "cat": "it is called ad.concatenate here",
    "cholesky": "it is called ad.linalg.cholesky here",
    "chunk": "it is called ad.array_split here",
    "clamp": "it is called ad.clip here",
    "clone": "write t.copy()",
    "compile": "it is called ad.jit here",
    "conv2d": _WINDOWS,
    "convolve2d": _WINDOWS,
    "correlate2d": _WINDOWS,
    "cuda": _CPU,
    "custom_gradient": "declare a function by ad.function and add f.forward and f.backward",
    "custom_jvp": "declare a function by ad.function and add f.jvp",
    "custom_vjp": "declare a function by ad.function and add f.forward and f.backward",
    "detach": "write t.detach(), or ad.stop_gradient(t)",
    "device": _CPU,
    "device_put": _CPU,
    "eval_shape": "t.shape and t.dtype are known before t is computed",
    "flatten": "it is called ad.ravel here",
    "float16": "dtypes of floats are ad.float32 and ad.float64",
    "from_numpy": "it is called ad.tensor here, which copies",
    "gather": "it is called ad.take_along_axis here",
    "index_select": "it is called ad.take here",
    "inv": "it is called ad.linalg.inv here",
    "inverse": "it is called ad.linalg.inv here",
    "is_tensor": "write isinstance(x, ad.Tensor)",
    "jacfwd": "it is called ad.jacobian here",
    "jacrev": "it is called ad.jacobian here",
    "lax": "loops are ad.scan, ad.fori_loop, ad.while_loop and ad.cond",
    "lib": _WINDOWS,
    "linearize": "ad.jvp gives a value and its tangent",
    "load": "values are written and read by NumPy: np.load",
    "logdet": "it is called ad.linalg.slogdet here",
    "make_jaxpr": "it is called ad.inspect here",
    "manual_seed": "random numbers are drawn with keys: ad.random.key(seed)",
    "masked_select": "write x[mask]",
    "max_pool2d": _WINDOWS,
    "mm": "it is called ad.matmul here",
    "mv": "it is called ad.matmul here",
    "ndarray": "it is called ad.Tensor here",
    "nn": "there are no layers; docs/gallery has a convolutional network and a transformer",
    "numel": "write t.size",
    "numpy": "NumPy's functions are here by their names: ad.sin, ad.sum",
    "optim": "there are no optimisers; docs/gallery has Adam in a few lines",
    "Parameter": "write ad.tensor(data, requires_grad=True)",
    "permute": "it is called ad.permute_dims here",
    "pmap": "there is one device: ad.vmap",
    "PRNGKey": "it is called ad.random.key here",
    "pure_callback": "add f.forward(..., host=True) to a function declared by ad.function",
    "rand": "it is called ad.random.uniform here, and takes a key",
    "randn": "it is called ad.random.normal here, and takes a key",
    "save": "values are written and read by NumPy: np.save",
    "seed": "random numbers are drawn with keys: ad.random.key(seed)",
    "set_default_dtype": "give dtype=ad.float32 where data are made",
    "signal": _WINDOWS,
    "sliding_window_view": _WINDOWS,
    "svd": "it is called ad.linalg.svd here",
    "topk": "write ad.argsort(x, descending=True)[:k]",
    "trapz": "it is called ad.trapezoid here",
    "tree_map": "it is called ad.tree.map here",
    "tree_util": "it is called ad.tree here",
    "unfold": _WINDOWS,
    "unsqueeze": "it is called ad.expand_dims here",
    "vectorize": "it is called ad.vmap here",
    "view": "it is called ad.reshape here",
}

#: Methods of tensors of PyTorch that are functions here.
_FUNCTIONS = (
    "ceil", "diag", "erf", "flip", "floor", "isnan", "log1p", "log2", "median", "nonzero", "norm", "outer", "roll",
    "sign", "split", "tan", "tril", "triu", "where",
)

#: Attributes and methods of tensors of PyTorch and JAX, by name.
OF_TENSORS = {
    **{name: f"write ad.{name}(t)" for name in _FUNCTIONS},
    "add": "write t + other",
    "amax": "it is called max here",
    "amin": "it is called min here",
    "at": "write x[i] = v, or ad.add_at(x, i, v)",
    "block_until_ready": "a value is computed when it is read: float(t), t.numpy()",
    "bmm": "write t @ other",
    "bool": "write t.astype(bool)",
    "chunk": "write ad.array_split(t, parts)",
    "clamp": "it is called clip here",
    "clone": "it is called copy here",
    "contiguous": "a tensor has no layout: leave it out",
    "cpu": _CPU,
    "cuda": _CPU,
    "data": "t.detach() is the value without the history",
    "detach_": "write t = t.detach()",
    "dim": "it is called ndim here",
    "div": "write t / other",
    "double": "write t.astype(ad.float64)",
    "expand": "it is called broadcast_to here",
    "float": "write t.astype(ad.float32)",
    "gather": "write ad.take_along_axis(t, indices, axis)",
    "half": "there is no half precision: t.astype(ad.float32)",
    "index_add_": "write ad.add_at(t, i, v)",
    "index_select": "write t.take(indices, axis)",
    "int": "write t.astype(ad.int32)",
    "is_cuda": _CPU,
    "long": "write t.astype(ad.int64)",
    "masked_fill": "write ad.where(mask, value, t)",
    "masked_select": "write t[mask]",
    "matmul": "write t @ other, or ad.matmul(t, other)",
    "mm": "write t @ other",
    "mul": "write t * other",
    "mv": "write t @ other",
    "ndimension": "it is called ndim here",
    "neg": "write -t",
    "nelement": "it is called size here",
    "numel": "it is called size here",
    "permute": "it is called transpose here",
    "pow": "write t ** other",
    "scatter_": "write t[i] = v",
    "scatter_add_": "write ad.add_at(t, i, v)",
    "sort": "write ad.sort(t)",
    "stride": "it is called strides here",
    "sub": "write t - other",
    "t": "write t.T",
    "to": "write t.astype(dtype); there is one device, the CPU",
    "topk": "write ad.sort(t, descending=True)[:k]",
    "type": "write t.astype(dtype); t.dtype is its dtype",
    "unbind": "write ad.unstack(t)",
    "unsqueeze": "write ad.expand_dims(t, axis), or t[None]",
    "view": "it is called reshape here",
    "zero_grad": "write t.grad = None",
}


def hint(names: dict[str, str], name: str) -> str:
    """The end of a message about a missing name: nothing where no library has it."""
    told = names.get(name)
    return "" if told is None else f": {told}"


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
