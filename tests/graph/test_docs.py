"""The page on networks lists what the importer reads."""

from __future__ import annotations

import re
from pathlib import Path

from tilework.graph.onnx.convert import CONVERTERS
from tilework.graph.onnx.importer import OLDEST_OPSET

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


def test_every_onnx_operator_is_listed() -> None:
    (listed,) = re.findall(r"`onnx` package knows:\n\n(.*?)\.\n\n", PAGE.read_text(), re.DOTALL)
    assert re.split(r",\s+", listed) == sorted(CONVERTERS)


def test_the_oldest_operator_set_is_named() -> None:
    others = PAGE.with_name("other-frameworks.md")
    for page, text in (
        (PAGE, r"operator\s+set (\d+) to\s+the newest"),
        (others, r"opset (\d+) to"),
    ):
        assert re.findall(text, page.read_text()) == [str(OLDEST_OPSET)]
