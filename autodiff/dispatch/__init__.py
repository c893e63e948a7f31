"""Generic functions, as in Julia: methods chosen by the types of the arguments.

    signature      which types a method takes; when one is more specific than another; the most specific for a call
    declaration    what a function calls its parameters; binding of calls
    method         one implementation, with its file and line; the types that it names; why none serves a call
    registry       the methods and rules of one function: adding, choosing
    generic        the function: calling, with hooks for the floors above
    reliance       which choices something kept was made with, and when to drop it
    introspection  methods, which, which_backward, ambiguities, coverage

What enters: functions and types.  What leaves: for a call, the method that serves it.
"""

from typing import TYPE_CHECKING

from codegen.lazily import lazily

from .generic import GenericFunction
from .method import Method, choice_of, complete, is_own, late, not_found
from .registry import all_functions
from .reliance import Choices, include, is_observed, note, observed
from .signature import Ambiguity, Choice, NamedUnion, Signature, type_name

if TYPE_CHECKING:
    from .introspection import Gap, Match, Unreachable, ambiguities, coverage, methods, which, which_backward

__all__ = [
    "Ambiguity", "Choice", "Choices", "Gap", "GenericFunction", "Match", "Method", "NamedUnion", "Signature",
    "Unreachable", "all_functions", "ambiguities", "choice_of", "complete", "coverage", "include",
    "is_observed", "is_own", "late", "methods", "not_found", "note", "observed", "type_name", "which", "which_backward",
]

# For those who ask what would run.
__getattr__, __dir__ = lazily(
    globals(),
    dict.fromkeys(
        ("Gap", "Match", "Unreachable", "ambiguities", "coverage", "methods", "which", "which_backward"),
        "introspection",
    ),
)
