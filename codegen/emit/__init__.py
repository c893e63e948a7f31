"""From loop nests to LLVM IR text."""

from .llvm import emit_module

__all__ = ["emit_module"]
