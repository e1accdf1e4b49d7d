"""An extension that is killed and started again ends where it would have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storage import RecordStore
from tasks import goals


class Log(dict):
    """A store's documents, in memory."""

    def documents(self, kind):
        assert kind == goals.KIND
        return self

    def read(self, name):
        return self.get(name)

    def keep(self, name, content):
        self[name] = content.encode()


@given(
    start=st.integers(0, 10_000),
    steps=st.lists(st.integers(0, 400), max_size=5),
    again=st.integers(1, 3),
)
def test_an_extension_begins_once_however_often_it_is_started(start, steps, again):
    log, spent = Log(), start
    for _ in range(again):
        began = spent
        for step in [0, *steps]:  # each start finds what the ones before have spent
            spent += step
            assert goals.began(log, "run", spent, spent / 2) == (began, began / 2)
        goals.done(log, "run")
        goals.done(log, "run")


def test_runs_have_goals_of_their_own_and_one_without_needs_none():
    log = Log()
    goals.done(log, "other")
    assert not log
    assert goals.began(log, "one", 5, 1.0) == (5, 1.0)
    assert goals.began(log, "two", 7, 2.0) == (7, 2.0)


def test_the_store_keeps_goals_out_of_its_readers_sight(tmp_path):
    store = RecordStore(tmp_path / "records")
    goals.began(store, "run", 256, 60.5)
    again = RecordStore(tmp_path / "records")
    assert goals.began(again, "run", 400, 99.0) == (256, 60.5)
    assert again.read() == []
