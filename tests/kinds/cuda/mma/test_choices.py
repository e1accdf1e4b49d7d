"""What the draft chooses for tensor cores: machine code as predicted, times above the roofline."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.mma.declared import A100, H100, conv, matmul, row_of, sketches
from tilework.errors import ScheduleError
from tilework.kinds.cuda.draft import DRAFT, terms
from tilework.kinds.cuda.mma.instructions import COLUMNS, ROWS
from tilework.kinds.cuda.mma.tile import Tiles
from tilework.kinds.cuda.source import cubin, nvrtc, sass
from tilework.kinds.cuda.source.printer import print_program
from tilework.lower.protocol import lowering_of
from tilework.target import Target

TASKS = {
    "56x56x64": conv("bf16", (1, 56, 56, 64), 64),
    "14x14x256, strided": conv("f16", (1, 28, 28, 128), 256, s=2),
    "28x28x128": conv("tf32", (1, 28, 28, 128), 128),
    "7x7x512": conv("bf16", (1, 7, 7, 512), 512),
    "1000 classes": matmul("f16", 64, 1000, 2048, b="T", free=True),
    "1024 cubed": matmul("bf16", 1024, 1024, 1024, b="T"),
}


def best(sketch, count=1000, seed=0):
    """The row that the draft likes best, and its seconds."""
    rows = sketch.sample(np.random.default_rng(seed), count)
    seconds = DRAFT.seconds(sketch, rows)
    return rows[np.argmin(seconds)], float(seconds.min())


def built(sketch, row, arch):
    """For the kernel on tensor cores: tiles, entry, resources, instructions, spilled bytes."""
    program = lowering_of(sketch.target).lower(sketch, row).program
    entry = print_program(program).entries[0]
    compiled = nvrtc.compile_text(entry.text, arch, entry.name)
    found = cubin.resources(compiled.cubin)[entry.name]
    counts = sass.opcode_counts(compiled.cubin)[entry.name]
    tiles = Tiles.of(sketch.nests(sketch.check(row))[0])
    return tiles, entry, found, counts, compiled.spilled[entry.name]


def kept(tiles):
    """The instructions of tensor cores that compilers keep in the text of one fetch.

    Where a warp's tile holds all points of m or n, those behind the last one are never stored.
    """
    _, m, n, _ = tiles.product.extents
    rows, columns = tiles.warp_m[0] // ROWS, tiles.warp_n[0] // COLUMNS
    if tiles.block_m[0] == tiles.warp_m[0]:
        rows = min(rows, -(-m // ROWS))
    if tiles.block_n[0] == tiles.warp_n[0]:
        columns = min(columns, -(-n // COLUMNS))
    return tiles.block_k[0] // tiles.product.step * rows * columns


OTHERS = [
    pytest.param(Target(f"cuda -arch={arch}"), marks=pytest.mark.cuda_full)
    for arch in ("sm_86", "sm_89", "sm_100", "sm_120")
]


@pytest.mark.parametrize("target", [A100, H100, *OTHERS], ids=lambda target: target.arch)
def test_choices_do_not_spill_and_have_the_instructions_that_were_counted(needs_nvrtc, target):
    for name, dag in TASKS.items():
        sketch = min(sketches(dag, target), key=lambda s: best(s, 500)[1])
        row, _ = best(sketch)
        tiles, entry, found, counts, spilled = built(sketch, row, target.arch)
        assert spilled == 0 and found.stack_bytes == 0, name
        assert counts["HMMA"] == kept(tiles), name
        assert entry.shared_static + entry.shared_dynamic == tiles.shared[0], name
        assert not counts["LDL"] and not counts["STL"]


def test_tiles_beyond_the_result_are_not_computed(needs_nvrtc):
    sketch = sketches(conv("f16", (1, 6, 6, 16), 40, residual=False))[0]
    row = row_of(sketch, block_m=64, block_n=64, warp_m=64, warp_n=64, block_k=16)
    tiles, _, _, counts, _ = built(sketch, row, "sm_80")
    assert counts["HMMA"] == kept(tiles) == 3 * 5 < tiles.multiplied[0]


def test_no_time_is_below_the_rooflines():
    for target in (A100, H100):
        for dag in (*TASKS.values(), conv("bf16", (32, 28, 28, 128), 128)):
            for sketch in sketches(dag, target):
                rows = sketch.sample(np.random.default_rng(1), 600)
                device = target.device
                lanes = device.tensor_lanes / (2 if "round_tf32" in str(dag) else 1)
                floor = dag.flops / (2 * lanes * device.sms * device.ghz * 1e9)
                assert (DRAFT.seconds(sketch, rows) > floor).all()


def test_fetches_under_way_hide_latencies_and_parts_fill_the_device():
    sketch = sketches(TASKS["7x7x512"])[0]
    same = {"block_m": 64, "block_n": 64, "block_k": 64, "warp_m": 32, "warp_n": 32}
    rows = np.stack([row_of(sketch, **same, stages=n) for n in (2, 3, 4)])
    waits = terms(sketch, rows).parts["latency"][:, 0]
    assert waits[0] > waits[1] >= waits[2]
    whole, *parts = sketches(TASKS["7x7x512"])
    assert min(best(s)[1] for s in parts) < best(whole)[1]


def test_larger_tiles_win_for_large_products_and_use_the_tensor_cores():
    sketch = sketches(matmul("bf16", 4096, 4096, 4096, b="T"))[0]
    row, seconds = best(sketch, 4000)
    tiles = Tiles.of(sketch.nests(sketch.check(row))[0])
    assert tiles.block_m[0] * tiles.block_n[0] >= 128 * 128
    peak = 2 * A100.device.tensor_lanes * A100.device.sms * A100.device.ghz * 1e9
    assert 0.4 < 2 * 4096**3 / seconds / peak < 1.0


def test_rows_that_break_a_limit_are_refused():
    sketch = sketches(TASKS["56x56x64"])[0]
    row = row_of(sketch, block_m=64, block_n=64, warp_m=32, warp_n=32, block_k=32, stages=4)
    columns = {d.kind: d.columns[0] for d in sketch.decisions}

    def changed(**values):
        out = row.copy()
        for kind, value in values.items():
            out[columns[kind]] = value
        return out

    bad = [
        changed(warp_m=24), changed(warp_n=8), changed(block_m=48), changed(block_k=12),
        changed(stages=1), changed(stages=9), changed(block_m=256, block_n=256, warp_m=128,
        warp_n=128), changed(block_m=256, block_n=256, block_k=64, stages=5), changed(warp_m=0),
    ]  # fmt: skip
    assert sketch.valid(row[None])[0] and not sketch.valid(np.stack(bad)).any()
    with pytest.raises(ScheduleError, match="not valid"):
        lowering_of(A100).lower(sketch, bad[0])
