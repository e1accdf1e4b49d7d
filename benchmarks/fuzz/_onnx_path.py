"""ONNX models through `tilework.Session`, beside ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _case import Case
from _judge import Verdict, judge
from _maker import make
from _minimise import smaller
from _nnsmith import nnsmith_case
from _operators import OPERATORS
from numpy.typing import NDArray

from tilework.session import Session, SessionOptions

_THREADS = (1, 1, 1, 2)


class OnnxPath:
    """See `_paths.Path`."""

    def __init__(self, generate: Callable[[int], Case]) -> None:
        self._generate = generate

    def make(self, seed: int) -> Case:
        """The case of a seed."""
        return self._generate(seed)

    def check(self, case: Case) -> Verdict:
        """Run it both ways; one model in four on two threads, one in four with packages."""
        return judge(case, _run)

    def smaller(self, case: Case, still: Callable[[Case], bool]) -> Case:
        """The smallest case found for which ``still`` holds."""
        return smaller(case, still)

    def save(self, case: Case, folder: Path, name: str) -> Path:
        """Keep it; `load` reads it."""
        return case.save(folder, name)

    def load(self, path: Path) -> Case:
        """What `save` kept."""
        return Case.load(path)

    def describe(self, case: Case) -> str:
        """Its operators."""
        return " ".join(n.op_type for n in case.model.graph.node)


def _run(case: Case) -> list[NDArray[np.generic]]:
    options = SessionOptions()
    size = len(case.model.SerializeToString())
    options.intra_op_num_threads = _THREADS[size % len(_THREADS)]
    # schedules from packages, mapped into these tasks, for one in four: that takes longest
    os.environ["TILEWORK_NO_PACKAGES"] = "" if size // 4 % 4 == 0 else "1"
    return Session(case.model, options, cache=False).run(None, case.inputs)


OURS = OnnxPath(lambda seed: make(seed, OPERATORS))
NNSMITH = OnnxPath(nnsmith_case)
