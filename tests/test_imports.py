"""What importing costs: the engine and the command line load nothing heavy until it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "cupy", "llvmlite", "matplotlib", "onnx", "onnxruntime", "pandas", "prefect", "pyarrow",
    "rich.table", "scipy", "sqlalchemy", "xgboost",
)  # fmt: skip


def loaded_after(statement: str) -> set[str]:
    """The heavy modules that are loaded once a fresh interpreter has run ``statement``."""
    code = f"{statement}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["tilework", "tilework.errors", "flows.cli"])
def test_import_loads_nothing_heavy(module):
    assert loaded_after(f"import {module}") == set()


def test_the_engine_is_usable_without_prefect_and_pandas():
    code = (
        "import sys\n"
        "for name in ('prefect', 'pandas', 'pyarrow'): sys.modules[name] = None\n"
        "import tilework as tw\n"
        "print(tw.Target('llvm -mcpu=native -num-cores=1'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("llvm -mcpu=")
