"""A function's value and gradient as files that need neither Python nor this library: `ad.export`.

    program.py    what is exported: the program, and the names of its arguments and results
    header.py     the C header that says how to call it
"""

from .program import Export, export

__all__ = ["Export", "export"]
