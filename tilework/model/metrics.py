"""How well a model ranks: the only question that a search asks of it.

Every function takes the predictions (higher is better) and the measured latencies of the same
candidates of one task. Failed candidates have latency inf. All results lie in [0, 1], 1 is best.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def labels_of(latency_s: Any) -> NDArray[np.float64]:
    """Throughput relative to the best: ``min(latency) / latency``; failures and NaN give 0."""
    latency = np.asarray(latency_s, dtype=np.float64)
    usable = np.isfinite(latency) & (latency > 0)
    labels = np.zeros(latency.shape)
    if usable.any():
        labels[usable] = latency[usable].min() / latency[usable]
    return labels


def peak_score(predicted: Any, latency_s: Any, k: int = 5) -> float:
    """Best true throughput among the k candidates ranked first, relative to the true best."""
    order = _order(predicted)
    labels = labels_of(latency_s)
    return float(labels[order[:k]].max(initial=0.0))


def top_k_recall(predicted: Any, latency_s: Any, k: int = 8) -> float:
    """Share of the k truly fastest candidates that the model also ranks among its first k."""
    labels = labels_of(latency_s)
    k = min(k, len(labels))
    if k == 0:
        return 0.0
    truly = set(np.argsort(-labels, kind="stable")[:k].tolist())
    return len(truly & set(_order(predicted)[:k].tolist())) / k


def pairwise_accuracy(predicted: Any, latency_s: Any, margin: float = 0.02) -> float:
    """Share of pairs that the model orders rightly; ties in the prediction count one half.

    Pairs whose latencies differ by less than ``margin`` (relative) are left out. 0.5 when no pair
    is left: a model that says nothing.
    """
    scores = np.asarray(predicted, dtype=np.float64)
    labels = labels_of(latency_s)
    first, second = np.triu_indices(len(scores), 1)
    gap = labels[first] - labels[second]
    clear = np.abs(gap) > margin * np.maximum(labels[first], labels[second])
    if not clear.any():
        return 0.5
    agreement = np.sign(scores[first] - scores[second])[clear] * np.sign(gap)[clear]
    return float(((agreement + 1) / 2).mean())


def ranking_metrics(predicted: Any, latency_s: Any) -> dict[str, float]:
    """The four metrics at their usual k, by name."""
    return {
        "peak_score_1": peak_score(predicted, latency_s, 1),
        "peak_score_5": peak_score(predicted, latency_s, 5),
        "top_8_recall": top_k_recall(predicted, latency_s, 8),
        "pairwise_accuracy": pairwise_accuracy(predicted, latency_s),
    }


def _order(predicted: Any) -> NDArray[np.intp]:
    return np.argsort(-np.asarray(predicted, dtype=np.float64), kind="stable")
