"""Objects of Python's that machine code for recordings uses, exchanged."""

from codegen.runtime.recording_structs import Tape


def use(machine_code, **objects):
    """Have it use these for the length of a test, and its own for the others; without any, all its own."""
    now = machine_code._objects | objects
    machine_code.remember(tuple([now[name] for name in Tape.fields()]))
