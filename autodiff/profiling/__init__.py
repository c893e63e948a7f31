"""Profiles: the time of a block by phase, kernel, line and rule (`ad.profile`).

    steps.py       measures time by phase, each moment once, and times each call of the steps of programs
    report.py      makes tables by phase, kernel, rule and line, beside the limits of this machine, and pictures
"""

from .report import KernelTime, Profile, profile

__all__ = ["KernelTime", "Profile", "profile"]
