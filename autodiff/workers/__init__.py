"""Sums over shards of data that workers keep: other processes, a cluster, or this process.

    shards = ad.shards(load, keys, on=executor)      load(key) -> the arrays of one shard, kept where they are loaded
    total = ad.sum_over(f, shards)                   total(*parameters) = sum over keys of f(*parameters, *shard)

    sums.py      the differentiable sum, and its round trips: a task for each shard, results added in the keys' order
    keeping.py   the shards, and the executor that loads and keeps them
    task.py      a worker's part of a sum; functions and keys as bytes
"""

from .keeping import Shards, shards
from .sums import sum_over

__all__ = ["Shards", "shards", "sum_over"]
