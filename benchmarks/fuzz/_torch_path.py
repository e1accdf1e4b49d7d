"""PyTorch programs through `torch.compile`, beside eager PyTorch."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import torch
from _judge import Verdict
from _nnsmith import generate
from _torch_program import Program, program

from flows.torch_backend import tilework
from tilework.errors import TileworkError

_RELATIVE = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-4, torch.float64: 1e-8}
_OF_LARGEST = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-9}

Make = Callable[[torch.dtype | None], tuple[torch.nn.Module, list[torch.Tensor]]]

_OPTIONS = {"smallest": 1, "cache": False, "packages": False}

torch._dynamo.config.recompile_limit = 1_000_000


class TorchPath:
    """See `_paths.Path`."""

    def make(self, seed: int) -> Program:
        """The program of a seed."""
        torch.set_num_threads(1)
        return program(seed)

    def check(self, case: Program) -> Verdict:
        """Run it both ways."""
        kinds = [one[2] for one in (*case.inputs, *case.parameters)]
        return judge(lambda dtype: (case.module(dtype), case.arguments(dtype)), kinds)

    def smaller(self, case: Program, still: Callable[[Program], bool]) -> Program:
        """One output, and values from as few lines as still fail."""
        for name in case.outputs:
            other = case.pruned((name,))
            if len(case.outputs) > 1 and still(other):
                case = other
                break
        changed = True
        while changed:
            changed = False
            for name, _ in case.lines[:-1]:
                other = case.pruned((name,))
                if still(other):
                    case, changed = other, True
                    break
        for name, _ in case.lines[:-1]:  # values become inputs
            other = _fed(case, name)
            if other is not None and still(other):
                case = other
        return case

    def save(self, case: Program, folder: File, name: str) -> File:
        """Write it as JSON."""
        path = folder / f"{name}.json"
        case.save(path)
        return path

    def load(self, path: File) -> Program:
        """What `save` wrote."""
        return Program.load(path)

    def describe(self, case: Program) -> str:
        """The functions of its lines."""
        found = []
        for _, line in case.lines:
            names = re.findall(r"(?:F|torch|[vx]\d+)\.(\w+)\(", line)
            found.append(names[0] if names else re.sub(r"[^-+*/<>=!%&|^@~\[]", "", line) or "?")
        return " ".join(found)


def _fed(case: Program, name: str) -> Program | None:
    """The program with a value as an input of its own, of other numbers."""
    lines = [one for one in case.lines if one[0] != name]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (value,) = case.pruned((name,)).module()(*case.pruned((name,)).arguments())
    if not value.is_floating_point():
        return None
    new = (name.replace("v", "x9"), tuple(value.shape), str(value.dtype).split(".")[1], 5)
    renamed = tuple((n, re.sub(rf"\b{name}\b", new[0], line)) for n, line in lines)
    made = Program((*case.inputs, new), case.parameters, renamed, case.outputs)
    return made.pruned(made.outputs)


def judge(make: Make, kinds: Sequence[str]) -> Verdict:
    """Run a module both ways, twice with this backend.

    Args:
        make: the module and its inputs; with floats of a type, if one is given.
        kinds: element types that occur in it.
    """
    module, inputs = make(None)
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        want = _flat(module(*inputs))
        kept = [x.clone() for x in inputs]
        try:
            torch._dynamo.reset()
            run = torch.compile(module, backend=tilework, options=_OPTIONS)
            got, again = _flat(run(*inputs)), _flat(run(*inputs))
        except TileworkError as e:
            return Verdict("raw" if "\n" in str(e) else "refused", str(e))
        except Exception as e:
            return Verdict("raw", f"{type(e).__name__}: {e}")
    left = [str(w.message) for w in said if "is left to PyTorch" in str(w.message)]
    if left:
        return Verdict("raw", left[0])
    if any(not torch.equal(a, b) for a, b in zip(inputs, kept, strict=True)):
        return Verdict("wrong", "an input was changed")
    if any(not _same_bits(a, b) for a, b in zip(got, again, strict=True)):
        return Verdict("wrong", "a second run gave another result")
    return _compare(make, kinds, got, want)


def _flat(found: Any) -> list[torch.Tensor]:
    return [found] if isinstance(found, torch.Tensor) else list(found)


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _compare(make: Make, kinds: Sequence[str], got: Sequence[Any], want: Sequence[Any]) -> Verdict:
    if len(got) != len(want):
        return Verdict("wrong", f"{len(got)} outputs of {len(want)}")
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            told = f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
            return Verdict("wrong", f"output {i}: {told}")
        dense = b.numel() * b.element_size() == b.untyped_storage().size()
        if dense and not b.is_contiguous() and _steps(a) != _steps(b):
            return Verdict("wrong", f"output {i}: strides {a.stride()}, not {b.stride()}")
    grain = max((getattr(torch, kind) for kind in kinds), key=_coarse)
    pairs = enumerate(zip(got, want, strict=True))
    bad = [i for i, (a, b) in pairs if not _close(a, b, grain).all()]
    if not bad:
        return Verdict("same")
    i = bad[0]
    a, b = got[i], want[i]
    differ = ~_close(a, b, grain)
    place = tuple(int(n[0]) for n in torch.nonzero(differ, as_tuple=True)) if differ.ndim else ()
    told = (
        f"output {i} {b.dtype}{list(b.shape)}: {int(differ.sum())} differ, the first {place}: "
        f"{a[place].item()}, not {b[place].item()}"
    )
    return Verdict(_whose(make, got, bad, want, grain), told)


def _steps(t: torch.Tensor) -> list[int]:
    """Strides of the dimensions that have several elements."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]


def _coarse(dtype: torch.dtype) -> float:
    return _RELATIVE.get(dtype, 0.0)


def _close(a: torch.Tensor, b: torch.Tensor, grain: torch.dtype) -> torch.Tensor:
    if not b.is_floating_point():
        return torch.eq(a, b)
    kind = max(b.dtype, grain, key=_coarse)
    p, q = a.double(), b.double()
    finite = q[q.isfinite()].abs()
    near = _OF_LARGEST[kind] * max(finite.max().item() if finite.numel() else 0.0, 1e-30)
    return torch.isclose(p, q, rtol=_RELATIVE[kind], atol=near, equal_nan=True)


def _whose(make: Make, got: Any, bad: Sequence[int], want: Any, grain: torch.dtype) -> str:
    """Whether the difference is within what moving the inputs a little does to the result."""
    scale = {torch.float64: 1e-15, torch.float32: 3e-7, torch.float16: 2e-3, torch.bfloat16: 1e-2}
    runs = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(12):
            module, inputs = make(torch.float64)
            generator = torch.Generator().manual_seed(seed)
            for t in (*inputs, *module.parameters(), *module.buffers()):
                if t.is_floating_point():
                    noise = torch.randn(t.shape, generator=generator, dtype=torch.float64)
                    t.mul_(1 + scale[grain] * 4 * noise)
            runs.append(_flat(module(*inputs)))
    for i in bad:
        each = torch.stack([r[i].double() for r in runs] + [want[i].double()])
        low, high = each.amin(0), each.amax(0)
        room = 2 * (high - low) + 1e-3 * torch.maximum(low.abs(), high.abs()) * (high > low)
        wide = got[i].double()
        free = (wide >= low - room) & (wide <= high + room)
        exact = _close(got[i], each[0].to(got[i].dtype), grain)
        if not (free | exact)[~_close(got[i], want[i], grain)].all():
            return "wrong"
    return "sensitive"


@dataclass(frozen=True, eq=False)
class Smith:
    """NNSmith's module of a seed, and its inputs."""

    seed: int
    module: torch.nn.Module
    inputs: list[torch.Tensor]


class SmithPath:
    """NNSmith's PyTorch models, see `_paths.Path`; they are made by their seeds, and kept so."""

    def make(self, seed: int) -> Smith:
        """The model of a seed."""
        model, oracle = generate(seed, "torch")
        module = model.native_model.eval()
        given = [torch.as_tensor(oracle.input[name]) for name in model.input_like]
        return Smith(seed, module, given)

    def check(self, case: Smith) -> Verdict:
        """Run it both ways."""

        def made(dtype: torch.dtype | None) -> tuple[torch.nn.Module, list[torch.Tensor]]:
            if dtype is None:
                return case.module, case.inputs
            copied = copy.deepcopy(case.module).to(dtype)
            return copied, [
                t.to(dtype) if t.is_floating_point() else t.clone() for t in case.inputs
            ]

        kinds = [str(t.dtype).split(".")[1] for t in case.inputs]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = _flat(case.module(*case.inputs))
        kinds += [str(t.dtype).split(".")[1] for t in results]
        if any(t.is_floating_point() and not t.isfinite().all() for t in results):
            return Verdict("undefined", "NaN or infinity in a result")
        return judge(made, kinds)

    def smaller(self, case: Smith, still: Callable[[Smith], bool]) -> Smith:
        """As it is."""
        return case

    def save(self, case: Smith, folder: File, name: str) -> File:
        """Write the seed."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.seed"
        path.write_text(str(case.seed))
        return path

    def load(self, path: File) -> Smith:
        """What `save` wrote."""
        return self.make(int(path.read_text()))

    def describe(self, case: Smith) -> str:
        """Its operators."""
        return " ".join(type(i.iexpr.op).__name__ for i in case.module.ir.insts)


PATH = TorchPath()
SMITH = SmithPath()
