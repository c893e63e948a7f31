"""A function's value and gradient as files that need neither Python nor this library: `ad.export`.

    program.py    the files, and the names of arguments and results in C (for programs of any size: sizes.py)
    header.py     the C header, which says how to call the function
"""

from .program import Export, export

__all__ = ["Export", "export"]
