"""Libraries whose shapes a run brings: C programs and tilework-runtime at many of them."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import tilework as tw
import tilework_runtime
from tests.graph import symbolic_models
from tests.library import shaped
from tests.library.conftest import TARGET
from tests.library.test_c import FLAGS
from tests.model import second_rows
from tests.runtime import symbolic
from tilework.errors import ModuleError
from tilework.index.extents import shape_at
from tilework.index.symbols import Symbol
from tilework.kinds.cpu.library import build
from tilework.kinds.cpu.library.levels import in_order
from tilework.runtime import Module
from tilework.runtime.arena import Arena
from tilework.runtime.image import Place
from tilework.runtime.library import write_library

DECODER = {"batch": "1..2:1", "seq": "1..5:1,3", "past": "0..40:9"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A module, another engine's session, the library, and the program that runs it."""
    folder = tmp_path_factory.mktemp("shapes")
    with second_rows.everywhere():
        module, other = shaped.encoder(TARGET)
    library = tw.write_library(module, folder / "network.so", header=folder / "network.h")
    source = Path(__file__).with_name("shapes.c")
    words = ["cc", *FLAGS, "-D_GNU_SOURCE", f"-I{folder}", "-o", folder / "program", source]
    subprocess.run([*words, "-ldl"], check=True, timeout=600)
    return module, other, library, folder / "program"


@pytest.fixture(scope="module")
def sums(tmp_path_factory):
    place = tmp_path_factory.mktemp("sums") / "sums.so"
    return tw.write_library(symbolic.module(cores=2), place, header=place.with_suffix(".h"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    model = symbolic_models.decoder(1, past=True)
    net = tw.from_onnx(model, DECODER)
    module = tw.compile(net, "llvm -mcpu=native -num-cores=1", in_place=True)
    place = tmp_path_factory.mktemp("rooms") / "decoder.so"
    tw.write_library(module, place)
    other = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return tilework_runtime.load(place), other


def test_a_c_program_at_many_shapes(encoder, tmp_path):
    """As pointers, tensors and by symbols, aligned and not; twice each, beside other shapes."""
    module, other, library, program = encoder
    points = [p for p in shaped.POINTS for _ in range(2)] + shaped.POINTS[::-1]
    given = [shaped.feeds(*point, seed=n) for n, point in enumerate(points)]
    runs = [(n % 3 + n % 2 * 4, p, list(f.values()))
            for n, (p, f) in enumerate(zip(points, given, strict=True))]  # fmt: skip
    for threads in (1, 2):
        words = [program], library.path, runs, ["float32"] * 2, threads, tmp_path
        found, said = shaped.run(*words)
        assert not said and len(found) == len(points)
        for outputs, f in zip(found, given, strict=True):
            for got, mine, theirs in zip(outputs, module.run(f), other.run(None, f), strict=True):
                assert got.tobytes() == mine.tobytes()
                np.testing.assert_allclose(got, theirs, rtol=1e-4, atol=1e-4)


def test_shapes_that_do_not_fit(encoder, tmp_path):
    module, _, library, program = encoder
    ids, mask = shaped.feeds(2, 5).values()
    wrong = [
        ((0, (2, 5), [ids[:0], mask[:0]]),
         "batch is 0, by dimension 0 of input input_ids, outside of its range 1 to 3"),
        ((0, (2, 5), [ids.repeat(20, 1), mask]),
         "seq is 100, by dimension 1 of input input_ids, outside of its range 1 to 61"),
        ((0, (2, 5), [ids, mask[:1]]),
         r"dimension 0 of input attention_mask is 1, not batch = 2, with batch = 2 \(batch is"),
        ((1, (2, 68), [ids, mask]), "seq is 68, outside of its range 1 to 61"),
    ]  # fmt: skip
    good = (2, (2, 5), [ids, mask])
    runs = [run for case, _ in wrong for run in (case, good)]
    found, said = shaped.run([program], library.path, runs, ["float32"] * 2, 1, tmp_path)
    assert len(said) == len(wrong) == len(found)
    for line, (_, told) in zip(said, wrong, strict=True):
        assert re.search(f"^{module.name}: {told}", line)
    wanted = module.run({"input_ids": ids, "attention_mask": mask})
    assert all(np.array_equal(g, w) for run in found for g, w in zip(run, wanted, strict=True))


def test_headers_of_both_kinds_go_into_one_program(mlp_library, sums, tmp_path):
    for library in (mlp_library, sums):
        shutil.copy(library.header, tmp_path)
    source = tmp_path / "both.c"
    for order in (
        '#include "mlp.h"\n#include "sums.h"\n',
        '#include "sums.h"\n#include "mlp.h"\n',
    ):
        source.write_text(
            f"{order}int main(void) {{ return tw_mlp_describe() == tw_sums_describe(); }}\n"
        )
        for command in (["cc", *FLAGS], ["c++", "-xc++"]):
            subprocess.run([*command, "-fsyntax-only", source], check=True, timeout=600)


def test_contexts_in_threads_at_shapes_of_their_own(sums):
    library = tilework_runtime.load(sums.path, threads=2)

    def work(k):
        rng = np.random.default_rng(k)
        for _ in range(60):
            given = symbolic.inputs(int(rng.integers(0, 513)), int(rng.integers(1, 601)), k)
            found = library.run(*given)
            if not all(map(np.array_equal, found, symbolic.expected(*given))):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(6)))


def test_a_batch_of_none(tmp_path):
    """Kernels are compiled from 1 on; a run of 0 computes nothing, between others."""
    model = symbolic_models.decoder(1, past=True)
    net = tw.from_onnx(model, {**DECODER, "batch": "0..3:1"})
    assert next(s for s in net.symbols if s.name == "batch").or_none
    module = tw.compile(net, "llvm -mcpu=native -num-cores=1")
    library = tilework_runtime.load(tw.write_library(module, tmp_path / "decoder.so").path)

    def fed(batch):
        at = {s: {"batch": batch, "seq": 2, "past": 3}[s.name] for s in module.symbols}
        return {v.name: np.ones(shape_at(v.shape, at), v.dtype) for v in module.image.inputs}

    for batch in (0, 2, 0, 1):
        found, wanted = library.run(fed(batch)), module.run(fed(batch))
        assert [(y.shape, y.tobytes()) for y in found] == [(y.shape, y.tobytes()) for y in wanted]
    with pytest.raises(tilework_runtime.LibraryError, match=r"batch is 4, .* range 1 to 3, or 0"):
        library.run(fed(4))


def test_what_the_runtime_says_of_shapes(sums):
    library = tilework_runtime.load(sums.path)
    assert [str(v) for v in library.inputs.values()] == [
        "x float32[seq, 8]", "y float32[past, 8]", "z float32[past + seq, 8]",
    ]  # fmt: skip
    assert [(s.name, s.low, s.high) for s in library.symbols] == [
        ("past", 0, 512),
        ("seq", 1, 600),
    ]
    with pytest.raises(tilework_runtime.LibraryError, match=r"expected float32\[seq, 8\], got"):
        library.run(*(np.zeros((2, 9), np.float32) for _ in range(3)))
    with pytest.raises(tilework_runtime.LibraryError, match="a run decides the shape of x"):
        library.bind()
    given = dict(zip(library.inputs, symbolic.inputs(3, 4), strict=True))
    call = library.bind(given)
    library.run(*symbolic.inputs(100, 50))
    assert all(map(np.array_equal, call(), symbolic.expected(*given.values())))
    context = library._new_context()
    with pytest.raises(tilework_runtime.LibraryError, match="nothing says the shapes: call set_"):
        context.run((ctypes.c_void_p * 3)(), (ctypes.c_void_p * 2)())


def test_places_are_those_of_python(tmp_path, monkeypatch):
    """At random sizes, many of them equal or nothing."""
    sources = tmp_path / "sources"
    shutil.copytree(build.SOURCES, sources)
    with (sources / "shapes.c").open("a") as file:
        file.write(
            "EXPORT int64_t places(const int64_t *sizes, int64_t *begins) {\n"
            "  static sized order[1000];\n  static span spans[1000];\n"
            "  return place_values(&codes[0], sizes, begins, order, spans);\n}\n"
        )
    monkeypatch.setattr(build, "SOURCES", sources)
    net = tw.from_onnx(symbolic_models.encoder(2), shaped.RANGES)
    module = tw.compile(net, "llvm -mcpu=native -num-cores=1")
    lifetimes = module.image.lifetimes
    library = tw.write_library(module, tmp_path / "places.so")
    places = ctypes.CDLL(str(library.path)).places
    places.restype = ctypes.c_int64
    rng = np.random.default_rng(2)
    assert len(lifetimes) > 15
    for most in (3, 200, 5000, 1 << 33):
        for _ in range(50):
            sizes = rng.integers(0, most, len(lifetimes))
            begins = np.zeros_like(sizes)
            pointers = (ctypes.c_void_p(a.ctypes.data) for a in (sizes, begins))
            arena = places(*pointers)
            assert (begins.tolist(), arena) == Arena(lifetimes).place(sizes.tolist())


def test_a_reference_outside_its_block_is_refused(tmp_path, monkeypatch):
    image = symbolic.image()
    places = (*image.places[:3], Place(2, 100 * 32), image.places[4])
    monkeypatch.setattr(build, "try_level", lambda *_: None)
    write_library(symbolic.module(places=places), tmp_path / "odd.so")
    library = tilework_runtime.load(tmp_path / "odd.so")
    with pytest.raises(
        tilework_runtime.LibraryError,
        match="it cannot run at past = 3, seq = 4: a reference leaves its block",
    ):
        library.run(*symbolic.inputs(3, 4))


def test_a_past_that_grows_in_place(decoder):
    library, other = decoder
    rng = np.random.default_rng(0)
    past = library.new_past(batch=2)
    empty = np.zeros((2, symbolic_models.HEADS, 0, symbolic_models.HEAD), np.float32)
    kept = {"past_0": empty, "past_1": empty}
    for n in (3, 1, 1, 5, 1, 1):
        ids = rng.integers(0, symbolic_models.WORDS, (2, n))
        fed = {"input_ids": ids, "mask": np.ones((2, past.length + n), np.int64)}
        copied = library.run({**fed, **{k: v.copy() for k, v in past.arrays().items()}})
        found = library.run(fed, past=past)
        wanted = other.run(None, {**fed, **kept})
        for got, copy, right in zip(found, copied, wanted, strict=True):
            assert np.array_equal(got, copy)
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)
        kept = dict(zip(kept, wanted[1:], strict=True))
    assert past.length == 12 and np.shares_memory(found[1], past.arrays()["past_0"])
    past.rewind(4)
    assert past.arrays()["past_1"].shape[2] == 4
    past.length = 41
    fed["mask"] = np.ones((2, 42), np.int64)
    with pytest.raises(tilework_runtime.LibraryError, match=r"past is 41, .* its range 0 to 40"):
        library.run(fed, past=past)


class Tensor(ctypes.Structure):
    """`tw_tensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    )  # fmt: skip


def ffi_run(path, arrays):
    """What tvm-ffi calls, with pointers to tensors: 0, or another number after an error."""
    run = ctypes.CDLL(str(path))["__tvm_ffi_run"]
    words, keep = [], []
    for a in arrays:
        numbers = np.array([a.shape, [s // a.itemsize for s in a.strides]], np.int64)
        code, at = 2 if a.dtype.kind == "f" else 0, numbers.ctypes.data
        device = (ctypes.c_int32 * 2)(1, 0)
        t = Tensor(a.ctypes.data, device, a.ndim, code, 8 * a.itemsize, 1, at, at + 8 * a.ndim, 0)
        keep += [numbers, t]
        words += [7, ctypes.addressof(t)]
    given, result = (ctypes.c_uint64 * len(words))(*words), (ctypes.c_uint64 * 2)()
    return run(None, given, ctypes.c_int32(len(arrays)), result)


def test_the_convention_of_tvm_ffi(sums, decoder):
    for past, seq in ((0, 1), (3, 9), (512, 600), (3, 9)):
        given = symbolic.inputs(past, seq)
        wanted = symbolic.expected(*given)
        found = [np.zeros_like(w) for w in wanted]
        assert not ffi_run(sums.path, [*given, *found])
        assert all(map(np.array_equal, found, wanted))
        assert ffi_run(sums.path, [*given, found[0], found[1][:-1]])
    library, _ = decoder
    place, mine, theirs = library._handle.path, library.new_past(), library.new_past()
    for n in (3, 1, 2):
        ids = np.full((1, n), 7)
        fed = {"input_ids": ids, "mask": np.ones((1, mine.length + n), np.int64)}
        pasts = list(theirs.arrays().values())
        logits, *_ = library.run(fed, past=mine)
        theirs.length += n
        presents = list(theirs.arrays().values())
        found = np.zeros_like(logits)
        assert not ffi_run(place, [*fed.values(), *pasts, found, *presents])
        assert np.array_equal(found, logits)
    dense = [p.copy() for p in pasts]
    assert ffi_run(place, [*fed.values(), *dense, found, *presents])  # no room


def test_levels(tmp_path):
    image = symbolic.image()
    other = replace(image, target="llvm -mcpu=other -num-cores=1")
    library = write_library([Module(image), Module(other)], tmp_path / "net.so")
    assert len(library.levels) == 2 and all(level.checked for level in library.levels)
    wider = replace(other, symbols=(*image.symbols[:1], Symbol("seq", 1, 601, (16,))))
    with pytest.raises(ModuleError, match="their symbols differ"):
        in_order([image, wider])


def test_names_that_headers_have(tmp_path):
    with pytest.raises(ModuleError, match="'room' cannot be a library's name: tw_room is a type"):
        write_library(symbolic.module(), tmp_path / "room.so")
