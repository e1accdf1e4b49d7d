"""``--precision bf16``: tasks, modules and comparisons in bfloat16, and CPUs that cannot."""

from __future__ import annotations

import pytest

from tests.hosts import x86
from tilework.target import Target

needs_bf16 = pytest.mark.skipif(
    "avx512bf16" not in Target("llvm").features, reason="this CPU lacks avx512bf16"
)
ZEN4 = ("--precision", "bf16", "--target", x86("znver4", 1))


def test_extract_lists_the_tasks_of_a_precision(cli):
    narrow, wide = cli.json("extract", "mlp", *ZEN4), cli.json("extract", "mlp")
    assert [t["description"] for t in narrow[:3]] == [f"{t['description']} bf16" for t in wide[:3]]
    assert "bfloat16" in narrow[0]["dag"]
    assert narrow[0]["workload_key"] != wide[0]["workload_key"]


@pytest.mark.parametrize("command", ["extract", "compile", "bench", "tune"])
def test_a_cpu_without_the_instructions_is_refused(cli, command):
    told = cli.error(command, "mlp", "--precision", "bf16", "--target", x86("core-avx2", 1))
    assert "avx512bf16" in told


def test_8_bits_and_what_they_cost(cli, tmp_path):
    """As a file, and as a precision; each says how far outputs are from float32."""
    result = cli("quantize", "mlp")
    assert result.exit_code == 0, result.output
    assert "3 of 3 convolutions and products in 8 bits" in result.output
    assert "8 bits against float32, on 8 samples: largest error" in result.output
    assert (tmp_path / "mlp.int8.onnx").exists()
    told = cli.error("quantize", "mlp", "--block", 64)
    assert "--block, --zeros and --level belong to --weights int4 or int8" in told
    assert ("(--reduce-range)" in " ".join(result.output.split())) is Target().bounds_weights
    told = cli.error("quantize", "mlp", "--weights", "int4", "--reduce-range")
    assert "--reduce-range is of products of bytes" in told
    told = cli.error("quantize", "mlp", "--weights", "int4", "--scheme", "dynamic")
    assert "--scheme and --method are of data" in told
    told = cli.error("quantize", "mlp", "--shape", "any")
    assert "--shape any is for ONNX files" in told
    budget = ("--trials", 8, "--seconds", 20, "--threads", 1, "--no-prefect")
    report = cli.json("tune", "mlp", "--precision", "int8", *budget)
    assert report["check"]["max_rel_error"] <= 1e-3 < report["loss"]["largest"] < 0.1
    bench = cli("bench", "mlp", "--precision", "int8", "--threads", 1, "--seconds", 0.1)
    assert "8 bits against float32" in bench.output
    told = cli.error("compile", "mlp", "--calibrate", "samples.npz")
    assert "it belongs to --precision int8" in told


@needs_bf16
def test_a_module_is_checked_against_float32(cli):
    found = cli.json("compile", "mlp", "--precision", "bf16", "--threads", 1)
    assert 1e-5 < found["check"]["max_rel_error"] < found["check"]["tolerance"] == 0.1


@needs_bf16
def test_tune_and_bench_in_bfloat16(cli):
    budget = ("--trials", 8, "--seconds", 20, "--threads", 1, "--no-prefect")
    report = cli.json("tune", "mlp", "--precision", "bf16", *budget)
    assert not report["failures"]
    assert 1e-5 < report["check"]["max_rel_error"] < 0.1
    assert any("bf16" in str(row) for row in report["tasks"])
    (found,) = cli.json("bench", "mlp", "--precision", "bf16", "--threads", 1, "--seconds", 0.1)
    assert found["precision"] == "bf16"
    assert found["tuned_tasks"] > 0
    assert found["accuracy"]["max_rel_error"] < 0.1
