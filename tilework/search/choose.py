"""Which candidates of a scored pool are measured."""

from __future__ import annotations

import numpy as np

from tilework.search.pool import Pool


def diverse(pool: Pool, count: int, weight: float, taken: Pool | None = None) -> Pool:
    """``count`` candidates by score, each losing ``weight`` x its likeness to those chosen.

    Scores are scaled to 0..1 over the pool's best ``16 count`` candidates first. Two candidates of
    one sketch are alike to the fourth power of their share of equal decisions, so that only near
    copies are held back; candidates of two sketches are not alike.
    """
    head = pool.best(16 * count)
    if not len(head) or count <= 0:
        return head.take(slice(0, 0))
    low, high = float(head.score.min()), float(head.score.max())
    value = (head.score - low) / (high - low) if high > low else np.ones(len(head))
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


def at_random(rng: np.random.Generator, pool: Pool, count: int, limit_s: float) -> Pool:
    """``count`` random candidates among those that the draft model puts below ``limit_s``."""
    fair = pool.take(pool.draft_s <= limit_s)
    return fair.take(rng.permutation(len(fair))[: max(0, count)])


def _alike(pool: Pool, sketch: int, row: np.ndarray) -> np.ndarray:
    equal = (pool.rows == row).mean(axis=1) if pool.rows.shape[1] else np.ones(len(pool))
    return np.where(pool.sketch == sketch, equal**4, 0.0)
