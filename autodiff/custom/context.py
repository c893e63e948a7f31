"""`ctx`: what a forward method says, and what its backward method may read.

R torch's names: save_for_backward, saved_variables, needs_input_grad, mark_non_differentiable,
set_materialize_grads.  Attributes set on a context belong to the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import GradientError, caller
from ..tensor import Tensor

__all__ = ["BackwardContext", "Fields", "ForwardContext"]


class Fields(Sequence):
    """Values by name, by attribute and by position; read only.

    Names win over anything a sequence has of its own, so a saved `index` or `count` is read as such.
    """

    __slots__ = ("_names", "_values", "_what")

    def __init__(self, names: Sequence[str | None], values: Sequence[Any], what: str) -> None:
        object.__setattr__(self, "_names", tuple(names))
        object.__setattr__(self, "_values", tuple(values))
        object.__setattr__(self, "_what", what)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            names = object.__getattribute__(self, "_names")
            if name in names:
                return object.__getattribute__(self, "_values")[names.index(name)]
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(self._what, name, self._names))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._what} is read only")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._names:
                raise KeyError(_unknown(self._what, key, self._names))
            return self._values[self._names.index(key)]
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __repr__(self) -> str:
        parts = [f"{n}={v!r}" if n else repr(v) for n, v in zip(self._names, self._values, strict=True)]
        return f"{self._what}({', '.join(parts)})"


def _unknown(what: str, name: str, names: Sequence[str | None]) -> str:
    import difflib

    valid = [n for n in names if n]
    close = difflib.get_close_matches(name, valid, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{what} has no {name!r}: there are {', '.join(map(repr, valid)) or 'no names'}{hint}"


class ForwardContext:
    """What a forward method gets as `ctx`."""

    def __init__(self, function: str, names: Sequence[str], needs: Sequence[bool], inputs: Sequence[Any]) -> None:
        self._function = function
        self._names = tuple(names)
        self._needs = tuple(needs)
        self._inputs = tuple(inputs)
        self._saved: tuple[tuple[str | None, Any], ...] | None = None
        self._constant_outputs: list[Tensor] = []
        self._materialize = True

    @property
    def needs_input_grad(self) -> Fields:
        """For every declared parameter, whether a gradient will be asked for; by name and position."""
        return Fields(self._names, self._needs, "needs_input_grad")

    @property
    def inputs(self) -> Fields:
        """The arguments of the call, by parameter name."""
        return Fields(self._names, self._inputs, "inputs")

    def save_for_backward(self, *values: Any, **named: Any) -> None:
        """Keep values for backward: inputs, outputs, intermediates, and things that are no tensors.

        Names and order are kept, and `None` keeps its place.  Raises GradientError when called twice.
        """
        if self._saved is not None:
            raise GradientError(
                f"{self._function}: save_for_backward was called before in this forward\n"
                f"  called at {caller()}\n"
                "  save everything in one call"
            )
        self._saved = tuple([(None, v) for v in values] + list(named.items()))

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Declare outputs through which no gradient flows."""
        self._constant_outputs.extend(outputs)

    def set_materialize_grads(self, flag: bool) -> None:
        """Whether the cotangent of an unused output is zeros (the default) or None."""
        self._materialize = bool(flag)


#: Names of ForwardContext's own attributes: everything else in its __dict__ was set by the user.
OWN = frozenset(
    ("_constant_outputs", "_function", "_inputs", "_materialize", "_names", "_needs", "_saved")
)


class BackwardContext:
    """What a backward method gets as `ctx`: made anew for each run, so nothing keeps the graph alive."""

    def __init__(
        self,
        function: str,
        saved: Fields,
        needs: Fields,
        inputs: Fields,
        outputs: Any,
        attributes: dict[str, Any],
    ) -> None:
        self.__dict__.update(attributes)
        self._function = function
        self._saved = saved
        self._needs = needs
        self._inputs = inputs
        self._outputs = outputs

    @property
    def saved_variables(self) -> Fields:
        """What forward saved, by name, attribute and position."""
        return self._saved

    @property
    def saved_tensors(self) -> tuple:
        """What forward saved, as a tuple (the PyTorch habit)."""
        return tuple(self._saved)

    @property
    def needs_input_grad(self) -> Fields:
        """For every declared parameter, whether its gradient is wanted now; by name and position."""
        return self._needs

    @property
    def inputs(self) -> Fields:
        """The arguments of the call, by parameter name."""
        return self._inputs

    @property
    def outputs(self) -> Any:
        """What the call returned, in its own container."""
        return self._outputs

    def save_for_backward(self, *_values: Any, **_named: Any) -> None:
        """Not here: raises GradientError."""
        raise GradientError(
            f"{self._function}: save_for_backward belongs in forward; backward only reads\n  called at {caller()}"
        )
