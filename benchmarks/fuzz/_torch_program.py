"""Random PyTorch programs: lines of code over inputs and parameters."""

from __future__ import annotations

import json
import random
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from _torch_operators import FAMILIES

_SHAPES = (
    (2, 4, 6, 6), (1, 4, 8, 8), (2, 2, 5, 7), (1, 6, 4, 4), (2, 4, 8), (3, 6, 6), (4, 6), (1, 16),
    (5,), (2, 3, 4, 4, 4), (8, 8), (), (1,),
)  # fmt: skip
_LARGEST = 20_000
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Program:
    """A function of tensors, as text.

    Attributes:
        inputs: name, shape, element type and seed of each.
        parameters: the same of each.
        lines: ``name = expression``.
        outputs: names.
    """

    inputs: tuple[tuple[str, tuple[int, ...], str, int], ...]
    parameters: tuple[tuple[str, tuple[int, ...], str, int], ...]
    lines: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The function's code."""
        body = "\n".join(f"    {name} = {line}" for name, line in self.lines)
        given = ", ".join(i[0] for i in self.inputs)
        return f"def forward(self, {given}):\n{body}\n    return {', '.join(self.outputs)},\n"

    def module(self, dtype: torch.dtype | None = None) -> torch.nn.Module:
        """The program as a module; floats of ``dtype``, if one is given."""
        space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        text = self.text
        exec(compile(text, "<program>", "exec"), space)  # what was generated here
        made = type("Generated", (torch.nn.Module,), {"forward": space["forward"]})()
        for name, shape, kind, seed in self.parameters:
            value = tensor(shape, kind, seed)
            if dtype is not None and value.is_floating_point():
                value = value.to(dtype)
            made.register_buffer(name, value)
        return made.eval()

    def arguments(self, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """The inputs' values."""
        found = [tensor(shape, kind, seed) for _, shape, kind, seed in self.inputs]
        return [t.to(dtype) if dtype is not None and t.is_floating_point() else t for t in found]

    def pruned(self, outputs: tuple[str, ...]) -> Program:
        """The program for some of its values, without what they do not need."""
        needed, lines = set(outputs), []
        for name, line in reversed(self.lines):
            if name in needed:
                lines.append((name, line))
                needed.update(re.findall(r"\b[vxp]\d+\b", line))
        inputs = tuple(i for i in self.inputs if i[0] in needed) or self.inputs[:1]
        parameters = tuple(p for p in self.parameters if p[0] in needed)
        return replace(
            self,
            inputs=inputs,
            parameters=parameters,
            lines=tuple(reversed(lines)),
            outputs=outputs,
        )

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.__dict__, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Program:
        """What `save` wrote."""
        found = json.loads(path.read_text())
        values = tuple(
            tuple((n, tuple(s), k, i) for n, s, k, i in found[part])
            for part in ("inputs", "parameters")
        )
        lines = tuple((n, line) for n, line in found["lines"])
        return cls(values[0], values[1], lines, tuple(found["outputs"]))


def tensor(shape: tuple[int, ...], kind: str, seed: int) -> torch.Tensor:
    """Random values."""
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, kind)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(-5, 6, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def program(seed: int) -> Program:
    """The program of a seed: some 12 lines that PyTorch can run, whose values are finite."""
    return _Maker(seed).make()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        kind = self.rng.choices(
            ("float32", "float64", "bfloat16", "float16"), (20, 2, 1, 1)
        )[0]  # fmt: skip
        self.kind = kind
        self.inputs: list[tuple[str, tuple[int, ...], str, int]] = []
        self.parameters: list[tuple[str, tuple[int, ...], str, int]] = []
        self.lines: list[tuple[str, str]] = []
        self.values: dict[str, torch.Tensor] = {}
        self.space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}

    def make(self) -> Program:
        for i in range(self.rng.randint(1, 3)):
            shape = self.rng.choice(_SHAPES[:8] if i == 0 else _SHAPES)
            kinds = (self.kind, self.kind, "int64", "bool") if i else (self.kind,)
            kind = self.rng.choice(kinds)
            given = (f"x{i}", shape, kind, self.seed * 7 + i)
            self.inputs.append(given)
            self.values[f"x{i}"] = tensor(shape, kind, given[3])
        wanted, tries = self.rng.randint(3, 18), 0
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while len(self.lines) < wanted and tries < 400:
                tries += 1
                self.line()
        read = " ".join(line for _, line in self.lines)
        leaves = [n for n, _ in self.lines if not re.search(rf"\b{n}\b", read)]
        found = Program(
            tuple(self.inputs), tuple(self.parameters), tuple(self.lines), tuple(leaves)
        )
        return found.pruned(found.outputs)

    def line(self) -> None:
        """Try one line; keep it if PyTorch runs it."""
        template = self.rng.choice(self.rng.choice(FAMILIES))
        before = len(self.parameters)
        try:
            text, shown = self.filled(template)
            value = eval(shown, self.space, dict(self.values))  # what was written here
        except Exception:
            value = None
        if not _good(value):
            del self.parameters[before:]
            return
        name = f"v{len(self.lines)}"
        self.lines.append((name, text))
        self.values[name] = value
        self.space["self"] = None

    def filled(self, template: str) -> tuple[str, str]:
        """A template with operands: as code of the module, and as code to try."""
        chosen: dict[str, str] = {}
        first: list[str] = []

        def operand(match: re.Match[str]) -> str:
            what = match.group(1)
            if what.startswith("P:"):
                shape = self.values[first[0]].shape
                extents = eval(what[2:], {}, {"s": tuple(shape)})  # a template's expression
                extents = (extents,) if isinstance(extents, int) else tuple(extents)
                name = f"p{len(self.parameters)}"
                given = (name, extents, self.kind, self.seed * 7 + 100 + len(self.parameters))
                self.parameters.append(given)
                self.values[name] = tensor(extents, self.kind, given[3]) * 0.5
                return name
            if what == "n":
                return str(self.rng.randint(-3, 3))
            if what == "c":
                return f"{self.rng.uniform(-2, 2):.2f}"
            if what == "d":
                rank = max(self.values[first[0]].ndim, 1)
                return str(self.rng.randrange(-rank, rank))
            if what not in chosen:
                chosen[what] = self.value(what, self.values[first[0]] if first else None)
                first.append(chosen[what])
            return chosen[what]

        # dimensions and parameters look at the first value, which may stand behind them
        for what in ("x", "f", "m", "i", "b"):
            if f"{{{what}}}" in template:
                chosen[what] = self.value(what, None)
                first.append(chosen[what])
                break
        shown = re.sub(r"\{([^{}]+)\}", operand, template)
        return re.sub(r"\b(p\d+)\b", r"self.\1", shown), shown

    def value(self, what: str, other: torch.Tensor | None) -> str:
        """A value of a sort; recent ones more often."""

        def fits(t: torch.Tensor) -> bool:
            if what == "y" and other is not None:
                return t.shape == other.shape or self.rng.random() < 0.1
            if what == "f":
                return t.is_floating_point()
            if what == "m":
                return t.is_floating_point() and t.ndim == 4
            if what == "b":
                return t.dtype == torch.bool
            if what == "i":
                return not t.is_floating_point() and t.dtype != torch.bool
            return True

        names = [n for n, t in self.values.items() if n[0] != "p" and fits(t)]
        if len(names) > 3 and self.rng.random() < 0.6:
            names = names[-3:]
        return self.rng.choice(names)


def _good(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.is_complex():
        return False
    if not 0 < value.numel() <= _LARGEST or value.ndim > 6:
        return False
    if value.dtype in _FLOATS:
        wide = value.double()
        return bool(torch.isfinite(wide).all()) and wide.abs().max().item() < 1e4
    return value.dtype == torch.bool or value.long().abs().max().item() < 100
