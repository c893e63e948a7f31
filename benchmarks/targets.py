"""Targets: the figures that rows should reach, and the verdict on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measure import Found

__all__ = ["AsExact", "Target", "at_most", "faster", "targets_of", "within"]


#: The fewest draws that can tell a difference from luck.
FEW = 9


@dataclass(frozen=True)
class Target:
    """A bound on a figure.  Without a peer: ours is at most `bound`.  With one: the peer's is at least `bound` x ours.

    >>> faster(15, "jax"), within(1.25, "c"), at_most(3)
    (jax ≥ 15 x ours, ours ≤ 1.25 x c, ours ≤ 3)
    """

    peer: str | None
    bound: float

    def reached(self, found: Found) -> float | None:
        """The measured figure to compare with the bound; None if the peer was absent."""
        ours = found.values["ours"]
        if self.peer is None:
            return ours
        return found.values[self.peer] / max(ours, 1e-12) if self.peer in found.values else None

    def is_met(self, found: Found) -> bool | None:
        reached = self.reached(found)
        if reached is None:
            return None
        return reached <= self.bound if self.peer is None else reached >= self.bound

    def measured_text(self, found: Found) -> str:
        """The measured figure as text, in the form of the target."""
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


@dataclass(frozen=True)
class AsExact:
    """The target that our error is no larger than a peer's.

    It is met if the median of our errors, to one digit, is not larger.  The medians of two equally exact programs
    differ by chance, so with many draws it is also met if, among the draws with different errors, ours is the larger
    one no more often than the number of heads in coin tosses, plus two standard deviations.

    >>> AsExact("jax")
    error of ours ≤ jax's
    """

    peer: str

    def is_met(self, found: Found) -> bool | None:
        ours, theirs = (found.error.get(name) for name in ("ours", self.peer))
        if ours is None or theirs is None:
            return None
        larger, smaller, draws = self._compared(found)
        both = larger + smaller
        as_coins = draws >= FEW and larger <= both / 2 + both**0.5
        return float(f"{ours:.0e}") <= float(f"{theirs:.0e}") or as_coins

    def measured_text(self, found: Found) -> str:
        """Both errors as text; for many draws, also the numbers of draws in which ours is larger or smaller."""
        both = ", ".join(f"{found.error[name]:.0e}" for name in ("ours", self.peer))
        larger, smaller, draws = self._compared(found)
        return f"{both}; larger in {larger}, smaller in {smaller} of {draws} draws" if draws >= FEW else both

    def _compared(self, found: Found) -> tuple[int, int, int]:
        pairs = [*zip(found.errors["ours"], found.errors[self.peer], strict=True)]
        return sum(a > b for a, b in pairs), sum(a < b for a, b in pairs), len(pairs)

    def __repr__(self) -> str:
        return f"error of ours ≤ {self.peer}'s"


def faster(times: float, peer: str) -> Target:
    """The target that a peer takes at least `times` as long as we do."""
    return Target(peer, times)


def within(times: float, peer: str) -> Target:
    """The target that we take at most `times` as long as a peer."""
    return Target(peer, 1 / times)


def at_most(figure: float) -> Target:
    """The target that our figure is at most `figure`."""
    return Target(None, figure)


def targets_of(module: Any, case: str, figure: str = "") -> list[Target]:
    """The targets of a case.  TARGETS of a row is a list for all cases, or a dict by parts of case or figure names."""
    targets = getattr(module, "TARGETS", [])
    if isinstance(targets, dict):
        return [t for part, some in targets.items() if part in f"{case}, {figure}" for t in some]
    return list(targets)
