"""Passes: `Graph -> Graph`, one file each; `pipeline` lists them in the order in which they run."""

from .pipeline import PASSES, optimize, stages

__all__ = ["PASSES", "optimize", "stages"]
