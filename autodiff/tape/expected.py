"""What a recording must look like to be answered by a plan: instructions, from one recording that had its key.

    instructions   as in `codegen.runtime.check_steps_ir`: what to bind and to compare, nodes and leaves by number
    python_check   them written out as a function of Python

It gives (arguments, stored, leaves, olds, past, freed) for a recording that is as expected, else None; so does
`natively.native_check`, in a tenth of the time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .formulas import Misfit
from .node import Node, released
from .walk import _followed, is_given

if TYPE_CHECKING:
    from .check import Recipe

__all__ = ["Expected", "python_check"]


class Expected:
    """The instructions of a recipe, and what an accepted recording gives."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.number = {n: i for i, n in enumerate(recipe.order)}
        self.instructions: list[tuple] = []
        self.bound: set[Node] = set()
        self.waiting: list[Node] = []
        self.leaves: dict[Any, int] = {}
        self._write()
        plan = recipe.plan
        self.arguments = [(g, None) if type(g) is int else (-1, g.value) for g in plan.gather]
        self.formulas = plan.formulas
        self.stored = [number for number, _ in plan.store]
        self.groups = [self.leaves.get(nodes[0].leaf, -1) for nodes, _ in recipe.groups]
        self.olds = [-1 if old is None else self.number[old] for _, old in recipe.groups]
        history = [n for n in recipe.order if n in recipe.given_up and n.leaf is None]
        self.past = [self.number[n] for n in history]
        self.freed = tuple([released(n.kind) for n in history])

    def is_complete(self) -> bool:
        """Whether every node that is asked for afterwards is one that the instructions bind."""
        asked = {*self.stored, *self.olds, *self.past, *[number for number, _ in self.arguments]} - {-1}
        return asked <= {self.number[node] for node in self.bound}

    def _write(self) -> None:
        recipe = self.recipe
        apart = []
        for k, root in enumerate(recipe.roots):
            if root in self.number:
                self._reach("root", k, root)
            else:
                apart.append(k)
        self.instructions.append(("live", len(recipe.live)))
        for k, node in enumerate(recipe.live):
            self._reach("live_is" if node in self.bound else "live_at", k, node)
        self._follow()
        for k in apart:
            self._keep_apart(k, recipe.roots[k])
        self._compare_groups()
        self._compare_liveness()

    def _reach(self, opcode: str, k: int, node: Node) -> None:
        """Bind what is given, or require that it is what is bound already."""
        if node in self.bound:
            opcode = {"root": "root_is"}.get(opcode, opcode)
        else:
            self._bind(node)
        self.instructions.append((opcode, k, self.number[node]))

    def _keep_apart(self, k: int, root: Node) -> None:
        """It was not reached, nor was another version of the same leaf: so neither must be now."""
        if root in self.number:  # it was given twice
            self.instructions.append(("root_is", k, self.number[root]))
            return
        self.instructions += [("not", k, self.number[n]) for n in self.bound]
        if type(root) is not Node:
            number = self.number[root] = len(self.number)
            self.instructions.append(("root", k, number))
            self._compare_rich_leaf(root, number)

    def _bind(self, node: Node) -> None:
        self.bound.add(node)
        self.waiting.append(node)

    def _follow(self) -> None:
        while self.waiting:
            self._compare(self.waiting.pop())

    def _compare(self, node: Node) -> None:
        """Require of a node what the key says about it, and bind its inputs."""
        i, past = self.number[node], self.recipe.past
        pending = int(node.value is None)
        if is_given(node) or (node.value is not None and node not in past):
            self.instructions.append(("out", i, node.kind.out, pending))
            if node not in past:
                return
        else:
            self.instructions.append(("kind", i, node.kind, pending))
        if type(node) is not Node:
            self._compare_rich(node, i)
        followed = _followed(node, past)
        if followed:
            self._wire(node, followed)

    def _compare_rich_leaf(self, node: Node, i: int) -> None:
        is_gone_through = node in self.recipe.past
        self.instructions.append(("rich" if is_gone_through else "any_rich", i))
        self._compare_leaf(node, i, "leaf" if is_gone_through else "owner")

    def _compare_leaf(self, node: Node, i: int, opcode: str) -> None:
        if node.leaf is None:
            self.instructions.append(("no_leaf", i))
        elif node.leaf in self.leaves:
            self.instructions.append(("leaf_is", i, self.leaves[node.leaf]))
        else:
            self.leaves[node.leaf] = len(self.leaves)
            self.instructions.append((opcode, i, self.leaves[node.leaf]))

    def _compare_rich(self, node: Node, i: int) -> None:
        self._compare_rich_leaf(node, i)
        if node.call is not None and node in self.recipe.past:
            self.instructions.append(("call", i, node.call.key()))
        elif node.call is None:
            self.instructions.append(("no_call", i))

    def _wire(self, node: Node, followed: Sequence[Node]) -> None:
        """The inputs: those met before are compared, the others bound.  Of a boundary only its body is needed."""
        first = 0 if len(followed) == len(node.inputs) else node.body
        links = []
        for k, x in enumerate(followed, first or 0):
            links.append((k, self.number[x], x not in self.bound))
            if x not in self.bound:
                self._bind(x)
        is_whole = len(followed) == len(node.inputs)
        # The kind of a plain node says how many inputs there are.
        count = len(node.inputs) if is_whole else None
        self.instructions.append(("wire", self.number[node], count, type(node) is Node, links))

    def _compare_groups(self) -> None:
        """Leaves are distinct as they were, and have an old gradient where they had one."""
        for nodes, old in self.recipe.groups:
            which = self.leaves.get(nodes[0].leaf)
            if which is None:
                continue
            if old is None:
                self.instructions.append(("no_grad", which))
            elif old in self.bound:
                self.instructions.append(("old_is", which, self.number[old]))
            else:
                self._bind(old)
                self.instructions.append(("old", which, self.number[old]))
        self._follow()
        if len(self.leaves) > 1:
            self.instructions.append(("apart", len(self.leaves)))

    def _compare_liveness(self) -> None:
        """A heavy node is stored if something outside holds it: that must be as it was.

        Its other references are the links of pending nodes.
        """
        given = {*self.recipe.roots, *self.recipe.live}
        links: dict[Node, int] = dict.fromkeys(self.recipe.watched, 0)
        for node in self.recipe.order:
            for i in node.inputs if node.value is None else ():
                if i in links:
                    links[i] += 1
        for node, was_live in self.recipe.watched.items():
            if node in self.bound and node not in given:
                self.instructions.append(("held" if was_live else "free", self.number[node], links[node]))


# ---------------------------------------------------------------- in Python

_LINES = {
    "root": "v{1} = r{0}",
    "root_is": "if r{0} is not v{1}: return None",
    "live": "if len(live) != {0}: return None",
    "live_at": "v{1} = live[{0}]",
    "live_is": "if live[{0}] is not v{1}: return None",
    "kind": "if v{0}.kind is not {1} or v{0}.value is {2} None: return None",
    "out": "if v{0}.kind.out is not {1} or v{0}.value is {2} None: return None",
    "is_kind": "if v{0}.kind is not {1}: return None",
    "is_out": "if v{0}.kind.out is not {1}: return None",
    "like": (
        "m{0} = v{0}.kind\n if m{0}.op is not {1} or m{0}.released is not {2} or m{0}.out.requires_grad is not {3}"
        " or m{0}.out.weak is not {4} or v{0}.value is {5} None: return None"
    ),
    "of_class": (
        "o{0} = v{0}.kind.out\n if o{0}.cls is not {1} or o{0}.requires_grad is not {2} or o{0}.weak is not {3}"
        " or v{0}.value is {4} None: return None"
    ),
    "rich": "if type(v{0}) is not Rich or v{0}.hooks or v{0}.retained: return None",
    "any_rich": "if type(v{0}) is not Rich: return None",
    "owner": "l{1} = v{0}.leaf\n if l{1} is None: return None",
    "leaf": "l{1} = v{0}.leaf\n if l{1} is None or l{1}.hooks: return None",
    "leaf_is": "if v{0}.leaf is not l{1}: return None",
    "no_leaf": "if v{0}.leaf is not None: return None",
    "call": "if v{0}.call is None or v{0}.call.key() != {1}: return None",
    "told": "if {1}[0](v{0}) != {1}[1]: return None",
    "no_call": "if v{0}.call is not None: return None",
    "no_grad": "if l{0}.grad is not None: return None",
    "old": "if l{0}.grad is None: return None\n v{1} = l{0}.grad.node",
    "old_is": "if l{0}.grad is None or l{0}.grad.node is not v{1}: return None",
    "not": "if r{0} is v{1}: return None",
}


def _own_references() -> int:
    """References to a node beside its links while a check looks at it: the variable, the argument of the count.

    Since Python 3.14 an argument borrows what a variable holds, and is none.
    """
    thing = object()
    return sys.getrefcount(thing)


_OWN_REFERENCES = _own_references()


def python_check(expected: Expected) -> Callable:
    """check(*roots, live), straight-line code: 0.03 µs a node."""
    from .node import RichNode

    env: dict[str, Any] = {"__name__": __name__, "references": sys.getrefcount, "Rich": RichNode}
    lines: list[str] = []
    again: set[str] = set()
    for opcode, *operands in expected.instructions:
        if opcode == "wire":
            i, count, is_plain, links = operands
            lines += _wired(i, count, is_plain, links, again)
        elif opcode == "apart":
            (count,) = operands
            lines.append(f"if len({_tuple('l', range(count), '{}')}) != {count}: return None")
        elif opcode in ("held", "free"):
            if again:  # what was reached again must not count as a reference from outside
                lines.append(f"{' = '.join(sorted(again))} = None")
                again.clear()
            relation = "<=" if opcode == "held" else ">"
            lines.append(f"if references(v{operands[0]}) {relation} {operands[1] + _OWN_REFERENCES}: return None")
        else:
            if opcode in ("kind", "out", "like", "of_class"):
                operands[-1] = "not" if operands[-1] else ""
            if opcode in ("kind", "out", "is_kind", "is_out", "like", "of_class", "call", "told"):
                env[f"k{len(env)}"] = operands[1]
                operands[1] = f"k{len(env) - 1}"
            lines.append(_LINES[opcode].format(*operands))
    computed = _computed(expected, env, lines)
    arguments = []
    for place, (number, value) in enumerate(expected.arguments):
        if place in computed:
            arguments.append(f"a{place}")
            continue
        if number < 0:
            env[f"k{len(env)}"] = value
        arguments.append(f"v{number}.value" if number >= 0 else f"k{len(env) - 1}")
    env["freed"] = expected.freed
    gathered = [
        f"({''.join([f'{a}, ' for a in arguments])})",
        _tuple("v", expected.stored),
        _tuple("l", expected.groups),
        _tuple("v", expected.olds),
        _tuple("v", expected.past),
        "freed",
    ]
    lines.append(f"return ({', '.join(gathered)})")
    parameters = [f"r{k}" for k in range(len(expected.recipe.roots))]
    head = f"def check({', '.join(parameters)}, live):\n try:\n  "
    # Another thread may give a node its value, or take a .grad away, between two lines.
    tail = "\n except (ValueError, IndexError, AttributeError, TypeError): return None\n"
    exec(head + "\n ".join(lines).replace("\n", "\n ") + tail, env)  # our own templates
    return env.pop("check")  # not left in its own globals: that would be a cycle


def _computed(expected: Expected, env: dict[str, Any], lines: list[str]) -> tuple[int, ...]:
    """Write out the inputs that are made of the numbers of custom calls, which their keys have just found."""
    formulas = expected.formulas
    if formulas is None:
        return ()
    env["formulas"], env["Misfit"] = formulas.values, Misfit
    given = ", ".join([f"v{c}.call.numbers" for c in formulas.calls])
    names = "".join([f"a{place}, " for place in formulas.places])
    lines.append(f"try: {names and f'{names}= '}formulas({given})")
    lines.append("except Misfit: return None")
    return formulas.places


def _wired(
    i: int, count: int | None, is_plain: bool, links: Sequence[tuple[int, int, bool]], again: set[str]
) -> list[str]:
    """Binding and comparing of inputs."""
    if count is None:  # a boundary whose value only is needed
        ((k, number, is_new),) = links
        return [f"v{number} = v{i}.inputs[{k}]" if is_new else f"if v{i}.inputs[{k}] is not v{number}: return None"]
    names = [f"v{number}" if is_new else f"t{k}" for k, number, is_new in links]
    again |= {name for name in names if name[0] == "t"}
    return [
        *([] if is_plain else [f"if len(v{i}.inputs) != {count}: return None"]),
        f"{', '.join(names)}, = v{i}.inputs",
        *[f"if t{k} is not v{number}: return None" for k, number, is_new in links if not is_new],
    ]


def _tuple(letter: str, numbers: Sequence[int], braces: str = "()") -> str:
    inside = "".join(["None, " if n < 0 else f"{letter}{n}, " for n in numbers])
    return f"{braces[0]}{inside}{braces[1]}"
