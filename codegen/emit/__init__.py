"""From loop nests to LLVM IR text."""

from typing import TYPE_CHECKING

from ..lazily import lazily

if TYPE_CHECKING:
    from .llvm import Emitted, called_by, emit_function, module_of, nameless

__all__ = ["Emitted", "called_by", "emit_function", "module_of", "nameless"]

# The emitter is imported when it is first used: the abilities of this processor (`target`) are needed without it.
__getattr__, __dir__ = lazily(globals(), dict.fromkeys(__all__, "llvm"))
