"""Text with `$names` to be filled in: `string.Template` for what machine code is written with.

Importing `string` takes most of a millisecond, which every process that multiplies matrices would pay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["TextTemplate"]

_NAME = re.compile(r"\$(\{)?([A-Za-z_][A-Za-z0-9_]*)(?(1)\})")


class TextTemplate:
    """A text in which `$name`, or `${name}` before a letter, stands for something.

    A `$` without a name after it is itself.
    """

    def __init__(self, text: str) -> None:
        self.template = text

    def substitute(self, words: Mapping[str, object] | None = None, /, **more: object) -> str:
        """The text, each name replaced.  Raises KeyError for a name that nothing is given for."""
        known = {**(words or {}), **more}
        return _NAME.sub(lambda found: str(known[found[2]]), self.template)

    def safe_substitute(self, words: Mapping[str, object]) -> str:
        """The same; names that nothing is given for stay."""
        return _NAME.sub(lambda found: str(words.get(found[2], found[0])), self.template)
