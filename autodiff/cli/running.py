"""`autodiff demo`."""

from __future__ import annotations

from .app import AsJson, reported, say

__all__ = ["demo"]


@reported
def demo(as_json: bool = AsJson) -> None:
    """Train a classifier on real handwritten digits with a custom loss; what was compiled, and how fast it runs."""
    from ..demo import run

    report = run(quiet=as_json)
    if as_json:
        say(report, "", as_json)
