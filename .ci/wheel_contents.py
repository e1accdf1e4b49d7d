"""What a wheel and an archive of sources have to hold: ``wheel_contents.py WHEEL ARCHIVE``."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tilework", "flows", "tasks", "storage")
OTHERS = (
    "LICENSE", "CHANGELOG.md", "Makefile", "prefect.yaml", "pyproject.toml", ".ci/run",
    "tests/conftest.py", "tests/data/models/residual_opset18.onnx", "docs/architecture.md",
    "runtime/pyproject.toml", "benchmarks/README.md", "examples/c/README.md",
)  # fmt: skip


def main(wheel: str, archive: str) -> None:
    """Compare what is in the two with the folders here.

    Raises:
        SystemExit: something is missing; it says what.
    """
    with zipfile.ZipFile(wheel) as file:
        packed = set(file.namelist())
        (metadata,) = (file.read(n).decode() for n in packed if n.endswith("/METADATA"))
    with tarfile.open(archive) as file:
        sources = {name.partition("/")[2] for name in file.getnames()}
    # every file of a package but what Python leaves there: code, C sources, IR, tables, records
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    missing = sorted(wanted - packed) + sorted((wanted | set(OTHERS)) - sources)
    if not any(n.endswith("licenses/LICENSE") for n in packed):
        missing.append("LICENSE in the wheel")
    license = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    if not re.search(rf"^License-Expression: {re.escape(license)}$", metadata, re.MULTILINE):
        missing.append("the license in the wheel's metadata")
    if missing:
        sys.exit("not packed: " + ", ".join(missing))
    print(f"{len(packed)} files in the wheel, {len(sources)} in the archive: nothing is missing")


if __name__ == "__main__":
    main(*sys.argv[1:])
