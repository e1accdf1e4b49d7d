"""A store on an object store: a server of the S3 protocol in this process."""

from __future__ import annotations

import logging
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from storage import RecordStore
from storage.maintenance.compact import compact
from tilework.errors import StoreBusy, StoreError

TARGET = "llvm -mcpu=x -num-cores=2"
SECRETS = ("AKIAKEY", "S3cr", "tWord", "endpoint")


@pytest.fixture(scope="module")
def server():
    """The address of a server with a bucket."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made = ThreadedMotoServer(port=0, verbose=False)
    made.start()
    address = f"127.0.0.1:{made.get_host_and_port()[1]}"
    request = urllib.request.Request(f"http://{address}/bucket", method="PUT")
    urllib.request.urlopen(request).close()
    yield address
    made.stop()


def uri_at(address, path):
    query = f"scheme=http&region=us-east-1&endpoint_override={address.replace(':', '%3A')}"
    return f"s3://AKIAKEY:S3cr%2FtWord@{path}?{query}"


@pytest.fixture
def uri(server, request):
    """A store of its own for each test."""
    return uri_at(server, f"bucket/{request.node.name}/records")


def test_records_documents_and_questions(uri, make_round):
    store = RecordStore(uri)
    assert store.read() == [] and store.best("conv", TARGET) is None
    store.check_writable()
    store.append(make_round("a", 0))
    store.append(make_round("a", 0))
    store.append(make_round("b", 1, latency_s=1e-4))
    store.keep_workload("conv", "a dag")
    store.documents("goals").keep("a", "7")
    assert len(store.of("conv", TARGET)) == 6
    other = RecordStore(uri, must_exist=True)
    assert len(other.read()) == 6 and other.best("conv", TARGET).run_id == "b"
    assert other.workload("conv") == "a dag" and other.documents("goals").read("a") == b"7"
    assert other.has_round("a", 0) and not other.has_round("b", 0)
    assert other.keys() == [(TARGET, "conv")] and other.problems == []


def test_a_missing_store_is_an_error_where_it_is_only_read(uri, server):
    for missing in (uri, uri_at(server, "nothing/records")):
        with pytest.raises(StoreError, match="there is no record store at 's3://") as caught:
            RecordStore(missing, must_exist=True)
        assert not any(secret in str(caught.value) for secret in SECRETS)
    with pytest.raises(StoreError, match="no such bucket") as caught:
        RecordStore(uri_at(server, "nothing/records")).check_writable()
    assert not isinstance(caught.value, StoreBusy)


def test_several_writers_and_a_compaction(uri, make_record):
    def write(writer):
        store = RecordStore(uri)
        for number in range(8):
            ids = f"run-{number:06d}-w{writer}-0000"
            store.append([make_record(round=number, workload_key=f"w{number}", record_id=ids)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    reader = RecordStore(uri)
    assert len(reader.read()) == 32
    assert compact(reader.location, least=1).rows == 32
    assert len(reader.of("w3", TARGET)) == 4 and len(RecordStore(uri).read()) == 32


def test_a_round_costs_few_requests(uri, make_round, monkeypatch):
    """Appending is one request, once the store was looked at; what was listed is known a while."""
    store = RecordStore(uri)
    store.append(make_round("a", 0))
    asked = []
    monkeypatch.setattr(
        "werkzeug.serving.WSGIRequestHandler.log_request",
        lambda handler, *rest: asked.append(handler.command),
    )
    store.append(make_round("a", 1))
    assert asked == ["PUT"]
    assert len(store.of("conv", TARGET)) == 6
    reads = asked[1:]
    assert [m for m in reads if m == "GET"] and len(reads) <= 7
    asked.clear()
    for _ in range(10):
        store.of("conv", TARGET)
        store.best("conv", TARGET)
    assert len(asked) <= 3


class Busy(BaseHTTPRequestHandler):
    """Answers that it is overloaded, whatever it is asked."""

    def answer(self):
        self.send_response(503)
        body = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

    def log_message(self, *args):
        pass


@pytest.fixture
def overloaded():
    made = HTTPServer(("127.0.0.1", 0), Busy)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_server_that_is_overloaded_may_pass(overloaded, make_round):
    store = RecordStore(uri_at(overloaded, "bucket/records"))
    for act in (store.read, lambda: store.append(make_round())):
        with pytest.raises(StoreBusy) as caught:
            act()
        assert not any(secret in str(caught.value) for secret in SECRETS)
        assert "\n" not in str(caught.value) and "s3://bucket/records" in str(caught.value)


def test_a_server_that_is_gone_may_pass(make_round):
    store = RecordStore(uri_at("127.0.0.1:9", "bucket/records"))
    with pytest.raises(StoreBusy, match="check the network"):
        store.append(make_round())
