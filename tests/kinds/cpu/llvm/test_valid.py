"""What the search sends to the builders compiles: under 1 % of it is refused or fails."""

from __future__ import annotations

import numpy as np

from tests.te.workloads import conv2d_relu, matmul, max_pool, softmax
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.search.pool import Pool, PoolSpace, concatenate
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=native -num-cores=2")


def random_task(rng: np.random.Generator) -> SearchTask:
    """A convolution, product, pooling or softmax of random, mostly odd, sizes."""

    def size(low, high):
        return int(rng.integers(low, high))

    kind = size(0, 5)
    if kind < 2:
        k = int(rng.choice([1, 3, 5]))
        tensors = conv2d_relu(
            1, size(5, 30), size(5, 30), size(1, 70), size(1, 70), k=k, s=size(1, 3), p=k // 2
        )
    elif kind == 2:
        tensors = matmul(size(1, 200), size(1, 200), size(1, 200), free=bool(size(0, 2)))
    elif kind == 3:
        tensors = max_pool(1, size(6, 30), size(6, 30), size(1, 70))
    else:
        tensors = softmax(size(1, 9), size(2, 1200))
    return SearchTask(te.ComputeDAG(tensors), TARGET)


def population(space: PoolSpace, rng: np.random.Generator, count: int) -> Pool:
    """Samples, their children and their neighbours, as the search makes them."""
    sample = space.sample(rng, count)
    children = space.offspring(rng, sample, crossover=0.5, mutation=0.8)
    return concatenate([sample, children, space.neighbours(sample.best(3), 8, rng)]).unique()


def test_candidates_of_random_tasks_compile():
    rng = np.random.default_rng(11)
    built, failed = 0, []
    for _ in range(10):
        task = random_task(rng)
        space = PoolSpace.of(task)
        pool = population(space, rng, 24)
        assert len(np.unique(pool.key)) == len(pool)
        for i in rng.permutation(len(pool))[:7]:
            sketch = space.sketches[pool.sketch[i]]
            row = [int(v) for v in pool.rows[i, : sketch.num_decisions]]
            built += 1
            try:
                build(task, sketch.id, row)
            except Exception as error:
                failed.append((str(task.compute_dag), sketch.id, row, error))
    assert built > 60
    assert len(failed) <= built // 100, failed
