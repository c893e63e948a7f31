"""The tape: what a program computes, recorded as nodes; nothing is computed until asked for.

What enters: operations on handles.  What leaves: pending nodes, and, when a value is asked for,
a graph for the compiler.

    node      Out, Kind, Node, Leaf: what a tape is made of
    record    one node per primitive; identities
    leaves    given data: arrays, numbers
"""

from .leaves import constant, leaf, leaf_node, number_leaf, place_leaf, promoted
from .node import CONSTANT, LEAF, Kind, Leaf, Node, Out, Primitive, RichNode, kind_of, out_of, rich_node
from .record import ALIASES, DETACH, IDENTITY, another, is_tracking, of_its_own, record, state

__all__ = [
    "ALIASES", "CONSTANT", "DETACH", "IDENTITY", "LEAF", "Kind", "Leaf", "Node", "Out", "Primitive", "RichNode",
    "another", "constant", "is_tracking", "kind_of", "leaf", "leaf_node", "number_leaf", "of_its_own",
    "out_of", "place_leaf", "promoted", "record", "rich_node", "state",
]
