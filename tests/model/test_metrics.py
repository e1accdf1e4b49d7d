from __future__ import annotations

import numpy as np
import pytest

from tilework.model import metrics


def test_perfect_and_reversed_rankings():
    latency = np.array([4.0, 1.0, 2.0, 3.0])
    assert metrics.pairwise_accuracy(-latency, latency) == 1.0
    assert metrics.pairwise_accuracy(latency, latency) == 0.0
    assert metrics.peak_score(-latency, latency, 1) == 1.0
    assert metrics.peak_score(latency, latency, 1) == pytest.approx(0.25)
    assert metrics.peak_score(latency, latency, 3) == pytest.approx(0.5)
    assert metrics.top_k_recall(-latency, latency, 2) == 1.0
    assert metrics.top_k_recall(latency, latency, 2) == 0.0


def test_failures_count_as_worst_and_close_pairs_do_not_count():
    latency = np.array([np.inf, 1.0, 1.001, np.nan])
    assert metrics.labels_of(latency).tolist() == [0.0, 1.0, pytest.approx(1 / 1.001), 0.0]
    assert metrics.pairwise_accuracy([0, 5, 9, 0], latency) == 1.0
    assert metrics.pairwise_accuracy([1, 1], [2.0, 2.0]) == 0.5


def test_nothing_measured():
    result = metrics.ranking_metrics([], [])
    assert result["peak_score_1"] == 0.0
    assert result["pairwise_accuracy"] == 0.5
