"""A program as one object file that needs neither Python nor this library.

    program  --pieces-->  texts of functions, and data that name them  --joined-->  object file, LLVM's text

    exported(program, "loss", hidden, mlir) -> Exported
    exported_sized("loss", ["n"], record) -> Exported, ExportedSizes       for any n: `sized`

The steps of a program are the same functions as in a process of Python, called with the same numbers; the steps and
their numbers are constants of the module.  Calls of Python's memory and locks have stand-ins (`stand_ins`); nobody
shares a loop.
"""

from .pieces import C_FUNCTIONS, KNOWN_SIZES, Exported, NotExportable, exported
from .sized import BAD_SIZES, Disagreement, ExportedSizes, exported_sized

__all__ = [
    "BAD_SIZES", "C_FUNCTIONS", "KNOWN_SIZES", "Disagreement", "Exported", "ExportedSizes", "NotExportable", "exported",
    "exported_sized",
]  # fmt: skip
