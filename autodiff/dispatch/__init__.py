"""Generic functions, as in Julia: methods chosen by the types of the arguments.

    signature      the types that a method takes; the order of methods; the most specific method for a call
    declaration    the parameters of a function; binding of calls to them
    method         one implementation, with its file and line; reading types; the error when no method fits
    registry       the methods and rules of one function: adding, choosing
    generic        the function: calling, with hooks for the packages above
    reliance       the choices behind a cached result, and dropping the result when one of them changes
    introspection  methods, which, which_backward, ambiguities, coverage

Input: functions and types.  Output: the method that runs a call.
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

# Imported on first use: only questions about methods need them.
__getattr__, __dir__ = lazily(
    globals(),
    dict.fromkeys(
        ("Gap", "Match", "Unreachable", "ambiguities", "coverage", "methods", "which", "which_backward"),
        "introspection",
    ),
)
