"""Vectors whose lanes lie apart: blocks of four columns, transposed in registers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.hosts import on_x86, x86
from tests.kinds.cpu.llvm.test_scattered import turned
from tilework import te
from tilework.kinds.cpu.build import generate
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

_MODEL = """
<ir_version: 9, opset_import: ["" : 18]>
turned (float[2,rows,20] a, float[2,columns,20] b) => (float[2,rows,columns] c) {
    t = Transpose <perm = [0, 2, 1]> (b)
    c = MatMul (a, t)
}
"""


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_four_columns_are_loaded_at_once(level):
    task = SearchTask(te.ComputeDAG(turned(3, 32, 8, apart=1)), Target(x86(level, 1)))
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 8)
    texts = [generate(task, sketch.id, row).text for row in rows]
    assert any("load <4 x float>" in text for text in texts)


@pytest.mark.parametrize("level", on_x86("x86-64-v2", "x86-64-v3", "x86-64-v4"))
def test_any_number_of_rows_and_columns(level):
    net = tw.from_onnx(onnx.parser.parse_model(_MODEL), {"rows": "1..5:1", "columns": "0..70:40"})
    module = tw.compile(net, x86(level, 1), cache=False)
    rng = np.random.default_rng(0)
    for rows in (1, 2, 5):
        for columns in (0, 1, 3, 4, 15, 16, 17, 63, 70):
            a, b = (rng.standard_normal((2, n, 20), np.float32) for n in (rows, columns))
            (c,) = module.run({"a": a, "b": b})
            np.testing.assert_allclose(c, a @ b.transpose(0, 2, 1), atol=1e-4)
