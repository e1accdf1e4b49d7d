"""Files are whole or not there, whoever writes and whenever it is killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from storage import files, opening
from storage.errors import failure
from storage.files import Location
from storage.listing import Listing
from storage.uris import shown
from tilework.errors import StoreBusy, StoreError


@pytest.fixture(params=["unnamed", "by name", "no links"])
def way(request, monkeypatch):
    """Filesystems with and without unnamed files and links."""
    if request.param != "unnamed":
        monkeypatch.setattr(files, "_open_unnamed", lambda folder: None)
    if request.param == "no links":

        def refuse(*args, **kwargs):
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    return request.param


def test_the_first_one_stays(tmp_path, way):
    place = Location.of(tmp_path / "a" / "b")
    assert place.create("x.parquet", b"first")
    assert not place.create("x.parquet", b"second")
    assert place.read("x.parquet") == b"first"
    assert os.listdir(place.path) == ["x.parquet"]


def test_the_last_one_counts(tmp_path, way):
    place = Location.of(tmp_path / "a" / "b")
    place.write("x.parquet", b"first")
    place.write("x.parquet", b"second")
    assert place.read("x.parquet") == b"second"
    assert os.listdir(place.path) == ["x.parquet"]


@pytest.mark.parametrize("act", ["create", "write"])
def test_a_failure_leaves_nothing_behind(tmp_path, way, act, monkeypatch):
    place = Location.of(tmp_path)
    place.write("old.parquet", b"old")

    def full(handle, content, durable):
        os.write(handle, bytes(content)[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_fill", full)
    with pytest.raises(StoreBusy, match="disk is full"):
        getattr(place, act)("new.parquet" if act == "create" else "old.parquet", b"new")
    assert os.listdir(tmp_path) == ["old.parquet"] and place.read("old.parquet") == b"old"


KILLED = """
import sys
from storage.files import Location
place, content = Location.of(sys.argv[1]), b"x" * (4 << 20)
for i in range(10**6):
    place.create(f"{i}.parquet", content, durable=False)
    print(i, flush=True)
"""


def test_a_killed_writer_leaves_whole_files_only(tmp_path):
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, cwd=os.getcwd()
        )
        writer.stdout.readline()
        time.sleep(0.03)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert {path.stat().st_size for path in tmp_path.iterdir()} == {4 << 20}
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
        for path in tmp_path.iterdir():
            path.unlink()


def test_an_open_filesystem(tmp_path):
    place = Location.of("bucket/records", pafs._MockFileSystem())
    assert place.names() == [] and not place.is_there()
    place.check_writable()
    assert place.create("x.parquet", b"1") and place.has("x.parquet") and place.is_there()
    assert place.names() == ["x.parquet"] and place.read("x.parquet") == b"1"
    place.remove("x.parquet")
    place.remove("x.parquet")
    assert not place.has("x.parquet")
    with pytest.raises(FileNotFoundError):
        place.read("x.parquet")


@pytest.mark.parametrize(
    "code",
    ["ENOSPC", "EDQUOT", "EIO", "EAGAIN", "ETIMEDOUT", "ESTALE", "ECONNRESET", "ENETUNREACH"],
)
def test_what_may_pass(code):
    error = OSError(getattr(errno, code), os.strerror(getattr(errno, code)))
    assert isinstance(failure("write to", "records", error), StoreBusy)


@pytest.mark.parametrize("code", ["EACCES", "EPERM", "EROFS", "ENOTDIR", "ENOENT"])
def test_what_a_user_has_to_mend(code):
    error = OSError(getattr(errno, code), os.strerror(getattr(errno, code)))
    assert not isinstance(failure("write to", "records", error), StoreBusy)


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout", True),
        ("AWS Error SLOW_DOWN during PutObject operation: Please reduce your request rate.", True),
        ("AWS Error UNKNOWN (HTTP status 503) during PutObject operation: busy", True),
        ("AWS Error INTERNAL_FAILURE during PutObject operation", True),
        ("AWS Error ACCESS_DENIED during PutObject operation: Access Denied", False),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation", False),
        ("AWS Error UNKNOWN (HTTP status 400) during HeadObject operation", False),
    ],
)
def test_what_an_object_store_says(said, passes):
    assert isinstance(failure("read", "s3://b/r", OSError(said)), StoreBusy) == passes


SECRET = "s3://AKIAKEY:S3cr%2FtWord@bucket/records?region=eu&endpoint_override=x%3A1"


def test_credentials_are_never_shown(tmp_path, make_round):
    from storage import RecordStore

    store = RecordStore(SECRET, filesystem=pafs._MockFileSystem())
    error = failure("read", SECRET, OSError(f"failed: {SECRET} AKIAKEY 'S3cr/tWord'"))
    with pytest.raises(StoreError) as bad:
        RecordStore("s3://AKIAKEY:S3cr/tWord@bucket/records?secret_key=hidden&x=1")
    for text in (repr(store), store.path, str(error), str(bad.value), repr(Location.of(SECRET))):
        for secret in ("AKIAKEY", "S3cr", "tWord", "hidden", "endpoint"):
            assert secret not in text, text
    assert shown(SECRET) == "s3://bucket/records"


def test_the_name_of_a_container_is_no_secret():
    assert shown("abfss://box@account/r") == "abfss://box@account/r"


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
def test_a_password_of_azure_is_not_shown(scheme):
    uri = f"{scheme}://:hunter2@account.blob.core.windows.net/box/records"
    assert shown(uri) == f"{scheme}://account.blob.core.windows.net/box/records"
    assert "hunter2" not in str(failure("read", uri, OSError(f"hunter2 at {uri}")))


class Unhappy:
    """Fails as Arrow's filesystem of Azure does, with an error that is no `OSError`."""

    def get_file_info(self, paths):
        raise pa.ArrowException("Unknown error: Failed to get token from DefaultAzureCredential")


@pytest.mark.parametrize("ask", [Location.is_there, Location.names, lambda p: Listing(p).look()])
def test_whatever_arrow_raises_is_an_error_of_the_store(ask):
    with pytest.raises(StoreError, match="credentials are refused or missing"):
        ask(Location.of("abfs://box/records", Unhappy()))


@pytest.mark.parametrize(("said", "passes"), [("Could not resolve host", True), ("no", False)])
def test_a_server_that_does_not_answer_at_the_start_may_pass(said, passes, monkeypatch):
    def fail(uri):
        raise OSError(f"When resolving region for bucket 'b': {said} {uri}")

    monkeypatch.setattr(opening, "_open_by_arrow", fail)
    with pytest.raises(StoreError) as caught:
        Location.of("s3://KEY:hunter2@b/records")
    assert isinstance(caught.value, StoreBusy) == passes
    assert "hunter2" not in str(caught.value)


def test_a_store_of_google_is_not_waited_for_without_end(monkeypatch):
    asked = []
    arrow = SimpleNamespace(from_uri=lambda uri: asked.append(uri) or (None, "b/r"))
    monkeypatch.setattr(opening, "pafs", SimpleNamespace(FileSystem=arrow))
    Location.of("gs://b/r")
    Location.of("gs://b/r?retry_limit_seconds=3")
    assert asked == ["gs://b/r?retry_limit_seconds=20", "gs://b/r?retry_limit_seconds=3"]


NO_ADLFS = pytest.mark.skipif(find_spec("adlfs") is not None, reason="the package is there")


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("gopher://x", "the scheme gopher:// is unknown"),
        pytest.param("az://x/y", "a package is missing", marks=NO_ADLFS),
        ("s3://b/r?nonsense=1", "nexpected query parameter"),
    ],
)
def test_what_cannot_be_opened_is_one_clear_line(uri, said):
    with pytest.raises(StoreError, match=said) as caught:
        Location.of(uri)
    assert "\n" not in str(caught.value) and "cannot open the record store" in str(caught.value)
