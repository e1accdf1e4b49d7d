"""Which code this is, more exactly than the version says: for records and what is learnt of them.

    0.1.0+g1a2b3c4d5e        a checkout, as it was committed
    0.1.0+g1a2b3c4d5e.4f0c77  a checkout with changes; behind the point, a digest of the sources
    0.1.0+b4f0c77a1          an installed package, by the digest of its sources

Local versions as PEP 440 has them: they say what was built, and decide nothing.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
from pathlib import Path

from tilework.kept import key_of
from tilework.version import __version__

_ROOT = Path(__file__).parent
_PATIENCE_S = 10.0


@functools.lru_cache(maxsize=1)
def full_version() -> str:
    """The version and the revision, or the build where there is no repository.

    Looked up once a process; it takes a tenth of a second.
    """
    commit = _git("rev-parse", "--short=10", "HEAD")
    if not commit:
        return f"{__version__}+b{code_digest()[:8]}"
    changed = _git("status", "--porcelain", "--", "*.py")
    return f"{__version__}+g{commit}" + (f".{code_digest()[:6]}" if changed else "")


def _git(*words: str) -> str:
    """What git says of the repository that holds this very folder; empty if there is none."""
    if not (_ROOT.parent / ".git").exists():  # a repository of others around an installation
        return ""
    try:
        done = subprocess.run(
            ["git", *words], cwd=_ROOT, capture_output=True, text=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@functools.lru_cache(maxsize=1)
def code_digest() -> str:
    """12 hexadecimal digits of the engine's sources: equal ones train equal models."""
    digest = hashlib.sha256()
    for path in sorted(_ROOT.rglob("*.py")):
        digest.update(str(path.relative_to(_ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@functools.lru_cache(maxsize=1)
def code_version() -> str:
    """What Tilework is here: version, and the names, sizes and times of its own files.

    A key: what is kept under it never outlives a change of the code that made it. It costs a
    hundredth of what reading the files does.
    """
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(_ROOT):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(files):
            if not name.endswith((".pyc", ".part")):
                about = os.stat(os.path.join(folder, name))
                digest.update(f"{name} {about.st_size} {about.st_mtime_ns}\n".encode())
    import numpy as np

    return key_of(__version__, platform.python_version(), np.__version__, digest.digest())
