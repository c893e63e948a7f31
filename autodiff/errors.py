"""The types of errors and warnings, and the functions that write their messages.

Every message says what happened, where (at the user's line) and how to mend it: `raise ShapeError(located(...))`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import index
from types import FunctionType

import numpy as np

from codegen.ir import aval

from .frames import outside, user_line

__all__ = [
    "AmbiguityError", "ConcretizationError", "DTypeError", "DispatchError", "Error", "GradientError", "LinAlgError",
    "LostGradientWarning", "ShapeError", "WorkerError", "amount", "caller", "check_callable", "check_not_masked",
    "check_nothing", "check_numbers", "check_path", "hint_in", "in_short", "located", "warn", "with_article", "writing",
]  # fmt: skip


class Error(Exception):
    """The base class of this library's errors: catch it to catch all of them.

    >>> import autodiff as ad
    >>> try:
    ...     ad.reshape([1.0, 2.0], (3,))
    ... except ad.Error as error:
    ...     print(type(error).__name__)
    ShapeError
    """


class ShapeError(Error, ValueError):
    """Extents, axes or nestings that do not go together.

    >>> import autodiff as ad
    >>> ad.ones((3, 4)) @ ad.ones((5, 4))
    Traceback (most recent call last):
        ...
    autodiff.errors.ShapeError: matmul: inner sizes differ: f64[3,4] @ f64[5,4]
      a has 4 columns, b has 5 rows
      called at ...
      if b is stored by rows, pass mT(b)
    """


class DTypeError(Error, TypeError):
    """A dtype that the operation, or the library, does not take.

    >>> import autodiff as ad
    >>> ad.tensor([1, 2], requires_grad=True)
    Traceback (most recent call last):
        ...
    autodiff.errors.DTypeError: tensors of int64 cannot require gradients: a gradient is a limit, and ...
      called at ...
      make it float: ad.tensor(data, dtype=ad.float64, requires_grad=True)
    """


class GradientError(Error, RuntimeError):
    """A gradient that cannot be computed: there is no rule, a rule returns a wrong result, the graph was released.

    >>> import autodiff as ad
    >>> ad.tensor([1.0, 2.0], requires_grad=True).numpy()
    Traceback (most recent call last):
        ...
    autodiff.errors.GradientError: numpy() of a f64[2] that requires grad would lose its gradient
      called at ...
      compute with ad.* functions: ad.asarray makes tensors of operands, ad.stack one of a list of tensors;
      t.detach().numpy() has the value alone, through which no gradient flows
    """


class GradientShapeError(GradientError, ShapeError):
    """A gradient whose shape is not that of its value: passed by the user, or returned by a rule or a hook."""


class GradientDTypeError(GradientError, DTypeError):
    """A gradient whose dtype is not that of its value."""


class LinAlgError(Error, np.linalg.LinAlgError):
    """A matrix that is singular, or not positive definite, where it may not be.

    >>> import autodiff as ad
    >>> ad.linalg.inv(ad.zeros((2, 2))).numpy()
    Traceback (most recent call last):
        ...
    autodiff.errors.LinAlgError: inv: matrix of 2 rows is singular
      asked at ...
      ad.linalg.pinv gives its pseudo-inverse...
    """


class ConcretizationError(Error, TypeError):
    """A use of a tensor's value inside `jit`, `vmap` or a loop, where tensors have no values yet.

    >>> import autodiff as ad
    >>> ad.jit(lambda x: x if x > 0 else -x)(1.0)
    Traceback (most recent call last):
        ...
    autodiff.errors.ConcretizationError: the value of a traced argument was asked for: ...
      asked at ...: the truth of a bool[]
      use ad.where, ad.cond or ad.while_loop instead of `if` and `while`, & and | instead of `and` and `or`,
      ad.minimum and ad.maximum instead of min() and max();
      or mark the argument static (static_argnums), in vmap give it in_axes=None
    """


class DispatchError(Error, TypeError):
    """A call, or a registration, that does not fit a generic function: no method, wrong arguments.

    >>> import autodiff as ad
    >>> @ad.function
    ... def twice(x): ...
    >>> @twice.method(ad.Tensor)
    ... def _(x):
    ...     return 2 * x
    >>> twice("text")
    Traceback (most recent call last):
        ...
    autodiff.errors.DispatchError: twice has no method for (str)
      near: twice(x: Tensor)  ...
        x is str, not Tensor
      called at ...
      to add one: @twice.method(str)
    """


class AmbiguityError(DispatchError):
    """A call that several methods fit, none of which is the most specific.

    >>> import autodiff as ad
    >>> @ad.function
    ... def f(x, y): ...
    >>> @f.method(ad.Matrix, ad.Tensor)
    ... def _(x, y): ...
    >>> @f.method(ad.Tensor, ad.Matrix)
    ... def _(x, y): ...
    >>> f(ad.ones((2, 2)), ad.ones((2, 2)))
    Traceback (most recent call last):
        ...
    autodiff.errors.AmbiguityError: f(Tensor[float64, 2], Tensor[float64, 2]) is ambiguous: none of these is ...
      f(x: Tensor, y: Tensor[..., 2])  ...
      f(x: Tensor[..., 2], y: Tensor)  ...
      called at ...
      to settle it: @f.method(ad.Tensor[..., 2], ad.Tensor[..., 2])
    """


class WorkerError(Error, RuntimeError):
    """A sum over shards for which workers were lost, or none is left: see `ad.sum_over`.

    keys   the keys of the shards that have no result

    >>> import autodiff as ad
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> pool = ThreadPoolExecutor(1)
    >>> pool.shutdown()
    >>> ad.sum_over(lambda w, x: w * x, ad.shards(lambda key: (key,), [1.0, 2.0], on=pool))(1.0)
    Traceback (most recent call last):
        ...
    autodiff.errors.WorkerError: sum_over: 2 of 2 shards have no result after 1 attempt: RuntimeError: cannot ...
      keys: 1.0, 2.0
      called at ...
      give on= a function that makes the executor, so that a broken one is made again:
      on=lambda: ProcessPoolExecutor(4)
    """

    keys: tuple = ()


class LostGradientWarning(UserWarning):
    """A differentiated value that became a number or an array, so that no gradient flows through results of it.

    The warning is given once per line.  `ad.stop_gradient(x)` says that the loss of the gradient is meant.

    >>> import autodiff as ad, math, warnings
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     slope = ad.grad(lambda x: x * math.sin(x))(3.0)
    >>> found[0].category.__name__
    'LostGradientWarning'
    >>> ad.grad(lambda x: x * math.sin(ad.stop_gradient(x)))(3.0) == slope
    np.True_
    """


def caller() -> str:
    """The present line of the user's program, for an error message: `train.py:41, in loss`.

    If no frame is the user's, the module that called this library: `loky.backend.queues, outside of your program`.
    """
    return str(user_line() or outside())


def located(what: str, *mends: str) -> str:
    """A message: what happened, the present line of the user's program, and how to mend it."""
    return "\n  ".join([what, f"called at {caller()}", *filter(None, mends)])


aval.called_at = lambda: located("")

#: For each file of the user's program its registry of given warnings: each is given once a line, as by `warnings.warn`.
_warned: dict[str, dict] = {}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the user's line, of something that is probably not meant."""
    line = user_line()
    file = line.file if line else __name__
    registry = _warned.setdefault(file, {})
    warnings.warn_explicit(message, category, file, line.line if line else 1, registry=registry)


def meant(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known one that is most like it, if there is one."""
    from difflib import get_close_matches  # for this message only

    return "".join([f"; did you mean {close!r}?" for close in get_close_matches(str(name), known, 1)])


def with_article(name: str) -> str:
    """The name of a type after "a" or "an": an Interval, an ndarray, a float; or None."""
    article = "an" if name[:1].lower() in "aeio" or name == "ndarray" else "a"
    return "None" if name == "NoneType" else f"{article} {name}"


def in_short(x: object) -> str:
    """A value in a message: a function by its name, an array by its type, all else as Python has it, in 40 letters."""
    if isinstance(x, FunctionType):
        return f"the function {x.__name__}"
    return with_article(type(x).__name__) if hasattr(x, "shape") else f"{x!r:.40}"


def amount(count: int, what: str) -> str:
    """A number of things in a message: 1 element, 2 elements."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def check_callable(f: object, taker: str) -> None:
    """Raise DispatchError unless f, which was passed to `taker` as a function, can be called."""
    if not callable(f):
        raise DispatchError(located(f"{taker}: takes a function, got {f!r:.40} ({type(f).__name__})"))


def check_nothing(taker: str, advice: str, *given: object, **named: object) -> None:
    """Raise DispatchError if a function that takes no arguments was called with some."""
    told = [*map(in_short, given), *[f"{name}={in_short(x)}" for name, x in named.items()]]
    if told:
        raise DispatchError(located(f"{taker}: takes no arguments, got {', '.join(told)}", advice))


def check_path(path: object, taker: str) -> None:
    """Raise Error unless `path` is a path, of a file to write."""
    if not isinstance(path, (str, os.PathLike)):
        raise Error(located(f"{taker}: path is a file to write, not {in_short(path)}"))


@contextmanager
def writing(taker: str, path: object) -> Iterator[None]:
    """A context that raises Error, with the name of the file, if the file cannot be written inside."""
    try:
        yield
    except (OSError, ValueError) as error:
        name, reason = (getattr(error, "filename", None) or path), (getattr(error, "strerror", None) or error)
        raise Error(located(f"{taker}cannot write {name}: {reason}")) from None


def check_numbers(numbers: object, names: str, taker: str) -> None:
    """Raise DispatchError unless these are integers that number arguments, not f's arguments themselves, say."""
    for number in numbers if isinstance(numbers, (tuple, list)) else (numbers,):
        try:
            index(number)
        except TypeError:
            raise DispatchError(located(
                f"{taker}: {names} holds {in_short(number)}, not the number of an argument",
                f"{taker} gives a function, which is called with the arguments: ad.{taker}(f)(x)",
            )) from None


def check_not_masked(x: object) -> None:
    """Raise DTypeError for a masked array: there are none here, and its mask would be lost."""
    ma = sys.modules.get("numpy.ma")  # who has not imported it has no masked array; importing it takes 10 ms
    if ma is not None and isinstance(x, ma.MaskedArray):
        raise DTypeError(located(
            "a masked array is no tensor: its mask would be lost",
            "a.filled(value) says what stands where it is masked; ad.where chooses",
        ))


def hint_in(module: str, name: str) -> str:
    """The end of the message about a name that a module of the library lacks."""
    from .elsewhere import hint_of_module  # for this message only

    return hint_of_module(module, name)
