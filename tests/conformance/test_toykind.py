"""A kind that two files of the tests define: nothing else of the project knows of it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tests.toykind.target  # noqa: F401 - registers the kind
from tests.conformance.network import image, network
from tests.conformance.tune import options
from tests.graph.run_plan import relative_error, run_nodes
from tilework import Target, compile, extract_tasks, load_module
from tilework.errors import TargetError
from tilework.kinds import KINDS, Kind, register
from tilework.measure import Measurer
from tilework.record import MemoryHistory, Status
from tilework.search.tune import tune
from tilework.space import SearchSpace


def test_it_has_sketches_by_rules_and_decisions_of_its_own():
    target = Target("toykind -width=2")
    assert (target.kind, str(target), target.width) == ("toykind", "toykind -width=2", 2)
    task = extract_tasks(network(), target)[0][0]
    sketches = SearchSpace.of(task).sketches
    assert len(sketches) == 2 and "with" not in sketches[0].name and "with" in sketches[1].name
    for sketch in sketches:
        assert {d.kind for d in sketch.decisions} == {"tile"}
        rows = sketch.sample(np.random.default_rng(0), 30)
        assert all(2 in nest.tiles[nest.block.spatial[-1]][-1] for nest in sketch.nests(rows))


def test_it_is_measured_on_the_interpreter_and_compiled(tmp_path):
    """Worker processes learn of the kind as they unpickle its target."""
    target, net, x = Target("toykind -width=4"), network(), image()
    tasks, weights = extract_tasks(net, target)
    history = MemoryHistory()
    with Measurer(target, build_processes=1) as measurer:
        tune(tasks, weights, options(3), history, measurer, run_id="run")
    records = history.read()
    assert len(records) >= 3
    for record in records:
        assert record.status == Status.ok, record.error
        assert (record.target, record.device) == ("toykind -width=4", "reference interpreter")
    module = compile(net, target, history)
    assert any(row.tuned for row in module.report)
    module.save(tmp_path / "toy.tw")
    (want,) = run_nodes(net, x)
    for one in (module, load_module(tmp_path / "toy.tw")):
        assert relative_error(one.run(x)[0], want) < 1e-4


def test_a_process_that_does_not_know_it_says_so():
    command = "import tilework; tilework.Target('toykind')"
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert "unknown kind 'toykind'" in run.stderr


def test_a_name_stands_for_one_kind():
    register(KINDS["toykind"])  # again is no error
    other = Kind(**{**vars(KINDS["toykind"]), "usage": "toykind"})
    with pytest.raises(TargetError, match="a kind of target 'toykind' already"):
        register(other)
