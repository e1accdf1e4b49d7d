"""Several work on one store, and any of them may be killed at any step."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from storage import RecordStore
from storage.files import Location
from storage.maintenance.check import check
from storage.maintenance.claim import Claimed
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.repair import repair
from storage.maintenance.vacuum import vacuum
from tilework.record import best_of

TARGET = "llvm -mcpu=x -num-cores=2"


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.fixture
def killed_at(monkeypatch):
    """killed_at(n, act) -> whether the act was ended before its n-th change of the filesystem."""

    def run(steps, act):
        left = [steps]

        def counted(real):
            def change(*args, **kwargs):
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return real(*args, **kwargs)

            return change

        with monkeypatch.context() as patch:
            for name in ("create", "write", "remove"):
                patch.setattr(Location, name, counted(getattr(Location, name)))
            try:
                act()
            except Killed:
                return True
        return False

    return run


@pytest.fixture
def filled(folder, make_round):
    """Rounds and three compacted files, with bests of a part of them."""
    for i in range(16):
        folder.write(make_round(round=i, workload_key=f"w{i % 3}"))
        if i in (3, 7, 11):
            compact(folder.place, least=1)
        if i == 9:
            distill(folder.place)
    return folder


def into_several(place):
    """Compacts into files of one key each."""
    compact(place, least=1, rows_a_file=3)


@pytest.mark.parametrize(
    "act",
    [lambda place: compact(place, least=1), into_several, distill, repair, vacuum],
    ids=["compact and merge", "into several", "distill", "repair", "vacuum"],
)
def test_killed_at_any_step(filled, killed_at, tmp_path, act):
    before = filled.records()
    whole = [r.record_id for r in before]
    for steps in range(60):
        copy = type(filled)(tmp_path / f"copy-{steps}")
        shutil.copytree(filled.path, copy.path)
        killed = killed_at(steps, lambda place=copy.place: act(place))
        store = RecordStore(copy.path)
        assert sorted(r.record_id for r in store.read()) == whole
        for key in ("w0", "w1", "w2"):
            found = store.of(key, TARGET)
            assert len(found) in (15, 18)
            assert store.best(key, TARGET) == best_of(found)
        compact(copy.place, least=1)
        assert copy.records() == before, "plain readers find each record once"
        assert check(copy.place).sound
        shutil.rmtree(copy.path)
        if not killed:
            break
    else:
        pytest.fail("more steps than expected")


def test_many_threads_on_one_store(folder, make_round):
    """Each does a fixed amount of work; readers must find what was written before they asked."""
    written = {f"w{i}": set() for i in range(4)}

    def append(writer):
        store = RecordStore(folder.path)
        for i in range(25):
            key = f"w{(i + writer) % 4}"
            rows = make_round(run_id=f"run{writer}", round=i, workload_key=key)
            store.append(rows)
            written[key] |= {r.record_id for r in rows}

    def read(_):
        store = RecordStore(folder.path)
        for i in range(40):
            key = f"w{i % 4}"
            expected = set(written[key])
            best, found = store.best(key, TARGET), [r.record_id for r in store.of(key, TARGET)]
            assert expected <= set(found)
            assert len(found) == len(set(found))
            assert best is None or best.record_id in found
        assert store.problems == []

    def tidy(_):
        for _ in range(8):
            try:
                compact(folder.place, least=2)
            except Claimed:
                continue
            distill(folder.place)

    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(append, i) for i in range(3)]
        jobs += [pool.submit(read, i) for i in range(3)] + [pool.submit(tidy, i) for i in range(2)]
        for job in jobs:
            job.result()
    compact(folder.place, least=1)
    assert {r.record_id for r in folder.records()} == set().union(*written.values())
    assert len(folder.records()) == 3 * 25 * 3
    assert check(folder.place).sound
