"""Sums over shards of data that lie with workers: other processes, a cluster, or this process.

    shards = ad.shards(load, keys, on=executor)      load(key) -> the arrays of one shard, kept where they are loaded
    total = ad.sum_over(f, shards)                   total(*parameters) = sum over keys of f(*parameters, *shard)

    sums.py      the differentiable function, and one round trip: a task for each shard, results added in their order
    keeping.py   the shards, and the executor that they lie with
    task.py      what a worker does; functions and keys as bytes
"""

from .keeping import Shards, shards
from .sums import sum_over

__all__ = ["Shards", "shards", "sum_over"]
