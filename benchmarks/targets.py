"""What a row is asked to reach, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measure import Found

__all__ = ["Target", "asked", "at_most", "faster", "within"]


@dataclass(frozen=True)
class Target:
    """Without a peer: our figure is at most `bound`.  With one: its figure is at least `bound` times ours.

    >>> faster(15, "jax"), within(1.25, "c"), at_most(3)
    (jax ≥ 15 x ours, ours ≤ 1.25 x c, ours ≤ 3)
    """

    peer: str | None
    bound: float

    def reached(self, found: Found) -> float | None:
        """The figure to compare; None where the peer was absent."""
        ours = found.values["ours"]
        if self.peer is None:
            return ours
        return found.values[self.peer] / max(ours, 1e-12) if self.peer in found.values else None

    def is_met(self, found: Found) -> bool | None:
        reached = self.reached(found)
        if reached is None:
            return None
        return reached <= self.bound if self.peer is None else reached >= self.bound

    def seen(self, found: Found) -> str:
        """What was measured, in the words of the target."""
        reached = self.reached(found)
        if reached is None:
            return f"no {self.peer}"
        if self.peer is None:
            return f"{reached:.3g}"
        return f"{reached:.3g} x" if self.bound >= 1 else f"{1 / max(reached, 1e-12):.3g} x"

    def __repr__(self) -> str:
        if self.peer is None:
            return f"ours ≤ {self.bound:.3g}"
        if self.bound < 1:
            return f"ours ≤ {1 / self.bound:.3g} x {self.peer}"
        return f"{self.peer} ≥ {self.bound:.3g} x ours"


def faster(times: float, peer: str) -> Target:
    """A peer takes at least so many times as long as we do."""
    return Target(peer, times)


def within(times: float, peer: str) -> Target:
    """We take at most so many times as long as a peer."""
    return Target(peer, 1 / times)


def at_most(figure: float) -> Target:
    """Our own figure is at most so much."""
    return Target(None, figure)


def asked(module: Any, case: str, figure: str = "") -> list[Target]:
    """The targets of a case: TARGETS of a row is a list for all its cases, or a dict by parts of case or figure."""
    targets = getattr(module, "TARGETS", [])
    if isinstance(targets, dict):
        return [t for part, some in targets.items() if part in f"{case}, {figure}" for t in some]
    return list(targets)
