"""The graph level of the compiler: avals, operations, graphs, their text, a verifier and a NumPy evaluator."""

from typing import TYPE_CHECKING

from ..lazily import lazily
from .aval import DTYPES, KNOWN_DTYPES, MOST_BYTES, Aval, aval_of, dtype_name, parse_aval
from .evaluate import ANY_LAYOUT, OutOfRange, copy_if_shared, evaluate, evaluate_node, evaluate_op
from .graph import Graph, Node, Region, apply, input_node, name_origins, node_names, node_text, print_graph
from .op import CONSTANT, INPUT, OPS, Op, define
from .origin import Origin, inherit, lines_of, origins_text
from .verify import VerifyError, verify

if TYPE_CHECKING:
    from .text import ParseError, parse, print_dot

__all__ = [
    "ANY_LAYOUT", "CONSTANT", "DTYPES", "INPUT", "KNOWN_DTYPES", "MOST_BYTES", "OPS", "Aval", "Graph", "Node", "Op",
    "Origin", "OutOfRange", "ParseError", "Region", "VerifyError", "apply", "aval_of", "copy_if_shared", "define",
    "dtype_name", "evaluate", "evaluate_node", "evaluate_op", "inherit", "input_node", "lines_of", "name_origins",
    "node_names", "node_text", "origins_text", "parse", "parse_aval", "print_dot", "print_graph", "verify",
]

# The module `text` is imported only when one of these names is used: most processes never read or draw a graph.
__getattr__, __dir__ = lazily(globals(), dict.fromkeys(("ParseError", "parse", "print_dot"), "text"))
