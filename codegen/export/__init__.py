"""Export of a program as one object file that needs neither Python nor this library.

    program  --pieces-->  texts of functions, and data that refer to them  --joined-->  object file, LLVM IR text

    exported(program, "loss", hidden, mlir) -> Exported
    exported_sized("loss", ["n"], record) -> Exported, ExportedSizes       for any n: see `sized`

The steps of an exported program call the same functions as in a Python process, with the same arguments; the steps and
their arguments are constants of the module.  `stand_ins` replaces Python's functions for memory and locks.  An exported
program runs on one thread.
"""

from .pieces import C_FUNCTIONS, KNOWN_SIZES, Exported, NotExportable, exported
from .sized import BAD_SIZES, Disagreement, ExportedSizes, exported_sized

__all__ = [
    "BAD_SIZES", "C_FUNCTIONS", "KNOWN_SIZES", "Disagreement", "Exported", "ExportedSizes", "NotExportable", "exported",
    "exported_sized",
]  # fmt: skip
