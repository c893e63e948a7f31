"""`ctx`: the declarations of a forward method, and the values that its backward method may read.

The names are those of torch for R: save_for_backward, saved_variables, needs_input_grad, mark_dirty,
mark_non_differentiable, set_materialize_grads.  Attributes set on a context belong to the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from ..errors import GradientError, caller, located, meant
from ..tensor import Tensor


class Fields(Sequence):
    """Values by name, by attribute and by position; read only.

    A saved value named like a method of sequences, such as `index` or `count`, is found before that method.
    """

    __slots__ = ("__guard", "__names", "__values", "__what")

    def __init__(
        self,
        names: Sequence[str | None],
        values: Sequence[Any],
        what: str,
        guard: Callable[[str], Any] | None = None,
    ) -> None:
        """`guard(what)` is called before each read, and may raise an error."""
        object.__setattr__(self, "_Fields__names", tuple(names))
        object.__setattr__(self, "_Fields__values", tuple(values))
        object.__setattr__(self, "_Fields__what", what)
        object.__setattr__(self, "_Fields__guard", guard)

    def __read(self) -> tuple[Any, ...]:
        if self.__guard is not None:
            self.__guard(self.__what)
        return self.__values

    def __getattribute__(self, name: str) -> Any:
        names = object.__getattribute__(self, "_Fields__names")
        if name in names:
            return object.__getattribute__(self, "_Fields__read")()[names.index(name)]
        return object.__getattribute__(self, name)

    @property
    def _fields(self) -> tuple[str | None, ...]:
        """The names in order, as named tuples have them; None for a value that was saved without a name."""
        return self.__names

    def _asdict(self) -> dict[str, Any]:
        """The values that have a name, by name."""
        return {n: v for n, v in zip(self.__names, self.__read(), strict=True) if n is not None}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(self.__what, name, self.__names))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self.__what} is read only")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.__names:
                raise KeyError(_unknown(self.__what, key, self.__names))
            return self.__read()[self.__names.index(key)]
        values = self.__read()
        try:
            return values[key]
        except IndexError:
            raise IndexError(f"{self.__what} has {len(values)} values, none of number {key}") from None

    def __len__(self) -> int:
        return len(self.__values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__read())

    def __repr__(self) -> str:
        parts = [f"{n}={v!r}" if n else repr(v) for n, v in zip(self.__names, self.__read(), strict=True)]
        return f"{self.__what}({', '.join(parts)})"


def _unknown(what: str, name: str, names: Sequence[str | None]) -> str:
    valid = [n for n in names if n]
    mend = meant(name, valid)
    if what == "saved_variables" and not mend:
        mend = f"\n  forward saves it: ctx.save_for_backward({name}={name})"
    return f"{what} has no {name!r}, only {', '.join(map(repr, valid)) or 'no names'}{mend}"


class Declared:
    """The declarations that a forward method made on its context.

    saved        (name or None, value) in order; None before save_for_backward
    constant     outputs through which no gradient flows
    dirty        inputs that were changed in place
    materialize  True if the cotangent of an unused output is zeros, not None
    """

    saved: tuple[tuple[str | None, Any], ...] | None = None
    constant: Sequence[Any] = ()
    dirty: Sequence[Any] = ()
    materialize = True


class ForwardContext:
    """The `ctx` of a forward method.  Each attribute that forward sets on it is kept for backward.

    The class is for annotations only; the library makes the instances.

    >>> import autodiff as ad
    >>> @ad.function
    ... def scaled(x, rate): ...
    >>> @scaled.forward
    ... def _(ctx: ad.ForwardContext, x: ad.Tensor, rate: ad.Number):
    ...     ctx.rate = rate
    ...     return x * rate
    >>> @scaled.backward(ad.Tensor, ad.Number)
    ... def _(ctx: ad.BackwardContext, y_bar: ad.Tensor):
    ...     return y_bar * ctx.rate
    >>> ad.grad(scaled)(2.0, 3)
    np.float64(3.0)
    """

    #: The context's own attributes; `__dict__` holds only those that forward sets.
    __slots__ = ("__declared", "__dict__", "__function", "__inputs", "__names", "__needs", "__weakref__")

    def __init__(self, function: str, names: Sequence[str], needs: Sequence[bool], inputs: Sequence[Any]) -> None:
        self.__function = function
        self.__names = names
        self.__needs = needs
        self.__inputs = inputs
        self.__declared = Declared()

    @property
    def needs_input_grad(self) -> Fields:
        """True for each declared parameter that may need a gradient; by name and position.

        >>> import autodiff as ad
        >>> @ad.function
        ... def scaled(x, factor): ...
        >>> @scaled.forward(ad.Tensor, ad.Tensor)
        ... def _(ctx, x, factor):
        ...     print(ctx.needs_input_grad.x, ctx.needs_input_grad.factor)
        ...     return x * factor
        >>> @scaled.backward(ad.Tensor, ad.Tensor)
        ... def _(ctx, y_bar):
        ...     return {"x": y_bar * ctx.inputs.factor, "factor": None}
        >>> y = scaled(ad.tensor(3.0, requires_grad=True), ad.tensor(2.0))
        True False
        """
        return Fields(self.__names, self.__needs, "needs_input_grad")

    @property
    def inputs(self) -> Fields:
        """The arguments of the call, by parameter name."""
        return Fields(self.__names, self.__inputs, "inputs")

    def save_for_backward(self, /, *values: Any, **named: Any) -> None:
        """Keep values for backward: inputs, outputs, intermediates, and values that are no tensors.

        Names and order are kept, and `None` keeps its place.  Raises GradientError when called twice.

        >>> import autodiff as ad
        >>> @ad.function
        ... def hill(x): ...
        >>> @hill.forward(ad.Tensor)
        ... def _(ctx, x):
        ...     ctx.save_for_backward(x, 2.0, root=None)
        ...     return -(x**2)
        >>> @hill.backward(ad.Tensor)
        ... def _(ctx, y_bar):
        ...     x, two = ctx.saved_variables[:2]
        ...     print(two, ctx.saved_variables.root)
        ...     return -two * x * y_bar
        >>> ad.grad(hill)(ad.tensor(3.0))
        2.0 None
        f64[] -6.0
        """
        if self.__declared.saved is not None:
            raise GradientError(located(
                f"{self.__function}: save_for_backward was called before in this forward",
                "save everything in one call",
            ))
        declared = self.__declared
        declared.saved = (*[(None, v) for v in values], *named.items()) if values else tuple(named.items())

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Declare inputs that this forward changes in place; each of them must also be returned.

        The caller's handle then carries the new value and this function's history.
        Raises GradientError (when forward returns) for a value that is no input, or is not returned.

        >>> import autodiff as ad
        >>> @ad.function
        ... def doubled_(x): ...
        >>> @doubled_.forward(ad.Tensor)
        ... def _(ctx, x):
        ...     x *= 2
        ...     ctx.mark_dirty(x)
        ...     return x
        >>> @doubled_.backward(ad.Tensor)
        ... def _(ctx, y_bar):
        ...     return 2 * y_bar
        >>> x = ad.tensor(3.0)
        >>> y = doubled_(x)
        >>> x
        f64[] 6.0
        """
        self.__declared.dirty = (*self.__declared.dirty, *inputs)

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declare outputs through which no gradient flows.

        Raises GradientError (when forward returns) for a value that forward does not return.

        >>> import autodiff as ad
        >>> @ad.function
        ... def with_sign(x): ...
        >>> @with_sign.forward(ad.Tensor)
        ... def _(ctx, x):
        ...     sign = ad.sign(x)
        ...     ctx.mark_non_differentiable(sign)
        ...     return x * sign, sign
        >>> @with_sign.backward(ad.Tensor)
        ... def _(ctx, y_bar, _):
        ...     return y_bar * ctx.outputs[1]
        >>> y, sign = with_sign(ad.tensor(-3.0, requires_grad=True))
        >>> y.requires_grad, sign.requires_grad
        (True, False)
        """
        self.__declared.constant = (*self.__declared.constant, *outputs)

    def set_materialize_grads(self, flag: bool) -> None:
        """Choose zeros (True, the default) or None as the cotangent of an unused output.

        >>> import autodiff as ad
        >>> @ad.function
        ... def both(x): ...
        >>> @both.forward(ad.Tensor)
        ... def _(ctx, x):
        ...     ctx.set_materialize_grads(False)
        ...     return 2 * x, 3 * x
        >>> @both.backward(ad.Tensor)
        ... def _(ctx, two_bar, three_bar):
        ...     print(three_bar)
        ...     return 2 * two_bar
        >>> ad.grad(lambda x: both(x)[0])(ad.tensor(1.0))
        None
        f64[] 2.0
        """
        self.__declared.materialize = bool(flag)


#: The declarations made on a context so far.
declarations_of: Callable[[ForwardContext], Declared] = attrgetter("_ForwardContext__declared")
_function_of = attrgetter("_ForwardContext__function")


def attributes(ctx: ForwardContext) -> dict[str, Any]:
    """The attributes that forward set on its context.  Raises GradientError for a name that contexts use themselves."""
    found = dict(ctx.__dict__)
    taken = [name for name in found if hasattr(BackwardContext, name) or hasattr(ForwardContext, name)]
    if taken:
        raise GradientError(located(
            f"{_function_of(ctx)}: forward sets ctx.{taken[0]}, which is a context's own",
            "use another name, or ctx.save_for_backward(...)",
        ))
    return found


#: Methods that only a forward's context has.
_OF_FORWARD = frozenset(("mark_dirty", "mark_non_differentiable", "save_for_backward", "set_materialize_grads"))


class BackwardContext:
    """The `ctx` of a backward method or a jvp rule, made anew for each run, so that it keeps no graph alive.

    The class is for annotations only.  Each read fetches the value, and raises an error once the graph is released.

    >>> import autodiff as ad
    >>> @ad.function
    ... def square(x: ad.Tensor):
    ...     return x * x
    >>> @square.backward(ad.Tensor)
    ... def _(ctx: ad.BackwardContext, y_bar: ad.Tensor):
    ...     return 2 * ctx.inputs.x * y_bar
    >>> ad.grad(square)(3.0)
    np.float64(6.0)
    """

    def __init__(
        self, call: Any, tensor_at: Callable[[int], Any], static: Callable[[Any], Any],
        is_released: Callable[[], bool], is_wanted: Callable[[int], bool], needs: dict[str, bool],
    ) -> None:  # fmt: skip
        """For the parameters see `transforms.rule_values`."""
        self.__call, self.__tensor_at, self.__static, self.__is_released = call, tensor_at, static, is_released
        self.__is_wanted, self.__needs = is_wanted, needs

    def __guard(self, what: str) -> None:
        """Raise GradientError once a backward has released the graph."""
        if self.__is_released():
            call = self.__call
            raise GradientError(
                f"{call.function.__name__}: {what} is read after the graph was released (called at {call.line})\n"
                f"  read at {caller()}\n"
                "  pass retain_graph=True to the backward that came before, or read it inside of backward"
            )

    def __read(self, packed: Any) -> Any:
        return packed.unpack(self.__tensor_at, self.__static)

    @property
    def saved_variables(self) -> Fields:
        """The values that forward saved, by name, attribute and position.

        Raises GradientError after the graph is released.
        """
        self.__guard("saved_variables")
        saved = self.__call.saved
        return Fields([n for n, _ in saved], [self.__read(p) for _, p in saved], "saved_variables", self.__guard)

    @property
    def saved_tensors(self) -> tuple:
        """The values that forward saved, as a tuple (as in PyTorch)."""
        self.__guard("saved_tensors")
        return tuple([self.__read(packed) for _, packed in self.__call.saved])

    @property
    def needs_input_grad(self) -> Fields:
        """True for each declared parameter that needs a gradient now; by name and position."""
        return Fields(list(self.__needs), list(self.__needs.values()), "needs_input_grad")

    @property
    def inputs(self) -> Fields:
        """The arguments of the call, by parameter name.

        >>> import autodiff as ad
        >>> @ad.function
        ... def power(x, exponent): ...
        >>> @power.forward(ad.Tensor, int)
        ... def _(ctx, x, exponent):
        ...     return x**exponent
        >>> @power.backward(ad.Tensor, int)
        ... def _(ctx, y_bar):
        ...     x, exponent = ctx.inputs
        ...     return {"x": y_bar * exponent * x ** (exponent - 1)}
        >>> ad.grad(power)(ad.tensor(2.0), 3)
        f64[] 12.0
        """
        self.__guard("inputs")
        arguments = self.__call.arguments
        values = [packed.unpack(self.__tensor_at) for packed in arguments.values()]
        return Fields(list(arguments), values, "inputs", self.__guard)

    @property
    def outputs(self) -> Any:
        """The results of the call, in their own container."""
        self.__guard("outputs")
        return self.__call.result.unpack(self.__tensor_at)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_BackwardContext__") or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        call = self.__call
        if name in _OF_FORWARD:
            raise GradientError(located(f"{call.function.__name__}: {name} belongs in forward; backward only reads"))
        self.__guard(f"ctx.{name}")
        if name not in call.attributes:
            raise AttributeError(f"ctx has no {name!r}: forward did not set it (called at {call.line})")
        return self.__read(call.attributes[name])


_wanted_in = attrgetter("_BackwardContext__call", "_BackwardContext__is_wanted")


def wanted(ctx: BackwardContext, name: str) -> Any:
    """True for each tensor in an argument that needs a gradient now; in the argument's own container."""
    call, is_wanted = _wanted_in(ctx)
    return call.arguments[name].unpack(is_wanted)
