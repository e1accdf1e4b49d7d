"""Bests follow the rounds, are exact, and are read from what is new only."""

from datetime import timedelta

import pytest

from storage.bests import KIND, Bests
from storage.documents import Documents
from storage.maintenance import distill as distilling
from storage.maintenance.compact import compact
from storage.maintenance.distill import distill
from storage.maintenance.holdings import look
from storage.names import RoundName, key_part
from tilework.record import Purpose, best_of

TARGET = "llvm -mcpu=x -num-cores=2"


@pytest.fixture
def bests(folder):
    return Bests(Documents(folder.place, KIND))


@pytest.fixture
def night(folder, make_round):
    """night(n) -> writes rounds of three workloads, the last of each one finals; their names."""

    def write(number):
        names = []
        for i in range(6):
            final = {"purpose": Purpose.final} if i >= 3 else {}
            rows = make_round(
                round=10 * number + i, workload_key=f"w{i % 3}", latency_s=1e-3 / (number + i + 1)
            )
            rows = [
                type(r)(**{**vars(r), **final, "latency_s": r.latency_s * (1 + j)})
                for j, r in enumerate(rows)
            ]
            names.append(folder.write(rows))
        return names

    return write


def check(folder, bests, keys=("w0", "w1", "w2")):
    """What is kept must say the same as all records."""
    rounds = set(look(folder.place).rounds)
    for found in look(folder.place).compacts.values():
        rounds |= found.rounds
    for key in keys:
        mine = [r for r in folder.records() if r.workload_key == key]
        mine.sort(key=lambda r: (r.created_at, r.run_id, r.round, r.record_id))
        found = bests.of(key, TARGET)
        assert best_of(found.records) == best_of(mine)
        assert found.covers <= rounds
    return {key: bests.of(key, TARGET).covers for key in keys}


def test_bests_of_rounds(folder, bests, night):
    names = night(0)
    assert bests.of("w0", TARGET) is None
    done = distill(folder.place)
    assert (done.keys, done.rows, done.left) == (3, 18, {})
    covers = check(folder, bests)
    assert covers["w0"] == {names[0], names[3]}
    assert distill(folder.place).keys == 0, "nothing is new"


def test_only_what_is_new_is_read(folder, bests, night):
    night(0)
    distill(folder.place)
    night(1)
    done = distill(folder.place)
    assert (done.keys, done.rows) == (3, 18)
    check(folder, bests)


def test_a_compaction_makes_nothing_new(folder, bests, night):
    night(0)
    distill(folder.place)
    compact(folder.place, least=1)
    assert len(folder.files()) == 1
    assert distill(folder.place).keys == 0
    check(folder, bests)
    night(1)
    compact(folder.place, least=1)
    done = distill(folder.place)
    assert (done.keys, done.rows) == (3, 18), "only the second compacted file was read"
    check(folder, bests)


def test_some_keys_only(folder, bests, night):
    night(0)
    done = distill(folder.place, [("w1", TARGET), ("nothing", TARGET)])
    assert done.keys == 1
    assert bests.of("w1", TARGET) is not None
    assert bests.of("w0", TARGET) is None
    compact(folder.place, least=1)
    assert distill(folder.place, [("w2", TARGET)]).keys == 1
    check(folder, bests, ["w1", "w2"])
    assert distill(folder.place).keys == 1


def test_what_is_gone_is_not_kept(folder, bests, night):
    names = night(0)
    distill(folder.place)
    before = bests.of("w0", TARGET)
    (folder.path / names[3]).unlink()  # the finals of w0
    distill(folder.place)
    after = check(folder, bests)
    assert after["w0"] == {names[0]}
    assert best_of(before.records) != best_of(bests.of("w0", TARGET).records)


def test_a_key_that_is_gone_leaves_the_documents(folder, bests, night, monkeypatch):
    for module in ("storage.bests", "storage.maintenance.distill"):
        monkeypatch.setattr(f"{module}.shard_of", lambda name: "00")  # one document for all
    night(0)
    distill(folder.place)
    for name in folder.files():
        if RoundName.parse(name).key == key_part("w0", TARGET):
            (folder.path / name).unlink()
    for name in night(1):
        if RoundName.parse(name).key == key_part("w0", TARGET):
            (folder.path / name).unlink()
    distill(folder.place)
    assert bests.of("w0", TARGET) is None
    check(folder, bests, ["w1", "w2"])


def test_a_damaged_round_is_not_covered(folder, bests, night, damage):
    names = night(0)
    damage(folder.path / names[3])
    done = distill(folder.place)
    assert list(done.left) == [names[3]]
    assert bests.of("w0", TARGET).covers == {names[0]}


def test_a_damaged_compacted_file_is_left_alone(folder, bests, night, damage):
    night(0)
    compact(folder.place, least=1)
    (bad,) = folder.files()
    names = night(1)
    damage(folder.path / bad)
    done = distill(folder.place)
    assert list(done.left) == [bad]
    assert bests.of("w0", TARGET).covers == {names[0], names[3]}
    assert distill(folder.place, [("w0", TARGET)]).keys == 0


def test_a_round_compacted_while_it_is_looked_for(folder, bests, night, monkeypatch):
    """The listing is old: rounds in it have become a compacted file."""
    night(0)
    stale = look(folder.place)
    compact(folder.place, least=1)
    looks = iter([stale])
    monkeypatch.setattr(distilling, "look", lambda place: next(looks, None) or look(place))
    distill(folder.place)
    for key in ("w0", "w1", "w2"):
        found = bests.of(key, TARGET)
        assert found is None or not found.covers, "what was not read is not covered"
    distill(folder.place)
    check(folder, bests)


def test_a_merged_file_that_vanishes_is_looked_for_again(folder, bests, night, monkeypatch):
    night(0)
    compact(folder.place, least=1)
    stale = look(folder.place)
    night(1)
    for _ in range(4):  # until the first is merged away
        compact(folder.place, least=1)
        night(_ + 2)
    compact(folder.place, least=1)
    looks = iter([stale])
    monkeypatch.setattr(distilling, "look", lambda place: next(looks, None) or look(place))
    distill(folder.place)
    check(folder, bests)


def test_a_final_between_what_is_kept_and_what_is_new(folder, bests, make_record):
    start = make_record().created_at

    def at(second, latency, **more):
        return make_record(
            record_id=f"r{second}", round=second, created_at=start + timedelta(seconds=second),
            latency_s=latency, **more)  # fmt: skip

    for row in (at(1, 1e-3), at(2, 5e-3), at(5, 3e-3), at(6, 4e-3)):
        folder.write([row])
    distill(folder.place)
    folder.write([at(4, 9e-3, purpose=Purpose.final)])
    distill(folder.place)
    assert best_of(bests.of("conv", TARGET).records).record_id == "r5"
