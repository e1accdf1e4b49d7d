"""NVIDIA GPUs as targets: which architecture code is made for, and the device that runs it."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self, get_args

from tilework.errors import TargetError
from tilework.kinds.cuda.architectures import ARCHITECTURES, ArchLimits
from tilework.kinds.cuda.models import MODELS, DeviceModel, alike, model_of, representative
from tilework.kinds.cuda.probe import look
from tilework.target.base import Target, parse_options

Run = Literal["device", "emulated", "simulated"]
RUNS: tuple[Run, ...] = get_args(Run)
_KNOWN_OPTIONS = ("model", "arch", "run")
_VECTOR = 4


@dataclass(frozen=True)
class CudaTarget(Target):
    """A GPU to generate code for, parsed from text such as ``cuda -model=a100``.

    Options: ``-model=NAME`` a known device (`tilework.kinds.cuda.models`), ``-arch=sm_NN`` an
    architecture, ``native`` (default without a model) the device that is here. ``-run=device``
    (default) runs programs on it; ``-run=emulated`` runs the same CUDA C on this CPU, slowly;
    ``-run=simulated`` runs nothing and invents latencies, for trying out searches. The canonical
    text names the model, or the architecture where there is none; it alone decides all else.

    Attributes:
        arch: the architecture, such as ``sm_80``.
        model: the device's name, or empty.
        run: how its programs are run.
        limits: what the architecture allows.
        device: numbers of the device; those of a usual one where no model is named.

    Raises:
        TargetError: the text does not name a target that Tilework supports, or there is no device.
    """

    kind: ClassVar[str] = "cuda"
    machine: ClassVar[str] = "GPU"
    arch: str = field(init=False)
    model: str = field(init=False)
    run: Run = field(init=False)
    limits: ArchLimits = field(init=False, repr=False)
    device: DeviceModel = field(init=False, repr=False)

    def __post_init__(self) -> None:
        options = parse_options(self.text.split()[1:], self.text, _KNOWN_OPTIONS)
        model, arch = options.get("model", ""), options.get("arch", "")
        run = options.get("run", "device")
        if run not in RUNS:
            raise _unknown(self.text, "way to run", run, RUNS)
        if model not in ("", *MODELS):
            raise _unknown(self.text, "model", model, MODELS)
        if arch not in ("", "native", *ARCHITECTURES):
            raise _unknown(self.text, "architecture", arch, ARCHITECTURES)
        if arch == "native" or not (model or arch):
            here, arch = _native(self.text)
            model = model or here
        if model and arch not in ("", MODELS[model].arch):
            raise TargetError(
                f"target '{self.text}': -model={model} is a device of {MODELS[model].arch}, not "
                f"of {arch}: leave out one of the two"
            )
        device = MODELS[model] if model else representative(arch)
        put = object.__setattr__
        put(self, "arch", device.arch)
        put(self, "model", model)
        put(self, "run", run)
        put(self, "limits", ARCHITECTURES[device.arch])
        put(self, "device", device)
        put(self, "platform", self.kind)
        put(self, "num_cores", 1)
        put(self, "text", self._text(model))

    def lanes(self) -> int:
        """Float32 elements in the widest access of one thread."""
        return _VECTOR

    def with_cores(self, num_cores: int) -> Self:
        """The target itself: a GPU's threads are a matter of schedules.

        Raises:
            TargetError: another number than 1 is asked for.
        """
        if num_cores != 1:
            raise TargetError(
                f"target '{self}' has no number of threads to set: its programs use the whole "
                f"device; leave out the {num_cores} threads"
            )
        return self

    def relatives(self) -> list[Target]:
        """Devices of about its size with the same architecture, run in the same way."""
        others = [model.name for model in alike(self.device)]
        names = [*(("",) if self.model else (self.device.name,)), *others]
        return [CudaTarget(self._text(name)) for name in names]

    def missing_on_host(self) -> list[str]:
        """A device of the architecture, where programs are to run on one."""
        if self.run != "device" or any(d.arch == self.arch for d in look().devices):
            return []
        return [f"a CUDA device of {self.arch}"]

    def require_precision(self, precision: str) -> None:
        """The narrow ones need tensor cores that take them; see `Target.require_precision`."""
        if precision != "f32" and not self.limits.mma:
            raise TargetError(
                f"precision {precision} needs tensor cores of sm_80 or later, which target "
                f"'{self}' ({self.arch}) lacks: use precision f32, or name a newer target"
            )

    def _text(self, model: str) -> str:
        """The canonical text with another model."""
        where = f"-model={model}" if model else f"-arch={self.arch}"
        return f"{self.kind} {where}" + ("" if self.run == "device" else f" -run={self.run}")


def _native(text: str) -> tuple[str, str]:
    """Model, if it is a known one, and architecture of the device that is here.

    Raises:
        TargetError: there is none, or none that code can be made for.
    """
    seen = look()
    if not seen.devices:
        raise TargetError(
            f"target '{text}': no CUDA device is here, {seen.why_none}; name one, such as "
            "'cuda -model=a100', and add -run=emulated to run its programs on this CPU"
        )
    device = seen.devices[0]
    if device.arch not in ARCHITECTURES:
        raise TargetError(
            f"target '{text}': the device here, {device.name}, is of {device.arch}, which is not "
            f"supported; supported are {', '.join(ARCHITECTURES)}"
        )
    known = model_of(device.name, device.arch, device.sms)
    return (known.name if known else ""), device.arch


def _unknown(text: str, what: str, name: str, known: Collection[str]) -> TargetError:
    near = difflib.get_close_matches(name.lower(), known, 3, 0.5)
    meant = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}"
    return TargetError(f"target '{text}': unknown {what} '{name}'; {meant}")
