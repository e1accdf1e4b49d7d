"""The registry of models: immutable, named by content, with a log of champions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from storage import RecordStore
from storage.cards import BY_HAND, Card, Judged, ModelError, Taught, champions, name_of, serves
from storage.files import Location
from storage.maintenance.check import check
from storage.maintenance.merge import merge
from storage.maintenance.repair import repair
from tilework.record import MemoryHistory, ModelLog

START = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = "llvm -mcpu=x -num-cores=2"


def card(number: int = 0, **changes) -> Card:
    return replace(
        Card("llvm", START + timedelta(days=number), "0.2", "abc", 6, f"xgb-{number}"), **changes
    )


def kept(store: RecordStore, number: int, **changes) -> str:
    return store.models.keep(card(number, **changes), f'{{"model": {number}}}')


@pytest.fixture
def store(tmp_path):
    return RecordStore(tmp_path / "records")


def test_a_model_is_kept_with_its_card_and_what_it_has_seen(store, make_round):
    store.append(make_round())
    told = Judged(TARGET, 9, {"draft": (0.8, 0.9)}, (0.01, 0.04, 0.07), (), "better", True)
    full = card(
        parent="llvm-000000000000", stores=("records",), promoted=True,
        taught=(Taught(TARGET, "d", 9, 90),), judged=(told,), serves=(TARGET,),
        parameters={"trees": 3, "fitted": {TARGET: {"ports": 1.5}}}, reason="it is better",
    )  # fmt: skip
    seen = np.array([7, 3, 2**63], np.uint64)
    name = store.models.keep(full, "{}", seen)
    assert name == name_of("llvm", "{}") and name.startswith("llvm-")
    again = RecordStore(store.path).models
    assert again.card(name) == full and again.document(name) == "{}"
    assert again.cards() == [(name, full)] and again.problems == []
    np.testing.assert_array_equal(again.seen(name), np.sort(seen))
    assert len(again.seen("llvm-000000000000")) == 0
    assert again.keep(replace(full, reason="another word"), "{}") == name
    assert again.card(name) == full  # the first card stays
    assert len(pd.read_parquet(store.path)) == 3


def test_a_champion_is_what_was_promoted_last_and_rollback_goes_back(store):
    assert isinstance(store, ModelLog) and isinstance(MemoryHistory(), ModelLog)
    models = store.models
    first, second, third = (kept(store, n, anywhere=True) for n in range(3))
    assert models.champion_name("llvm") == "" and store.champion("llvm") is None
    for name in (first, second, third):
        models.promote(name, by="test", reason="a\nreason")
    assert store.champion("llvm") == '{"model": 2}' and store.champion("cuda") is None
    with pytest.raises(ModelError, match="is the champion already"):
        models.promote(third, by="test")
    assert models.rollback("llvm", by="me").name == second
    assert models.rollback("llvm", by="me").name == first
    models.promote(third, by="test")
    assert models.rollback("llvm", by="me").name == first
    assert models.rollback("llvm", by="me").name == "" and store.champion("llvm") is None
    with pytest.raises(ModelError, match="none to take back"):
        models.rollback("llvm", by="me")
    moves = RecordStore(store.path).models.moves.of("llvm")
    assert [m.number for m in moves] == list(range(1, 9)) and moves[0].reason == "a reason"
    assert [m.before for m in moves] == ["", *(m.name for m in moves[:-1])]


def test_two_promotions_at_once_are_both_kept_and_all_agree_on_the_last(store, monkeypatch):
    first, second = kept(store, 0, anywhere=True), kept(store, 1, anywhere=True)
    one, other = RecordStore(store.path).models, RecordStore(store.path).models
    monkeypatch.setattr(one.moves, "of", lambda kind: [])  # it listed before the other wrote
    other.promote(first, by="other")
    one.promote(second, by="one")
    moves = RecordStore(store.path).models.moves.of("llvm")
    assert [m.number for m in moves] == [1, 1] and moves[0].at <= moves[1].at
    assert store.models.champion_name("llvm") == moves[-1].name == second
    assert champions(moves) == [first, second]


def test_a_champion_serves_the_targets_that_it_was_shown_to_help(store):
    name = kept(store, 0, serves=(TARGET,))
    store.models.promote(name, by="test")
    assert store.champion("llvm", TARGET) and store.champion("llvm")
    assert store.champion("llvm", "llvm -mcpu=other") is None
    general = kept(store, 1, anywhere=True)
    store.models.promote(general, by="test")
    assert store.champion("llvm", "llvm -mcpu=other") == '{"model": 1}'


def test_a_model_promoted_by_hand_serves_whatever_it_was_judged_to_be(store):
    first, second = kept(store, 0), kept(store, 1, serves=(TARGET,))
    store.models.promote(first, by=f"somebody, {BY_HAND}")
    assert store.champion("llvm", TARGET) == '{"model": 0}'
    store.models.promote(second, by="retrain")
    assert store.champion("llvm", "llvm -mcpu=other") is None
    store.models.rollback("llvm", by="test")
    assert store.champion("llvm", TARGET) == '{"model": 0}'
    store.models.promote(second, by="retrain")
    store.models.promote(first, by="retrain")  # which may take back what a person said
    assert store.champion("llvm", TARGET) is None


def test_where_a_model_was_judged_and_is_not_better_it_does_not_serve():
    lost = Judged("lost", 9, passed=False)
    unsaid = Judged("unsaid", 2, passed=None)
    able = card(anywhere=True, serves=("won",), judged=(lost, unsaid))
    assert [serves(able, t) for t in ("won", "lost", "unsaid", "new")] == [True, False, True, True]


@pytest.mark.parametrize("folder", ["_models", "_cards"])
def test_a_damaged_champion_is_one_line_and_not_used(store, make_round, tmp_path, folder):
    store.append(make_round())
    name = kept(store, 0, anywhere=True)
    store.models.promote(name, by="test")
    (path,) = (tmp_path / "records" / folder).iterdir()
    path.write_bytes(path.read_bytes()[:300])
    reader = RecordStore(store.path)
    assert reader.champion("llvm", TARGET) is None
    (line,) = reader.problems
    assert name in line and "not used" in line
    damaged, champion = check(Location.of(store.path)).findings
    assert damaged.name == f"{folder}/{name}.parquet"
    assert "the champion of llvm cannot be used: `tilework model rollback llvm`" in str(champion)
    with pytest.raises(ModelError, match=name):
        reader.models.promote(name, by="test")
    assert repair(Location.of(store.path)).left == [str(champion)]
    (left,) = check(Location.of(store.path)).findings
    assert left == champion
    RecordStore(store.path).models.rollback("llvm", by="test")
    assert check(Location.of(store.path)).sound


def test_another_ones_content_is_not_taken_for_a_model(store, make_round):
    store.append(make_round())
    name = kept(store, 0, anywhere=True)
    store.documents("models").keep(name, '{"model": "swapped"}')
    with pytest.raises(ModelError, match="its content is another one's"):
        store.models.promote(name, by="test")
    (finding,) = check(Location.of(store.path)).findings
    assert name in str(finding) and "another one's" in str(finding)
    store.documents("cards").keep(name, '{"kind": "llvm"}')
    with pytest.raises(ModelError, match="cannot be read"):
        store.models.card(name)
    assert name in store.models.problems[0] and store.models.cards() == []


def test_what_is_no_move_is_passed_over(store):
    name = kept(store, 0, anywhere=True)
    store.models.promote(name, by="test")
    moves = store.documents("moves")
    for number, text in enumerate(("[]", "{", '{"name": 3}', '{"at": "never"}')):
        moves.keep(f"llvm-00000{number + 2}-0000000{number}", text)
    assert store.models.champion_name("llvm") == name


def test_models_that_lost_are_kept_up_to_a_number(store):
    names = [kept(store, n) for n in range(6)]
    store.models.promote(names[0], by="test")
    assert store.models.prune("llvm", most=2) == [names[3], names[2], names[1]]
    assert sorted(store.models.names("llvm")) == sorted([names[0], names[4], names[5]])
    with pytest.raises(ModelError, match="has been the champion"):
        store.models.remove(names[0])


def test_a_model_is_found_by_the_beginning_of_its_name(store):
    with pytest.raises(ModelError, match="there is no model 'x' nor any other"):
        store.models.find("x")
    with pytest.raises(ModelError, match="there is none"):
        store.models.find("champion")
    names = [kept(store, n) for n in range(3)]
    models = store.models
    assert models.find(names[1]) == names[1] == models.find(names[1][:9])
    assert models.find(names[1].removeprefix("llvm-")) == names[1]
    with pytest.raises(ModelError, match="write more of the name"):
        models.find("llvm-")
    models.promote(names[2], by="test")
    assert models.find("champion") == names[2]


def test_merging_adds_models_and_no_champion(store, make_round, tmp_path):
    store.append(make_round())
    name = kept(store, 0, anywhere=True)
    store.models.promote(name, by="test")
    other = RecordStore(tmp_path / "other")
    merge([Location.of(store.path)], Location.of(other.path))
    assert other.models.names() == [name] and other.champion("llvm") is None


def test_models_of_before_the_registry_are_left_alone(store):
    store.documents("models").keep("0123456789abcdef0123456789abcdef", "{}")
    assert store.models.names() == [] and store.models.problems == []
    assert store.champion("llvm") is None
