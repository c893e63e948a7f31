"""Measures of the source: its size, and counts of patterns that make it hard to work in; and of calls (roads.py).

    python tools/scoreboard.py            print each measure beside the committed one
    python tools/scoreboard.py --check    print them; exit code 1 if a measure got worse (`make lint` runs this)
    python tools/scoreboard.py --write    write the present figures to tools/scoreboard.json, to be committed

Smaller is better for each.  A change that makes a figure worse has to remove something else, or to explain in its
commit message why the new figure is right, and write it.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMITTED = Path(__file__).with_suffix(".json")
ROADS = Path(__file__).with_name("roads.py")
PACKAGES = ("autodiff", "codegen")

#: The files between a user's call and the compiler: the core of the library.
SPINE = re.compile(
    r"autodiff/(tape|transforms|custom|control|dispatch)/|autodiff/(jit|entry|entering)\.py"
    r"|codegen/runtime/(record|check|answer|commit|launch|native|entered|template)\w*\.py"
)
#: The two packages whose task is to write LLVM IR text.
EMITTERS = ("codegen/emit/", "codegen/native/")
LLVM_LINE = re.compile(r'\s*(%[\w.$"]+ = |br (i1|label)|store |ret |call |define |declare |@[\w.]+ = |[\w.]+:$)')
TABLE = re.compile(r"\bLRU\(|@cache\b|@lru_cache|@functools\.(lru_)?cache\b")
WALK = re.compile(r"\b(stack|left|todo|frontier|near)\.pop\(\)|while (stack|left|todo|frontier|near)(:| and\b)")
CLAUSE = re.compile(r"(What|Whether|Where|Who|Which|How|That|Those|The same|So many|When|As) ")
COUNTED = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)


class Source:
    """One file, read and parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.nodes = list(ast.walk(ast.parse(self.text)))

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def tokens(self) -> int:
        return sum(t.type in COUNTED for t in tokenize.generate_tokens(io.StringIO(self.text).readline))

    @property
    def llvm_lines(self) -> int:
        """The number of lines of LLVM IR in strings; a string with fewer than three such lines does not count."""
        texts = [n.value for n in self.nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        found = [sum(bool(LLVM_LINE.match(line)) for line in text.splitlines()) for text in texts]
        return sum(n for n in found if n >= 3)

    @property
    def executes(self) -> bool:
        return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "exec" for n in self.nodes)

    @property
    def walks(self) -> int:
        """The number of functions that walk a graph with an explicit stack."""
        lines = self.text.splitlines()
        functions = [n for n in self.nodes if isinstance(n, ast.FunctionDef)]
        return sum(bool(WALK.search("\n".join(lines[f.lineno - 1 : f.end_lineno]))) for f in functions)

    @property
    def classes(self) -> list[str]:
        return [n.name.strip("_") for n in self.nodes if isinstance(n, ast.ClassDef)]

    @property
    def clauses(self) -> int:
        """The number of docstrings that begin with a subordinate clause."""
        documented = [n for n in self.nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.Module))]
        return sum(bool(CLAUSE.match(ast.get_docstring(n) or "")) for n in documented)

    def imports(self, known: set[str]) -> Iterator[str]:
        """The library's modules that this file imports, at any place but under TYPE_CHECKING."""
        package = self.module if self.path.endswith("__init__.py") else self.module.rpartition(".")[0]
        skipped = {
            id(inner)
            for n in self.nodes
            if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)
            for statement in n.body
            for inner in ast.walk(statement)
        }
        for n in self.nodes:
            if id(n) in skipped:
                continue
            if isinstance(n, ast.Import):
                names = [alias.name for alias in n.names]
            elif isinstance(n, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - n.level + 1] if n.level else []
                base = ".".join([*above, *([n.module] if n.module else [])])
                names = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in n.names]
            else:
                names = [c.value for c in _named_modules(n)]
            yield from (name for name in names if name in known and name != self.module)


def _named_modules(n: ast.AST) -> list[ast.Constant]:
    """The module named in a delayed import: `later("codegen.runtime.entered")` or `imported("...")`."""
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("later", "imported"):
        return [a for a in n.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return []


def cycles(edges: dict[str, set[str]]) -> int:
    """The number of sets of several files that import each other, directly or indirectly (Tarjan's components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found = 0

    def visit(name: str) -> None:
        nonlocal found
        number[name] = low[name] = len(number)
        path.append(name)
        for other in sorted(edges[name]):
            if other not in number:
                visit(other)
            if other in path:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            component = path[path.index(name) :]
            del path[path.index(name) :]
            found += len(component) > 1

    sys.setrecursionlimit(10_000)
    for name in sorted(edges):
        if name not in number:
            visit(name)
    return found


class Board:
    """The measures of the source."""

    @cached_property
    def sources(self) -> list[Source]:
        return [Source(p) for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]

    def figures(self) -> dict[str, int]:
        """The measures by name; smaller is better for each."""
        sources = self.sources
        named = Counter(name for s in sources for name in s.classes)
        known = {s.module for s in sources}
        return {
            "files": len(sources),
            "lines": sum(s.lines for s in sources),
            "statements": sum(isinstance(n, ast.stmt) for s in sources for n in s.nodes),
            "tokens": sum(s.tokens for s in sources),
            "lines of the spine": sum(s.lines for s in sources if SPINE.search(s.path)),
            "lines of LLVM text outside emit and native": sum(
                s.llvm_lines for s in sources if not s.path.startswith(EMITTERS)
            ),
            "bounded tables and caches": sum(len(TABLE.findall(s.text)) for s in sources),
            "modules with exec": sum(s.executes for s in sources),
            "graph walks written by hand": sum(s.walks for s in sources),
            "import cycles, put off ones included": cycles({s.module: set(s.imports(known)) for s in sources}),
            "files that name log1p": sum("log1p" in s.text for s in sources),
            "class names used twice": sum(n > 1 for n in named.values()),
            "docstrings that open with a clause": sum(s.clauses for s in sources),
            "files of more than 400 lines": sum(s.lines > 400 for s in sources),
            "tests in files that import internals, of 1,000": self._inside(),
        }

    def _inside(self) -> int:
        """The number, per thousand tests, of tests in files that import more than the public names."""
        inside = total = 0
        for path in sorted((ROOT / "tests").rglob("test_*.py")):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            n = sum(isinstance(x, ast.FunctionDef) and x.name.startswith("test_") for x in nodes)
            modules = [a.name for x in nodes if isinstance(x, ast.Import) for a in x.names]
            modules += [x.module or "" for x in nodes if isinstance(x, ast.ImportFrom)]
            total += n
            inside += n * any(m.startswith(("autodiff.", "codegen")) for m in modules)
        return round(1000 * inside / total)


def of_calls(committed: dict[str, int]) -> dict[str, int]:
    """The measures of roads.py.  A busy machine may add a call path: up to three runs, while one seems worse."""
    found: dict[str, int] = {}
    for _ in range(3):
        told = subprocess.run([sys.executable, ROADS], stdout=subprocess.PIPE, check=True, text=True).stdout
        found = {name: min(n, found.get(name, n)) for name, n in json.loads(told).items()}
        if all(n <= committed.get(name, n) for name, n in found.items()):
            break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="measures of the source, beside the committed ones")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a measure got worse")
    parser.add_argument("--write", action="store_true", help="commit to the present figures")
    given = parser.parse_args()
    before = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    now = Board().figures() | of_calls(before)
    worse = [name for name, n in now.items() if n > before.get(name, n)]
    for name, n in now.items():
        was = before.get(name)
        told = "" if was in (None, n) else f"   {'worse' if name in worse else 'better'}: {was:,} before"
        print(f"{name:<50}{n:>9,}{told}")
    if given.write:
        COMMITTED.write_text(json.dumps(now, indent=2) + "\n")
    elif given.check and worse:
        print("a measure got worse: take something away, or say why in the commit and run tools/scoreboard.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
