"""Networks of symbolic shapes: one module for every point, in memory that is laid out then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler import symbolic_plan as rows
from tests.model import second_rows
from tilework import Target, load_module
from tilework.compiler.assemble import _assemble
from tilework.compiler.kernels import Kernels, kernel_files
from tilework.deferred import Helpers
from tilework.errors import NetworkError
from tilework.graph.extract import task_of
from tilework.model.drafted import drafted
from tilework.runtime import Module

TARGETS = ("llvm -mcpu=native -num-cores=2", "reference -num-cores=1")
TWO_ROWS = "two rows"
ENDS = [(1, 1), (40, 67), (1, 67), (40, 1)]
POINTS = [*ENDS, (5, 7), (3, 16), (13, 17), (20, 33), (31, 32)]


def compiled(plan, target, cache=False):
    where = Target(target)
    kernels = Kernels(where, kernel_files(cache))
    with Helpers() as helpers:
        module = Module(_assemble(plan, where, None, kernels, helpers))
        kernels.keep()
    return module


@pytest.fixture(scope="module", params=[*TARGETS, TWO_ROWS])
def module(request):
    if request.param != TWO_ROWS:
        return compiled(rows.plan(), request.param)
    with second_rows.everywhere():
        module = compiled(rows.plan(), TARGETS[0])
        tasks = (task_of(rows.plan(), call, Target(TARGETS[0])) for call in rows.plan().calls)
        assert sum(drafted(task).small is not None for task in tasks) > 2
    return module


def close(got, wanted):
    for g, w in zip(got, wanted, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4 * np.abs(w).max())


@pytest.mark.parametrize("past, seq", POINTS)
def test_points(module, past, seq):
    given = rows.inputs(past, seq)
    close(module.run(*given), rows.expected(*given))


def test_random_points_in_a_poisoned_arena(module):
    """What runs at other shapes left in memory decides nothing."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        given = rows.inputs(int(rng.integers(1, 41)), int(rng.integers(1, 68)))
        first = module.run(*given)
        close(first, rows.expected(*given))
        for context in module._contexts.idle:
            context._arena[...] = 0xFF
        for a, b in zip(first, module.run(*given), strict=True):
            assert np.array_equal(a, b)


def test_threads_at_different_points(module):
    def work(k):
        given = rows.inputs(1 + 5 * k, 1 + 7 * k, k)
        close(module.run(*given), rows.expected(*given))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


def test_what_shares_memory(module):
    """Sizes that are equal at every point share it; a part of a whole lies inside."""
    image = module.image
    assert [s.name for s in image.steps] == ["h", "e", "s", "p", "c", "copy", "y", "z"]
    at = {s.name: [r for r in s.args if r.space != "symbol"] for s in image.steps}
    assert at["e"][0].at == at["e"][1].at  # in place
    whole, part = (image.places[at[n][-1].at] for n in ("copy", "c"))
    assert whole.lifetime == part.lifetime and whole.offset == 0
    assert str(part.offset) == "96*past"
    assert image.arena_bytes == 0 and len(image.lifetimes) < len(image.steps)


def test_the_places_of_a_point_are_those_of_a_static_module():
    symbolic = compiled(rows.plan(), TARGETS[1])
    static = compiled(rows.plan(20, 33), TARGETS[1])
    there = symbolic.image_at({"past": 20, "seq": 33})
    assert there.arena_bytes == static.image.arena_bytes
    for one, other in zip(there.steps, static.image.steps, strict=True):
        mine = [r for r in one.args if r.space == "arena"]
        theirs = [r for r in other.args if r.space == "arena"]
        assert [(r.at, r.nbytes) for r in mine] == [(r.at, r.nbytes) for r in theirs]


def test_operations_and_bytes_of_a_point():
    symbolic = compiled(rows.plan(), TARGETS[1])
    static = compiled(rows.plan(9, 31), TARGETS[1])
    there = symbolic.image_at({"past": 9, "seq": 31})
    for one, other in zip(there.steps, static.image.steps, strict=True):
        assert (one.operations, one.nbytes) == (other.operations, other.nbytes)
    assert len(symbolic.profile(repeat=1, at={"past": 9, "seq": 31})) == len(there.steps)


def test_a_symbol_that_no_input_tells_is_refused_before_anything_is_compiled():
    plan = rows.plan()
    values = {**plan.values, "past": rows.plan(7).values["past"]}
    with pytest.raises(NetworkError, match="the shapes of its inputs do not say what past is"):
        compiled(replace(plan, values=values), TARGETS[1])


def test_files_and_kept_kernels(tmp_path):
    target = TARGETS[0]
    first = compiled(rows.plan(), target, tmp_path / "cache")
    again = compiled(rows.plan(), target, tmp_path / "cache")
    assert again.image.steps == first.image.steps and again.image.code == first.image.code
    first.save(tmp_path / "rows.tw")
    given = rows.inputs(9, 31)
    close(load_module(tmp_path / "rows.tw").run(*given), rows.expected(*given))
    close(again.run(*given), rows.expected(*given))


def test_files_of_modules_whose_kernels_have_two_rows(tmp_path):
    with second_rows.everywhere():
        compiled(rows.plan(), TARGETS[0]).save(tmp_path / "rows.tw")
    for past, seq in POINTS:
        given = rows.inputs(past, seq)
        close(load_module(tmp_path / "rows.tw").run(*given), rows.expected(*given))
