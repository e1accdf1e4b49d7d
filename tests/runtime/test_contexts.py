"""Several Python threads run one module at once: weights and code are there once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tilework import compile as compile_network
from tilework import load_module
from tilework.kinds.cpu import executor
from tilework.runtime.arrays import aligned_copy


@pytest.fixture
def meeting(monkeypatch):
    """Runs wait for each other inside: they come back only if two are there at once."""
    both = threading.Barrier(2)
    run = executor.CpuContext.run

    def waiting(self, *given):
        both.wait(10)
        run(self, *given)

    monkeypatch.setattr(executor.CpuContext, "run", waiting)
    return both


@pytest.fixture
def loads(monkeypatch):
    """Every time that code is loaded."""
    found = []
    load = executor.CpuExecutor.load

    def counted(self, image):
        found.append(image)
        return load(self, image)

    monkeypatch.setattr(executor.CpuExecutor, "load", counted)
    return found


def test_two_threads_run_one_module_at_once(mlp, target, tmp_path, image, meeting, loads):
    path = tmp_path / "mlp.tw"
    compile_network(mlp, target, num_threads=1).save(path)
    module = load_module(path)
    images = [image, -image]
    with ThreadPoolExecutor(2) as pool:
        at_once = list(pool.map(module.run, images))
    assert len(loads) == 1
    meeting.reset()
    for given, (out,) in zip(images, at_once, strict=True):
        threading.Thread(target=meeting.wait).start()
        assert np.array_equal(module.run(given)[0], out)


def test_contexts_are_kept_for_later_runs(mlp, target, image):
    module = compile_network(mlp, target, num_threads=1)
    made = []
    for _ in range(3):
        module.run(image)
        made.append(module._contexts.idle[0])
    assert made[0] is made[1] is made[2] and len(module._contexts.idle) == 1


def test_bound_calls_of_one_thread_run_at_once(mlp, target, image, monkeypatch, loads):
    """Each has memory of its own; held up inside one, another goes on."""
    module = compile_network(mlp, target, num_threads=1)
    first, second = (module.bind({"data": aligned_copy(image * k)}) for k in (1, 2))
    with first._run.keep[0]._lock.now:  # as if a thread were within it
        worker = threading.Thread(target=second)
        worker.start()
        worker.join(10)
        assert not worker.is_alive()
    assert len(loads) == 1
    assert np.array_equal(first()[0], module.run(image)[0])
    assert np.array_equal(second.outputs[0], module.run(image * 2)[0])


def test_many_threads_and_many_results(mlp, target, image):
    module = compile_network(mlp, target)
    expected = [module.run(image * k)[0] for k in range(8)]

    def work(k):
        return all(np.array_equal(module.run(image * k)[0], expected[k]) for _ in range(20))

    for threads in (1, 2):
        module.set_threads(threads)
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))


def test_a_run_that_fails_gives_its_context_back(mlp, target, image, monkeypatch):
    module = compile_network(mlp, target, num_threads=1)

    def broken(self, *given):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(executor.CpuContext, "run", broken)
        with pytest.raises(MemoryError):
            module.run(image)
    assert len(module._contexts.idle) == 1 and module.run(image)


def test_too_little_memory_is_told(mlp_module, image, monkeypatch):
    import dataclasses

    from tilework.errors import ModuleError
    from tilework.runtime import Module

    module = Module(dataclasses.replace(mlp_module.image, arena_bytes=1 << 45))
    with pytest.raises(ModuleError, match=r"not enough memory.*intermediate values take"):
        module.run(image)
