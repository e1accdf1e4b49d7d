"""Which candidates of a scored pool are measured."""

from __future__ import annotations

import numpy as np

from tilework.search.pool import Pool


def diverse(pool: Pool, count: int, weight: float, taken: Pool | None = None) -> Pool:
    """``count`` candidates by score, each losing ``weight`` x its likeness to those chosen.

    Scores count in units of the range that the pool's best ``16 count`` candidates span; the best
    of every sketch take part too. Two candidates of one sketch are alike to the fourth power of
    their share of equal decisions, so that only near copies are held back; candidates of two
    sketches are not alike.
    """
    if not len(pool) or count <= 0:
        return pool.take(slice(0, 0))
    head, span = _contenders(pool, count)
    value = np.maximum((head.score - head.score.max()) / span, -2.0)
    likeness = np.zeros(len(head))
    for index in range(len(taken) if taken is not None else 0):
        assert taken is not None
        likeness = np.maximum(likeness, _alike(head, taken.sketch[index], taken.rows[index]))
    picks: list[int] = []
    open_ = np.ones(len(head), dtype=bool)
    for _ in range(min(count, len(head))):
        pick = int(np.argmax(np.where(open_, value - weight * likeness, -np.inf)))
        picks.append(pick)
        open_[pick] = False
        likeness = np.maximum(likeness, _alike(head, head.sketch[pick], head.rows[pick]))
    return head.take(np.array(picks))


def _contenders(pool: Pool, count: int) -> tuple[Pool, float]:
    """The best of the pool and of each of its sketches, best first, and the best's score range."""
    ranked = pool.best(len(pool))
    chosen = np.arange(len(ranked)) < 16 * count
    span = float(np.ptp(ranked.score[chosen]))
    for sketch in np.unique(ranked.sketch):
        chosen[np.flatnonzero(ranked.sketch == sketch)[:count]] = True
    return ranked.take(chosen), span if span > 0 else 1.0


def at_random(rng: np.random.Generator, pool: Pool, count: int, limit_s: float) -> Pool:
    """``count`` random candidates among those that the draft model puts below ``limit_s``."""
    fair = pool.take(pool.draft_s <= limit_s)
    return fair.take(rng.permutation(len(fair))[: max(0, count)])


def _alike(pool: Pool, sketch: int, row: np.ndarray) -> np.ndarray:
    equal = (pool.rows == row).mean(axis=1) if pool.rows.shape[1] else np.ones(len(pool))
    return np.where(pool.sketch == sketch, equal**4, 0.0)
