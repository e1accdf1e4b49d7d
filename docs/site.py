"""Lays out the pages of the site: ``python docs/site.py build/pages``; `make docs` builds it.

Pages link each other as they do in the repository, so the site has the repository's tree: its
Markdown files, and the files that they link.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/*.md", "benchmarks/**/*.md", "examples/*/*.md", "runtime/*.md")
LINK = re.compile(r"\]\(([^)#\s]+)|src=\"([^\"]+)\"")


def main(where: Path) -> None:
    """Copy pages and what they link to ``where``, which is made anew."""
    shutil.rmtree(where, ignore_errors=True)
    pages = [page for pattern in PAGES for page in sorted(ROOT.glob(pattern))]
    files = set(pages)
    for page in pages:
        for match in LINK.finditer(page.read_text("utf-8")):
            linked = (page.parent / (match[1] or match[2])).resolve()
            if linked.is_file() and linked.is_relative_to(ROOT):
                files.add(linked)
    for file in sorted(files):
        copy = where / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    print(f"{len(pages)} pages, {len(files) - len(pages)} files that they link")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
