"""The report of the measurements as Markdown or JSON, from rows of results and their targets."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from measure import Found
from peers import LABELS
from targets import AsExact, Target

from codegen import compiler

__all__ = ["Row", "as_json", "machine", "text"]


@dataclasses.dataclass
class Row:
    """One line of a table: the title of a row of benchmarks, the results of one case, and its targets."""

    title: str
    found: Found
    targets: list[Target]

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.title, self.found.work)))


def text(rows: Sequence[Row]) -> str:
    """All tables: times, other figures, targets, times under load, errors; and the absent peers with reasons."""
    times = [r for r in rows if r.found.unit == "s"]
    others = [r for r in rows if r.found.unit != "s"]
    parts = [
        ("", _table(times, "ours", _ratio)),
        ("What is not time", _table(others, "ours", _figure)),
        ("What is asked (issue 4)", _targets(rows)),
        (
            "Under load: how many times longer a call takes while another process keeps one core busy",
            _table([r for r in rows if r.found.loaded], "", _slowdown),
        ),
        (
            "Largest error, relative to the largest value; the median of up to 99 draws of the inputs",
            _table([r for r in rows if r.found.errors], "", _error),
        ),
        ("Left out", _absent(rows)),
    ]
    return "\n".join(f"{f'## {title}' + chr(10) * 2 if title else ''}{part}\n" for title, part in parts if part)


def _table(rows: Sequence[Row], ours: str, cell: Callable[[Found, str], str]) -> str:
    """A table with a line for each row, and a column for each peer that has a cell in some row.

    ours    the heading of a first column with our figure and its unit; "" for no such column
    """
    names = [p for p in ("ours", *LABELS) if not (ours and p == "ours") and any(cell(r.found, p) for r in rows)]
    if not rows:
        return ""
    lines = [_line(["work", *([ours] if ours else []), *[LABELS.get(p, p) for p in names]])]
    lines.append("|---" * (1 + bool(ours) + len(names)) + "|")
    for r in rows:
        own = [_own(r.found)] if ours else []
        lines.append(_line([r.name, *own, *[cell(r.found, p) for p in names]]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _own(found: Found) -> str:
    ours = found.values["ours"]
    if found.unit != "s":
        return f"{ours:.4g} {found.unit}".strip()
    return f"{1e6 * ours:.2f} µs" if ours < 1e-3 else f"{1e3 * ours:.2f} ms"


def _ratio(found: Found, peer: str) -> str:
    return f"{found.values[peer] / found.values['ours']:.2f} x" if peer in found.values else ""


def _figure(found: Found, peer: str) -> str:
    return f"{found.values[peer]:.4g}" if peer in found.values else ""


def _slowdown(found: Found, peer: str) -> str:
    return f"{found.loaded[peer] / found.values[peer]:.2f}" if peer in found.loaded else ""


def _error(found: Found, peer: str) -> str:
    return f"{found.error[peer]:.0e}" if peer in found.error else ""


_MET = {True: "met", False: "**not met**", None: "not measured"}


def _targets(rows: Sequence[Row]) -> str:
    asked = [(r, t) for r in rows for t in r.targets]
    asked += [(r, AsExact("jax")) for r in rows if {"ours", "jax"} <= r.found.errors.keys()]
    lines = [_line([r.name, repr(t), t.measured_text(r.found), _MET[t.is_met(r.found)]]) for r, t in asked]
    return "\n".join(["| work | asked | measured | |", "|---|---|---|---|", *lines]) if lines else ""


def _absent(rows: Sequence[Row]) -> str:
    """A list of the absent peers, each with the reason and the titles of the rows."""
    why: dict[tuple[str, str], list[str]] = {}
    for r in rows:
        for peer, reason in r.found.absent.items():
            titles = why.setdefault((LABELS.get(peer, peer), reason), [])
            titles += [r.title] if r.title not in titles else []
    return "\n".join(f"- {peer}: {reason} ({'; '.join(titles)})" for (peer, reason), titles in sorted(why.items()))


def as_json(machine: str, rows: Sequence[Row]) -> str:
    """The report as JSON text."""

    def one(r: Row) -> Mapping[str, object]:
        asked = [{"asked": repr(t), "measured": t.measured_text(r.found), "met": t.is_met(r.found)} for t in r.targets]
        found = {**dataclasses.asdict(r.found), "error": r.found.error}
        del found["errors"]
        return {"title": r.title, **found, "targets": asked}

    return json.dumps({"machine": machine, "rows": [one(r) for r in rows]}, indent=2)


def machine(threads: int) -> str:
    """A description of this machine, the number of threads, and the versions of the libraries."""
    versions = []
    for name in ("autodiff", "numpy", "llvmlite", "torch", "jax", "numba", "drjit", "autograd"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "")
    python = f"Python {platform.python_version()}"
    kind = compiler.facts()["target"].partition(", ")[2]
    return f"{model or platform.machine()} ({kind}), {threads} threads; {python}, {', '.join(versions)}"


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []
