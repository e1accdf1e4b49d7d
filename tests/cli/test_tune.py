"""From tune to bench on a small network, as a user types it."""

from __future__ import annotations

import pandas as pd
import pytest
from typer.testing import CliRunner

import tilework as tw
from flows.cli import app

THREADS = ("--threads", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tuned(folder):
    """What `tilework tune mlp` prints; the records and the module are in ``folder``."""
    words = ["tune", "mlp", "--trials", "16", "--no-prefect", *THREADS]
    words += ["--store", str(folder / "records"), "--output", str(folder / "mlp.tw")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def store(tuned, folder):
    return ("--store", folder / "records")


@pytest.mark.parametrize(
    "said",
    [
        "round 1: ",
        "Latency (ms)",
        "Speed (GFLOPS)",
        "Trials",
        "Estimated total latency:",
        "untuned",
        "Speed-up",
        "Output check against",
        "Records: ",
        "Module:  ",
        "tilework bench mlp",
    ],
)
def test_tune_says_all_there_is_to_know(tuned, said):
    assert said in tuned


def test_tune_again_as_json_measures_nothing_more(cli, store, folder):
    found = cli.json("tune", "mlp", "--trials", "16", "--no-prefect", *THREADS, *store)
    assert found["resumed_rounds"] == found["rounds"] > 0
    assert found["trials"] == 16
    assert found["check"]["max_rel_error"] < 1e-3
    assert found["after"]["median_ms"] > 0
    assert [task["id"] for task in found["tasks"]] == [0, 1, 2, 3]
    assert (pd.read_parquet(folder / "records").purpose == "search").sum() == 16


def test_compile_uses_the_records(cli, store, tmp_path):
    found = cli.json("compile", "mlp", *THREADS, *store, "--output", tmp_path / "again.tw")
    assert {task["source"] for task in found["tasks"]} == {"tuned"}
    assert (tmp_path / "again.tw").is_file()


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "mlp", *THREADS],
        ["bench", "mlp", *THREADS],
        ["explain", "mlp:0", *THREADS],
        ["reproduce", "x"],
    ],
    ids=lambda words: words[0],
)
def test_a_missing_store_is_an_error_where_it_is_only_read(cli, words, tmp_path):
    for place in ("nothing", tmp_path / "nothing"):
        said = cli.error(*words, "--store", place)
        assert f"there is no record store at '{place}'" in said
    assert not list(tmp_path.iterdir())


def test_compile_without_records_says_draft(cli):
    """Before the first tuning there is no store of the usual name."""
    result = cli("compile", "mlp", *THREADS)
    assert "there is no record store at 'records' yet" in result.stderr
    assert result.exit_code == 0, result.output
    assert "0 of 4 tasks tuned, 4 by the draft" in result.stdout
    assert " draft " in result.stdout


def test_bench_compares_interleaved(cli, store):
    (found,) = cli.json(
        "bench", "mlp", "--compare", "onnxruntime", *THREADS, *store, "--seconds", "0.2"
    )
    ours, peer = found["rows"]
    assert ours["engine"] == "tilework"
    assert ours["ratio"] == 1.0
    assert peer["engine"].startswith("onnxruntime 1.")
    assert peer["max_rel_error"] < 1e-3
    assert found["tuned_tasks"] == found["tasks"] == 4
    text = cli("bench", "mlp", *THREADS, *store, "--seconds", "0.1").stdout
    assert "mlp, 1 thread, 4 of 4 tasks tuned" in text


def test_explain_shows_schedules_side_by_side(cli, store):
    found = cli.json("explain", "mlp:0", *THREADS, *store)
    assert found["measured"]["ok"] > 0
    roles = [one["role"] for one in found["contestants"]]
    assert roles[0] == "best" and roles[-1] == "default"
    best = found["contestants"][0]
    assert best["schedule"].strip() and best["draft_s"] > 0 and best["decisions"]
    assert found["roofline"]["compute_s"] > 0 and found["roofline"]["memory_s"] > 0
    text = cli("explain", "mlp:0", *THREADS, *store, "--measure").stdout
    for said in ("Best schedule:", "p0 = PLACEHOLDER [1, 784]", "now, in turns", "of the bound"):
        assert said in text
    assert f"tilework reproduce {best['record_id']}" in text


def test_reproduce_measures_a_record_again(cli, store):
    best = cli.json("explain", "mlp:0", *THREADS, *store)["contestants"][0]["record_id"]
    found = cli.json("reproduce", best, *store)
    assert found["record"]["record_id"] == best
    assert found["result"]["status"] == "ok"
    text = cli("reproduce", best, *store).stdout
    assert "then" in text and "now" in text and "split" in text
    assert "no record 'nonsense'" in cli.error("reproduce", "nonsense", *store)
    assert "give more of it" in cli.error("reproduce", best[:4], *store)


def test_explain_of_an_unmeasured_task(cli):
    """Before the first tuning there is no store; one that is named has to be there."""
    assert "nothing yet" in cli("explain", "mlp:0", *THREADS).stdout
    told = cli.error("explain", "mlp:0", *THREADS, "--store", "nothing")
    assert "no record store at 'nothing'" in told
    assert "no record store at 'nothing'" in cli.error("reproduce", "x", "--store", "nothing")


def test_records_show_and_best(cli, store):
    found = cli.json("records", "show", *store)
    assert found["runs"][0]["trials"] == 16 == found["records"] - found["runs"][0]["finals"]
    assert found["runs"][0]["network"] == "mlp"
    assert "16 trials of 1 run" in cli("records", "show", *store).stdout
    assert "0 trials" in cli("records", "show", *store, "--network", "resnet-18").stdout
    best = cli.json("records", "best", *store)
    assert len(best) == len({(r["workload_key"], r["target"]) for r in best}) == 4
    assert "dense+add" in cli("records", "best", *store).stdout


def test_records_distill_and_merge(cli, store, tmp_path):
    assert "4 records" in cli("records", "distill", "small", *store).stdout
    assert len(cli.json("records", "best", "--store", "small")) == 4
    _, source = store
    merged = cli("records", "merge", source, "small", "--store", "all")
    assert "rounds added, 0 were there already" in merged.stdout
    again = cli("records", "merge", source, "--store", "all")
    assert ": 0 rounds added" in again.stdout
    (run,) = cli.json("records", "show", "--store", "all")["runs"]
    assert run["trials"] == 16


def test_merging_nothing_is_an_error(cli):
    assert "no records at 'nowhere'" in cli.error("records", "merge", "nowhere")


def test_an_empty_output_means_that_the_module_is_not_kept(cli, store, tmp_path):
    again = ("tune", "mlp", "--trials", "16", "--no-prefect", *THREADS, *store)
    found = cli.json(*again, "--output", "")
    assert found["module"] == ""
    assert found["check"]["max_rel_error"] < 1e-3
    assert "Module:" not in cli(*again, "--output", "").stdout
    assert cli.json("compile", "mlp", *THREADS, *store, "--output", "")["module"] == ""
    assert "Module: not kept" in cli("compile", "mlp", *THREADS, *store, "--output", "").stdout
    assert list(tmp_path.iterdir()) == []


def test_tune_an_onnx_file_from_export_to_module(cli, tmp_path):
    tw.zoo.get("mlp").to_onnx(tmp_path / "own.onnx")
    words = ("tune", "own.onnx", "--trials", "4", "--no-prefect", *THREADS)
    result = cli(*words)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "own.tw").is_file()
    assert set(pd.read_parquet(tmp_path / "records").network) == {"own"}
