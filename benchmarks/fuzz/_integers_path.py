"""Products of quantised numbers by random schedules, beside NumPy's integers, bit for bit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from _judge import Verdict

from tests.fuzz.integer_kernels import InFloat, differences
from tests.fuzz.integer_problems import Problem, draw, make
from tilework.errors import TileworkError

_EXTENTS = ("batch", "rows", "k", "n", "groups")
_PLAIN: dict[str, Any] = {
    "ranged": False, "computed": False, "channel": False, "powers": False, "bias": "", "tail": "",
    "zeros": ("none", "none", "none"),
}  # fmt: skip


class IntegersPath:
    """See `_paths.Path`."""

    def make(self, seed: int) -> Problem:
        """The problem of a seed."""
        return draw(seed)

    def check(self, case: Problem) -> Verdict:
        """Compile it with random rows of random sketches and compare every bit."""
        try:
            wrong = differences(case)
        except InFloat as e:
            return Verdict("in float", str(e))
        except TileworkError as e:
            return Verdict("refused", str(e))
        except Exception as e:
            return Verdict("raw", f"{type(e).__name__}: {e}")
        return Verdict("wrong", wrong) if wrong else Verdict("same")

    def smaller(self, case: Problem, still: Callable[[Problem], bool]) -> Problem:
        """The smallest problem found for which ``still`` holds."""
        found = True
        while found:
            found = False
            for other in _candidates(case):
                if still(other):
                    case, found = other, True
                    break
        return case

    def save(self, case: Problem, folder: Path, name: str) -> Path:
        """Keep it, and the model that it stands for; `load` reads it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        path.write_text(json.dumps(asdict(case), indent=1))
        path.with_suffix(".onnx").write_bytes(make(case).model.SerializeToString())
        return path

    def load(self, path: Path) -> Problem:
        """What `save` kept."""
        fields = json.loads(path.read_text())
        return Problem(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})

    def describe(self, case: Problem) -> str:
        """Form, operator, types and machine."""
        kind = f"conv{case.rank}d" if case.rank else "matmul"
        kind = kind if case.groups == 1 else f"grouped-{kind}"
        machine = case.target.partition(" -num-cores")[0].replace(" ", "")
        return f"{case.form}-{kind} {case.data}x{case.weight} {machine}"


def _candidates(case: Problem) -> Iterator[Problem]:
    """Problems with less in them."""
    for name in _EXTENTS:
        now = getattr(case, name)
        yield from (replace(case, **{name: n}) for n in {1, now // 2, now - 1} if 0 < n < now)
    for name, plain in _PLAIN.items():
        if getattr(case, name) != plain:
            yield replace(case, **{name: plain})
    for axis in range(case.rank):
        yield replace(
            case,
            rank=case.rank - 1,
            **{
                name: getattr(case, name)[:axis] + getattr(case, name)[axis + 1 :]
                for name in ("space", "window", "strides", "before", "after", "dilations")
            },
        )


PATH = IntegersPath()
