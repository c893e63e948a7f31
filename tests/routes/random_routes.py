"""Random programs with in-place updates, grad modes and nested control flow, and their oracle.

A program is a list of statements over named vectors of four elements.  `execute` runs it with `ad`; `Oracle` runs the
same list over pairs of NumPy arrays, (value from x, value from f): what is computed under `no_grad` takes both from f.

    ("new", mode, name, expression)            name = expression
    ("update", mode, name, word, expression)   name += expression, ...
    ("set", mode, name, key, expression)       name[key] = expression
    ("region", mode, name, kind, body, out)    name = scan, cond, ... of a body, whose argument is called "c"

    mode            "on": as around it;  "off": under no_grad;  "again": enable_grad inside of no_grad
    expression      a name, a number, (function, expression) or (operator, expression, expression)
"""

import operator
from contextlib import ExitStack

import numpy as np

import autodiff as ad

STEPS = np.array([0.5, -0.3])
KEYS = [0, 3, slice(0, 2), slice(None, None, 2), slice(1, 4), [0, 2], Ellipsis]
REGIONS = ["scan", "fori_loop", "while_loop", "cond", "checkpoint", "vmap", "jit"]
BINARY = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
MODES = ["on", "on", "on", "off", "off", "again"]


class Writer:
    """Writes a program from the decisions of a random generator."""

    def __init__(self, rng, depth):
        self.rng, self.depth, self.count = rng, depth, 0

    def one(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def expression(self, names, depth=2):
        sort = self.rng.integers(6) if depth else 0
        if sort <= 1:
            return self.one(names)
        if sort == 2:
            return ("sin", self.expression(names, depth - 1))
        if sort == 3:
            return ("mul", float(self.one([0.5, -0.7, 1.1])), self.expression(names, depth - 1))
        return (self.one(list(BINARY)), self.expression(names, depth - 1), self.expression(names, depth - 1))

    def block(self, own, captured, length, depth):
        """Statements; `own` are the names that may be updated, and grows.  What a body captures it only reads."""
        found = []
        for _ in range(length):
            names, mode = own + captured, self.one(MODES)
            sort = self.rng.integers(8)
            if sort == 0 or (sort >= 6 and not depth):
                self.count += 1
                found.append(("new", mode, f"v{self.count}", self.expression(names)))
                own.append(f"v{self.count}")
            elif sort <= 2:
                found.append(("update", mode, self.one(own), self.one(list(BINARY)), self.expression(names)))
            elif sort <= 5:
                key = KEYS[int(self.rng.integers(len(KEYS)))]
                value = self.one([0.6, ("part", self.expression(names))])
                found.append(("set", mode, self.one(own), key, value))
            else:
                kind = self.one(REGIONS)
                inner = ["c"]
                around = [n for n in names if n != "c"]
                start = self.one(names)
                body = self.block(inner, around, int(self.rng.integers(1, 4)), depth - 1)
                self.count += 1
                found.append(("region", mode, f"v{self.count}", kind, start, body, self.one(inner)))
                own.append(f"v{self.count}")
        return found

    def program(self):
        own = ["x"]
        statements = self.block(own, [], int(self.rng.integers(3, 7)), self.depth)
        return statements, ("add", self.one(own), ("mul", self.one(own), self.one(own)))


def written(seed, depth=2):
    """The program of a seed: its statements, and the expression whose sum it returns."""
    return Writer(np.random.default_rng(seed), depth).program()


def shown(program):
    """A program as text."""

    def lines(statements, indent):
        for statement in statements:
            if statement[0] == "region":
                _, mode, name, kind, start, body, out = statement
                yield f"{indent}{mode}: {name} = {kind}({start}) of c, giving {out}:"
                yield from lines(body, indent + "    ")
            else:
                yield indent + " ".join(map(str, statement))

    statements, result = program
    return "\n".join([*lines(statements, ""), f"return sum of {result}"])


# ---------------------------------------------------------------- with ad


def evaluated(expression, env, sin=None):
    """The value of an expression: tensors, or arrays."""
    if isinstance(expression, str):
        return env[expression]
    if isinstance(expression, float):
        return expression
    word, *operands = expression
    values = [evaluated(e, env, sin) for e in operands]
    return sin(values[0]) if word == "sin" else BINARY[word](*values)


def entered(mode):
    """The context of a mode."""
    stack = ExitStack()
    if mode != "on":
        stack.enter_context(ad.no_grad())
    if mode == "again":
        stack.enter_context(ad.enable_grad())
    return stack


def execute(statements, env, reads):
    """Run statements with `ad`; `reads` asks for every value on the way."""
    for kind, mode, name, *rest in statements:
        with entered(mode):
            if kind == "new":
                env[name] = evaluated(rest[0], env, ad.sin) * 1.0
            elif kind == "update":
                t, value = env[name], evaluated(rest[1], env, ad.sin)
                env[name] = {"add": operator.iadd, "sub": operator.isub, "mul": operator.imul}[rest[0]](t, value)
            elif kind == "set":
                key, value = rest
                key = np.array(key) if isinstance(key, list) else key
                env[name][key] = value if isinstance(value, float) else evaluated(value[1], env, ad.sin)[key]
            else:
                env[name] = region(env, *rest)
        if reads:
            env[name].detach().numpy()


def region(env, kind, start, body, out):
    """A body inside of one kind of control flow."""

    def f(c):
        inner = {**env, "c": c}
        execute(body, inner, False)
        return inner[out] * 1.0

    x = env[start]
    if kind == "scan":
        return ad.scan(lambda c, s: (f(c) * s, None), x, STEPS)[0]
    if kind == "fori_loop":
        return ad.fori_loop(0, 2, lambda i, c: f(c), x)
    if kind == "while_loop":
        return ad.while_loop(lambda v: v[1] < 2, lambda v: (f(v[0]), v[1] + 1), (x, 0))[0]
    if kind == "cond":
        return ad.cond(x[0] > -1e6, f, lambda c: c * 1.0, x)
    if kind == "vmap":
        return ad.vmap(f)(ad.stack([x, x * 0.5])).sum(axis=0)
    return {"checkpoint": ad.checkpoint, "jit": ad.jit}[kind](f)(x)


def function(program, reads=False):
    """The program as a function of a tensor."""
    statements, result = program

    def run(x):
        env, always = {"x": x}, ad.sin(x)  # some derivative is left whatever is cut
        execute(statements, env, reads)
        return (evaluated(result, env, ad.sin) + always).sum()

    return run


# ---------------------------------------------------------------- its oracle


class Pair:
    """A value from x, and the same from f, which is what a constant has."""

    def __init__(self, value, fixed):
        self.value, self.fixed = value, fixed

    def with_mode(self, mode):
        """Its value where it was computed in a mode, under `on` around it."""
        return Pair(self.fixed, self.fixed) if mode == "off" else self

    def __add__(self, other):
        return _both(operator.add, self, other)

    def __sub__(self, other):
        return _both(operator.sub, self, other)

    def __mul__(self, other):
        return _both(operator.mul, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return _both(operator.sub, other, self)


def _both(compute, a, b):
    one, two = [(p.value, p.fixed) if isinstance(p, Pair) else (p, p) for p in (a, b)]
    return Pair(compute(one[0], two[0]), compute(one[1], two[1]))


def _sin(p):
    return Pair(np.sin(p.value), np.sin(p.fixed))


class Oracle:
    """The program as a pure function of x and f."""

    def __init__(self, program):
        self.statements, self.result = program

    def __call__(self, x, f):
        env = {"x": Pair(x, f)}
        self.execute(self.statements, env, True)
        return (evaluated(self.result, env, _sin).value + np.sin(x)).sum()

    def execute(self, statements, env, tracks):
        """`tracks`: whether gradients are on around the statements."""
        for kind, mode, name, *rest in statements:
            on = {"on": tracks, "off": False, "again": True}[mode]
            now = "on" if on else "off"
            if kind == "new":
                env[name] = evaluated(rest[0], env, _sin).with_mode(now)
            elif kind == "update":
                env[name] = BINARY[rest[0]](env[name], evaluated(rest[1], env, _sin)).with_mode(now)
            elif kind == "set":
                env[name] = self.assigned(env, name, *rest, now)
            else:
                env[name] = self.region(env, *rest, on)

    def assigned(self, env, name, key, value, now):
        """Elements that stay keep their derivative in every mode."""
        old = env[name]
        new = Pair(value, value) if isinstance(value, float) else evaluated(value[1], env, _sin).with_mode(now)
        found = []
        for before, after in ((old.value, new.value), (old.fixed, new.fixed)):
            y = np.array(before, dtype=complex)
            y[key] = after if isinstance(value, float) else after[key]
            found.append(y)
        return Pair(*found)

    def region(self, env, kind, start, body, out, on):
        """The steps of control flow, one by one."""

        def f(c):
            inner = {**env, "c": c}
            self.execute(body, inner, on)
            return inner[out].with_mode("on" if on else "off")

        x, now = env[start], "on" if on else "off"
        if kind == "scan":
            for s in STEPS:
                x = (f(x) * s).with_mode(now)
            return x
        if kind in ("fori_loop", "while_loop"):
            return f(f(x))
        if kind == "vmap":
            return (f(x.with_mode(now)) + f((x * 0.5).with_mode(now))).with_mode(now)
        return f(x)
