"""Properties of the machine that the text of a module depends on."""

from __future__ import annotations

from ..records import record


@record(frozen=True)
class Target:
    """A machine.

    vector_bytes    the size of the widest vectors on which arithmetic runs at full speed
    has_masks       True if vectors can be loaded and stored in part
    has_fma         True if a fused multiply-add is an instruction; otherwise it is a library call
    has_scale       True if scaling by 2**n, the exponent and the mantissa are instructions of the
                    widest vectors: AVX-512's vscalef, vgetexp and vgetmant

    Masked instructions of AVX-512, which has separate registers for masks, cost nothing; those of AVX2 cost more than a
    branch that is always taken (`masks_are_expensive`).
    """

    vector_bytes: int
    has_masks: bool
    has_fma: bool
    has_scale: bool = False

    @property
    def masks_are_expensive(self) -> bool:
        return self.has_masks and not self.has_scale

    @staticmethod
    def of(features: str) -> Target:
        """The target with these features, in LLVM's notation: "+fma,-sse4a,..."."""
        have = set(features.split(","))
        # x86 calls the fused multiply-add fma (or fma4); every 64-bit ARM has one.
        has_fma = not have.isdisjoint({"+fma", "+fma4", "+neon", "+fp-armv8"})
        # Masks of 64-bit lanes need only avx512f; masks of comparisons and integers need dq and vl too.
        is_widest = {"+avx512f", "+avx512dq", "+avx512vl", "+avx512bw"} <= have
        return _TARGETS[64 if is_widest else 32 if "+avx2" in have else 16, has_fma]


#: The targets by bytes of a vector and fused multiply-add: one object each, as keys of what is cached for a target.
_TARGETS = {
    (width, has_fma): Target(width, width > 16, has_fma, has_scale=width == 64)
    for width in (16, 32, 64) for has_fma in (False, True)
}  # fmt: skip
