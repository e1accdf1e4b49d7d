"""The benchmark scripts run, and write what they promise."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
UNDISTURBED = Path(__file__).parents[1] / "undisturbed.py"
PEER = "onnxruntime" if importlib.util.find_spec("onnxruntime") else ""


@pytest.mark.parametrize(
    "script, options, names",
    [
        ("layers.py", ["--layers", "softmax,maxpool"], ["softmax 1000", "maxpool3x3 s2"]),
        ("networks.py", ["mlp", "mlp-20-10-5"], ["mlp", "mlp-20-10-5"]),
    ],
)
def test_engines_are_compared(script, options, names, tmp_path):
    out, chart = tmp_path / "out.json", tmp_path / "chart.png"
    told = run(script, *options, "--json", str(out), "--chart", str(chart), "--peers", PEER)
    found = json.loads(out.read_text())
    assert found["machine"]["caches_bytes"]["l2"] > 0
    (alone,) = found["runs"]
    assert alone["threads"] == 1 and alone["fma_peak_gflops"] > 0
    assert set(alone["read_gb_per_s"]) == {"l1", "l2", "l3", "dram"}
    rows = alone["layers" if script == "layers.py" else "networks"]
    assert all(any(name in row["name"] for row in rows) for name in names)
    assert all(name in told for name in names)
    for row in rows:
        assert [r["engine"].split()[0] for r in row["rows"]] == ["tilework", *filter(None, [PEER])]
        assert all(r["median_us"] > 0 and (r["max_rel_error"] or 0) < 1e-3 for r in row["rows"])
    assert chart.exists() == bool(PEER)


def test_requests_with_pauses_are_compared(tmp_path):
    out = tmp_path / "out.json"
    options = ["--pause", "1", "--first", "20", "--rest", "10", "--json", str(out)]
    command = [sys.executable, str(SCRIPTS / "arrivals.py"), str(SCRIPTS.parent), "mlp", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    assert row["network"] == "mlp"
    for name in ("before", "now", "one"):
        assert row[f"{name} first"] > 0 and row[f"{name} rest"] > 0


def run(script, *options):
    command = [sys.executable, str(UNDISTURBED), str(SCRIPTS / script), *options]
    done = subprocess.run(
        [*command, "--threads", "1", "--seconds", "0.02"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
