"""What importing costs: the engine and the command line load nothing heavy until it is used."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap

import pytest

from tilework import compile as compile_network
from tilework import zoo

HEAVY = (
    "cupy", "llvmlite", "matplotlib", "onnx", "onnxruntime", "pandas", "prefect", "pyarrow",
    "rich.table", "scipy", "sqlalchemy", "xgboost",
)  # fmt: skip


def loaded_after(statement: str) -> set[str]:
    """The heavy modules that are loaded once a fresh interpreter has run ``statement``."""
    code = f"{statement}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
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
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("llvm -mcpu=")


COMPILER = ("backend", "compiler", "graph", "lower", "measure", "model", "ops", "record", "search",
            "space", "task", "te", "travel")  # fmt: skip
"""Packages and modules of the engine that running a module does without."""

FOREIGN = ("onnx", "onnxruntime", "xgboost", "pandas", "pyarrow", "prefect", "scipy", "pydantic",
           "matplotlib", "typer", "rich", "storage", "tasks", "flows")  # fmt: skip


@pytest.mark.parametrize(
    "target", ["llvm -num-cores=1", "llvm -num-cores=2", "cuda -model=a100 -run=emulated"]
)
def test_modules_run_without_the_compiler(target, tmp_path):
    if target.startswith("cuda") and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("there is no C++ compiler")
    path = tmp_path / "mlp.tw"
    compile_network(zoo.get("mlp", batch=2), target).save(path)
    blocked = [*(f"tilework.{name}" for name in COMPILER), *FOREIGN]
    code = f"""
        import sys
        from importlib.abc import MetaPathFinder

        class Block(MetaPathFinder):
            def find_spec(self, fullname, path=None, target=None):
                for name in {blocked!r}:
                    if fullname == name or fullname.startswith(name + "."):
                        raise ModuleNotFoundError(f"{{fullname}} is blocked", name=fullname)

        sys.meta_path.insert(0, Block())
        import numpy as np
        import tilework

        module = tilework.load_module({str(path)!r})
        x = np.ones(module.inputs["data"].shape, np.float32)
        (y,) = module.run(x)
        call = module.bind()
        call.inputs["data"][...] = x
        assert np.array_equal(call()[0], y)
        assert module.benchmark(repeat=1, min_repeat_ms=1).min > 0
        assert len(module.profile(repeat=1)) == len(module.image.steps)
        assert tilework.runtime.explain_gap(module) is None
        module.save({str(tmp_path / "again.tw")!r})
        print(module.summary())
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"mlp for {target.split()[0]} ")
    assert (tmp_path / "again.tw").exists()
