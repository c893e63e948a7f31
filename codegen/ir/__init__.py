"""The graph level: avals, operations, graphs, their text, verifier and NumPy evaluator."""

from .aval import DTYPES, Aval, aval_of, dtype_name, parse_aval
from .dot import print_dot
from .evaluate import evaluate, evaluate_node
from .graph import Graph, Node, apply, input_node
from .op import CONSTANT, INPUT, OPS, Op, define
from .text import ParseError, node_names, node_text, parse, print_graph
from .verify import VerifyError, verify

__all__ = [
    "CONSTANT", "DTYPES", "INPUT", "OPS", "Aval", "Graph", "Node", "Op", "ParseError", "VerifyError", "apply",
    "aval_of", "define", "dtype_name", "evaluate", "evaluate_node", "input_node", "node_names", "node_text",
    "parse", "parse_aval", "print_dot", "print_graph", "verify",
]
