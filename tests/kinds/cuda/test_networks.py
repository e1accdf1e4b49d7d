"""Every task of the zoo's networks is right at full size, each with another of its sketches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.harness import assert_near, case_of, random_inputs, run_cases
from tilework import te
from tilework.graph import extract_tasks, zoo
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.target import Target

A100 = Target("cuda -model=a100")
NETWORKS = (
    "resnet-18", "resnet-50", "mobilenet", "inception_v3", "squeezenet_v1.1", "resnet3d-18", "mlp",
)  # fmt: skip


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("name", NETWORKS)
def test_every_task_of_a_network(name):
    rng = np.random.default_rng(0)
    tasks, _ = extract_tasks(zoo.get(name), A100)
    for number, task in enumerate(tasks):
        sketches = SearchSpace.of(task).sketches
        sketch = sketches[number % len(sketches)]
        (row,) = sketch.sample(rng, 1)
        inputs = [a / np.sqrt(a[..., 0].size) for a in random_inputs(task.compute_dag)]
        inputs = [a.astype(np.float32) for a in inputs]
        case = case_of(lowering_of(A100).lower(sketch, row), inputs)
        (found,) = run_cases([case], checked=False, orders=(0,))
        for a, b in zip(found, te.evaluate(task.compute_dag, inputs), strict=True):
            assert_near(a, b, 1e-3, f"{task.desc}: {sketch.name} {list(map(int, row))}")
