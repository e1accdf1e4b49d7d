"""What a simulated device hides from the analytic model, a learned one finds: on unseen tasks."""

from __future__ import annotations

import numpy as np

import tilework as tw
from tilework.kinds.cuda.draft import terms
from tilework.kinds.cuda.features.terms import TERMS
from tilework.kinds.cuda.simulate import NOISE, bias
from tilework.model import Batch, Observation, XGBModel
from tilework.model.draft import draft_of
from tilework.model.metrics import pairwise_accuracy, peak_score
from tilework.space import SearchSpace

DEVICES = ("a100", "t4")
ROWS = 96


def measured(task, seed):
    """Rows that a search would look at, and what a biased device would take for them.

    They are of the task's first sketch, and of random ones the better tenth by the draft: to tell
    bad ones from good ones is too easy for both models.
    """
    rng, draft = np.random.default_rng(seed), draft_of(task.target)
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(rng, 10 * ROWS)
    rows = rows[np.argsort(draft.seconds(sketch, rows), kind="stable")[:ROWS]]
    rows = rows[rng.permutation(len(rows))]
    factors = {term: bias(task.target.device.name, term) for term in TERMS}
    seconds = terms(sketch, rows).total(factors) * rng.lognormal(sigma=NOISE, size=len(rows))
    return Observation(Batch(task.workload_key, task.flops, sketch, rows, draft), seconds)


def scores(device):
    """Of each convolution of ResNet-18, ranked by a model of two thirds of the others, and by the
    draft: peak-score@5 and share of pairs in order, learned and drafted."""
    target = tw.Target(f"cuda -model={device} -run=simulated")
    tasks, _ = tw.extract_tasks(tw.zoo.outline("resnet-18"), target)
    found = [measured(t, n) for n, t in enumerate(tasks) if t.desc.startswith("conv2d")]
    for third in range(3):
        model = XGBModel()
        for number, observation in enumerate(found):
            if number % 3 != third:
                model.observe(observation)
        model.fit()
        for observation in found[third::3]:
            batch, latency = observation.batch, observation.latency_s
            both = model.predict(batch), -batch.draft_s
            yield [metric(s, latency) for metric in (peak_score, pairwise_accuracy) for s in both]


def test_a_learned_model_ranks_unseen_tasks_better_than_the_draft():
    table = np.array([row for device in DEVICES for row in scores(device)])
    assert len(table) == 20 * len(DEVICES)
    peak, drafted_peak, pairs, drafted_pairs = table.mean(axis=0)
    assert peak > drafted_peak and peak > 0.98
    assert pairs > drafted_pairs + 0.03
