"""Names that other libraries have for things, and the words for a message that say how they are called here.

    import autodiff as ad
    ad.cat         AttributeError: module 'autodiff' has no attribute 'cat': it is called ad.concatenate here

A program that is right pays nothing for it.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["OF_FUNCTIONS", "OF_TENSORS", "Missing", "hint"]

_CPU = "tensors are on the CPU: leave it out"

#: Functions and modules of PyTorch and JAX, by name.
OF_FUNCTIONS = {
    "array": "it is called ad.tensor here",
    "cat": "it is called ad.concatenate here",
    "clamp": "it is called ad.clip here",
    "compile": "it is called ad.jit here",
    "cuda": _CPU,
    "custom_jvp": "declare a function by ad.function and add f.jvp",
    "custom_vjp": "declare a function by ad.function and add f.forward and f.backward",
    "device": _CPU,
    "from_numpy": "it is called ad.tensor here, which copies",
    "jacfwd": "it is called ad.jacobian here",
    "jacrev": "it is called ad.jacobian here",
    "lax": "loops are ad.scan, ad.fori_loop, ad.while_loop and ad.cond",
    "load": "values are written and read by NumPy: np.load",
    "manual_seed": "random numbers are drawn with keys: ad.random.key(seed)",
    "mm": "it is called ad.matmul here",
    "nn": "there are no layers; docs/gallery has a convolutional network and a transformer",
    "numpy": "NumPy's functions are here by their names: ad.sin, ad.sum",
    "optim": "there are no optimisers; docs/gallery has Adam in a few lines",
    "pmap": "there is one device: ad.vmap",
    "PRNGKey": "it is called ad.random.key here",
    "rand": "it is called ad.random.uniform here, and takes a key",
    "randn": "it is called ad.random.normal here, and takes a key",
    "save": "values are written and read by NumPy: np.save",
    "tree_map": "it is called ad.tree.map here",
    "tree_util": "it is called ad.tree here",
    "unsqueeze": "it is called ad.expand_dims here",
}

#: Attributes and methods of tensors of PyTorch and JAX, by name.
OF_TENSORS = {
    "at": "write x[i] = v, or ad.add_at(x, i, v)",
    "clamp": "it is called clip here",
    "clone": "it is called copy here",
    "contiguous": "a tensor has no layout: leave it out",
    "cpu": _CPU,
    "cuda": _CPU,
    "data": "t.detach() is the value without the history",
    "dim": "it is called ndim here",
    "double": "write t.astype(ad.float64)",
    "expand": "it is called broadcast_to here",
    "float": "write t.astype(ad.float32)",
    "half": "there is no half precision: t.astype(ad.float32)",
    "int": "write t.astype(ad.int32)",
    "long": "write t.astype(ad.int64)",
    "masked_fill": "write ad.where(mask, value, t)",
    "matmul": "write t @ other, or ad.matmul(t, other)",
    "mm": "write t @ other",
    "numel": "it is called size here",
    "permute": "it is called transpose here",
    "sort": "write ad.sort(t)",
    "to": "write t.astype(dtype); there is one device, the CPU",
    "type": "write t.astype(dtype); t.dtype is its dtype",
    "unsqueeze": "write ad.expand_dims(t, axis), or t[None]",
    "view": "it is called reshape here",
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
