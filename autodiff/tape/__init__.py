"""The tape: what a program computes, recorded as nodes; nothing is computed until asked for.

What enters: operations on handles.  What leaves: pending nodes, and, when a value is asked for,
a graph for the compiler.

    node      Out, Kind, Node, Leaf: what a tape is made of
    record    one node per primitive; numbers; identities
"""

from .node import LEAF, Kind, Leaf, Node, Out, Primitive, RichNode, kind_of, out_of, rich_node
from .record import (
    ALIASES,
    CONSTANT,
    DETACH,
    IDENTITY,
    constant,
    grad_mode,
    is_tracking,
    leaf,
    leaf_node,
    number_leaf,
    promoted,
    record,
    state,
)

__all__ = [
    "ALIASES", "CONSTANT", "DETACH", "IDENTITY", "LEAF", "Kind", "Leaf", "Node", "Out", "Primitive", "RichNode",
    "constant", "grad_mode", "is_tracking", "kind_of", "leaf", "leaf_node", "number_leaf", "out_of", "promoted",
    "record", "rich_node", "state",
]
