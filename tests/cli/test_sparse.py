"""``--sparse SHARE --block RxC``: tasks, records, modules and comparisons of sparse networks."""

from __future__ import annotations

import pytest

SPARSE = ("--sparse", "0.85", "--block", "16x1")


def test_extract_counts_both_ways(cli):
    sparse, dense = cli.json("extract", "mlp", *SPARSE), cli.json("extract", "mlp")
    assert [t["flops"] for t in sparse[:3]] == [t["flops"] for t in dense[:3]]
    assert all(t["real_flops"] < 0.4 * t["flops"] for t in sparse[:3])
    assert "15% of 16x1" in sparse[0]["description"]
    assert "made" in cli("extract", "mlp", *SPARSE).output


def test_tune_compile_explain_and_bench(cli, tmp_path):
    budget = ("--trials", 8, "--seconds", 20, "--threads", 1, "--no-prefect")
    report = cli.json("tune", "mlp", *SPARSE, *budget)
    assert not report["failures"]
    assert report["check"]["max_rel_error"] < 1e-4
    assert (tmp_path / "mlp-sparse.tw").exists()
    assert cli("compile", "mlp", *SPARSE, "--threads", 1).exit_code == 0
    assert "of 16x1" in cli("explain", "mlp:0", *SPARSE, "--threads", 1).output
    (found,) = cli.json("bench", "mlp", *SPARSE, "--threads", 1, "--seconds", 0.1)
    assert found["tuned_tasks"] > 0
    # a record of the store knows its task: rules by name, index arrays drawn
    document = cli.json("explain", "mlp:0", *SPARSE, "--threads", 1)
    record = next(c["record_id"] for c in document["contestants"] if c["record_id"])
    assert cli("reproduce", record).exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sparse", "most"), "write a share such as 0.85, or own"),
        (("--sparse", "1.5"), "not between 0 and 1"),
        (("--sparse", "0.5", "--block", "16"), "write ROWSxCOLUMNS"),
        (("--block", "16x1"), "belongs to --sparse"),
        (("--sparse", "own"), "50% or more blocks of zeros"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, words, message):
    assert message in cli.error("extract", "mlp", *words)
