"""Profiles: the time of a block by phase, kernel, line and rule (`ad.profile`).

    steps.py       time by phase, each moment counted once; the steps of programs, each call timed
    report.py      tables by phase, kernel, rule and line, against the limits of this machine; pictures of them
"""

from .report import KernelTime, Profile, profile

__all__ = ["KernelTime", "Profile", "profile"]
