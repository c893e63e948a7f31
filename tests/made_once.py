"""What LLVM makes of a text is the same each time: within one run of the tests, on any worker, it makes it once."""

import os
import pickle
from hashlib import blake2b
from pathlib import Path

from codegen.runtime import engine

#: LLVM itself, for tests of it.
by_llvm = engine._object_of


class MadeOnce:
    """Stands before LLVM: objects by text, passes and processor, in a folder that workers share.

    All else is done each time: emitting, linking, and the tables and counters of the library.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def __call__(self, text, passes):
        asked = repr((passes.name, engine.target_key(), text)).encode()
        file = self.folder / blake2b(asked, digest_size=16).hexdigest()
        try:
            return pickle.loads(file.read_bytes())
        except FileNotFoundError:
            made = by_llvm(text, passes)
        beside = file.with_name(f"{file.name}.{os.getpid()}.{id(made)}")  # others read all of it or nothing
        beside.write_bytes(pickle.dumps(made))
        beside.replace(file)
        return made
