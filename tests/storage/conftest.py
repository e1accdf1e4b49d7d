from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tilework.record import SCHEMA_VERSION, Record, Status

START = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def make_record():
    """make_record(run, round, index, **changes) -> an ok record of workload 'conv' on 'llvm'."""

    def make(run_id="run", round=0, index=0, **changes):
        base = Record(
            schema_version=SCHEMA_VERSION,
            record_id=f"{run_id}-{round}-{index}",
            run_id=run_id,
            round=round,
            created_at=START + timedelta(seconds=100 * round + index),
            workload_key="conv",
            workload="C(i, j) += A[i, k]*B[k, j]",
            network="resnet-18",
            flops=2e6,
            target="llvm -mcpu=x -num-cores=2",
            device="a CPU",
            host="here",
            num_cores=2,
            engine_version="0.1.0",
            sketch_id=1,
            rules_version=1,
            decisions=(4, 8, -1, index),
            code_hash=f"hash{index}",
            status=Status.ok,
            latency_s=1e-3 + 1e-5 * index,
            latency_samples=(1e-3, 2e-3),
            latency_spread=0.01,
            calibration_s=2e-3,
            build_s=0.02,
            max_rel_error=1e-6,
            predicted_score=0.7,
            model_id="draft",
        )
        return replace(base, **changes)

    return make


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user of his own, whose compiles look at packages."""
    for name in ("DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("TILEWORK_NO_PACKAGES")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def make_round(make_record):
    """make_round(run, round, n, **changes) -> n records."""
    return lambda run_id="run", round=0, n=3, **changes: [
        make_record(run_id, round, i, **changes) for i in range(n)
    ]
