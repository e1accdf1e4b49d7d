"""Turns measurements into records: adds where, when and of what they are."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from tilework.measure.candidates import Candidate, Measured
from tilework.measure.device import device_of
from tilework.record import FACTS, SCHEMA_VERSION, Purpose, Record, Status, record_id
from tilework.revision import full_version
from tilework.space.protocol import space_of
from tilework.target import Target
from tilework.target.identity import DeviceIdentity, identity_of


def to_records(
    task: Any,
    measured: Sequence[Measured],
    *,
    run_id: str,
    round: int,
    network: str = "",
    purpose: Purpose = Purpose.search,
    created_at: datetime | None = None,
    writer: str = "",
    first: int = 0,
    device: DeviceIdentity | None = None,
) -> list[Record]:
    """The records of one round of one task, in the order of `measured`.

    Record ids are made of the run, the round, the writer and the position; see `record_id`.

    Args:
        first: position of the first record in its round.
        writer: who measured, where several may measure rounds of one run; see `new_writer`.
        device: what was measured on; the target's device on this machine if None.
    """
    device = device or identity_of(task.target)
    rules_version = space_of(task.target).version
    now = created_at or datetime.now(UTC)
    return [
        Record(
            schema_version=SCHEMA_VERSION,
            record_id=record_id(run_id, round, writer, position),
            run_id=run_id,
            round=round,
            created_at=now,
            workload_key=task.workload_key,
            workload=task.desc or str(task.compute_dag),
            network=network,
            flops=float(task.flops),
            target=str(task.target),
            device=device_of(task.target).name(task.target),
            host=platform.node(),
            num_cores=task.target.num_cores,
            engine_version=".".join(filter(None, (full_version(), one.compiler))),
            sketch_id=one.candidate.sketch_id,
            rules_version=rules_version,
            decisions=tuple(int(value) for value in one.candidate.row),
            code_hash=one.code_hash,
            status=one.status,
            error=one.error,
            latency_s=one.latency_s,
            latency_samples=one.latency_samples,
            latency_spread=one.latency_spread,
            calibration_s=one.calibration_s,
            build_s=one.build_s,
            max_rel_error=one.max_rel_error,
            predicted_score=one.candidate.predicted_score,
            model_id=one.candidate.model_id,
            purpose=Purpose.refused if one.status == Status.unfit else purpose,
            device_id=device.id,
            device_calibration_s=device.calibration_s,
            **{name: int(one.facts[name]) for name in FACTS if name in one.facts},
        )
        for position, one in enumerate(measured, first)
    ]


def from_records(records: Iterable[Record], target: Target) -> list[Measured]:
    """The measurements behind records of this machine's device, finals left out."""
    device = identity_of(target)
    return [
        Measured(
            Candidate(r.sketch_id, r.decisions, r.predicted_score or 0.0, r.model_id),
            r.status, r.error, r.latency_s, r.latency_samples, r.latency_spread, r.calibration_s,
            r.build_s, r.max_rel_error, r.code_hash, r.facts,
        )
        for r in records
        if r.purpose == Purpose.search and device.owns(r)
    ]  # fmt: skip
