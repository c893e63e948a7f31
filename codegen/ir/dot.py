"""A graph as a drawing in Graphviz's language: boxes for operations, ellipses for what enters, bold for what leaves,
dashed for the backward half.

    print_dot(graph)    ->    digraph f { ... }    ->    dot -Tsvg, or the Python package `graphviz`

Names are those of `print_graph`, so a drawing and a text can be read side by side.
"""

from __future__ import annotations

from collections.abc import Container

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
        lines.append(_box(names[node], "ellipse", f"{names[node]}: {node.aval}", _style(graph, node, outputs)))
    for node in graph.nodes:
        lines.append(_box(names[node], "box", _label(node, names), _style(graph, node, outputs)))
        lines += [f"  {_id(names[i])} -> {_id(names[node])}" for i in node.inputs]
    return "\n".join([*lines, "}"])


def _box(name: str, shape: str, label: str, style: str) -> str:
    return f'  {_id(name)} [shape = {shape}{style}, label = "{label}"]'


def _style(graph: Graph, node: Node, outputs: Container[Node]) -> str:
    """Results are bold, the backward half is dashed."""
    origins = graph.origins_of(node)
    is_backward = bool(origins) and origins[0].half in ("backward", "seed")
    styles = [*(["bold"] if node in outputs else []), *(["dashed"] if is_backward else [])]
    return "" if not styles else f", style = {styles[0]}" if len(styles) == 1 else f', style = "{",".join(styles)}"'


def _id(name: str) -> str:
    """A name of the user's, such as `params['w']`, has to be quoted."""
    return name if name.isidentifier() else f'"{_quoted(name)}"'


def _label(node: Node, names: dict[Node, str]) -> str:
    """The node's statement on two lines: what it gives, and how."""
    result, _, call = node_text(node, names).partition(" = ")
    return f"{_quoted(result)}\\n{_quoted(call)}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
