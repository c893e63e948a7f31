"""From loop nests to LLVM IR text."""

from .llvm import Emitted, emit_function, emit_module, module_of, nameless

__all__ = ["Emitted", "emit_function", "emit_module", "module_of", "nameless"]
