"""Coloured texts of stages, for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

#: The stages in a language that the highlighter knows, with its name there.
_LANGUAGES = {"llvm": "llvm", "llvm-opt": "llvm", "asm": "gas", "diff": "diff"}


class _ColouredGraph(RegexHighlighter):
    """The highlighter of graphs, tapes, fused programs and MLIR."""

    base_style = "stage."
    highlights = [  # noqa: RUF012  as the base class has it
        r"(?P<type>\b(?:[fiuc]\d+|bool)\[[^\]]*\]|\b(?:memref<[^>]*>|f64|f32|i\d+|index)\b)",
        r"(?P<name>^ *[\w.\[\]'%]+(?=(?:: \S+)? = ))",
        r"(?P<op>(?<== )[\w.]+)",
        r"(?P<word>\b(?:return|ask|input|output|temporary|scf\.\w+|func\.\w+)\b)",
        r"(?P<comment>  #.*$| loc\(.*\)$)",
    ]


_THEME = Theme({
    "stage.type": "cyan",
    "stage.name": "bold",
    "stage.op": "yellow",
    "stage.word": "magenta",
    "stage.comment": "dim green",
})


def show(text: str, kind: str) -> None:
    """Print a text; long lines are not broken."""
    console = Console(theme=_THEME, highlight=False, soft_wrap=True)
    if kind in _LANGUAGES:
        console.print(Syntax(text, _LANGUAGES[kind], theme="ansi_dark", background_color="default", word_wrap=False))
        return
    for line in text.splitlines():
        told = Text(line, no_wrap=True)
        _ColouredGraph().highlight(told)
        console.print(told, soft_wrap=True)
