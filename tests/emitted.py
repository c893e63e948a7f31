"""Nests as the text of one module, for tests of the emitter."""

from codegen.emit import emit_function, module_of


def emit_module(functions, target_features=""):
    """A module that exports `i32 @name(ptr pointers, ptr extents)` for each function; names must differ."""
    return module_of([emit_function(f, target_features) for f in functions], target_features)
