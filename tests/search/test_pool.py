from __future__ import annotations

import numpy as np

from tests.search.fakes import FakeTask, space_of
from tilework.search.choose import at_random, diverse
from tilework.search.evolve import evolve
from tilework.search.options import PolicyParams
from tilework.search.pool import concatenate
from tilework.search.seeding import generator

SPACE = space_of(FakeTask("conv"))


def _sample(count=400, seed=0):
    return SPACE.sample(np.random.default_rng(seed), count)


def _true_score(pool):
    score = np.zeros(len(pool))
    for index, sketch in enumerate(SPACE.sketches):
        where, rows = SPACE.rows_of(pool, index)
        score[where] = -sketch.latency(rows)
    return pool.with_scores(-score, score)


def test_a_pool_holds_valid_distinct_candidates_of_all_sketches():
    pool = _sample()
    assert set(pool.sketch.tolist()) == {0, 1}
    assert len(np.unique(pool.key)) == len(pool) >= 380
    assert pool.rows.shape == (len(pool), 8)
    for index, sketch in enumerate(SPACE.sketches):
        where, rows = SPACE.rows_of(pool, index)
        assert rows.shape == (len(where), sketch.num_decisions)
        assert sketch.valid(rows).all()


def test_the_same_row_in_two_sketches_is_two_programs():
    row = np.zeros((1, 5), dtype=np.int32)
    assert SPACE.keys(1, row)[0] != SPACE.keys(0, np.zeros((1, 8), np.int32))[0]


def test_set_operations():
    pool = _sample()
    assert len(concatenate([pool, pool]).unique()) == len(pool)
    rest = pool.without(pool.key[:10])
    assert len(rest) == len(pool) - 10 and not np.isin(pool.key[:10], rest.key).any()
    assert len(concatenate([SPACE.empty(), pool])) == len(pool)


def test_a_small_space_is_sampled_without_end():
    space = space_of(FakeTask("tiny", small=True))
    pool = space.sample(np.random.default_rng(0), 5000)
    assert 0 < len(pool) <= 9


def test_evolution_beats_sampling_and_repeats():
    params = PolicyParams(population=300, generations=4)
    seen = []

    def evaluate(pool):
        seen.append(pool.key)
        return _true_score(pool)

    found = evolve(np.random.default_rng(1), SPACE, _sample(300), evaluate, params)
    keys = np.concatenate(seen)
    assert len(np.unique(keys)) == len(keys) == len(found)  # nothing is scored twice
    assert (np.diff(found.score) <= 0).all()
    assert found.score[0] > 1.5 * _true_score(_sample(len(found), seed=7)).best(1).score[0]
    again = evolve(np.random.default_rng(1), SPACE, _sample(300), _true_score, params)
    assert np.array_equal(again.key, found.key)


def test_a_diverse_choice_holds_back_near_copies():
    pool = _true_score(_sample(2000))
    plain, spread = diverse(pool, 16, 0.0), diverse(pool, 16, 2.0)
    assert np.array_equal(plain.key, pool.best(16).key)

    def likeness(chosen):
        pairs = (chosen.rows[:, None] == chosen.rows[None]).mean(axis=2)
        return pairs[np.triu_indices(16, 1)].mean()

    assert likeness(spread) < likeness(plain)
    assert spread.key[0] == plain.key[0]
    assert len(diverse(pool, 0, 1.0)) == 0 and len(diverse(SPACE.empty(), 4, 1.0)) == 0


def test_random_choice_leaves_the_hopeless_out():
    pool = _true_score(_sample(2000))
    limit = 2 * pool.draft_s.min()
    chosen = at_random(np.random.default_rng(0), pool, 30, limit)
    assert len(chosen) == 30
    assert (chosen.draft_s <= limit).all()
    assert len(at_random(np.random.default_rng(0), SPACE.empty(), 3, 2.0)) == 0


def test_generators_depend_on_names_only():
    assert generator(1, "a", 2).integers(1 << 30) == generator(1, "a", 2).integers(1 << 30)
    assert generator(1, "a", 2).integers(1 << 30) != generator(1, "a", 3).integers(1 << 30)
    assert generator(1, "ab", "c").integers(1 << 30) != generator(1, "a", "bc").integers(1 << 30)
