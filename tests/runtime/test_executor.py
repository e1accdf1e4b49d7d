"""A module of another kind of machine runs through the same protocol, with no CPU and no LLVM."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tilework import kinds, load_module
from tilework.errors import ModuleError
from tilework.runtime import Module
from tilework.runtime.executor import HostLoaded, executor_of
from tilework.runtime.image import Image, Ref, Step, Value


class ToyContext:
    """``add`` and ``double`` on arrays; each step has its output last."""

    def __init__(self, image):
        self.image = image
        self.arena = np.zeros(image.arena_bytes, np.uint8)

    def run(self, buffers, threads, addresses=None):
        for i in range(len(self.image.steps)):
            self.bind_step(i, buffers, threads)()

    def profile(self, buffers, threads):
        self.run(buffers, threads)
        return np.full(len(self.image.steps), 1e-6)

    def bind(self, buffers, threads):
        return lambda: self.run(buffers, threads)

    def bind_step(self, step, buffers, threads):
        *given, out = (self._array(ref, buffers) for ref in self.image.steps[step].args)
        operator = self.image.code[self.image.steps[step].symbol].decode()

        def call():
            out[:] = sum(given) if operator == "add" else 2 * given[0]

        return call

    def _array(self, ref, buffers):
        blocks = {"arena": self.arena, "constant": self.image.constants}
        if ref.space == "io":
            return buffers[ref.at].reshape(-1)
        return blocks[ref.space][ref.at : ref.at + ref.nbytes].view(np.float32)


class ToyLoaded(HostLoaded):
    def __init__(self, image):
        self.image = image

    def context(self):
        return ToyContext(self.image)

    def roofline(self, threads):
        return ToyRoofline()


class ToyRoofline:
    wall_clock = False

    def seconds(self, step, image):
        return 1e-7

    constants_s = seconds

    def warm_constants_s(self, step):
        return 1e-7

    def level(self, nbytes):
        return "memory"


class ToyExecutor:
    def check(self, image, what):
        if "magic" in image.needs:
            raise ModuleError(f"{what} needs magic")

    def check_threads(self, image, threads):
        if threads > 3:
            raise ModuleError("a toy counts to three")

    def check_code(self, image):
        for step in image.steps:
            if image.code.get(step.symbol) not in (b"add", b"double"):
                raise ModuleError(f"{step.symbol} is no toy")

    def load(self, image):
        return ToyLoaded(image)


EXECUTOR = ToyExecutor()


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(sys.modules, "tests_toy_kind", sys.modules[__name__])
    rooms = dict.fromkeys(
        ("target", "space", "draft", "lowering", "builder", "device", "executor"),
        "tests_toy_kind:EXECUTOR",
    )
    monkeypatch.setitem(kinds.KINDS, "toy", kinds.Kind("toy", "toy", **rooms))


def image(**changes):
    """``y = 2 * (x + w)``, the sum in the arena."""
    size = 4 * 6
    fields = {
        "name": "sum",
        "target": "toy -num-cores=1",
        "platform": "anywhere",
        "num_threads": 1,
        "cores": 1,
        "needs": (),
        "inputs": (Value("x", (2, 3), "float32", 0),),
        "outputs": (Value("y", (6,), "float32", 1),),
        "steps": (
            Step(
                "first",
                (Ref("io", 0, size), Ref("constant", 64, size), Ref("arena", 0, size)),
                *("add", "add 6", 6.0, 3 * size),
            ),
            Step(
                "second",
                (Ref("arena", 0, size), Ref("io", 1, size)),
                *("double", "double 6", 6.0, 2 * size),
            ),
        ),
        "arena_bytes": 64,
        "workspaces": ((0, 0),),
        "constants": np.concatenate(
            [np.zeros(16, np.float32), np.arange(6, dtype=np.float32)]
        ).view(np.uint8),
        "code": {"first": b"add", "second": b"double"},
        "report": (),
    }
    return Image(**{**fields, **changes})


X = np.ones((2, 3), np.float32)
Y = 2 * (1 + np.arange(6, dtype=np.float32))


def test_another_kind_of_machine_runs_modules(toy, tmp_path):
    Module(image()).save(tmp_path / "sum.tw")
    module = load_module(tmp_path / "sum.tw")
    assert np.array_equal(module.run(X)[0], Y)
    call = module.bind()
    call.inputs["x"][...] = X
    assert np.array_equal(call()[0], Y)
    assert module.benchmark(repeat=1, min_repeat_ms=1).min > 0
    assert [row.symbol for row in module.profile(repeat=2)] == ["first", "second"]
    assert set(module.kernels_alone()) == {"first", "second"}
    assert "sum for toy" in module.summary()


def test_what_its_executor_refuses(toy, tmp_path):
    path = tmp_path / "sum.tw"
    Module(image(needs=("magic",))).save(path)
    with pytest.raises(ModuleError, match=r"sum.tw needs magic"):
        load_module(path)
    Module(image(code={"first": b"add", "second": b"triple"})).save(path)
    with pytest.raises(ModuleError, match="damaged: second is no toy"):
        load_module(path)
    with pytest.raises(ModuleError, match="counts to three"):
        Module(image()).set_threads(4)


@pytest.mark.parametrize("name", ["../first", "", "a/b"])
def test_code_has_names_of_files(toy, tmp_path, name):
    Module(image(code={"first": b"add", "second": b"double", name: b""})).save(tmp_path / "a.tw")
    with pytest.raises(ModuleError, match="odd checksum"):
        load_module(tmp_path / "a.tw")


def test_kinds_that_nobody_knows():
    with pytest.raises(ModuleError, match=r"for 'vax'.*unknown kind"):
        executor_of("vax")
    with pytest.raises(ModuleError, match="nothing here runs modules"):
        Module(image()).run(X)


def test_an_executor_that_lacks_a_package(toy, monkeypatch):
    monkeypatch.setitem(
        kinds.KINDS,
        "toy",
        kinds.Kind("toy", "toy", *["no_such_package:X"] * 7),
    )
    with pytest.raises(ModuleError, match=r"cannot run here.*no_such_package.*install"):
        executor_of("toy")
