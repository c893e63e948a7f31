"""Passes: `Graph -> Graph`, one file each; `pipeline` names them on one page."""

from .pipeline import PASSES, optimize, stages

__all__ = ["PASSES", "optimize", "stages"]
