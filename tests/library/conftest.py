from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilework as tw

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "data" / "models"
TARGET = "llvm -mcpu=native -num-cores=2"

BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Block(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in ("tilework", "llvmlite", "tasks", "flows", "storage"):
            raise ModuleNotFoundError(fullname)

sys.meta_path.insert(0, Block())
"""


def pytest_collection_modifyitems(items):
    if shutil.which("cc") is None:
        skip = pytest.mark.skip(reason="there is no C compiler (cc)")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def mlp():
    return tw.compile(tw.zoo.get("mlp", batch=2), TARGET)


@pytest.fixture(scope="session")
def mlp_library(mlp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlp")
    return tw.write_library(mlp, folder / "mlp.so", header=folder / "mlp.h")


@pytest.fixture
def image(mlp):
    shape = mlp.inputs["data"].shape
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def run_without_tilework(code: str, *arguments: object) -> str:
    """What a Python program prints that can import the runtime's package and no Tilework."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", BLOCK + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "runtime")},
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def random_inputs(module):
    rng = np.random.default_rng(5)
    return {
        v.name: rng.standard_normal(v.shape).astype(v.dtype)
        if v.dtype.startswith("float")
        else rng.integers(0, 2, v.shape).astype(v.dtype)
        for v in module.inputs.values()
    }
