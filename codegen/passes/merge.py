"""Small kernels that follow each other become one: in the body of a loop, calling them is most of what they cost.

    k0(x0, x1) -> t0        one multiplication              k0(x0, x1, x2) -> t0, y0
    k1(t0, x2) -> y0        one addition

Only straight code, which cannot fail: its operations are put one after the other, so what the second reads is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..kernel.nest import Block, NestFunction, Value, known_integer
from ..program import Kernel
from .in_place import Draft, argument_names

__all__ = ["merged"]

#: Operations of one kernel.
_MOST = 256

#: Letters of a kernel's name.
_NAME = 60


def merged(drafts: Sequence[Draft]) -> list[Draft]:
    """The steps, with runs of small kernels as one each."""
    found: list[Draft] = []
    for draft in drafts:
        if found and _is_small(found[-1][0]) and _is_small(draft[0]):
            found[-1] = _joined(*found[-1], *draft)
        else:
            found.append(draft)
    return found


def _is_small(work: object) -> bool:
    """True if the step is a kernel of straight code that gives the status 0."""
    if not isinstance(work, Kernel) or work.extents or len(work.function.body.operations) > _MOST:
        return False
    *operations, end = work.function.body.operations
    is_fine = known_integer(end.operands[0]) == 0
    return is_fine and not work.function.calls and not any(o.regions for o in operations)


def _joined(a: Kernel, of_a: tuple[Hashable, ...], b: Kernel, of_b: tuple[Hashable, ...]) -> Draft:
    """Both as one kernel.  Arguments that are the same memory become one."""
    values = [*of_a, *[v for v in of_b if v not in of_a]]
    own = dict(zip(of_a, a.function.arguments, strict=True))
    same: dict[Value, Value] = {}
    arguments = list(a.function.arguments)
    for value, argument in zip(of_b, b.function.arguments, strict=True):
        if value in own:
            same[argument] = own[value]
        else:
            arguments.append(argument)
    for operation in b.function.body.operations:
        operation.operands = [same.get(v, v) for v in operation.operands]
    body = Block()
    body.arguments = arguments
    body.operations = [*a.function.body.operations[:-1], *b.function.body.operations]
    writes = {values.index(of[j]) for of, k in ((of_a, a), (of_b, b)) for j in k.function.writes}
    read_first = {values.index(of_a[j]) for j in a.updates}
    of_first = {of_a[j] for j in a.function.writes}
    read_first |= {values.index(of_b[j]) for j in b.updates if of_b[j] not in of_first}
    # What the first reads and the second writes is read and then written.
    read_first |= {values.index(of_b[j]) for j in b.function.writes if of_b[j] in of_a and of_b[j] not in of_first}
    order = [*[j for j in range(len(values)) if j not in writes], *sorted(writes)]
    place = {j: k for k, j in enumerate(order)}
    body.arguments = [arguments[j] for j in order]
    written = {place[j] for j in writes}
    function = NestFunction(
        _name(a.function.name, b.function.name), body, tuple(argument_names(len(order), written)), frozenset(written)
    )
    members = tuple(dict.fromkeys([*a.members, *b.members]))
    return Kernel(function, (), frozenset([place[j] for j in read_first]), members), tuple([values[j] for j in order])


def _name(a: str, b: str) -> str:
    """The name of both together; the number of the second says nothing now."""
    words = [w for w in b.split("_")[2:] if w not in a.split("_")]
    return "_".join([a, *words])[:_NAME].rstrip("_")
