"""The mode: the settings on which recording depends, beside its operands.  Each thread and asyncio task has one.

    before = MODE.get()                            before.tracks: results track gradients here
    try:
        set_in_context(MODE, before.off)
        ...
    finally:
        set_in_context(MODE, before)

There are sixteen modes; the settings of the process are written into all of them, so recording reads one object.
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import product

#: The flags of a mode, with their values at the start of a context.
_FLAGS = {"tracks": True, "closely": False, "lightly": False, "anomalies": False}


class Mode:
    """The flags of a context, and fields that follow from the flags and the settings of the process.

    tracks     results track gradients;  anomalies: anomalies are looked for, and every node keeps the user's line
    closely    all recorded operations are noted: by a trace, by an observer of dispatch, or to keep their lines
    lightly    only nodes are wanted, without values: of an example under `vmap`, or of the body of a loop
    on, off    this mode with and without tracking;  others[flag, value]: the mode that differs in one flag

    careful    closely, lightly, anomalies or eager is set, so no shortcuts are taken by known calls and values
    watching   recording notes more than nodes, so it takes no shortcuts
    eager      every operation is evaluated at once;  keeps_lines: every recording keeps the user's lines
    rich       each node is evaluated when it is recorded, or its line is kept
    """

    __slots__ = (
        "anomalies", "careful", "closely", "eager", "keeps_lines", "lightly", "off", "on", "others", "rich",
        "tracks", "watching",
    )  # fmt: skip

    tracks: bool
    closely: bool
    lightly: bool
    anomalies: bool
    on: Mode
    off: Mode

    def __init__(self, flags: tuple[bool, ...]) -> None:
        for name, flag in zip(_FLAGS, flags, strict=True):
            setattr(self, name, flag)
        self.careful = self.watching = self.eager = self.keeps_lines = self.rich = False
        self.others: dict[tuple[str, bool], Mode] = {}

    def __reduce__(self) -> str:
        raise TypeError("a mode belongs to a context of its process")


_ALL = {flags: Mode(flags) for flags in product((False, True), repeat=len(_FLAGS))}
for _flags, _mode in _ALL.items():
    _mode.on, _mode.off = _ALL[True, *_flags[1:]], _ALL[False, *_flags[1:]]
    for _place, _name in enumerate(_FLAGS):
        for _value in (False, True):
            _mode.others[_name, _value] = _ALL[*_flags[:_place], _value, *_flags[_place + 1 :]]

MODE: ContextVar[Mode] = ContextVar("autodiff_mode", default=_ALL[*_FLAGS.values()])


def look_closer(is_eager: bool, keeps_lines: bool) -> None:
    """Write the settings that recording depends on into all modes."""
    for mode in _ALL.values():
        mode.eager, mode.keeps_lines = is_eager, keeps_lines
        mode.careful = mode.closely or mode.lightly or mode.anomalies or is_eager
        mode.rich = mode.anomalies or is_eager or keeps_lines
        mode.watching = mode.closely or mode.rich


look_closer(is_eager=False, keeps_lines=False)
