"""A graph as a drawing in Graphviz's language: boxes for operations, ellipses for what enters, bold for what leaves.

    print_dot(graph)    ->    digraph f { ... }    ->    dot -Tsvg, or the Python package `graphviz`

Names are those of `print_graph`, so a drawing and a text can be read side by side.
"""

from __future__ import annotations

from .graph import Graph, Node, node_names, node_text

__all__ = ["print_dot"]


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
        lines.append(_box(names[node], "ellipse", f"{names[node]}: {node.aval}", node in outputs))
    for node in graph.nodes:
        lines.append(_box(names[node], "box", _label(node, names), node in outputs))
        lines += [f"  {_id(names[i])} -> {_id(names[node])}" for i in node.inputs]
    return "\n".join([*lines, "}"])


def _box(name: str, shape: str, label: str, is_output: bool) -> str:
    return f'  {_id(name)} [shape = {shape}{", style = bold" if is_output else ""}, label = "{label}"]'


def _id(name: str) -> str:
    """A name of the user's, such as `params['w']`, has to be quoted."""
    return name if name.isidentifier() else f'"{_quoted(name)}"'


def _label(node: Node, names: dict[Node, str]) -> str:
    """The node's statement on two lines: what it gives, and how."""
    result, _, call = node_text(node, names).partition(" = ")
    return f"{_quoted(result)}\\n{_quoted(call)}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
