"""Names of record files, which are the store's index."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storage.names import RoundName, compact_name, is_compact, key_part, run_part, safe_name

TEXT = st.text(max_size=120)


@given(TEXT, st.integers(0, 10**7), TEXT, TEXT, st.lists(TEXT, max_size=4))
def test_a_name_says_what_it_was_made_of(run, round, workload, target, ids):
    name = RoundName.of(run, round, workload, target, ids)
    assert RoundName.parse(str(name)) == name
    assert RoundName.parse(f"team/{name}") == name
    assert (name.run, name.round, name.key) == (run_part(run), round, key_part(workload, target))
    assert RoundName.of(run, round, workload, target, ids[::-1]) == name


def test_other_names_say_nothing():
    for name in (
        "round-run-000012.parquet", "round-0123456789abcdef-000012.parquet", "distilled.parquet",
        "layers.parquet", "round-0123456789abcdef-000012-01234567-0123456.parquet",
    ):  # fmt: skip
        assert RoundName.parse(name) is None and not is_compact(name)


def test_a_compacted_file_is_named_by_what_it_replaces():
    assert compact_name(["a", "b"]) == compact_name(["b", "a"]) != compact_name(["a"])
    assert is_compact(compact_name(["a"])) and is_compact(f"team/{compact_name([])}")


def test_run_ids_of_16_digits_stand_for_themselves():
    assert run_part("0123456789abcdef") == "0123456789abcdef"
    assert len({run_part(run) for run in ("a/b", "a:b", "../a", "", "x" * 300)}) == 5


@given(TEXT, TEXT)
def test_stems_are_safe_distinct_and_their_own_stems(one, other):
    stem = safe_name(one)
    assert stem and len(stem) <= 80 and not stem.startswith((".", "_"))
    assert set(stem) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert safe_name(stem) == stem
    assert (stem == safe_name(other)) == (one == other)
