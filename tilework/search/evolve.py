"""Evolutionary search over pools; no candidate is scored twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilework.search.options import PolicyParams
from tilework.search.pool import Pool, PoolSpace, concatenate


def evolve(
    rng: np.random.Generator,
    space: PoolSpace,
    start: Pool,
    evaluate: Callable[[Pool], Pool],
    params: PolicyParams,
) -> Pool:
    """All distinct candidates that were scored, ``start`` included, best first.

    Every generation draws parents from the best ``params.population`` candidates known, with a
    probability that falls with their rank (scores may be negative, or nearly equal), and adds a
    few fresh samples.
    """
    archive = evaluate(start.unique())
    for _ in range(params.generations):
        if not len(archive):
            break
        parents = archive.best(params.population)
        chosen = parents.take(_ranked_choice(rng, len(parents), params.population))
        fresh = space.sample(rng, int(params.immigrants * params.population))
        children = space.offspring(rng, chosen, params.crossover, params.mutation, archive)
        new = concatenate([children, fresh]).unique().without(archive.key)
        if len(new):
            archive = concatenate([archive, evaluate(new)])
    return archive.best(len(archive))


def _ranked_choice(rng: np.random.Generator, count: int, draws: int) -> NDArray[np.intp]:
    """``draws`` ranks out of ``count``; the best fifth of the ranks gets most of them."""
    weight = np.exp(-np.arange(count) / max(1.0, 0.2 * count))
    return np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(draws)).clip(0, count - 1)
