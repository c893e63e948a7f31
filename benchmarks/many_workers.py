"""Simulation of one step of a sum over shards on many workers.

    python benchmarks/many_workers.py

A step sends the parameters to all workers, waits for the gradients, and adds them: either flat, with one process that
sends and receives everything, as `ad.sum_over` does, or in a tree of workers, each of which adds its children's
results.  A link carries LINK bytes in a second, starting a task takes TASK seconds, and a shard takes COMPUTE seconds,
times a factor that differs between workers.  Nothing is measured here: replace the constants by those of your cluster.
"""

from __future__ import annotations

import heapq

import numpy as np

LINK, LATENCY = 1.25e9, 50e-6  # bytes in a second (10 Gbit/s), seconds
TASK, COMPUTE, SPREAD = 1e-3, 0.5, 0.1  # seconds; seconds; deviation of the logarithm of a worker's speed


def flat(workers: int, size: float, compute: np.ndarray) -> float:
    """The seconds of a step in which one process sends and receives everything."""
    transfer = size / LINK
    ready = [TASK * (k + 1) + transfer * (k + 1) + LATENCY + compute[k] for k in range(workers)]
    end = 0.0
    for at in sorted(ready):  # the results pass through the root's link one after the other
        end = max(end, at + LATENCY) + transfer
    return end


def tree(workers: int, size: float, compute: np.ndarray, fan: int) -> float:
    """The seconds of a step in a tree of workers in which each node has `fan` children."""
    transfer = size / LINK
    arrived = np.zeros(workers)
    for k in range(1, workers):
        place = (k - 1) % fan + 1
        arrived[k] = arrived[(k - 1) // fan] + place * (transfer + TASK) + LATENCY
    done = arrived + compute
    children: list[list[float]] = [[] for _ in range(workers)]
    for k in reversed(range(workers)):
        end = done[k]
        heapq.heapify(children[k])
        while children[k]:
            end = max(end, heapq.heappop(children[k]) + LATENCY) + transfer
        done[k] = end
        if k:
            children[(k - 1) // fan].append(float(end))
    return float(done[0])


def main() -> None:
    """Print the seconds of a step for several numbers of workers and parameters."""
    rng = np.random.default_rng(0)
    print("workers   parameters        flat   tree of 2   tree of 8   the slowest alone")
    for workers in (10, 100, 1000):
        compute = COMPUTE * np.exp(SPREAD * rng.normal(size=workers))
        for size in (1e3, 1e6, 1e8):
            times = [flat(workers, 8 * size, compute), *[tree(workers, 8 * size, compute, fan) for fan in (2, 8)]]
            shown = "".join([f"{t:10.2f} s" for t in times])
            print(f"{workers:7,} {size:12,.0f} {shown} {compute.max():17.2f} s")


if __name__ == "__main__":
    main()
