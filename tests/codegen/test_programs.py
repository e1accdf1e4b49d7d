"""Loop programs of a dozen schedules of the table of code, as texts that people can read.

``pytest tests/codegen/test_programs.py --update-golden`` writes them anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.codegen.table import GROUPS, read
from tilework.lower.protocol import lowering_of
from tilework.lower.text import program_text
from tilework.space import SearchSpace

GOLDEN = Path(__file__).parents[1] / "data" / "programs"
NAMES = (
    "attention: dense and gelu | AVX-512, 2 threads",
    "attention: rotary | AVX2, 1 thread",
    "moved: gathered rows | SSE2, 2 threads",
    "narrow: bfloat16 product | AVX-512 with bfloat16, 2 threads",
    "norms: root mean square norm | AVX-512, 2 threads",
    "norms: softmax of a middle axis | A100",
    "sparse: blocks of 4x4 | A100",
    "sums: long product of few rows | SSE2, 2 threads",
    "sums: ragged product | AVX-512, 2 threads",
    "tensor cores: float16 product | A100",
    "windows: depthwise stride 2 of 5 channels | AVX2, 1 thread",
    "windows: ragged borders | AVX-512, 1 thread",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_loop_program_reads_as_it_did(name: str, request: pytest.FixtureRequest) -> None:
    group, _, rest = name.partition(": ")
    computation, _, target = rest.partition(" | ")
    case = next(c for c in GROUPS[group][0]() if c.name == computation)
    task, schedule = case.task(target), read()[name].schedule
    sketch = SearchSpace.of(task).sketches[schedule.sketch_id]
    program = lowering_of(task.target).lower(sketch, schedule.row).program
    path = GOLDEN / (re.sub(r"\W+", "_", name) + ".txt")
    if request.config.getoption("--update-golden"):
        path.write_text(program_text(program))
    assert program_text(program) == path.read_text()
