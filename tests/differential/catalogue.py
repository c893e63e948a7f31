"""The lines that a random program may have: one more value, in text, from those that are there.

    a template  (p, x) -> Line, or None where x does not suit it

`p` (`programs.Programmer`) picks, and knows the shapes of the values so far.  A line's `kink` is an
expression that is zero where the line is not smooth: programs stay away from there, since a difference
quotient, and rounding, may fall on either side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["FAMILIES", "Line"]


class Line(NamedTuple):
    """text     an expression, or statements that set `{out}`
    kink     zero where the line is not smooth
    """

    text: str
    kink: str = ""


SMOOTH = (
    "-{x}", "ad.exp(ad.tanh({x}))", "ad.sin({x})", "ad.cos({x})", "ad.tan(0.5 * ad.tanh({x}))", "ad.tanh({x})",
    "ad.sigmoid({x})", "ad.softplus({x})", "ad.log1p({x} * {x})", "ad.log(1.5 + {x} ** 2)",
    "ad.sqrt(1 + ad.square({x}))", "ad.erf({x})", "ad.arctan({x})", "ad.reciprocal(2 + ad.sin({x}))",
    "ad.expm1(0.5 * ad.sin({x}))", "ad.sinh(ad.tanh({x}))", "ad.cosh(ad.sin({x}))", "ad.arcsin(0.5 * ad.sin({x}))",
    "ad.arccos(0.7 * ad.tanh({x}))", "ad.arcsinh({x})", "ad.arctanh(0.5 * ad.sin({x}))", "ad.arccosh(1.5 + {x} * {x})",
    "ad.log2(2.0 + ad.cos({x}))", "ad.log10(3 + ad.sin({x}))", "{x} ** 2", "{x} ** 3", "(1.0 + {x} * {x}) ** -0.5",
    "1.25 ** ad.sin({x})", "np.exp(ad.sin({x}))", "np.sin({x}) * 2", "{x} * 2", "3 - {x}", "{x} / 4",
    "1.0 / (2.5 + ad.cos({x}))", "{x} - {x} * 0.5",
    "+{x} + 1", "{x} * {x}", "({x} + 1.0) * ({x} - 1.0)",
)  # fmt: skip

KINKED = (
    ("ad.abs({x})", "{x}"),
    ("abs({x})", "{x}"),
    ("ad.relu({x})", "{x}"),
    ("ad.sign({x}) * {x}", "{x}"),
    ("ad.floor({x}) + {x}", "{x} - ad.round({x})"),
    ("ad.clip({x}, -0.5, 0.75)", "({x} + 0.5) * ({x} - 0.75)"),
    ("ad.maximum({x}, 0.25)", "{x} - 0.25"),
    ("ad.minimum(0.25, {x})", "{x} - 0.25"),
    ("ad.where({x} > 0, {x} * 2, ad.sin({x}))", "{x}"),
    ("ad.where({x} > 0.5, ad.log({x}), 0.0)", "{x} - 0.5"),
    ("ad.where({x} > 0, ad.sqrt({x}), -{x})", "{x}"),
    ("ad.where({x} <= 0, 1.0, 1 / ad.maximum({x}, 0))", "{x}"),
    ("ad.where(ad.isfinite({x} / 0.0), 1.0, {x})", "{x}"),
    ("{x} % 1.5", "({x} % 1.5) * (1.5 - {x} % 1.5)"),
)

BINARY = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{y} * {x} + {x}", "{x} / (1.5 + ad.sin({y}))",
    "ad.arctan2({x}, 1.0 + ad.square({y}))", "ad.hypot({x}, 1.0 + ad.square({y}))", "np.add({x}, {y})",
    "ad.power(1.5 + ad.sin({x}), ad.cos({y}))", "(1.5 + ad.cos({x})) ** ad.tanh({y})",
    "ad.exp(ad.sin({x})) * ad.tanh({y})", "ad.logaddexp({x}, {y})", "compiled_product({x}, {y})",
)  # fmt: skip

BINARY_KINKED = (
    ("ad.maximum({x}, {y})", "{x} - {y}"),
    ("ad.minimum({x}, {y})", "{x} - {y}"),
    ("ad.where({x} > {y}, {x}, {y} * 2)", "{x} - {y}"),
    ("ad.where(ad.logical_and({x} > 0, {y} < 0.5), {x} * {y}, {y})", "{x} * ({y} - 0.5)"),
)


def smooth(p, x):
    return Line(p.pick(SMOOTH).format(x=x))


def kinked(p, x):
    text, kink = p.pick(KINKED)
    return Line(text.format(x=x), kink.format(x=x))


def binary(p, x):
    return Line(p.pick(BINARY).format(x=x, y=p.broadcastable(x)))


def binary_kinked(p, x):
    text, kink = p.pick(BINARY_KINKED)
    y = p.broadcastable(x)
    return None if x == y else Line(text.format(x=x, y=y), kink.format(x=x, y=y))


def constant(p, x):
    shape = p.shape(x)
    text = p.pick(("ladder{s} * {x}", "{x} + ladder{s}", "{x} * ad.asarray(ladder{s})", "{x} * np.arange(1, {n})"))
    n = shape[-1] + 1 if shape else 2
    return Line(text.format(x=x, s=shape[p.number(0, len(shape)) :] or "(1)", n=n))


# ---------------------------------------------------------------- reductions


def _axes(p, x):
    """None, one axis, or several, as text; and the keepdims."""
    rank = len(p.shape(x))
    one = [str(a) for a in range(-rank, rank)]
    several = [str(tuple(range(rank)[:k])) for k in range(1, rank + 1)] + [str((rank - 1, 0))] * (rank > 1)
    return p.pick(("None", *one, *several)), p.pick((True, False))


def reduction(p, x):
    if not p.size(x):
        return Line(p.pick(("ad.sum({x})", "ad.sum({x}, axis=0)", "ad.prod({x})")).format(x=x))
    axis, keep = _axes(p, x)
    name = p.pick(("sum", "sum", "mean", "prod", "var", "std", "max", "min", "logsumexp", "linalg", "method"))
    call = f"({x}, axis={axis}, keepdims={keep})"
    if name in ("max", "min"):
        return Line(f"ad.{name}{call}", f"gap({x}, {axis})")
    if name == "std":
        return Line(f"ad.std{call}", f"ad.var{call}")
    if name == "linalg":
        return Line(f"ad.sqrt(ad.sum({x} * {x}, axis={axis}, keepdims={keep}) + 0.1)")
    if name == "method":
        return Line(f"{x}.{p.pick(('sum', 'mean', 'prod'))}(axis={axis}, keepdims={keep})")
    return Line(f"ad.{name}{call}")


def rowwise(p, x):
    rank = len(p.shape(x))
    if not rank or not p.size(x):
        return None
    axis = p.number(-rank, rank - 1)
    text, kink = p.pick((
        ("ad.softmax({x}, axis={a})", ""),
        ("ad.log_softmax({x}, axis={a})", ""),
        ("ad.cumsum({x}, axis={a})", ""),
        ("ad.cumprod(1.0 + 0.5 * ad.sin({x}), axis={a})", ""),
        ("{x} - ad.mean({x}, axis={a}, keepdims=True)", ""),
        ("({x} - ad.mean({x}, axis={a}, keepdims=True)) / ad.sqrt(ad.var({x}, axis={a}, keepdims=True) + 0.1)", ""),
        ("{x} / (1.0 + ad.max({x}, axis={a}, keepdims=True) ** 2)", "gap({x}, {a})"),
        ("ad.take_along_axis({x}, ad.expand_dims(ad.argmax({x}, axis={a}), {a}), axis={a})", "gap({x}, {a})"),
        ("ad.exp({x} - ad.logsumexp({x}, axis={a}, keepdims=True))", ""),
    ))  # fmt: skip
    return Line(text.format(x=x, a=axis), kink.format(x=x, a=axis))


# ---------------------------------------------------------------- moves, indexing


def move(p, x):
    shape, rank = p.shape(x), len(p.shape(x))
    choices = [
        f"ad.expand_dims({x}, {p.number(-rank - 1, rank)})", f"ad.ravel({x})", f"ad.broadcast_to({x}, {(2, *shape)})",
        f"{x}.reshape(-1)", f"ad.pad({x}, 1)", f"{x}.T",
    ]  # fmt: skip
    if 1 in shape:
        choices += [f"ad.squeeze({x})", f"ad.broadcast_to({x}, {tuple(3 if n == 1 else n for n in shape)})"] * 2
    if rank:
        axis = p.number(-rank, rank - 1)
        widths = tuple((p.number(0, 1), p.number(0, 2)) for _ in shape)
        choices += [
            f"ad.flip({x}, axis={axis})", f"ad.flip({x})", f"ad.reshape({x}, {(*shape[1:], shape[0])})",
            f"ad.pad({x}, {widths}, constant_values=0.5)", f"ad.concatenate([{x}, {p.like(x)} * 2], axis={axis})",
            f"ad.stack([{p.like(x)}, {x}], axis={axis})",
        ]  # fmt: skip
        if shape[axis] % 2 == 0:
            choices += [f"ad.split({x}, 2, axis={axis})[{p.number(0, 1)}]"] * 2
    if rank > 1:
        order = tuple(p.permutation(rank))
        choices += [
            f"ad.transpose({x}, {order})", f"{x}.mT", f"ad.swapaxes({x}, 0, -1)", f"ad.moveaxis({x}, 0, -1)",
            f"ad.trace({x})", f"ad.diagonal({x}, {p.number(-1, 1)})",
        ]  # fmt: skip
    if rank in (1, 2):
        choices += [f"ad.diag({x})"]
    return Line(p.pick(choices))


def index(p, x):
    shape = p.shape(x)
    if not shape:
        return Line(p.pick(("{x}[None]", "{x}[...]")).format(x=x))
    entries, arrays = [], False
    for n in shape[: p.number(1, len(shape))]:
        kinds = [":", "::2", "::-1", "1:", ":-1", "..."]
        kinds += [str(p.number(-n, n - 1)), f"{p.number(0, n - 1)}:{n}"] if n else []
        kinds += [str([p.number(-n, n - 1) for _ in range(3)])] if n and not arrays else []
        kinds += ["k"] if n > 1 and not arrays else []
        entry = p.pick(kinds)
        arrays |= entry[0] in "[k"
        entries.append(":" if entry == "..." and "..." in entries else entry)
    if p.pick((True, False, False)):
        entries.insert(p.number(0, len(entries)), "None")
    text = f"{x}[{', '.join(entries)}]"
    if shape[0] > 1 and p.pick((False, False, True)):
        text = p.pick((f"ad.take({x}, [1, 0, 1], axis=0)", f"ad.take({x}, k, axis=0)"))
    return Line(text)


def in_place(p, x):
    """A handle of its own is changed; what was read before keeps its value."""
    shape = p.shape(x)
    choices = [
        "{out} = {x} * 2.0\n{out} += {x}", "{out} = {x} + 0.0\n{out} *= 0.5 + {x}", "{out} = ad.sin({x})\n{out} -= 1",
        "{out} = -{x}\n{out}.mul_({x})",
    ]  # fmt: skip
    if shape and shape[0] > 1:
        choices += [
            "{out} = {x} * 2.0\n{out}[0] = 0.25", "{out} = ad.tanh({x})\n{out}[1:] = {x}[:-1]",
            "{out} = {x} * 3.0\n{out}[0] += {x}[1]", "{out} = {x} * 1.5\n{out}[k[:1]] = {x}[k[1:2]] * 2",
        ]  # fmt: skip
    return Line(p.pick(choices).replace("{x}", x))


# ---------------------------------------------------------------- products


def product(p, x):
    shape = p.shape(x)
    y = p.like(x)
    choices = [f"{x} * ad.sum({y})"]
    if len(shape) == 1:
        choices += [
            f"ad.outer({x}, {p.of_rank(1)})", f"ad.dot({x}, {y})", f"{x} @ {y}", f"ad.inner({x}, {y})",
            f"ad.einsum('i,i->', {x}, {y})", f"ad.einsum('i,j->ji', {x}, {x})",
        ]  # fmt: skip
    if len(shape) == 2:
        choices += [
            f"{x} @ {y}.T", f"{x}.T @ {y}", f"ad.einsum('ij,ij->i', {x}, {y})", f"ad.einsum('ij,kj->ki', {x}, {y})",
            f"ad.tensordot({x}, {y}, axes=([0], [0]))", f"ad.einsum('ij->j', {x})", f"{x} @ ladder({shape[1]}, 2)",
            f"ladder(3, {shape[0]}) @ {x}",
        ]  # fmt: skip
    if len(shape) == 3:
        choices += [
            f"{x} @ {y}.mT", f"ad.matmul({x}.mT, {y})", f"ad.einsum('bij,bij->bi', {x}, {y})",
            f"{x} @ ladder({shape[2]})", f"ladder(2, {shape[1]}) @ {x}",
            f"ad.einsum('bij,kj->bik', {x}, ad.sum({y}, axis=0))",
        ]  # fmt: skip
    for z in p.values if shape else ():
        inner = p.shape(z)[-2:-1] or p.shape(z)
        if inner == shape[-1:]:
            choices += [f"{x} @ {z}"] * 2
    return Line(p.pick(choices))


# ---------------------------------------------------------------- functions


def custom(p, x):
    choices = [
        "gaussian({x})", "cubed(ad.tanh({x}))", "damped({x})", "damped({x}, rate=0.25)", "scaled({x}, 2.5)",
        "scaled({x}, {y})", "polar({x}, {y})[0]", "polar({x}, {y})[1]", "polar({x}, {x})[0]", "gaussian({x}) * {x}",
    ]  # fmt: skip
    if p.size(x):
        choices += ['stats({x})["mean"]', 'stats({x})["parts"][1]', "ad.multiply(*stats({x})['parts'])"]
    if len(p.shape(x)) == 2 and p.size(x):
        choices += [
            "affine({x}, {y}.T)", "affine({x}, {y}.T, {x}[:, 0])", "affine({x}, {y}.T, b={y}.sum(axis=1))",
            "affine({x}.T, w={x})",
        ]  # fmt: skip
    return Line(p.pick(choices).format(x=x, y=p.like(x)))


def nested(p, x):
    return Line(p.pick((
        "ad.grad(energy)({x})", "ad.value_and_grad(energy)({x})[0]", "ad.jvp(wave, ({x},), ({y},))[1]",
        "ad.vjp(wave, {x})[1]({y})[0]", "compiled_wave({x})", "ad.grad(lambda z: ad.sum(ad.sin(z) * {y}))({x})",
        "ad.grad(lambda z: ad.sum(ad.grad(energy)(z) * {x}))({y})", "ad.jit(wave)({x})",
    )).format(x=x, y=p.like(x)))  # fmt: skip


def cast(p, x):
    return Line(f"ad.astype({x}, ad.{p.pick(('float32', 'float64'))})") if p.dtype == np.float32 else None


#: Templates, with how often each is drawn.
FAMILIES = (
    *[smooth] * 4, *[kinked] * 2, *[binary] * 4, binary_kinked, constant, *[reduction] * 3, *[rowwise] * 2, *[move] * 3,
    *[index] * 3, in_place, *[product] * 3, *[custom] * 2, nested, cast,
)  # fmt: skip
