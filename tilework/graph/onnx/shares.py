"""Shares of extents: what floating-point arithmetic makes of shapes, where that is exact."""

from __future__ import annotations

import math
from fractions import Fraction

from tilework.frozen import frozen
from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic, exact_quotient, range_of

_EXACT = 1 << 24
"""Whole numbers up to it are numbers of float32, and quotients of them round to no other floor."""


@frozen
class Share:
    """``whole / by``; what makes one that float32 may not have exactly gives None."""

    whole: Extent
    by: int

    @property
    def number(self) -> float | Share:
        """Itself, as a number if it is one."""
        return self if isinstance(self.whole, Symbolic) else self.whole / self.by

    @property
    def even(self) -> Extent:
        """Itself, as a whole number.

        Raises:
            ValueError: it is none.
        """
        if self.by != 1:
            raise ValueError(f"{self.whole} / {self.by} is no whole number")
        return self.whole

    @property
    def floor(self) -> Extent:
        """The next whole number below."""
        return self.whole // self.by

    @property
    def ceil(self) -> Extent:
        """The next whole number above."""
        return -(-self.whole // self.by)

    def below(self, limit: int) -> bool:
        """Whether its numerator is, at all points, and above ``-limit``."""
        low, high = range_of(self.whole)
        return low > -limit and high < limit

    def plus(self, other: Share) -> Share | None:
        """The sum."""
        by = math.lcm(self.by, other.by)
        return _exact_share(self.whole * (by // self.by) + other.whole * (by // other.by), by)

    def minus(self, other: Share) -> Share | None:
        """The difference."""
        return self.plus(Share(-other.whole, other.by))

    def times(self, other: Share) -> Share | None:
        """The product."""
        return _exact_share(self.whole * other.whole, self.by * other.by)

    def over(self, other: Share) -> Share | None:
        """The quotient by a known number, of a whole one if it does not come out even."""
        if isinstance(other.whole, Symbolic) or other.whole == 0:
            return None
        if other.whole < 0:
            return Share(-self.whole, self.by).over(Share(-other.whole, other.by))
        by = self.by * other.whole
        if by & (by - 1) and (self.by != 1 or other.by != 1):
            return None
        share = _reduced(self.whole * other.by, by)
        return share if share.below(_EXACT) else None


def share_of(number: float | Extent | Share) -> Share:
    """A number as a share."""
    if isinstance(number, Share):
        return number
    if isinstance(number, Symbolic):
        return Share(number, 1)
    exact = Fraction(number)
    return Share(exact.numerator, exact.denominator)


def _exact_share(whole: Extent, by: int) -> Share | None:
    share = _reduced(whole, by)
    return share if share.below(_EXACT) and not share.by & (share.by - 1) else None


def _reduced(whole: Extent, by: int) -> Share:
    even = exact_quotient(whole, by)
    if even is not None:
        return Share(even, 1)
    parts = whole.terms.values() if isinstance(whole, Symbolic) else (whole,)
    unit = math.gcd(by, *parts)
    shorter = exact_quotient(whole, unit)
    return Share(whole, by) if shorter is None else Share(shorter, by // unit)
