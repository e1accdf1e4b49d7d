"""Looking after a store from the command line."""

import pytest

from tests.storage.maintenance.conftest import Folder


@pytest.fixture
def filled(tmp_path, make_store_round):
    folder = Folder(tmp_path / "records")
    for i in range(20):
        folder.write(make_store_round(round=i, workload_key=f"w{i % 4}"))
    return folder


@pytest.fixture
def make_store_round():
    from dataclasses import replace

    from tests.storage.conftest import START
    from tilework.record import SCHEMA_VERSION, Record, Status

    def make(round, workload_key, n=3):
        base = Record(
            SCHEMA_VERSION, "", "run", round, START, workload_key, "conv", "net", 1e6,
            "llvm -mcpu=x", "a CPU", "here", 2, "0.1.0", 0, 1, (1,), "", Status.ok, latency_s=1e-3,
        )  # fmt: skip
        return [replace(base, record_id=f"run-{round}-{i}") for i in range(n)]

    return make


def test_compact_check_vacuum(cli, filled):
    assert "sound; 20 files, 60 records" in cli("records", "check").stdout
    assert "20 rounds compacted, 1 file written, 20 removed" in cli("records", "compact").stdout
    assert len(filled.files()) == 1
    assert cli.json("records", "check")["rows"] == 60
    assert "records: nothing to remove" in cli("records", "vacuum").stdout
    assert cli.json("records", "compact")["rounds"] == 0


def test_check_and_repair_of_a_damaged_file(cli, filled, tmp_path):
    name = sorted(filled.files())[0]
    path = tmp_path / "records" / name
    path.write_bytes(path.read_bytes()[:100])
    result = cli("records", "check")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert "1 fault; 19 files" in lines[1]
    assert lines[2] == "Mend it: tilework records repair --store records"
    result = cli("records", "repair")
    assert result.exit_code == 0
    assert f"{name}: damaged; its bytes are kept" in result.stdout
    assert cli("records", "check").exit_code == 0
    assert "records: nothing to mend" in cli("records", "repair").stdout


def test_what_is_left_for_people(cli, filled, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}), tmp_path / "records" / "strange.parquet")
    result = cli("records", "repair")
    assert result.exit_code == 1
    assert "left as it is: strange.parquet: it is not a file of records" in result.stderr


def test_bests_in_the_store_and_beside_it(cli, filled):
    assert "4 workloads with new records looked at, 60 records" in cli("records", "distill").stdout
    assert "0 workloads with new" in cli("records", "distill").stdout
    assert "small: 4 records, the best of records" in cli("records", "distill", "small").stdout
    assert "1 rounds added" not in cli("records", "merge", "small").stdout


@pytest.mark.parametrize("command", ["compact", "check", "repair", "vacuum", "distill"])
def test_a_missing_store_is_one_line(cli, command, tmp_path):
    assert "there is no record store at 'nowhere'" in cli.error(
        "records", command, "--store", "nowhere"
    )
    assert not (tmp_path / "nowhere").exists()


def test_a_store_that_is_looked_after(cli, filled):
    from storage.maintenance.claim import claim

    with claim(filled.place):
        assert "is being looked after by another process" in cli.error("records", "compact")


def test_a_password_is_never_shown(cli, monkeypatch, filled):
    from dataclasses import replace

    from storage.files import Location

    secret = "s3://KEY:hidden@bucket/records"
    shown = replace(filled.place, text="s3://bucket/records", uri=secret)
    monkeypatch.setattr(Location, "of", classmethod(lambda cls, path, *more: shown))
    for command in ("check", "compact", "distill", "repair", "vacuum"):
        result = cli("records", command, "--store", secret)
        assert result.exit_code == 0
        assert "hidden" not in result.output
        assert "s3://bucket/records: " in result.output
