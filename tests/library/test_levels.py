"""Several kinds of CPU in one file."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import tilework as tw
import tilework_runtime
from tests.library.conftest import TARGET
from tilework.errors import ModuleError, TargetError
from tilework.runtime.library import libraries_of
from tilework.runtime.module import Module
from tilework.target.host import HOST_PLATFORM

pytestmark = pytest.mark.skipif(
    HOST_PLATFORM != "linux x86_64", reason="levels of x86-64 run on x86-64"
)
CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


@pytest.fixture(scope="module")
def modules():
    net = tw.zoo.get("mlp", batch=2)
    return {cpu: tw.compile(net, f"llvm -mcpu={cpu} -num-cores=2") for cpu in CPUS}


@pytest.fixture(scope="module")
def library(modules, tmp_path_factory):
    place = tmp_path_factory.mktemp("levels") / "levels.so"
    header = place.with_suffix(".h")
    return tw.write_library(list(modules.values()), place, header=header, weights="beside")


def test_each_level_computes_what_its_module_does(modules, library, image):
    seen = [level.name for level in library.levels]
    assert seen == sorted(CPUS, reverse=True)
    best = None
    for level in library.levels:
        if not level.checked:  # this machine cannot run it
            with pytest.raises(tilework_runtime.LibraryError, match="which this CPU lacks"):
                tilework_runtime.load(library.path, level=level.name)
            continue
        best = best or level.name
        opened = tilework_runtime.load(library.path, level=level.name)
        assert opened.level == level.name
        expected = modules[level.name].run(image)[0]
        assert opened.run(image)[0].tobytes() == expected.tobytes()
    assert tilework_runtime.load(library.path).level == best


def lacking(module, name):
    """A module of which the library believes that it needs what no CPU of today has."""
    target = f"llvm -mcpu={name} -num-cores=2"
    return Module(replace(module.image, target=target, needs=(*module.image.needs, "fma4", "xop")))


def test_levels_that_this_cpu_lacks_are_passed_over(modules, tmp_path, image):
    better = lacking(modules["x86-64-v2"], "znver1")
    tw.write_library([better, modules["x86-64-v2"]], tmp_path / "net.so")
    library = tilework_runtime.load(tmp_path / "net.so")
    assert [level.name for level in library.levels] == ["znver1", "x86-64-v2"]
    assert library.level == "x86-64-v2"
    assert np.array_equal(library.run(image)[0], modules["x86-64-v2"].run(image)[0])
    with pytest.raises(tilework_runtime.LibraryError, match="level znver1 needs fma4, xop, which"):
        tilework_runtime.load(tmp_path / "net.so", level="znver1")


def test_a_cpu_that_can_run_no_level_is_told_so(modules, tmp_path):
    written = tw.write_library(lacking(modules["x86-64-v3"], "znver1"), tmp_path / "net.so")
    assert not written.levels[0].checked
    with pytest.raises(
        tilework_runtime.LibraryError,
        match="this CPU can run no level of the library: znver1, the least of them, needs fma4, "
        "xop, which it lacks",
    ):
        tilework_runtime.load(tmp_path / "net.so")


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "levels.h"
int main(void) {
  tw_levels *network;
  if (tw_levels_create(1, &network)) return puts(tw_levels_last_error()), 1;
  const void *in[] = {calloc(1, 2 * 784 * 4)};
  void *out[] = {calloc(1, 2 * 10 * 4)};
  return puts(tw_levels_run(network, in, out) ? tw_levels_last_error()
                                              : tw_levels_level(network)), 0;
}
"""


@pytest.mark.skipif(
    shutil.which("qemu-x86_64") is None, reason="there is no emulator of CPUs (qemu-x86_64)"
)
@pytest.mark.parametrize(
    "cpu, said",
    [
        ("Haswell", "x86-64-v3"),
        ("Opteron_G5", "x86-64-v2"),
        ("Nehalem", "x86-64-v2"),
        ("Penryn", "mlp: this CPU can run no level of the library: x86-64-v2, the least of them, "
         "needs popcnt, sse4.2, which it lacks; compile the network for this CPU"),
    ],
)  # fmt: skip
def test_emulated_cpus(library, cpu, said, tmp_path):
    folder = library.path.parent
    (tmp_path / "program.c").write_text(PROGRAM)
    program = folder / "program"
    words = ["cc", f"-I{folder}", "-o", program, tmp_path / "program.c", library.path]
    subprocess.run([*words, "-Wl,-rpath,$ORIGIN"], check=True, timeout=600)
    done = subprocess.run(
        ["qemu-x86_64", "-cpu", cpu, program], capture_output=True, text=True, timeout=600
    )
    assert done.stdout.strip() == said, done.stderr


def test_every_feature_of_code_can_be_asked_for():
    from tilework.kinds.cpu.cpus import CODE_FEATURES
    from tilework.kinds.cpu.library.levels import askable

    for arch, features in CODE_FEATURES.items():
        assert features <= askable(f"linux {arch}")


def test_cpus_that_the_library_and_the_compiler_see_are_one(modules, tmp_path):
    """The library asks CPUID, the compiler LLVM: a level of all that this CPU has must run."""
    native = tw.compile(tw.zoo.get("mlp"), TARGET)
    tw.write_library(native, tmp_path / "native.so")
    library = tilework_runtime.load(tmp_path / "native.so")
    assert set(library.levels[0].needs) == set(native.image.needs)


def test_equal_constants_of_levels_are_stored_once(modules, library):
    total = sum(level.weights_bytes for level in library.levels)
    assert library.weights.stat().st_size < total


def test_modules_of_different_networks_are_no_levels(modules, mlp, tmp_path):
    other = tw.compile(tw.zoo.get("mlp", batch=3), "llvm -mcpu=x86-64-v3 -num-cores=2")
    for given, told in (
        ([modules["x86-64-v2"], other], "their inputs differ"),
        ([mlp, mlp], "two modules for the level"),
        ([], "at least one module"),
    ):
        with pytest.raises(ModuleError, match=told):
            tw.write_library(given, tmp_path / "net.so")
    assert not list(tmp_path.iterdir())


def test_words_for_levels():
    room, native = libraries_of("llvm"), tw.Target(TARGET)
    assert room.level_target("native", native) == str(native)
    assert room.level_target("v3", native).startswith("llvm -mcpu=x86-64-v3 ")
    assert room.level_target("haswell", native).startswith("llvm -mcpu=haswell ")
    with pytest.raises(TargetError, match="unknown CPU"):
        room.level_target("v9", native)
