"""The page on networks lists what the importer reads."""

from __future__ import annotations

import re
from pathlib import Path

from tilework.graph.onnx.convert import CONVERTERS

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


def test_every_onnx_operator_is_listed() -> None:
    (listed,) = re.findall(r"`onnx` package knows:\n\n(.*?)\.\n\n", PAGE.read_text(), re.DOTALL)
    assert re.split(r",\s+", listed) == sorted(CONVERTERS)
