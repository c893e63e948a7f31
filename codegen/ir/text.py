"""The grammar of graphs as text, its parser, and drawings.  `parse(print_graph(g))` has the key of g.

    graph      name "(" [input {"," input}] ")" "{" {statement} "return" [name {"," name}] "}"
    input      name ":" aval
    statement  name [":" aval] "=" operation "(" [argument {"," argument}] ")"
    argument   name | parameter "=" value                 operands first, then parameters
    value      integer | float | inf | nan | string | True | False | None
               | "complex" "(" value "," value ")" | "(" [value {"," value} [","]] ")"
               | graph | name                          a region; by its name when it occurs again
    aval       f64[3,4]

Line breaks are white space like any other, so a graph may be written on one line; `#` begins a comment.  Printed
graphs have an aval at every statement; a text to be parsed may omit avals, but those given must be right.

    f(x0: f64[8], x1: f64[8]) {
      a: f64[8] = mul(x0, x1)
      b: f64[] = sum(a, axis=(0,))
      return b
    }

Inputs print as x0, x1, ..., nodes as a, b, ..., z, aa, ...: names depend only on the order.  If the origins of nodes
are known, inputs have the user's names (`w`, `params['bias']`, `layers[0].w`), values keep in all stages the names of
the recorded graph, and comments name lines and rules; the parser drops all three.  A region has a separate name
space, and reads values from outside only as its inputs.  Regions print as body0, body1, ..., each once:

    f(x0: f64[], x1: f64[4]) {
      a: f64[1] = scan(x0, x1, carried=1, scanned=1, ..., body=body0(x0: f64[], x1: f64[]) {
        a: f64[] = add(x0, x1)
        return a
      })
      ...
    }

`print_dot` draws a graph in the language of Graphviz: operations are boxes, inputs ellipses, outputs bold, and the
nodes of the backward pass dashed.

    print_dot(graph)    ->    digraph f { ... }    ->    dot -Tsvg, or the Python package `graphviz`

A drawing has the names of `print_graph`, so drawing and text can be read side by side.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from .aval import DTYPES, Aval, parse_aval
from .graph import NAME, Graph, Node, Region, apply, input_node, node_names, node_text
from .op import INPUT, OPS, Op


class ParseError(ValueError):
    """Raised for text that is not a graph; the message begins with the line number."""


def parse(text: str, ops: Mapping[str, Op] = OPS) -> Graph:
    """The graph that `text` describes; operations are looked up by name in `ops`.

    Raises ParseError, with the line, for text that does not follow the grammar, for an unknown
    operation, parameter or operand, for operands that do not fit, and for an aval that is wrong.
    """
    return _TextReader(text, ops).graph()


_TOKEN = re.compile(
    rf"""
    (?P<blank>  \s+ | \#[^\n]* )
  | (?P<aval>   (?:{"|".join(DTYPES)})\[[\d,\s]*\] )
  | (?P<number> -?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w) | -(?:inf|nan)\b )
  | (?P<string> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
  | (?P<name>   {NAME} )
  | (?P<mark>   [(){{}}:=,] )
    """,
    re.VERBOSE,
)
_WORDS: dict[str, Any] = {
    "True": True, "False": False, "None": None, "inf": float("inf"), "nan": float("nan"),
}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int  # offset in the whole text


class _TextReader:
    """A recursive-descent parser of one text, with one token of lookahead."""

    def __init__(self, text: str, ops: Mapping[str, Op]) -> None:
        self.text = text
        self.ops = ops
        self.tokens = self._tokens()
        self.next = next(self.tokens)
        self.nodes: dict[str, Node] = {}
        self.regions: dict[str, Region] = {}

    # ---- tokens

    def _tokens(self) -> Iterator[_Token]:
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                why = "; <...> stands for a Python object, which has no notation" if self.text[at] == "<" else ""
                self.fail(f"{self.text[at]!r} begins nothing that a graph is made of{why}", at)
            if match.lastgroup != "blank":
                yield _Token(str(match.lastgroup), match[0], at)
            at = match.end()
        while True:
            yield _Token("end", "the end", at)

    def fail(self, message: str, at: int | None = None, cause: Exception | None = None) -> NoReturn:
        """Raise ParseError for the text at this offset (default: the next token)."""
        at = self.next.at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        source = self.text.splitlines()[line - 1].strip() if line <= len(self.text.splitlines()) else ""
        raise ParseError(f"line {line}: {message}" + (f"\n  {source}" if source else "")) from cause

    def take(self) -> _Token:
        token, self.next = self.next, next(self.tokens)
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if its text is `text`; return True if so."""
        found = self.next.text == text and self.next.kind in ("mark", "name")
        if found:
            self.take()
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.next.text!r}")

    def name(self, what: str) -> _Token:
        if self.next.kind != "name":
            self.fail(f"expected {what}, found {self.next.text!r}")
        return self.take()

    # ---- grammar

    def graph(self) -> Graph:
        graph = self.graph_called(self.name("the name of a graph").text)
        if self.next.kind != "end":
            self.fail(f"expected the end, found {self.next.text!r}")
        return graph

    def graph_called(self, name: str) -> Graph:
        """Parse the rest of a graph, after its name."""
        self.expect("(")
        inputs: list[Node] = []
        while not self.accept(")"):
            if inputs:
                self.expect(",")
            token = self.name("an input")
            self.expect(":")
            inputs.append(self.define(token, input_node(self.aval())))
        self.expect("{")
        nodes = []
        while not self.accept("return"):
            nodes.append(self.statement())
        outputs: list[Node] = []
        while not self.accept("}"):
            if outputs:
                self.expect(",")
            outputs.append(self.operand(self.name("an output")))
        return Graph(inputs, nodes, outputs, name)

    def region(self, token: _Token) -> Region:
        """Parse a region, which has a separate name space; a name alone means the region defined before."""
        if self.next.text != "(":
            if token.text not in self.regions:
                self.fail(f"expected a value, found {token.text!r}", token.at)
            return self.regions[token.text]
        around, self.nodes = self.nodes, {}
        region = Region(self.graph_called(token.text))
        self.nodes = around
        if self.regions.setdefault(token.text, region) is not region:
            self.fail(f"region {token.text!r} is defined twice", token.at)
        return region

    def statement(self) -> Node:
        target = self.name("a statement or `return`")
        stated = self.aval() if self.accept(":") else None
        self.expect("=")
        token = self.name("an operation")
        op = self.ops.get(token.text)
        if op is None:
            import difflib  # imported only for this message

            near = difflib.get_close_matches(token.text, self.ops, n=1)
            self.fail(f"no operation is called {token.text!r}" + (f"; {near[0]!r} is" if near else ""), token.at)
        if op is INPUT:
            self.fail("an input stands in the head of the graph", token.at)
        operands, params = self.arguments()
        if set(params) != set(op.params):
            takes = ", ".join(op.params) or "no parameters"
            self.fail(f"{op.name} takes {takes}; got {', '.join(params) or 'none'}", token.at)
        try:
            node = apply(op, *operands, **params)
        except Exception as error:  # a shape rule may raise any exception; the user needs the line, not the type
            self.fail(str(error), token.at, error)
        if stated is not None and stated != node.aval:
            self.fail(f"{target.text} is {node.aval}, not {stated}", target.at)
        return self.define(target, node)

    def arguments(self) -> tuple[list[Node], dict[str, Any]]:
        operands: list[Node] = []
        params: dict[str, Any] = {}
        self.expect("(")
        while not self.accept(")"):
            if operands or params:
                self.expect(",")
            token = self.name("an operand or parameter")
            if not self.accept("="):
                if params:
                    self.fail("operands stand before parameters", token.at)
                operands.append(self.operand(token))
            elif token.text in params:
                self.fail(f"parameter {token.text!r} is given twice", token.at)
            else:
                params[token.text] = self.value()
        return operands, params

    def define(self, token: _Token, node: Node) -> Node:
        if token.text in self.nodes:
            self.fail(f"{token.text!r} is defined twice", token.at)
        self.nodes[token.text] = node
        return node

    def operand(self, token: _Token) -> Node:
        if token.text not in self.nodes:
            self.fail(f"{token.text!r} is not defined here", token.at)
        return self.nodes[token.text]

    def aval(self) -> Aval:
        if self.next.kind != "aval" and "[" not in self.next.text:
            self.fail(f"expected an aval such as f64[3,4], found {self.next.text!r}")
        token = self.take()
        try:
            return parse_aval(token.text)
        except ValueError as error:
            self.fail(str(error), token.at, error)

    def value(self) -> Any:
        token = self.take()
        if token.kind == "number":
            return int(token.text) if re.fullmatch(r"-?\d+", token.text) else float(token.text)
        if token.kind == "string":
            return ast.literal_eval(token.text)
        if token.text in _WORDS:
            return _WORDS[token.text]
        if token.text == "complex":
            self.expect("(")
            real = self.value()
            self.expect(",")
            imaginary = self.value()
            self.expect(")")
            if not isinstance(real, int | float) or not isinstance(imaginary, int | float):
                self.fail("complex takes two numbers", token.at)
            return complex(real, imaginary)
        if token.text == "(":
            return self.tuple_rest()
        if token.kind == "name":
            return self.region(token)
        self.fail(f"expected a value, found {token.text!r}", token.at)

    def tuple_rest(self) -> tuple:
        """Parse the rest of a tuple after its opening parenthesis; (3) without a comma is an error."""
        values: list[Any] = []
        ends_in_comma = True
        while not self.accept(")"):
            if not ends_in_comma:
                self.expect(",")
            values.append(self.value())
            ends_in_comma = self.accept(",")
        if len(values) == 1 and not ends_in_comma:
            self.fail("a tuple of one value is written (value,)")
        return tuple(values)


# ---------------------------------------------------------------- drawings


def print_dot(graph: Graph) -> str:
    """The graph in the DOT language, without a final newline; the same text in every run.

    >>> import autodiff  # whose operations a text may name
    >>> from codegen.ir import parse
    >>> print(print_dot(parse("f(x0: f64[3]) { a: f64[3] = exp(x0)  return a }")))
    digraph "f" {
      rankdir = TB
      node [fontname = "monospace"]
      x0 [shape = ellipse, label = "x0: f64[3]"]
      a [shape = box, style = bold, label = "a: f64[3]\\nexp(x0)"]
      x0 -> a
    }
    """
    names = node_names(graph)
    outputs = set(graph.outputs)
    lines = [f'digraph "{_quoted(graph.name)}" {{', "  rankdir = TB", '  node [fontname = "monospace"]']
    for node in graph.inputs:
        lines.append(_box(names[node], "ellipse", f"{names[node]}: {node.aval}", _style(graph, node, outputs)))
    for node in graph.nodes:
        lines.append(_box(names[node], "box", _label(node, names), _style(graph, node, outputs)))
        lines += [f"  {_id(names[i])} -> {_id(names[node])}" for i in node.inputs]
    return "\n".join([*lines, "}"])


def _box(name: str, shape: str, label: str, style: str) -> str:
    return f'  {_id(name)} [shape = {shape}{style}, label = "{label}"]'


def _style(graph: Graph, node: Node, outputs: Container[Node]) -> str:
    """The style attributes of a node: bold for outputs, dashed for the backward pass."""
    origins = graph.origins_of(node)
    is_backward = bool(origins) and origins[0].half in ("backward", "seed")
    styles = [*(["bold"] if node in outputs else []), *(["dashed"] if is_backward else [])]
    return "" if not styles else f", style = {styles[0]}" if len(styles) == 1 else f', style = "{",".join(styles)}"'


def _id(name: str) -> str:
    """A name as an identifier of DOT: quoted if it is a user's name such as `params['w']`."""
    return name if name.isidentifier() else f'"{_quoted(name)}"'


def _label(node: Node, names: dict[Node, str]) -> str:
    """The label of a node's box: its name and aval on the first line, the call on the second."""
    result, _, call = node_text(node, names).partition(" = ")
    return f"{_quoted(result)}\\n{_quoted(call)}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
