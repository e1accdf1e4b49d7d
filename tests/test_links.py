"""Links within the repository: each leads to a file that is there, and to a heading in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "benchmarks/**/*.md", "examples/**/*.md", "runtime/*.md")
    for page in ROOT.glob(pattern)
)
CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names that headings get: GitHub's rule, which the site's generator shares."""
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for title in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        many = sum(1 for one in found if re.fullmatch(rf"{re.escape(name)}(-\d+)?", one))
        found.add(f"{name}-{many}" if many else name)
    return found


def broken(page: Path, text: str) -> list[str]:
    """The links of a page's text that lead nowhere."""
    found = []
    for match in LINK.finditer(CODE.sub("", text)):
        link = match[1] or match[2]
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        place = (page.parent / path).resolve() if path else page
        there = place.is_relative_to(ROOT) and place.exists()
        if there and anchor:
            there = place.suffix == ".md" and anchor in anchors(place)
        if not there:
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken(page, page.read_text()) == []


def test_what_leads_nowhere_is_found():
    text = (
        "# Top\n[a](docs/search.md) [b](docs/none.md) [c](docs/search.md#nothing) [d](#nowhere) "
        '[e](https://example.org/x) `[f](gone.md)` <img src="docs/gone.png">'
    )
    wrong = ["docs/none.md", "docs/search.md#nothing", "#nowhere", "docs/gone.png"]
    assert broken(ROOT / "README.md", text) == wrong
