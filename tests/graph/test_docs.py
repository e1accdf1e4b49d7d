"""The page on networks lists what the importer reads."""

from __future__ import annotations

import re
from pathlib import Path

import onnx

from tilework.graph.onnx import expanded
from tilework.graph.onnx.convert import CONVERTERS, microsoft, rarer
from tilework.graph.onnx.fold import FOLDABLE
from tilework.graph.onnx.importer import OLDEST_OPSET
from tilework.graph.onnx.refused import REFUSED
from tilework.graph.onnx.standard import is_function
from tilework.graph.onnx.walk import VISITORS

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


def test_every_onnx_operator_is_listed() -> None:
    (listed,) = re.findall(r"`onnx` package knows:\n\n(.*?)\.\n\n", PAGE.read_text(), re.DOTALL)
    assert re.split(r",\s+", listed) == sorted(CONVERTERS | rarer.CONVERTERS)


def test_every_operator_of_its_optimisers_is_listed() -> None:
    (listed,) = re.findall(
        r"`com.microsoft`. Read are:\n\n(.*?)\.\n\n", PAGE.read_text(), re.DOTALL
    )
    assert re.split(r",\s+", listed) == sorted({*microsoft.CONVERTERS, *expanded.INPUTS})


def test_the_oldest_operator_set_is_named() -> None:
    others = PAGE.with_name("other-frameworks.md")
    for page, text in (
        (PAGE, r"operator\s+set (\d+) to\s+the newest"),
        (others, r"opset (\d+) to"),
    ):
        assert re.findall(text, page.read_text()) == [str(OLDEST_OPSET)]


def test_every_standard_operator_is_taken_or_refused() -> None:
    """Of the newest set: by a converter, by its function, of constants, or with a reason."""
    newest = onnx.defs.onnx_opset_version()
    schemas = onnx.defs.get_all_schemas()
    names = {s.name for s in schemas if s.domain == "" and not s.deprecated}
    known = {*CONVERTERS, *rarer.CONVERTERS, *FOLDABLE, *REFUSED, *VISITORS}
    assert not {n for n in names - known if not is_function(n, newest)}
