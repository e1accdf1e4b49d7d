"""A constant matrix times a vector in few operations.

Two identities are used, each where it saves operations::

    columns that agree up to sign:   a*x + a*y, b*x - b*y   ->  s = x + y; d = x - y; a*s, b*d
    rows that agree up to sign:      e + o, e - o           ->  e and o once each

For the transforms of Winograd's F(4, 3) that makes 12 operations of 16 (data) and 10 of 14
(results), a multiply-add counting once.
"""

from __future__ import annotations

from functools import lru_cache

from tilework.frozen import frozen

Matrix = tuple[tuple[float, ...], ...]
Sum = tuple[tuple[float, int], ...]


@frozen
class StraightLine:
    """Values in order: the inputs ``0 .. inputs - 1``, then one per sum.

    Attributes:
        inputs: length of the vector.
        sums: each a sum of ``coefficient * earlier value``; none at all is zero.
        outputs: the value that is each element of the product.
    """

    inputs: int
    sums: tuple[Sum, ...]
    outputs: tuple[int, ...]

    @property
    def operations(self) -> int:
        """Additions, multiplications and multiply-adds, each counting once."""
        return sum(
            max(len(terms) - 1, 0) + (0 if any(c == 1 for c, _ in terms) else 1)
            for terms in self.sums
        )


@lru_cache(maxsize=256)
def straight_line(matrix: Matrix) -> StraightLine:
    """Operations for ``matrix @ x``; ``matrix`` is a tuple of rows."""
    maker = _Maker(len(matrix[0]))
    rows = [{j: float(c) for j, c in enumerate(row) if c} for row in matrix]
    _join_columns(maker, rows)
    outputs = _join_rows(maker, rows)
    return StraightLine(len(matrix[0]), tuple(maker.sums), tuple(outputs))


class _Maker:
    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.sums: list[Sum] = []

    def sum(self, terms: dict[int, float]) -> int:
        """The number of the value ``sum(terms)``."""
        if len(terms) == 1 and 1.0 in terms.values():
            return next(iter(terms))
        self.sums.append(tuple((c, value) for value, c in terms.items()))
        return self.inputs + len(self.sums) - 1

    def scaled(self, terms: dict[int, float]) -> tuple[float, int]:
        """A factor and a value whose product is ``sum(terms)``, the factor free where it can."""
        if len(terms) == 1:
            ((value, c),) = terms.items()
            return c, value
        scale = max(terms.values())
        if scale <= 0 or any(abs(c) != scale for c in terms.values()):
            return 1.0, self.sum(terms)
        return scale, self.sum({value: c / scale for value, c in terms.items()})


def _join_columns(maker: _Maker, rows: list[dict[int, float]]) -> None:
    used: set[int] = set()
    for j in range(maker.inputs):
        for k in range(j + 1, maker.inputs):
            if {j, k} & used or any(abs(r.get(j, 0)) != abs(r.get(k, 0)) for r in rows):
                continue
            same = [r for r in rows if j in r and r[j] == r[k]]
            other = [r for r in rows if j in r and r[j] == -r[k]]
            if len(same) + len(other) <= bool(same) + bool(other):
                continue
            used |= {j, k}
            for sign, which in ((1.0, same), (-1.0, other)):
                if which:
                    value = maker.sum({j: 1.0, k: sign})
                    for r in which:
                        r[value] = r.pop(j)
                        del r[k]


def _join_rows(maker: _Maker, rows: list[dict[int, float]]) -> list[int]:
    out: dict[int, int] = {}
    for i, a in enumerate(rows):
        if i in out:
            continue
        for k in range(i + 1, len(rows)):
            b = rows[k]
            if k in out or a.keys() != b.keys() or len(a) < 3:
                continue
            even = {v: c for v, c in a.items() if b[v] == c}
            odd = {v: c for v, c in a.items() if b[v] == -c}
            if len(even) + len(odd) < len(a) or not even or not odd:
                continue
            ce, e = maker.scaled(even)
            co, o = maker.scaled(odd)
            out[i] = maker.sum({e: ce, o: co})
            out[k] = maker.sum({e: ce, o: -co})
            break
        else:
            out[i] = maker.sum(a)
    return [out[i] for i in range(len(rows))]
