"""The graph level: avals, operations, graphs, their text, verifier and NumPy evaluator."""

from .aval import DTYPES, Aval, aval_of, dtype_name, parse_aval
from .graph import Graph, Node, apply, input_node
from .op import CONSTANT, INPUT, OPS, Op, define

__all__ = [
    "CONSTANT", "DTYPES", "INPUT", "OPS", "Aval", "Graph", "Node", "Op", "apply", "aval_of",
    "define", "dtype_name", "input_node", "parse_aval",
]
