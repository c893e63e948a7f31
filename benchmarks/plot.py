"""Draw RESULTS.md as RESULTS.svg: for each kind of work, the ratio of each peer's time to ours.

    python benchmarks/plot.py

It needs only Python.  The scale is logarithmic; the line at 1 is our time.
"""

from __future__ import annotations

import itertools
import math
import re
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
COLOURS = {
    "numpy": "#4c72b0", "numba": "#55a868", "c": "#333333", "plain c": "#999999", "dense": "#ccb974", "jax": "#dd8452",
    "torch": "#c44e52", "torch.compile": "#da8bc3", "Dr.Jit": "#64b5cd", "autograd": "#8172b3",
}  # fmt: skip
WIDTH, LABEL, LINE, TOP = 900, 380, 20, 70
#: The number of names in a line of the legend.
NAMES = 5


def read(text: str) -> list[tuple[str, dict[str, float]]]:
    """The pairs (work, ratios by peer) of the rows of the first table.

    >>> read("| work | ours | error | numpy | error |\\n|---|---|---|---|---|\\n| a | 1 µs | 0e+00 | 2.50 x | 0e+00 |")
    [('a', {'numpy': 2.5})]
    """
    from_first = itertools.dropwhile(lambda line: line[:1] != "|", text.splitlines())
    table = itertools.takewhile(lambda line: line[:1] == "|", from_first)
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [
        (row[0], {name: float(m[1]) for name, cell in zip(header, row, strict=True) if (m := _RATIO.fullmatch(cell))})
        for row in rows
    ]


_RATIO = re.compile(r"([\d.]+) x")


def draw(rows: list[tuple[str, dict[str, float]]]) -> str:
    """The picture as SVG text."""
    values = [v for _, ratios in rows for v in ratios.values() if v > 0]
    low = math.floor(math.log10(min([1.0, *values])))
    high = math.ceil(math.log10(max([10.0, *values])))

    def place(ratio: float) -> float:
        return LABEL + (WIDTH - LABEL - 20) * (math.log10(ratio) - low) / (high - low)

    height = TOP + LINE * (len(rows) + 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
             ' font-size="12"><rect width="100%" height="100%" fill="white"/>']
    for i, (name, colour) in enumerate(COLOURS.items()):
        x, y = LABEL + 100 * (i % NAMES), 14 + LINE * (i // NAMES)
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/><text x="{x + 9}" y="{y + 4}">{name}</text>')
    for power in range(low, high + 1):
        x, dark = place(10.0**power), "#000" if power == 0 else "#ccc"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - LINE}" stroke="{dark}"/>'
                     f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">{10.0**power:g} x</text>')
    for i, (work, ratios) in enumerate(rows):
        y = TOP + LINE * i + LINE // 2
        parts.append(f'<text x="{LABEL - 10}" y="{y + 4}" text-anchor="end">{escape(work)}</text>')
        parts += [f'<circle cx="{place(v):.1f}" cy="{y}" r="5" fill="{COLOURS[n]}"><title>{n}: {v:g} x</title></circle>'
                  for n, v in ratios.items() if v > 0 and n in COLOURS]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    text = (HERE / "RESULTS.md").read_text(encoding="utf-8")
    (HERE / "RESULTS.svg").write_text(draw(read(text)), encoding="utf-8")
    print(HERE / "RESULTS.svg")
