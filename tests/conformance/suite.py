"""What every kind of machine must do: inherit `KindConformance` and name a target.

    class TestMine(KindConformance):
        target = "mine -num-cores=2"

The kind needs to be registered, here and in the processes that unpickle its target.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.conformance.faults import Fault
from tests.conformance.log import FileLog
from tests.conformance.network import image, network
from tests.graph.run_plan import relative_error, run_nodes
from tests.processes import started, wait_until_dead
from tilework import Target, compile, compile_task, load_module
from tilework.errors import ModuleError
from tilework.lower.protocol import builder_of, lowering_of
from tilework.measure import Candidate, Measurer
from tilework.measure.device import device_of
from tilework.model.draft import draft_of
from tilework.record import MemoryHistory, Record, Status
from tilework.runtime import explain_gap
from tilework.runtime.module import Module
from tilework.space import SearchSpace, space_of
from tilework.target.identity import identity_of
from tilework.task import SearchTask
from tilework.te import evaluate

TRIALS = 9
ERRORS = {
    Fault.rejected: (Status.rejected, "build: ScheduleError: this row is not wanted"),
    Fault.short_row: (Status.rejected, "build: ScheduleError: "),
    Fault.compile_error: (Status.compile_error, "build: ValueError: no code can be made of this"),
    Fault.build_crash: (Status.crashed, "build: the worker was killed by SIGSEGV"),
    Fault.damaged_code: (Status.launch_error, "load: "),
    Fault.launch_error: (Status.launch_error, "load: OSError: symbol not found"),
    Fault.run_error: (Status.run_error, "run: RuntimeError: the machine is on fire"),
    Fault.hang: (Status.timeout, "run: took longer than "),
    Fault.wrong: (Status.wrong_answer, "run: output 0 differs: "),
    Fault.not_written: (Status.wrong_answer, "run: output 0: "),
    Fault.overrun: (Status.wrong_answer, "run: wrote outside its buffers"),
    Fault.crash: (Status.crashed, "run: the worker was killed by SIGSEGV"),
    Fault.killed: (Status.worker_lost, "run: the worker was killed by SIGKILL"),
}


class KindConformance:
    """The suite.

    Attributes:
        target: text of the target.
        settings: of the measurer, so that a candidate takes little time.
        deterministic: whether equal programs take equal times.
        host_memory: whether the device's buffers are memory of its process.
    """

    target: ClassVar[str]
    settings: ClassVar[dict[str, Any]] = {}
    deterministic: ClassVar[bool] = False
    host_memory: ClassVar[bool] = True

    # --- the machine -------------------------------------------------------------------------

    def test_the_target_is_canonical(self, where: Target) -> None:
        assert str(Target(str(where))) == str(where) == str(where.with_cores(where.num_cores))
        assert where.with_cores(1).num_cores == 1
        assert not where.missing_on_host()

    def test_the_device_says_what_it_is(self, where: Target) -> None:
        device = device_of(where)
        assert device.name(where)
        assert device.calibration_s() > 0
        assert device.host_cores(where) >= 1
        device.flush(where)()

    def test_buffers_hold_what_was_written_and_copies_are_apart(self, where: Target) -> None:
        device = device_of(where)
        array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        buffer = device.allocate(array.shape, "float32")
        buffer.write(array)
        copies = device.copies([buffer], 3)
        buffer.poison()
        assert not np.isfinite(buffer.read()).any()
        assert buffer.intact and buffer.nbytes == array.nbytes
        for (copy,) in copies:
            np.testing.assert_array_equal(copy.read(), array)

    # --- schedules ---------------------------------------------------------------------------

    def test_extraction_and_the_space(self, where: Target, tasks: list[SearchTask]) -> None:
        assert len(tasks) == 3
        names = draft_of(where).names
        assert len(set(names)) == len(names)
        rng = np.random.default_rng(0)
        for task in tasks:
            assert task.target == where
            for sketch in SearchSpace.of(task).sketches:
                rows = sketch.sample(rng, 20)
                assert len(rows) and sketch.valid(rows).all()
                hashes = sketch.row_hash(rows)
                np.testing.assert_array_equal(sketch.row_hash(sketch.canonical(rows)), hashes)
                features = draft_of(where).features(sketch, rows)
                assert features.shape == (len(rows), len(sketch.blocks), len(names))
                assert np.isfinite(features).all()
                assert (draft_of(where).seconds(sketch, rows) > 0).all()
                assert sketch.describe(rows[0])
                lowering_of(where).lower(sketch, rows[0])

    def test_every_schedule_computes_the_same(
        self, where: Target, tasks: list[SearchTask]
    ) -> None:
        device, rng = device_of(where), np.random.default_rng(1)
        for task in tasks:
            dag = task.compute_dag
            inputs = [rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in dag.inputs]
            (want,) = evaluate(dag, inputs)
            for sketch in SearchSpace.of(task).sketches:
                (row,) = sketch.sample(rng, 1)
                kernel = builder_of(where).build(task, sketch.id, row)
                assert kernel.code_hash == builder_of(where).build(task, sketch.id, row).code_hash
                buffers = []
                for arg, array in zip(kernel.args, [*inputs, None], strict=True):
                    buffers.append(device.allocate(arg.shape, arg.dtype))
                    if array is not None:
                        buffers[-1].write(arg.packing.apply(array) if arg.packing else array)
                loaded = device.load(kernel)
                for threads in (1, where.num_cores):
                    size = max(kernel.workspace_bytes(threads), 64)
                    workspace = device.allocate((size,), "uint8")
                    for buffer in (buffers[-1], workspace):
                        buffer.poison()
                    loaded.bind(buffers, workspace, threads)()
                    assert relative_error(buffers[-1].read(), want) < 1e-4
                    assert all(b.intact for b in (*buffers, workspace))

    # --- measuring ---------------------------------------------------------------------------

    def test_tuning(self, where: Target, tasks: list[SearchTask], tuned: MemoryHistory) -> None:
        records = tuned.read()
        searched = [r for r in records if r.purpose == "search"]
        assert len(searched) == TRIALS
        for record in records:
            assert record.status == Status.ok, record.error
            assert record.device == device_of(where).name(where)
            assert record.device_id == identity_of(where).id and identity_of(where).owns(record)
            assert record.rules_version == space_of(where).version
            assert record.target == str(where) and record.num_cores == where.num_cores
            assert record.latency_s and record.calibration_s and record.code_hash
        for task in tasks:
            assert tuned.best(task.workload_key, str(where)) is not None

    def test_a_run_that_was_killed_goes_on(self, tuned: MemoryHistory, tmp_path: Path) -> None:
        words = [
            sys.executable, "-m", "tests.conformance.tune", self.target, str(tmp_path / "log"),
            str(TRIALS), json.dumps(self.settings),
        ]  # fmt: skip
        with started(words, env=_environment()) as process:
            pids = [int(word) for word in process.stdout.readline().split()[1:]]
            assert process.stdout.readline() == "round\n"
            process.kill()
        assert wait_until_dead(pids)
        before = {r.record_id: r for r in FileLog(tmp_path / "log").read()}
        assert 0 < len(before) < TRIALS
        with started(words, env=_environment()) as process:
            said, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        log = FileLog(tmp_path / "log")
        after = {r.record_id: r for r in log.read()}
        assert {name: repr(after[name]) for name in before} == {
            name: repr(record) for name, record in before.items()
        }
        searched = sum(r.purpose == "search" for r in after.values())
        # what was measured decides whether a task has anything left to measure
        assert searched == TRIALS if self.deterministic else len(before) < searched <= TRIALS
        rounds = sorted({r.round for r in after.values()})
        assert rounds == list(range(len(rounds)))
        assert said.count("round\n") == len(rounds) - len({r.round for r in before.values()})
        if self.deterministic:  # as in one go, in another process
            assert _results(log) == _results(tuned)

    def test_every_error_is_recorded_under_its_kind(
        self, where: Target, tasks: list[SearchTask]
    ) -> None:
        task = tasks[-1]
        sketch = SearchSpace.of(task).sketches[0]
        row = tuple(int(n) for n in sketch.sample(np.random.default_rng(0), 1)[0])
        skipped = set() if self.host_memory else {Fault.overrun}
        for faults, patience in (
            ([f for f in ERRORS if f not in skipped | {Fault.hang}], 60.0),
            ([Fault.hang], 3.0),
        ):
            candidates = [
                Candidate(sketch.id, (*row, int(f)), 0.0, "")
                for fault in faults
                for f in (fault, Fault.none)
            ]
            options = {**self.settings, "run_timeout_s": patience}
            with Measurer(
                where,
                build_processes=1,
                builder="tests.conformance.faults:BUILDER",
                device=f"tests.conformance.faults:{where.kind}",
                **options,
            ) as measurer:
                found = measurer.measure(task, candidates)
            for fault, result, after in zip(faults, found[::2], found[1::2], strict=True):
                status, error = ERRORS[fault]
                assert (result.status, result.error[: len(error)]) == (status, error), fault
                assert result.latency_s is None
                assert after.status == Status.ok, after.error

    # --- a compiled network ------------------------------------------------------------------

    def test_compile_save_load_and_run(
        self, where: Target, tuned: MemoryHistory, tmp_path: Path
    ) -> None:
        net, x = network(), image()
        (want,) = run_nodes(net, x)
        module = compile(net, where, tuned)
        assert {row.source for row in module.report} == {"tuned"}
        module.save(tmp_path / "net.tw")
        loaded = load_module(tmp_path / "net.tw")
        assert loaded.target == str(where)
        for one in (module, loaded):
            (got,) = one.run({"x": x})
            assert relative_error(got, want) < 1e-4
            one.set_threads(1)
            (alone,) = one.run(x)
            assert relative_error(alone, want) < 1e-4
        call = loaded.bind()
        call.inputs["x"][...] = x
        for _ in range(2):
            assert relative_error(call()[0], want) < 1e-4
        times = loaded.profile(repeat=1)
        assert len(times) == len(loaded.image.steps)
        assert all(t.time_ms > 0 and t.roofline >= 0 for t in times)
        assert set(loaded.kernels_alone()) == {step.symbol for step in loaded.image.steps}

    def test_an_untuned_network_runs(self, where: Target) -> None:
        net, x = network(), image()
        module = compile(net, where, MemoryHistory())
        (got,) = module.run({"x": x})
        assert relative_error(got, run_nodes(net, x)[0]) < 1e-4

    def test_a_task_is_a_function(self, where: Target, tasks: list[SearchTask]) -> None:
        dag = tasks[0].compute_dag
        rng = np.random.default_rng(2)
        inputs = [rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in dag.inputs]
        (got,) = compile_task(tasks[0], MemoryHistory())(*inputs)
        assert relative_error(got, evaluate(dag, inputs)[0]) < 1e-4

    def test_a_module_with_damaged_code_is_refused(self, where: Target) -> None:
        whole = compile(network(), where, MemoryHistory()).image
        damaged = replace(whole, code={name: b"garbage" for name in whole.code})
        with pytest.raises(ModuleError):
            Module(damaged).run({"x": image()})


class CountedConformance(KindConformance):
    """For a kind whose equal programs take equal times, because its device counts."""

    deterministic = True

    def test_counted_and_real_time_are_not_compared(
        self, where: Target, tuned: MemoryHistory
    ) -> None:
        assert explain_gap(compile(network(), where, tuned)) is None


def _results(history: MemoryHistory) -> list[tuple[Any, ...]]:
    """What a run found, without times of day and of building, and without who wrote it."""

    def key(r: Record) -> tuple[Any, ...]:
        return (
            r.run_id, r.round, r.record_id[-4:], r.workload_key, r.sketch_id, r.decisions,
            r.status, r.latency_s, r.latency_samples, r.code_hash, r.max_rel_error,
            r.predicted_score,
        )  # fmt: skip

    return sorted(map(key, history.read()))


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
