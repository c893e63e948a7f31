"""Random native functions: machine code, with and without checks, gives what their source gives as plain Python."""

from __future__ import annotations

import importlib.util
import random

import pytest
from typed_programs import compiled

HEAD = """from __future__ import annotations
from codegen.native import *


class Memory(Struct):
    a: u8
    is_set: bool
    b: i16
    c: u32
    d: i64
    e: f64
    table: array[i64, 8]


memory = static(Memory)


@native
def helper(x: i64, y: i32) -> i64:
    memory.d ^= x & 255
    return memory.d + y
"""

WHOLE = ("u8", "i16", "i32", "u32", "i64", "u64")


class Writer:
    """One random function."""

    def __init__(self, rng, number):
        self.rng, self.depth = rng, 0
        kinds = [rng.choice([*WHOLE, "f64", "bool"]) for _ in range(rng.randrange(1, 5))]
        self.names = {f"p{j}": kind for j, kind in enumerate(kinds)}
        self.lines = []
        result = rng.choice(["i64", "u64", "f64", "i32"])
        head = f"def random_{number}({', '.join(f'{n}: {k}' for n, k in self.names.items())}) -> {result}:"
        self.block(rng.randrange(2, 6), "    ", is_loop=False)
        self.lines.append(f"    return {self.expr(result, 3)}")
        self.text = "\n".join(["@native", head, *self.lines])

    def expr(self, kind, depth):
        """An expression of this very type."""
        rng = self.rng
        known = [n for n, k in self.names.items() if k == kind]
        if depth == 0 or rng.random() < 0.15:
            if known and rng.random() < 0.8:
                return rng.choice(known)
            return self.constant(kind)
        if kind == "bool":
            return self.truth(depth)
        choice = rng.random()
        if choice < 0.12:
            return f"({self.expr(kind, depth - 1)} if {self.truth(depth - 1)} else {self.expr(kind, depth - 1)})"
        if choice < 0.3:
            other = rng.choice([k for k in (*WHOLE, "bool") if k != kind])
            return f"{kind}({self.expr(other, depth - 1)})"
        if kind == "f64":
            return f"({self.expr(kind, depth - 1)} {rng.choice('+-*/')} {self.expr(kind, depth - 1)})"
        if choice < 0.4 and kind == "i64":
            call = f"helper({self.expr('i64', depth - 1)}, {self.expr('i32', 0)})"
            return rng.choice([call, f"memory.table[{self.index(depth)}]", "memory.d"])
        a, b = self.expr(kind, depth - 1), self.expr(kind, depth - 1)
        operator = rng.choice(["+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>", "~"])
        if operator in ("//", "%"):
            return f"({a} {operator} ({b} | 1))"
        if operator in ("<<", ">>"):
            return f"({a} {operator} ({b} & 7))"
        return f"~{a}" if operator == "~" else f"({a} {operator} {b})"

    def index(self, depth):
        return f"{self.expr('i64', depth - 1)} & 7"

    def truth(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.6:
            kind = rng.choice([*WHOLE, "f64"])
            relation = rng.choice(["<", "<=", "==", "!=", ">", ">="])
            return f"{self.expr(kind, max(depth - 1, 0))} {relation} {self.expr(kind, 0)}"
        if rng.random() < 0.3:
            return f"not ({self.truth(depth - 1)})"
        return f"({self.truth(depth - 1)}) {rng.choice(['and', 'or'])} ({self.truth(depth - 1)})"

    def constant(self, kind):
        rng = self.rng
        if kind == "bool":
            return rng.choice(["True", "False"])
        if kind == "f64":
            return f"f64({rng.choice(['0.0', '1.5', '-2.25', '1e10', '3'])})"
        number = rng.choice([0, 1, 2, 7, 100, 127])
        return f"{kind}({-number if kind[0] == 'i' and rng.random() < 0.4 else number})"

    def block(self, count, indent, *, is_loop):
        for _ in range(count):
            self.statement(indent, is_loop)

    def statement(self, indent, is_loop):
        rng, add = self.rng, self.lines.append
        choice = rng.random()
        if choice < 0.35 or self.depth >= 3:
            kind = rng.choice([*WHOLE, "f64", "bool"])
            known = [n for n, k in self.names.items() if k == kind]
            if known and rng.random() < 0.5:
                add(f"{indent}{rng.choice(known)} = {self.expr(kind, 2)}")
            elif indent == "    ":
                value = self.expr(kind, 2)
                name = f"v{len(self.names)}"
                add(f"{indent}{name} = {kind}({value})")
                self.names[name] = kind
            else:
                add(f"{indent}memory.d = {self.expr('i64', 2)}")
        elif choice < 0.5:
            fields = [("a", "u8"), ("b", "i16"), ("c", "u32"), ("e", "f64"), ("is_set", "bool")]
            place, kind = rng.choice([*fields, (f"table[{self.index(1)}]", "i64")])
            value = self.expr(kind, 2)
            add(f"{indent}memory.{place} = {value}")
        elif choice < 0.58:
            name = rng.choice(["memory.d", "memory.table[2]"])
            add(f"{indent}{name} {rng.choice(['+=', '^=', '-='])} {self.expr('i64', 1)}")
        elif choice < 0.78:
            add(f"{indent}if {self.truth(2)}:")
            self.inner(indent, is_loop)
            if rng.random() < 0.6:
                add(f"{indent}else:")
                self.inner(indent, is_loop)
        elif choice < 0.93:
            name = f"i{len(self.names)}"
            bounds = rng.choice(["4", "0, 3", "5, -2, -2", f"{self.index(1)}"])
            add(f"{indent}for {name} in range({bounds}):")
            self.names[name] = "i64"
            self.inner(indent, True)
            del self.names[name]
        elif is_loop:
            add(f"{indent}{rng.choice(['break', 'continue'])}")
        else:
            add(f"{indent}memory.c = u32(memory.a) + memory.c % 1000")

    def inner(self, indent, is_loop):
        self.depth += 1
        self.block(self.rng.randrange(1, 4), indent + "    ", is_loop=is_loop)
        self.depth -= 1


def module_of(text, path):
    """The module of a file of this text: native functions are compiled from files."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def argument(rng, kind):
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "f64":
        return rng.choice([0.0, 1.0, -3.5, 1e300, float("nan"), rng.gauss(0, 10)])
    bits, is_signed = int(kind[1:]), kind[0] == "i"
    span = 1 << rng.choice([3, bits])
    return rng.randrange(span) - (span // 2 if is_signed else 0)


def agree(seed, count, calls, path):
    """Compare `count` functions; gives how many calls plain Python had a result for."""
    rng = random.Random(seed)
    writers = [Writer(rng, number) for number in range(count)]
    module = module_of("\n\n\n".join([HEAD, *[w.text for w in writers]]) + "\n", path / f"programs_{seed}.py")
    functions = [getattr(module, f"random_{number}") for number in range(count)]
    libraries = [compiled(functions, checks=checks) for checks in (False, True)]
    compared = 0
    for _ in range(calls):
        for function, writer in zip(functions, writers, strict=True):
            arguments = [argument(rng, kind.__name__) for _, kind in function.params]
            before = {name: value for name, value in module.memory.__dict__.items()}
            items = list(module.memory.table.items)
            try:
                expected = function(*arguments)
            except OverflowError:  # machine code is not asked, so memory is as it was
                module.memory.__dict__.clear()
                module.memory.__dict__.update(before)
                module.memory.table.items[:] = items
                continue
            compared += 1
            for library in libraries:
                found = getattr(library, function.name)(*arguments)
                same = found == expected or (found != found and expected != expected)
                assert same, f"{function.name}{tuple(arguments)}: {found}, plain {expected!r}\n{writer.text}"
    return compared


@pytest.mark.parametrize("seed", range(3))
def test_random_functions_agree(seed, tmp_path):
    assert agree(seed, 25, 12, tmp_path) > 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_functions_agree(seed, tmp_path):
    assert agree(seed, 40, 40, tmp_path) > 100
