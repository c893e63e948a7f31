"""A program in a few lines: its steps, the loops of each kernel, and in each loop what is dear.

    k0_sum_exp(x0) -> y0
      parallel 256
        for 10 carrying maximumf
        for 10 carrying addf: exp
        for 10: divf, store
"""

from collections import Counter

from codegen.kernel.nest import MemRef
from codegen.program import Kernel
from codegen.runtime.stages import print_program

#: What is worth a word.
_DEAR = ("math.", "arith.divf", "memref.store", "memref.alloca")


def outline(program):
    """The steps as `print_program` has them, without buffers and lines, and under each kernel its loops."""
    printed = [line for line in print_program(program).splitlines() if "(" in line and not line.endswith("{")]
    steps = [line.strip().partition("  # ")[0] for line in printed]
    lines = []
    for text, step in zip(steps, program.steps, strict=True):
        lines.append(text)
        if isinstance(step.work, Kernel):
            lines += _block(step.work.function.body, "  ", _extents(step.work))
    temporaries = ", ".join(str(b.aval) for b in program.buffers if b.role == "temporary")
    return "\n".join([*lines, f"temporaries: {temporaries or 'none'}"])


def count(program, name):
    """The number of times an operation stands in the kernels."""
    def within(block):
        return sum((o.name == name) + sum(map(within, o.regions)) for o in block.operations)

    return sum(within(step.work.function.body) for step in program.steps if isinstance(step.work, Kernel))


def _extents(kernel):
    """The index arguments of a kernel, with their numbers."""
    arguments = [a for a in kernel.function.arguments if not isinstance(a.type, MemRef)]
    return dict(zip(arguments, kernel.extents, strict=True))


def _block(block, indent, extents):
    lines = []
    dear = Counter(o.name.split(".")[1] for o in block.operations if o.name.startswith(_DEAR))
    if dear and indent == "  ":
        lines.append(f"{indent}{_words(dear)}")
    for operation in block.operations:
        if not operation.regions:
            continue
        (body,) = operation.regions
        upper = operation.operands[1]
        is_known = getattr(upper.owner, "name", "") == "arith.constant"
        extent = upper.owner.attributes["value"] if is_known else extents.get(upper, "the rest")
        kind = "parallel" if operation.name == "scf.parallel" else "for"
        end = body.operations[-1]
        carried = Counter(v.owner.name.split(".")[1] for v in end.operands)
        inside = Counter(o.name.split(".")[1] for o in body.operations if o.name.startswith(_DEAR))
        lines.append(
            f"{indent}{kind} {extent}"
            + (f" carrying {_words(carried)}" if carried else "")
            + (f": {_words(inside)}" if inside else "")
        )
        lines += _block(body, indent + "  ", extents)
    return lines


def _words(counts):
    return ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())
