"""The runtime of threads, kept beside kernels: made once, and never taken from a damaged file."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tilework.compiler.kernels import Kernels, kernel_files
from tilework.deferred import Helpers
from tilework.errors import ModuleError
from tilework.kept import without_digest
from tilework.kinds.cpu import team
from tilework.kinds.cpu.team import Team
from tilework.target import Target

TWO = "llvm -mcpu=native -num-cores=2"

_RUN = """
    import sys
    import numpy as np
    import tilework as tw
    from tilework.kinds.cpu import team

    made, make = [], team.pool_object
    team.pool_object = lambda target: made.append(1) or make(target)
    module = tw.compile(tw.zoo.get("mlp", batch=64), sys.argv[2], cache=sys.argv[1])
    x = np.ones(module.inputs["data"].shape, np.float32)
    (y,) = module.run(x)
    assert np.isfinite(y).all()
    print(len(made), float(y.sum()))
"""


def run(folder: Path, target: str = TWO) -> list[str]:
    """How often a fresh process made the runtime, and a sum of outputs."""
    command = [sys.executable, "-c", textwrap.dedent(_RUN), str(folder), target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not loaded the runtime."""
    monkeypatch.setattr(team, "_kept", [])
    monkeypatch.setattr(team, "_made", [])


def test_it_is_made_once(tmp_path: Path) -> None:
    made, first = run(tmp_path)
    assert made == "1"
    assert run(tmp_path) == ["0", first]
    (path,) = (tmp_path / "kernels").glob("*.common")
    path.write_bytes(path.read_bytes()[:-1])
    assert run(tmp_path) == ["1", first]
    assert run(tmp_path) == ["0", first]  # the damaged one was replaced


@pytest.mark.usefixtures("unloaded")
def test_it_is_made_beside_the_compile_where_nothing_is_kept() -> None:
    with Helpers() as helpers:
        Kernels(Target(TWO)).common(helpers)
    assert team._made.pop().result() == Team().make()


def test_one_core_needs_none(tmp_path: Path) -> None:
    assert run(tmp_path, "llvm -mcpu=native -num-cores=1")[0] == "0"
    assert not list((tmp_path / "kernels").glob("*.common"))


def kept_in(folder: Path) -> Path:
    kernels = Kernels(Target(TWO), kernel_files(folder))
    with Helpers() as helpers:
        kernels.common(helpers)
        kernels.keep()
    team._made.clear()
    (path,) = (folder / "kernels").glob("*.common")
    return path


def taken(folder: Path) -> bool:
    """Whether what is kept is taken."""
    kernels = Kernels(Target(TWO), kernel_files(folder))
    with Helpers() as helpers:
        kernels.common(helpers)
    assert team._made.pop().result() == Team().make()
    return kernels._common is None


@pytest.mark.usefixtures("unloaded")
def test_any_damage_is_a_miss(tmp_path: Path) -> None:
    path = kept_in(tmp_path)
    whole, rng = path.read_bytes(), random.Random(0)
    assert taken(tmp_path)
    for length in (0, 1, 64, 65, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert not taken(tmp_path)
    for _ in range(10):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert not taken(tmp_path)
    other = path.with_name("0" * 64 + ".common")
    other.write_bytes(whole)
    with pytest.raises(ValueError, match="checksum"):
        without_digest(whole, other.stem)


@pytest.mark.usefixtures("unloaded")
def test_a_folder_where_others_write_is_not_read(tmp_path: Path) -> None:
    path = kept_in(tmp_path)
    path.parent.chmod(0o777)
    assert not taken(tmp_path)


def test_objects_that_are_not_the_runtime_are_refused() -> None:
    code = Team().make()
    assert Team().check(code) == code
    with pytest.raises(ModuleError, match="damaged"):
        Team().check(code[:-100])
    from tilework.kinds.cpu.llvm.assembler import emit_object
    from tilework.kinds.cpu.target import CpuTarget

    other = emit_object("define void @f() { ret void }", CpuTarget("llvm -num-cores=1"))
    with pytest.raises(ModuleError, match="lacks"):
        Team().check(other)
