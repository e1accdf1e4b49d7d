"""Registers as learnt from cubins: the trees, their file, and what they say of other tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.registers import train
from benchmarks.registers.samples import Sample, compiled, samples
from tests.kinds.cuda.nests import A100
from tilework.kinds.cuda import registers
from tilework.kinds.cuda.registers import (
    INPUTS,
    RegistersFormatError,
    Trees,
    demand,
    from_json,
    shipped,
    to_json,
)
from tilework.space import SearchSpace


def invented(count, seed=0):
    """Samples whose demand is half as much again, but where copies are many."""
    rng, out = np.random.default_rng(seed), []
    for i in range(count):
        inputs = rng.integers(1, 64, len(INPUTS)).astype(np.float32)
        inputs[INPUTS.index("counted")] = rng.integers(32, 128)
        more = 1.5 if inputs[INPUTS.index("copies")] < 32 else 1.0
        wanted = float(inputs[INPUTS.index("counted")] * more)
        out.append(Sample(f"task {i % 5}", inputs, wanted, int(min(wanted, 160)), 160))
    return out


def test_trees_are_those_that_were_fitted():
    found = invented(400)
    trees = train.fit(found)
    guess = train.predicted(trees, found)
    truth = np.array([s.registers for s in found])
    assert np.median(np.abs(guess / truth - 1)) < 0.06
    assert train.held_out(found)[1] > 0.95
    again = from_json(to_json(trees, "invented"))
    inputs = np.stack([s.inputs for s in found])
    assert np.allclose(again(inputs), trees(inputs), atol=1e-3)


def walk(trees: Trees, row) -> float:
    """The sum of the leaves that one row comes to, tree by tree."""
    total, inner = trees.base, trees.features.shape[1]
    for features, thresholds, leaves in zip(
        trees.features, trees.thresholds, trees.leaves, strict=True
    ):
        node = 0
        while node < inner:
            node = 2 * node + 1 + int(row[features[node]] >= thresholds[node])
        total += float(leaves[node - inner])
    return total


def test_all_rows_at_once_are_as_one_after_the_other():
    inputs = np.stack([s.inputs for s in invented(20)])
    trees = shipped()
    assert np.allclose(trees(inputs), [walk(trees, row) for row in inputs], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "cuda-registers-9"}, "another version"),
        ({"inputs": ["x"]}, "another version"),
        ({"leaves": [[1.0]]}, "make no sense"),
        ({"base": None}, "cannot be read"),
        ({"features": [[99] * 15]}, "make no sense"),
    ],
)
def test_a_damaged_file_is_refused(change, words):
    document = json.loads(registers.FILE.read_text()) | change
    with pytest.raises(RegistersFormatError, match=words):
        from_json(json.dumps(document))


def test_without_a_file_the_count_stands(monkeypatch):
    monkeypatch.setattr(registers, "shipped", lambda: None)
    inputs = dict.fromkeys(INPUTS, 1.0) | {"counted": np.array([4.0, 40.0])}
    assert demand(inputs, 2).tolist() == [8.0, 40.0]


@pytest.mark.usefixtures("needs_nvrtc")
def test_predictions_are_near_the_cubins_of_another_network():
    import tilework as tw

    rng, near, truth = np.random.default_rng(5), [], []
    tasks, _ = tw.extract_tasks(tw.zoo.get("squeezenet_v1.1", batch=1), A100)
    for task in tasks[:16:2]:
        sketch = SearchSpace.of(task).sketches[0]
        for sample in compiled(task.desc, sketch, sketch.sample(rng, 2)[:1]):
            near += train.predicted(shipped(), [sample]).tolist()
            truth.append(sample.registers)
    assert len(truth) >= 6
    assert np.median(np.abs(np.array(near) / truth - 1)) < 0.3


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_nvrtc")
def test_learning_again(tmp_path):
    found = list(samples(count=120, seed=3))
    note = train.learn(found, tmp_path / "learnt.json")
    assert "correlation" in note
    assert from_json((tmp_path / "learnt.json").read_text()).features.shape[0] > 0


def test_few_kernels_do_not_replace_the_installed_model(capsys):
    with pytest.raises(SystemExit) as stopped:
        train.main(["--count", "20"])
    assert stopped.value.code == 2
    assert "name another file with --out" in capsys.readouterr().err


def test_kernels_of_a_single_task_teach_nothing(tmp_path):
    with pytest.raises(ValueError, match="at least two"):
        train.learn([], tmp_path / "learnt.json")
