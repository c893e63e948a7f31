"""The tape: the operations of a program, recorded as nodes; nothing is computed until a value is asked for.

Input: operations on handles.  Output: pending nodes, and, when a value is asked for, a graph for
the compiler.

    node      Out, Kind, Node, Leaf: the parts of a tape
    record    the recording of primitives, a node for each; identities
    leaves    nodes for given data: arrays, numbers
"""

from .leaves import constant, leaf, leaf_node, number_leaf, place_leaf, promoted
from .node import CONSTANT, LEAF, Kind, Leaf, Node, Out, Primitive, RichNode, kind_of, out_of, rich_node
from .record import ALIASES, DETACH, IDENTITY, as_new_result, distinct_result, is_tracking, record, state

__all__ = [
    "ALIASES", "CONSTANT", "DETACH", "IDENTITY", "LEAF", "Kind", "Leaf", "Node", "Out", "Primitive", "RichNode",
    "as_new_result", "constant", "distinct_result", "is_tracking", "kind_of", "leaf", "leaf_node", "number_leaf",
    "out_of", "place_leaf", "promoted", "record", "rich_node", "state",
]
