"""`autodiff demo` and `autodiff cache`."""

from __future__ import annotations

import typer

from codegen.runtime import disk

from .app import AsJson, reported, say

__all__ = ["cache", "demo"]


@reported
def demo(as_json: bool = AsJson) -> None:
    """Train a classifier of handwritten digits with a custom loss, and report compiles and times."""
    from ..demo import run

    report = run(quiet=as_json)
    if as_json:
        say(report, "", as_json)


@reported
def cache(
    clear: bool = typer.Option(False, "--clear", help="Remove all machine code that is kept."),
    as_json: bool = AsJson,
) -> None:
    """Say where machine code is kept on disk, and how much.  AUTODIFF_CACHE=0 turns it off."""
    kept = disk.default()
    if kept is None:
        say({"folder": None, "objects": 0, "bytes": 0}, "off", as_json)
        return
    if clear:
        disk.DiskCache(kept.folder, limit_bytes=0).prune()
    count, size = kept.held()
    text = f"folder   {kept.folder}\nobjects  {count}\nbytes    {size} of at most {kept.limit_bytes}"
    say({"folder": kept.folder, "objects": count, "bytes": size, "limit_bytes": kept.limit_bytes}, text, as_json)
