"""A user's own type: arrays with physical units, which check themselves, also in the backward pass.

Shown: a class that the library has never heard of gets `@`, `+`, a multiple and a backward of its own by methods added
from outside, and takes part in everything that is written with them.
"""

import numpy as np

import autodiff as ad


class UnitError(Exception):
    """Units that do not fit."""


class Quantity(ad.AbstractTensor):
    """Numbers and their unit, as powers of base units: Quantity(x, kg=1, s=-2)."""

    def __init__(self, value, **powers):
        self.value = value
        self.powers = {name: p for name, p in sorted(powers.items()) if p}

    def __repr__(self):
        return f"{self.value} {' '.join(f'{n}^{p}' if p != 1 else n for n, p in self.powers.items()) or '(no unit)'}"


def combined(a, b, sign=1):
    """The powers of a·b, or of a/b with sign -1."""
    return {n: a.powers.get(n, 0) + sign * b.powers.get(n, 0) for n in {*a.powers, *b.powers}}


# The parts of a Quantity: its array may be differentiated; its unit comes along.
ad.tree.register(
    Quantity,
    lambda q: ([q.value], tuple(q.powers.items())),
    lambda powers, leaves: Quantity(leaves[0], **dict(powers)),
)


@ad.add.method(Quantity, Quantity)
def _(x1, x2):
    if x1.powers != x2.powers:
        raise UnitError(f"{x1.powers} + {x2.powers}")
    return Quantity(x1.value + x2.value, **x1.powers)


@ad.multiply.method(ad.Number, Quantity)
def _(x1, x2):
    return Quantity(x1 * x2.value, **x2.powers)


@ad.matmul.method(Quantity, Quantity)
def _(x1, x2):
    return Quantity(x1.value @ x2.value, **combined(x1, x2))


CALLS: list[dict[str, int]] = []


@ad.matmul.backward(Quantity, Quantity)
def _(ctx, grad_output):
    """Matrix by vector, or vector by vector.  A gradient comes in the container of its input."""
    CALLS.append(ctx.outputs.powers)
    a, b, g = ctx.inputs.x1, ctx.inputs.x2, grad_output.value
    to_a, to_b = (g * b.value, g * a.value) if a.value.ndim == 1 else (ad.outer(g, b.value), a.value.T @ g)
    return {"x1": Quantity(to_a, **a.powers), "x2": Quantity(to_b, **b.powers)}


def work(stiffness, displacement):
    """Energy of a network of springs: displacement @ stiffness @ displacement / 2."""
    return 0.5 * (displacement @ (stiffness @ displacement))


def main():
    k = np.array([[3.0, -1.0], [-1.0, 2.0]])
    d = np.array([0.1, 0.2])
    stiffness, displacement = Quantity(ad.tensor(k), kg=1, s=-2), Quantity(ad.tensor(d, requires_grad=True), m=1)
    energy = work(stiffness, displacement)
    print("energy:", energy)
    assert energy.powers == {"kg": 1, "m": 2, "s": -2}

    energy.value.backward()
    force = Quantity(displacement.value.grad, **combined(energy, displacement, -1))
    print("force: ", force)
    assert force.powers == {"kg": 1, "m": 1, "s": -2}
    assert np.allclose(np.asarray(force.value), k @ d)
    assert len(CALLS) == 2  # both products went through the rule above
    print(ad.which_backward(ad.matmul, stiffness, displacement))

    try:
        stiffness + displacement
    except UnitError as error:
        print("refused:", error)
    else:
        raise AssertionError("a stiffness and a displacement were added")


if __name__ == "__main__":
    main()
