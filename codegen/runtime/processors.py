"""The processors that this process may use: its affinity, and the quota of its cgroup.

A container that is given half of a machine's time sees all of its processors; Linux stops all threads of a process that
has used up its quota of a period.  So more threads than the quota pays for only wait for one another.
"""

from __future__ import annotations

import math
import os

__all__ = ["MOST_THREADS", "quota", "usable"]

#: More threads than this never share a loop.
MOST_THREADS = 256


def usable() -> int:
    """The number of processors that the calling thread may use now (its affinity)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(groups: str = "/proc/self/cgroup", mounts: str = "/sys/fs/cgroup") -> float:
    """The number of processors that the process's cgroup, and those around it, pay for: rounded up; inf for no limit.

    groups    the file that lists the cgroups of the process, as Linux writes it
    mounts    the folder in which cgroups are mounted: of version 2, or of version 1 in a folder for each controller
    """
    try:
        with open(groups) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return math.inf
    return min([_smallest(mounts, controllers, path) for _, controllers, path in lines], default=math.inf)


def _smallest(mounts: str, controllers: str, path: str) -> float:
    """The smallest quota on the way from a cgroup up to where it is mounted."""
    if not controllers:
        roots = [mounts, f"{mounts}/unified"]
    elif "cpu" in controllers.split(","):
        roots = [f"{mounts}/{controllers}", f"{mounts}/cpu"]
    else:
        return math.inf
    parts = [part for part in path.split("/") if part]
    folders = ["/".join([root, *parts[:depth]]) for root in roots for depth in range(len(parts) + 1)]
    return min(map(_of_folder, folders))


def _of_folder(folder: str) -> float:
    """The quota of one cgroup: in `cpu.max` (version 2), or in `cpu.cfs_quota_us` and `cpu.cfs_period_us`."""
    try:
        limit, period = _read(f"{folder}/cpu.max").split()
    except (OSError, ValueError):
        try:
            limit, period = _read(f"{folder}/cpu.cfs_quota_us"), _read(f"{folder}/cpu.cfs_period_us")
        except OSError:
            return math.inf
    if not limit.isdecimal() or not period.isdecimal() or int(limit) == 0 or int(period) == 0:
        return math.inf  # "max" or -1: no limit
    return math.ceil(int(limit) / int(period))


def _read(file: str) -> str:
    with open(file) as opened:
        return opened.read().strip()
