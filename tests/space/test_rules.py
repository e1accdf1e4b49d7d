"""Rules of a user's own: their order, what they may do, and how they reach other processes."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import tilework as tw
from tests.hosts import x86
from tests.lower.check import check_row, random_inputs, reference
from tests.space import user_rules
from tests.te.workloads import conv2d_relu, matmul
from tilework import te
from tilework.errors import ScheduleError
from tilework.kinds.cpu.build import build
from tilework.space import SearchSpace
from tilework.task import SearchTask, rule_reference

TARGET = tw.Target(x86("core-avx2", 4))
SMALL = (1, 6, 6, 8, 16)


def task(*rules, tensors=None) -> SearchTask:
    return SearchTask(te.ComputeDAG(tensors or conv2d_relu(*SMALL)), TARGET, rules=rules)


def nests(task: SearchTask) -> list[list[tuple[str, str]]]:
    return [
        [(b.result.name, b.structure) for b in s.blocks] for s in SearchSpace.of(task).sketches
    ]


def test_a_stage_forced_to_root():
    found = SearchSpace.of(task(user_rules.padding_at_root)).sketches
    assert [[b.op.name for b in s.blocks] for s in found] == [["pad_temp", "conv2d_nhwc"]]


def test_a_stage_that_is_never_inlined():
    plain, kept = task(), task(user_rules.keep_bias)
    assert all("inline T_add" in s.steps for s in SearchSpace.of(plain).sketches)
    for s in SearchSpace.of(kept).sketches:
        assert "inline T_add" not in s.steps
        assert [b.result.name for b in s.blocks][-2:] == ["T_add", "T_relu"]


def test_a_rule_that_continues_adds_sketches():
    plain, more = nests(task()), nests(task(user_rules.also_untiled))
    assert [n for n in more if n in plain] == plain
    added = [n for n in more if n not in plain]
    assert added
    assert all(("conv2d_nhwc", "SRS") in n for n in added)


def test_a_rule_that_ends_the_derivation():
    found = nests(task(user_rules.two_ways, tensors=matmul(512, 512, 512)))
    assert found == [[("C", "SRS")], [("C", "SSRSRS")]]


def test_rules_are_tried_in_their_order():
    rules = (user_rules.padding_at_root, user_rules.keep_bias)
    for order in (rules, rules[::-1]):
        for s in SearchSpace.of(task(*order)).sketches:
            assert s.blocks[0].op.name == "pad_temp"
            assert "inline T_add" not in s.steps


@pytest.mark.parametrize("rule", [user_rules.keep_bias, user_rules.also_untiled])
def test_their_schedules_run(rule):
    mine = SearchTask(te.ComputeDAG(conv2d_relu(*SMALL)), tw.Target("llvm"), rules=(rule,))
    rng = np.random.default_rng(3)
    inputs = random_inputs(mine.compute_dag, rng)
    want = reference(mine.compute_dag, inputs)
    for sketch in SearchSpace.of(mine).sketches:
        for row in sketch.sample(rng, 1):
            check_row(mine, sketch, row, inputs, want, threads=(2,))


def test_they_reach_another_process_by_name():
    mine = task(user_rules.keep_bias, user_rules.Holder.rule)
    sent = pickle.loads(pickle.dumps(mine))
    assert sent.rules == mine.rules
    assert sent.workload_key == mine.workload_key
    sketch = SearchSpace.of(mine).sketches[0]
    row = sketch.sample(np.random.default_rng(0), 1)[0]
    assert build(sent, 0, row).code_hash == build(mine, 0, row).code_hash


def test_they_are_part_of_what_records_belong_to():
    plain, one, two = task(), task(user_rules.keep_bias), task(user_rules.padding_at_root)
    assert len({t.workload_key for t in (plain, one, two)}) == 3
    digest, *shapes, rules = json.loads(one.workload_key)
    assert [digest, *shapes] == json.loads(plain.workload_key)
    assert rules == {"rules": ["tests.space.user_rules:keep_bias"]}


def test_functions_that_no_worker_can_import():
    def local(facts, state, op):
        return []

    for rule in (lambda facts, state, op: [], local):
        with pytest.raises(ScheduleError, match="worker processes cannot import it; define it"):
            task(rule)
    with pytest.raises(ScheduleError, match="worker processes cannot import it"):
        rule_reference(3)


def test_create_task_takes_rules():
    made = tw.create_task(matmul, (8, 8, 8), TARGET, custom_rules=[user_rules.two_ways])
    assert made.rules == (user_rules.two_ways,)
    assert len(SearchSpace.of(made).sketches) == 2


def test_a_rule_that_decides_nothing_is_named():
    with pytest.raises(ScheduleError, match="rule forgets leaves stage T_relu as it was"):
        SearchSpace.of(task(user_rules.forgets))
    with pytest.raises(ScheduleError, match="rule says_nothing returns None for stage T_relu"):
        SearchSpace.of(task(user_rules.says_nothing))
    dag = te.ComputeDAG(matmul(8, 8, 8))
    with pytest.raises(ScheduleError, match="no rule applies to stage C"):
        SearchSpace.derive(dag, TARGET, (user_rules.keep_bias,))
