"""Judging rankers: sums by hand, and what must hold for any cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tilework.model.judge import (
    Case,
    JudgeError,
    by_target,
    folds,
    interval,
    pairs,
    top_k,
    weights,
)


def case(latency, key="w", target="t", weight=1.0, **scores):
    found = {name.replace("_", " "): np.array(values, float) for name, values in scores.items()}
    return Case(key, target, weight, np.array(latency, float), found)


TWO = [
    case([4, 2, 1], "a", weight=3, good=[1, 2, 3], bad=[3, 2, 1]),
    case([5, 10], "b", weight=1, good=[1, 0], bad=[1, 2]),
]


def test_top_k_is_a_ratio_of_weighted_sums():
    assert top_k(TWO, "good", 1) == 1.0
    assert top_k(TWO, "bad", 1) == pytest.approx((3 * 1 + 5) / (3 * 4 + 10))
    assert top_k(TWO, "bad", 2) == pytest.approx((3 * 1 + 5) / (3 * 2 + 5))
    assert top_k(TWO, "bad", 3) == top_k(TWO, "bad", 99) == 1.0


def test_failed_programs():
    inf, nan = np.inf, np.nan
    some = [case([inf, 1, 4], r=[3, 1, 2]), case([inf, nan], "dead", r=[1, 2])]
    assert top_k(some, "r", 1) == 0.25, "as slow as the slowest that ran; nothing ran: no case"
    assert top_k(some, "r", 2) == 0.25
    assert top_k(some, "r", 3) == 1.0
    assert top_k([case([2, 1], r=[nan, -5])], "r", 1) == 1.0, "NaN is no recommendation"


def test_pairs_are_a_mean_over_cases():
    assert pairs(TWO, "good") == 1.0
    assert pairs(TWO, "bad") == 0.0
    half = [*TWO, case([1, 2], "c", good=[0, 0], bad=[0, 0])]
    assert pairs(half, "good") == pytest.approx(2.5 / 3)


def test_interval_of_one_workload_is_a_point():
    low, middle, high = interval(TWO[:1], "good", "bad", 1)
    assert low == middle == high == pytest.approx(1 - 0.25)


def test_interval_draws_workloads_whole():
    """Two workloads, one won and one lost: a draw is one of three mixtures."""
    won = [case([1, 2], "a", t, r=[1, 0], s=[0, 1]) for t in ("x", "y")]
    lost = [case([1, 2], "b", t, r=[0, 1], s=[1, 0]) for t in ("x", "y")]
    low, middle, high = interval([*won, *lost], "r", "s", 1, share=0.9)
    assert (low, middle, high) == pytest.approx((-0.5, 0.0, 0.5))
    assert interval([*won, *lost], "r", "s", 1) == interval([*lost, *won], "r", "s", 1)


def test_bad_input_is_one_line():
    with pytest.raises(JudgeError, match="weight 0"):
        case([1], weight=0, r=[1])
    with pytest.raises(JudgeError, match="one of each program"):
        case([1, 2], r=[1])
    with pytest.raises(JudgeError, match="no scores of 'x'; there are those of bad, good"):
        top_k(TWO, "x", 1)
    with pytest.raises(JudgeError, match="k must be"):
        top_k(TWO, "good", 0)
    with pytest.raises(JudgeError, match="nothing to judge by"):
        pairs([case([np.inf], r=[1])], "r")
    with pytest.raises(JudgeError, match="share 1"):
        interval(TWO, "good", "bad", 1, share=1)
    with pytest.raises(JudgeError, match="cannot hold out 'q'"):
        folds({"n": ["a"]}, [("a", "t")], [["q"]])


def test_cases_by_target():
    x, y = case([1], target="x"), case([1], target="y")
    assert by_target([x, y, x]) == {"x": [x, x], "y": [y]}


CALLS = {"one": {"a": 2, "b": 1}, "two": {"b": 3, "c": 1}, "three": {"d": 1}}


def test_a_shared_workload_is_held_out():
    present = [(key, target) for key in "abcd" for target in ("x", "y")]
    (fold,) = folds(CALLS, present, [["one"]], ["x"])
    assert fold.networks == ("one",) and fold.target == "x"
    assert fold.test == ("a", "b") and fold.own == ("c", "d")
    assert fold.train == (("c", "y"), ("d", "y"))
    assert len(folds(CALLS, present)) == 6
    assert folds(CALLS, [("d", "y")], [["one"], ["three"]])[0].test == ("d",)


def test_weights_add_up():
    assert weights(CALLS, ["one", "two"]) == {"a": 2, "b": 4, "c": 1}


# --- properties ---------------------------------------------------------------------------------

seconds = st.floats(1e-6, 1e3) | st.just(np.inf)
scores = st.integers(-9, 9).map(float) | st.just(np.nan)


@st.composite
def many(draw):
    """Cases of a few workloads and targets, scored by two rankers."""
    found = []
    for at in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 8))
        latency = draw(arrays(float, size, elements=seconds))
        latency[draw(st.integers(0, size - 1))] = draw(st.floats(1e-6, 1e3))
        found.append(
            Case(
                f"w{draw(st.integers(0, 3))}", f"t{at}", draw(st.floats(0.1, 10)), latency,
                {r: draw(arrays(float, size, elements=scores)) for r in ("r", "s")},
            )
        )  # fmt: skip
    return found


@given(many(), st.integers(1, 9))
def test_top_k_lies_between_0_and_1_and_grows_with_k(cases, k):
    found = top_k(cases, "r", k)
    assert 0 < found <= 1 + 1e-12
    assert top_k(cases, "r", k + 1) >= found - 1e-12
    assert top_k(cases, "r", 8) == pytest.approx(1)
    assert 0 <= pairs(cases, "r") <= 1


@given(many(), st.integers(1, 4))
def test_only_the_order_of_scores_counts(cases, k):
    def scaled(c):
        return Case(c.workload_key, c.target, c.weight, c.latency_s, {"r": 2 * c.scores["r"] + 4})

    again = [scaled(c) for c in cases]
    assert top_k(again, "r", k) == pytest.approx(top_k(cases, "r", k))


@given(many())
def test_the_truth_is_perfect(cases):
    told = [
        Case(c.workload_key, c.target, c.weight, c.latency_s, {"r": -c.latency_s}) for c in cases
    ]
    assert top_k(told, "r", 1) == pytest.approx(1)


@given(many(), st.integers(1, 3))
def test_intervals_mirror(cases, k):
    low, middle, high = interval(cases, "r", "s", k, rounds=50)
    back = interval(cases, "s", "r", k, rounds=50)
    assert back == pytest.approx((-high, -middle, -low), abs=1e-9)
    assert low <= high
    assert middle == pytest.approx(top_k(cases, "r", k) - top_k(cases, "s", k))
    assert interval(cases, "r", "r", k, rounds=5) == (0, 0, 0)


@given(
    st.dictionaries(st.sampled_from("nmo"), st.sets(st.sampled_from("abcde")), min_size=1),
    st.sets(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz"))),
)
def test_nothing_held_out_is_learnt_from(calls, present):
    for fold in folds(calls, present):
        held = {key for name in fold.networks for key in calls[name]}
        assert fold.test and set(fold.test) <= held
        assert not held & set(fold.own)
        assert not held & {key for key, _ in fold.train}
        assert fold.target not in {target for _, target in fold.train}
        of = {key for key, target in present if target == fold.target}
        assert set(fold.test) | set(fold.own) == of
