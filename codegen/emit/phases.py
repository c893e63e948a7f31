"""How vectors cover a loop: phases of falling width.

    phase      lanes x stride of the loop; the last one may run with a mask, or one by one

    sum of 1000 doubles, 512-bit vectors              of a run-time number of exponentials
      <32 x double> at 0, 32, ..., 960                  <8 x double> at 0, 8, ..., with a mask
      <8 x double> with a mask at 992

A cheap body takes several registers per value, which hides the latency of its accumulators; a dear
one is written once, with a mask on every iteration, which costs little there and saves half of the
code.  Without masks in the machine the rest runs one by one.
"""

from __future__ import annotations

from ..records import record
from .loop_plan import LoopPlan
from .target import Target

__all__ = ["Phase", "phases"]

#: Up to these costs of an iteration a value takes four registers, or two.
_CHEAP, _MODERATE = 14, 40
#: From here on a loop is written once, with a mask throughout.
_DEAR = 60

#: An iteration of more operations than these fills the list of those that a processor has under way; and its
#: results then come one after the other, if its longest way takes this many times as long as all of it could.
#: Two vectors at a time: a chain of 100 sines 172 us against 235; Black-Scholes, at .74, gains nothing.
_LONG, _WAITS = 160, 1.0


@record(frozen=True, slots=True)
class Phase:
    """lanes     of each value; 1: the loop as it stands
    trips       how many elements, if that is known
    is_masked   whether the last vector may be part empty
    """

    lanes: int
    trips: int | None
    is_masked: bool

    @property
    def is_straight(self) -> bool:
        """Whether there is one vector, and so no loop."""
        return self.trips is not None and self.trips <= self.lanes


def phases(plan: LoopPlan, trips: int | None, target: Target, *, multiple: int = 1) -> list[Phase]:
    """How to cover a loop; together they run over all of its elements.

    multiple    what the number of elements is a multiple of, where it is not known
    """
    lanes = max(1, target.vector_bytes * 8 // max(plan.bits, 8))
    lanes = min(lanes, 64)
    registers = 4 if plan.cost <= _CHEAP else 2 if plan.cost <= _MODERATE or _waits(plan) else 1
    wide = lanes * registers
    if trips is not None and (trips <= 1 or (not target.has_masks and trips < 4)):
        return [Phase(1, trips, False)]
    if trips is not None and trips <= max(wide, 2 * lanes):
        whole = 1 << (trips - 1).bit_length()
        if whole == trips or target.has_masks:
            return [Phase(whole, trips, whole != trips)]
        whole //= 2
        return [Phase(whole, whole, False), Phase(1, trips - whole, False)]
    if trips is not None and trips % wide == 0:
        return [Phase(wide, trips, False)]
    if target.has_masks and (plan.cost >= _DEAR or wide == lanes == 1):
        return [Phase(wide, trips, trips is not None or multiple % wide != 0)]
    full, rest = (trips - trips % wide, trips % wide) if trips is not None else (None, None)
    found = [Phase(wide, full, False)]
    if target.has_masks:
        last = lanes if rest is None else min(wide, 1 << (rest - 1).bit_length())
        return [*found, Phase(last, rest, rest != last)]
    if rest is not None and rest >= lanes and wide > lanes:
        found.append(Phase(lanes, rest - rest % lanes, False))
        rest %= lanes
    return found if rest == 0 else [*found, Phase(1, rest, False)]


def _waits(plan: LoopPlan) -> bool:
    """Whether one iteration has too little to do side by side, and is too long for the next to begin meanwhile."""
    return plan.cost >= _LONG and plan.latency > _WAITS * plan.cost
