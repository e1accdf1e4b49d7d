"""What a flow tells its server: kept in order, kept on disk, never waited for, never lost."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.shell.backlog import send_backlog
from flows.shell.breaker import Breaker
from flows.shell.items import GROUP, Item, groups
from flows.shell.journal import CHUNK, Journal
from flows.shell.lacking import LINES, PAGE, lacks
from flows.shell.publisher import Publisher
from flows.shell.sender import Sender, Unreachable

pytestmark = pytest.mark.filterwarnings("ignore")


class Server:
    """Stands for a server and the way to it."""

    def __init__(self):
        self.away = False
        self.got = []
        self.asked = threading.Semaphore(0)
        self.free = threading.Event()
        self.free.set()

    def alive(self):
        self.asked.release()
        return not self.away

    def send(self, group):
        self.asked.release()
        self.free.wait()
        if self.away:
            raise Unreachable("away")
        self.got += group

    def send_again(self, group):
        self.send(group)

    def close(self):
        pass

    def bodies(self, kind="log"):
        return [item.body["n"] for item in self.got if item.kind == kind]


def log(n):
    return Item("log", {"n": n})


def event(n):
    return Item("event", {"n": n})


def page(n, key="a"):
    return Item("page", {"flow_run_id": "r", "key": key, "n": n})


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def publish(server, tmp_path):
    made = []

    def make(**more):
        quick = Breaker(first_s=0.001, longest_s=0.01)
        made.append(Publisher(tmp_path, server, breaker=quick, linger_s=0.001, **more))
        return made[-1]

    yield make
    server.free.set()
    for publisher in made:
        publisher.close()


# --- the parts -------------------------------------------------------------------------------


@given(st.lists(st.booleans(), max_size=40))
def test_a_breaker_waits_longer_each_time_and_forgets_on_success(answers):
    now = [100.0]
    breaker = Breaker(first_s=1.0, longest_s=8.0, clock=lambda: now[0])
    expected = 0.0
    for answered in answers:
        if answered:
            breaker.succeeded()
            expected = 0.0
        else:
            breaker.failed()
            expected = min(8.0, max(1.0, 2 * expected))
        assert breaker.closed == answered
        assert breaker.due_s == expected
        now[0] += expected
        assert breaker.due_s == 0.0


TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["log", "event", "run", "page", "coming", "state"])


@settings(deadline=None)
@given(KINDS, st.dictionaries(TEXT, JSON, max_size=4), st.data())
def test_an_item_survives_as_one_line(kind, body, data):
    line = Item(kind, body).line()
    assert "\n" not in line
    assert Item.of_line(line) == Item(kind, body)
    cut = data.draw(st.integers(0, len(line) - 1))
    assert Item.of_line(line[:cut]) is None


@given(st.lists(KINDS, max_size=30))
def test_groups_keep_all_in_order_but_pages_that_were_replaced(kinds):
    items = [Item(kind, {"n": n, "flow_run_id": "r", "key": "k"}) for n, kind in enumerate(kinds)]
    sent = [item for group in groups(items) for item in group]
    for kind in ("log", "event", "run", "state"):
        assert [i for i in sent if i.kind == kind] == [i for i in items if i.kind == kind]
    assert [i for i in sent if i.kind == "page"] == [i for i in items if i.kind == "page"][-1:]
    if "state" in kinds:
        assert sent[-1].kind == "state"
    assert all(len({i.kind for i in group}) == 1 for group in groups(items))


def test_a_group_is_one_request_of_bounded_size():
    assert [len(group) for group in groups([log(n) for n in range(GROUP + 1)])] == [GROUP, 1]


def test_a_journal_is_read_back_in_order_and_emptied(tmp_path):
    journal = Journal.new(tmp_path)
    assert list(journal.chunks()) == []
    assert Journal.paths(tmp_path) == []  # nothing to keep, no file
    items = [log(n) for n in range(CHUNK + 10)]
    journal.append(items[:5])
    journal.append(items[5:])
    assert [item for chunk in journal.chunks() for item in chunk] == items
    journal.clear()
    assert list(journal.chunks()) == []
    journal.close()
    assert Journal.paths(tmp_path) == []


def test_what_is_late_for_a_heartbeat_is_not_kept(tmp_path):
    journal = Journal.new(tmp_path)
    journal.append([Item("event", {}, fleeting=True)])
    assert Journal.paths(tmp_path) == []


def test_a_journal_cut_off_in_the_middle_of_a_line_keeps_what_was_whole(tmp_path):
    journal = Journal.new(tmp_path)
    journal.append([log(1), log(2)])
    journal.close()
    (path,) = Journal.paths(tmp_path)
    path.write_bytes(path.read_bytes()[:-4])
    left = Journal.left_behind(path)
    assert list(left.chunks()) == [[log(1)]]
    left.close()


def test_a_journal_that_was_sent_in_part_goes_on_from_there(tmp_path, server):
    journal = Journal.new(tmp_path)
    journal.append([log(n) for n in range(2 * CHUNK)])
    reading = journal.chunks()
    assert len(next(reading)) == CHUNK
    next(reading)  # the first chunk is done with; the process dies now
    journal.close()
    assert send_backlog(tmp_path, server) == CHUNK
    assert server.bodies() == list(range(CHUNK, 2 * CHUNK))
    assert list(tmp_path.iterdir()) == []


def test_a_journal_of_a_living_process_is_left_alone(tmp_path, server):
    journal = Journal.new(tmp_path)
    journal.append([log(1)])
    assert send_backlog(tmp_path, server) == 0
    assert server.got == []
    journal.close()
    assert send_backlog(tmp_path, server) == 1


# --- the publisher ---------------------------------------------------------------------------


def test_all_is_sent_in_order(publish, server):
    publisher = publish()
    for n in range(50):
        publisher.put(log(n))
    assert publisher.flush(10)
    assert server.bodies() == list(range(50))


def test_nothing_waits_for_a_server_that_does_not_answer(publish, server):
    publisher = publish()
    server.free.clear()  # a request hangs
    for n in range(50):
        publisher.put(log(n))  # returns all the same
    server.free.set()
    assert publisher.flush(10)
    assert server.bodies() == list(range(50))


def test_what_a_server_misses_is_on_disk_and_sent_when_it_is_back(publish, server, tmp_path):
    said = []
    publisher = publish(tell=said.append)
    server.away = True
    for n in range(20):
        publisher.put(log(n))
    assert publisher.flush(10) and publisher.away
    kept = Journal.paths(tmp_path)[0].read_text()
    assert all(log(n).line() in kept for n in range(20))
    server.away = False
    publisher.put(log(20))
    publisher.close()
    assert sorted(server.bodies()) == list(range(21))
    assert list(tmp_path.iterdir()) == []
    assert "does not answer" in said[0] and "is back" in said[1] and len(said) == 2


def test_events_that_a_killed_server_may_have_lost_are_sent_again(publish, server):
    publisher = publish()
    publisher.put(event(1))
    assert publisher.flush(10)
    server.away, server.got = True, []  # it held them in memory
    publisher.put(event(2))
    assert publisher.flush(10)
    server.away = False
    publisher.put(log(0))
    publisher.close()
    assert sorted(server.bodies("event")) == [1, 2]


def test_a_server_that_goes_away_unseen_is_noticed(publish, server, monkeypatch):
    monkeypatch.setattr("flows.shell.publisher.WATCH_S", 0.001)
    publisher = publish()
    publisher.put(event(1))
    assert publisher.flush(10)
    server.away, server.got = True, []
    while not publisher.away:  # nothing is sent meanwhile
        server.asked.acquire(timeout=10)
    server.away = False
    while publisher.away:
        server.asked.acquire(timeout=10)
    publisher.close()
    assert server.bodies("event") == [1]


def test_the_end_of_a_process_keeps_what_is_left_for_the_next(publish, server, tmp_path):
    first = publish()
    server.away = True
    first.put(log(1))
    first.put(page(1))
    first.put(page(2))
    first.put(Item("state", {"n": 3}))
    first.close()
    first.put(log(9))  # too late, and no error
    assert server.got == []
    server.away = False
    second = publish()
    second.put(log(4))
    assert second.flush(10)
    assert [item.body["n"] for item in server.got] == [1, 2, 3, 4]
    assert Journal.paths(tmp_path) == []


def test_a_full_disk_costs_nothing_while_there_is_memory(publish, server, monkeypatch):
    full = threading.Event()
    full.set()
    append = Journal.append

    def failing(journal, items):
        if full.is_set():
            raise OSError(28, "No space left on device")
        append(journal, items)

    monkeypatch.setattr(Journal, "append", failing)
    monkeypatch.setattr("flows.shell.publisher.time.sleep", lambda s: None)
    said = []
    publisher = publish(tell=said.append)
    server.away = True
    publisher.put(log(1))
    while not any("No space left" in line for line in said):
        server.asked.acquire(timeout=1)
    publisher.put(log(2))
    full.clear()
    server.away = False
    publisher.close()
    assert set(server.bodies()) == {1, 2}


def test_one_strange_item_does_not_end_all_publishing(publish, server):
    said = []
    publisher = publish(tell=said.append)
    publisher.put(Item("page", {}))  # without a key
    assert publisher.flush(10)
    publisher.put(log(1))
    assert publisher.flush(10)
    assert server.bodies() == [1]
    assert "cannot be published" in said[0]


def test_an_item_that_the_server_refuses_does_not_take_others_with_it(monkeypatch):
    from flows.shell import sender as module

    taken = []

    def ask(self, method, path, body=None):
        if {"n": 1} in body:
            raise module._Refused("HTTP 422")
        taken.extend(body)

    monkeypatch.setattr(Sender, "_ask", ask)
    sender = Sender()
    sender.send([log(n) for n in range(3)])
    assert taken == [{"n": 0}, {"n": 2}]
    assert sender.refused == 1


# --- what is sent again ----------------------------------------------------------------------


class Answer:
    def __init__(self, found):
        self.json = lambda: found


def _change(n, second):
    """A task run's change of state; its event has the number ``n``."""
    return Item(
        "event",
        {
            "id": f"e{n}",
            "resource": {"prefect.resource.id": f"prefect.task-run.t{n}"},
            "occurred": f"2026-11-22T10:00:{second:02d}.5Z",
        },
    )


def _says(n):
    return Item("event", {"id": f"e{n}", "resource": {"prefect.resource.id": "x"}, "occurred": ""})


@settings(deadline=None)
@given(st.data(), st.integers(1, 3 * PAGE))
def test_of_events_only_what_a_server_lacks_is_sent_again(data, count):
    made = st.integers(0, 58).map(lambda second: ("change", second)) | st.just(("says", 0))
    kinds = data.draw(st.lists(made, min_size=count, max_size=count))
    items = [
        _change(n, second) if kind == "change" else _says(n)
        for n, (kind, second) in enumerate(kinds)
    ]
    known = {n for n in range(count) if data.draw(st.booleans())}
    heeded = {n for n in known if data.draw(st.booleans())}

    def ask(method, path, body):
        if path == "/events/filter":
            asked = body["filter"]["id"]["id"]
            assert len(asked) <= PAGE
            return Answer({"events": [{"id": e} for e in asked if int(e[1:]) in known]})
        asked = [int(t[1:]) for t in body["task_runs"]["id"]["any_"]]
        later = {n: kinds[n][1] + (0 if n in heeded else -1) for n in asked}
        return Answer(
            [
                {"id": f"t{n}", "state": {"timestamp": f"2026-11-22T10:00:{second:02d}.500000Z"}}
                for n, second in later.items()
                if second >= 0
            ]
        )

    again = lacks(ask, items)
    assert [i for i in again if i in items] == [
        item for n, item in enumerate(items) if n not in known
    ]
    renewed = [i.body for i in again if i not in items]
    assert [body["resource"]["prefect.resource.id"] for body in renewed] == [
        f"prefect.task-run.t{n}"
        for n in range(count)
        if n in known - heeded and kinds[n][0] == "change"
    ]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 59), st.sampled_from("ab")), min_size=1), st.data())
def test_of_lines_only_what_a_server_lacks_is_sent_again(made, data):
    items = [
        Item(
            "log",
            {"flow_run_id": "r", "timestamp": f"2026-11-22T10:00:{s:02d}Z", "message": text},
        )
        for s, text in made
    ]
    known = [item for item in items if data.draw(st.booleans())]
    rest = [{"flow_run_id": "r", "timestamp": "2026-11-22T09:00:00Z", "message": "b"}] * LINES

    def ask(method, path, body):
        held = [*rest, *(item.body for item in known)]  # a server may hold more than is asked for
        return Answer(held[body["offset"] : body["offset"] + body["limit"]])

    assert lacks(ask, items) == [item for item in items if item not in known]


# --- the log ---------------------------------------------------------------------------------


def test_an_error_meant_for_people_is_a_line_without_a_traceback():
    import logging
    import sys

    from flows.shell.redirect import _without_traceback
    from tilework.errors import StoreError

    def logged(error):
        try:
            raise error
        except Exception:
            return logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), sys.exc_info())

    ours, theirs = logged(StoreError("no store")), logged(KeyError("a bug"))
    assert _without_traceback(ours) and _without_traceback(theirs)
    assert ours.exc_info is None
    assert isinstance(theirs.exc_info[1], KeyError)
