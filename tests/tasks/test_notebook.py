"""The notebook of questions to records: its cells run as they are, without Jupyter."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "records.ipynb"


def cells():
    return json.loads(NOTEBOOK.read_text())["cells"]


def code():
    return ["".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code"]


def test_it_tunes_a_little_where_there_is_no_store_and_every_cell_runs(tmp_path):
    text = "\n".join(code()).replace("num_measure_trials=48", "num_measure_trials=24")
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "records, 2 runs" in done.stdout and "mlp: " in done.stdout
    assert (tmp_path / "records").is_dir()


def test_it_is_small_and_its_outputs_hold_no_error():
    assert NOTEBOOK.stat().st_size < 150_000
    for cell in cells():
        assert cell["id"]
        for output in cell.get("outputs", ()):
            assert output["output_type"] in ("stream", "display_data", "execute_result")


def test_every_question_is_asked():
    called = {
        node.func.value.id
        for cell in code()
        for node in ast.walk(ast.parse(cell))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    }
    assert {"runs", "coverage", "night", "slower", "errors", "failures"} <= called
