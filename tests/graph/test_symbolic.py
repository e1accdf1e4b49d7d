"""Networks with symbols: what they compute at points, and that their calls are those at points.

Of the calls, what a static import knows more of is left out: numbers that follow from extents are
constants there (masks, positions, rotary tables), and dimensions of extent 1 move for nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.graph import symbolic_models as models
from tests.graph.onnx_models import save
from tests.graph.run_symbolic import Ranges, check, keys_at, point_of, static_plan
from tilework.graph import from_onnx, plan

RANGES: Ranges = {"batch": "1..8", "seq": "1..64:8,32"}
PAST: Ranges = {**RANGES, "past": "1..32:16"}
POINTS = [
    {"batch": 1, "seq": 1, "past": 7},
    {"batch": 2, "seq": 7, "past": 1},
    {"batch": 1, "seq": 16, "past": 5},
    {"batch": 8, "seq": 64, "past": 32},
    {"batch": 3, "seq": 31, "past": 11},
]

# name, ranges, and the calls of positions, which a static import has folded
CASES = [
    ("encoder", RANGES, {"take+slice+take+add+expand+take+add": 1}),
    ("decoder", RANGES, {"arange+multiply": 1, "concat": 1, "cos": 1, "sin": 1,
                         "arange+arange+less_equal+where": 1}),
    ("decoder of a table", RANGES, {"slice": 2, "arange+arange+less_equal+where": 1}),
    ("decoder with a past", PAST, {"arange+multiply": 1, "concat": 1, "cos": 1, "sin": 1,
                                   "arange+arange+less_equal": 1}),
    ("decoder of a table with a past", PAST, {"slice": 2, "arange+arange+less_equal": 1}),
]  # fmt: skip


def file_of(name: str, folder: Path) -> Path:
    """One of the models as a file."""
    if name == "encoder":
        return save(models.encoder(), folder / "encoder.onnx")
    model = models.decoder(past="past" in name, table="table" in name)
    return save(model, folder / "decoder.onnx")


@pytest.mark.parametrize("name, ranges", [case[:2] for case in CASES])
def test_models_at_points(name: str, ranges: Ranges, tmp_path: Path) -> None:
    path = file_of(name, tmp_path)
    check(path, ranges, POINTS, high=models.WORDS)


@pytest.mark.parametrize("name, ranges, own", CASES)
def test_calls_are_those_of_points(
    name: str, ranges: Ranges, own: dict[str, int], tmp_path: Path
) -> None:
    path = file_of(name, tmp_path)
    net = from_onnx(path, ranges)
    p = plan(net)
    for values in (v for v in POINTS if v["batch"] > 1 and v["seq"] > 1):
        at = point_of(net, values)
        wanted = Counter(c.dag.workload_key for c in static_plan(path, net, values).calls)
        found = Counter(keys_at(p, at))
        more = {c.desc.split(" ")[0]: 0 for c in p.calls}
        for call, key in zip(p.calls, keys_at(p, at), strict=True):
            if key not in wanted:
                more[call.desc.split(" ")[0]] += 1
        assert {k: n for k, n in more.items() if n} == own, values
        assert sum((wanted - found).values()) <= 1, values  # the encoder's embedding


def test_a_symbol_has_one_number(tmp_path: Path) -> None:
    net = from_onnx(file_of("decoder with a past", tmp_path), {**PAST, "batch": (2,)})
    assert [str(n) for n in net.inputs["mask"].shape] == ["2", "past + seq"]
    assert [s.name for s in net.symbols] == ["past", "seq"]
