# Made by tools/stubs.py from tools/space.pyi.in and the declarations in autodiff/ops: change those, and run it again.

from typing import SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from . import Tensor, _ArrayLike, _operation, _Shape

@_operation
def bernoulli(key: _ArrayLike, p: _ArrayLike = 0.5, shape: _Shape | None = None) -> Tensor: ...
@_operation
def bits(key: _ArrayLike, shape: _Shape = (), dtype: DTypeLike = np.int32) -> Tensor: ...
@_operation
def categorical(
    key: _ArrayLike, logits: _ArrayLike, axis: SupportsIndex = -1, shape: _Shape | None = None
) -> Tensor: ...
@_operation
def choice(
    key: _ArrayLike,
    a: _ArrayLike,
    shape: _Shape = (),
    replace: bool = True,
    p: _ArrayLike | None = None,
    axis: SupportsIndex = 0,
) -> Tensor: ...
@_operation
def exponential(key: _ArrayLike, shape: _Shape = (), dtype: DTypeLike = np.float64) -> Tensor: ...
@_operation
def fold_in(key: _ArrayLike, data: _ArrayLike) -> Tensor: ...
@_operation
def gumbel(key: _ArrayLike, shape: _Shape = (), dtype: DTypeLike = np.float64) -> Tensor: ...
def key(seed: _ArrayLike) -> Tensor: ...
@_operation
def laplace(key: _ArrayLike, shape: _Shape = (), dtype: DTypeLike = np.float64) -> Tensor: ...
@_operation
def logistic(key: _ArrayLike, shape: _Shape = (), dtype: DTypeLike = np.float64) -> Tensor: ...
@_operation
def normal(key: _ArrayLike, shape: _Shape = (), dtype: DTypeLike = np.float64) -> Tensor: ...
@_operation
def permutation(key: _ArrayLike, x: _ArrayLike, axis: SupportsIndex = 0) -> Tensor: ...
@_operation
def randint(
    key: _ArrayLike, shape: _Shape, minval: _ArrayLike, maxval: _ArrayLike, dtype: DTypeLike = np.int64
) -> Tensor: ...
@_operation
def split(key: _ArrayLike, num: SupportsIndex = 2) -> Tensor: ...
@_operation
def truncated_normal(
    key: _ArrayLike, lower: _ArrayLike, upper: _ArrayLike, shape: _Shape | None = None, dtype: DTypeLike = np.float64
) -> Tensor: ...
@_operation
def uniform(
    key: _ArrayLike,
    shape: _Shape = (),
    dtype: DTypeLike = np.float64,
    minval: _ArrayLike = 0.0,
    maxval: _ArrayLike = 1.0,
) -> Tensor: ...
