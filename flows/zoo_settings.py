"""Parameters of the flows over many networks, and the file that names the networks.

A zoo file is YAML or JSON:

    defaults: {threads: 2}
    networks:
      - resnet-18                                  # short for {network: resnet-18}
      - {network: mobilenet, use: 5}               # five calls for each one of resnet-18
      - {network: models/net.onnx, precision: bf16}  # relative to the file
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from flows.events import Event
from flows.settings import Effort, NetworkChoice, StoreText
from flows.texts import target_words
from tasks.network import NetworkSpec, is_onnx
from tilework.errors import TileworkError

if TYPE_CHECKING:
    from tilework.search import TuningOptions


class SettingsError(TileworkError):
    """Settings, or a file of them, that cannot be used."""


class ZooNetwork(NetworkChoice):
    """A network of a zoo: what is compiled for which machine, and how much it is used."""

    network: str = Field(min_length=1, description="A built-in network's name, or an ONNX file")
    use: float = Field(1.0, gt=0, description="How often it runs, relative to the others")
    output: str = Field("", description="File of the module in the folder; none: made of the rest")

    @property
    def title(self) -> str:
        """The network as people say it: its name, and in what it differs from the usual."""
        spec = self.spec()
        more = [f"batch {self.batch}"] if self.batch != 1 else []
        more += [self.layout] if self.layout != "NHWC" else []
        more += list(self.shapes)
        return spec.label + (f" ({', '.join(more)})" if more else "")

    @field_validator("output")
    @classmethod
    def _inside(cls, output: str) -> str:
        if output and (Path(output).name != output or output.startswith(".")):
            raise ValueError(f"{output!r}: name a file, not a path; it goes to the folder")
        return output

    def file_name(self) -> str:
        """The module's file: ``output``, or a name that says what else the same network is not.

        It depends on nothing but this network's settings, so that it stays when others come.

        Raises:
            TargetError: the target text does not name a supported machine.
            NetworkError: ``sparse`` or ``block`` cannot be read.
        """
        if self.output:
            return self.output
        parts = [self.spec().label]
        if self.batch != 1:
            parts.append(f"b{self.batch}")
        if self.layout != "NHWC":
            parts.append(self.layout)
        if self.precision != "f32":
            parts.append(self.precision)
        parts += target_words(self.resolved_target()).split()
        return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(parts)) + ".tw"

    def is_named_by(self, event: Event) -> bool:
        """Whether an event is about this network on this target.

        Raises:
            TargetError: as `resolved_target`.
        """
        same = not event.network or _model(event.network) == _model(self.network)
        return same and event.target in ("", str(self.resolved_target()))

    def spec(self) -> NetworkSpec:
        """Which network, and in which form; raises as `spec_of`."""
        return self.spec_of(strict=True)  # releases are files that run without another engine


def _model(network: str) -> str:
    """A network as an event is compared by: files are the same by whatever path."""
    return os.path.realpath(network) if is_onnx(network) else network


class _ManyNetworks(BaseModel):
    """What the flows over many networks have in common: which they are, records, modules."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field("", description="Zoo file (YAML or JSON) that names the networks")
    networks: tuple[ZooNetwork, ...] = Field(
        (), description="The networks, where there is no file"
    )
    store: StoreText = "records"
    folder: str = Field("modules", description="Where modules are kept; empty: they are not")

    @model_validator(mode="after")
    def _one_source(self) -> _ManyNetworks:
        if bool(self.file) == bool(self.networks):
            raise ValueError("name the networks, or a file that does: one of the two")
        return self

    def members(self) -> tuple[ZooNetwork, ...]:
        """The networks, from the file if there is one.

        Raises:
            SettingsError: the file cannot be read, or two networks write the same module.
        """
        return read_zoo(self.file) if self.file else self.networks


class ZooSettings(_ManyNetworks):
    """Which networks to tune, and how much to spend on all of them together.

    Either of ``trials`` and ``seconds`` replaces the budgets of ``effort``, which are as many
    times as large as for one network as there are networks.
    """

    effort: Effort = Field("quick", description="How thorough: budgets and search depth")
    trials: int | None = Field(None, ge=1, description="Measurements of all networks together")
    seconds: float | None = Field(None, gt=0, description="Search time of all networks together")
    min_gain: float | None = Field(
        None, ge=0, lt=1, description="Stop when a round promises a smaller share; none: effort's"
    )
    extend: bool = Field(False, description="Spend the budget on top of what was spent before")
    seed: int = Field(0, ge=0, description="Same seed and records give the same candidates")

    def tuning_options(self, networks: int) -> TuningOptions:
        """The search options of ``effort``, with budgets for so many networks, or those given."""
        from tilework.search import EFFORTS

        options = EFFORTS[self.effort]
        if self.min_gain is not None:
            options = replace(options, min_gain=self.min_gain)
        trials, seconds = self.trials, self.seconds
        if trials is None and seconds is None:
            trials, seconds = options.num_measure_trials, options.seconds
            trials = None if trials is None else trials * networks
            seconds = None if seconds is None else seconds * networks
        return replace(options, num_measure_trials=trials, seconds=seconds)


class ReleaseSettings(_ManyNetworks):
    """Which networks to compile again where the best schedules on record have changed."""

    force: bool = Field(False, description="Compile all, whether anything changed or not")
    packages: bool = Field(True, description="Also use installed and shipped packages")

    def about(self, event: Event | None) -> ReleaseSettings:
        """This release of those networks alone that an event is about.

        Raises:
            SettingsError, TargetError: see `members`, `ZooNetwork.resolved_target`.
        """
        if event is None or not (event.network or event.target):
            return self
        members = tuple(one for one in self.members() if one.is_named_by(event))
        return self.model_copy(update={"file": "", "networks": members})

    def not_about(self, event: Event | None) -> str:
        """Why an event is no concern of this release, in a line; empty if it is.

        Raises:
            SettingsError, TargetError: as `about`.
        """
        if event is None:
            return ""
        if not event.is_of(self.store):
            return f"the event is of store {event.store}, this release of {self.store}"
        if self.about(event).members():
            return ""
        named = " for ".join(filter(None, (event.network or "networks", event.target)))
        return f"the event is of {named}, which is not in this release"


Many = TypeVar("Many", ZooSettings, ReleaseSettings)


def read_zoo(path: str) -> tuple[ZooNetwork, ...]:
    """The networks that a zoo file names; paths in it are relative to its folder.

    Raises:
        SettingsError: the file is missing, no YAML or JSON, or says something else.
    """
    file = Path(path)
    try:
        document = yaml.safe_load(file.read_text())  # every JSON document is YAML
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise SettingsError(f"zoo file {path}: {reason}; name a YAML or JSON file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        raise SettingsError(f"zoo file {path}{line}: neither YAML nor JSON") from None
    return _networks_of(document, path, file.parent)


def _networks_of(document: Any, path: str, folder: Path) -> tuple[ZooNetwork, ...]:
    if not isinstance(document, Mapping) or not isinstance(document.get("networks"), list):
        raise SettingsError(
            f"zoo file {path}: it needs a list `networks`, such as `networks: [resnet-18]`"
        )
    if unknown := sorted(set(map(str, document)) - {"networks", "defaults"}):
        raise SettingsError(
            f"zoo file {path}: unknown {', '.join(unknown)}; it holds `networks` and `defaults`"
        )
    defaults = document.get("defaults") or {}
    if not isinstance(defaults, Mapping):
        raise SettingsError(f"zoo file {path}: `defaults` is a mapping, such as {{threads: 2}}")
    if not document["networks"]:
        raise SettingsError(f"zoo file {path}: it names no network")
    networks = []
    for place, entry in enumerate(document["networks"], start=1):
        given = {"network": entry} if isinstance(entry, str) else entry
        if not isinstance(given, Mapping):
            raise SettingsError(
                f"zoo file {path}: network {place} is neither a name nor a mapping"
            )
        try:
            network = ZooNetwork.model_validate({**defaults, **given})
        except ValidationError as error:
            raise SettingsError(
                f"zoo file {path}: network {place}: {first_error(error)}"
            ) from None
        files = {"network": network.network if is_onnx(network.network) else ""}
        files["calibrate"] = network.calibrate
        update = {name: str(folder / file) for name, file in files.items() if file}
        networks.append(network.model_copy(update=update))
    return tuple(networks)


def parse_network(text: str, **more: Any) -> ZooNetwork:
    """A network from ``NET`` or ``NET=USE``; ``more`` are further settings of it.

    Raises:
        SettingsError: the use is not positive, or something else is wrong.
    """
    name, given, use = text.rpartition("=")
    if given and re.fullmatch(r"[-+0-9.eE]+", use):
        more["use"] = use
    else:
        name = text
    try:
        return ZooNetwork(network=name, **more)
    except ValidationError as error:
        raise SettingsError(f"{text}: {first_error(error)}") from None


def is_zoo_file(text: str) -> bool:
    """Whether an argument of the command line names a zoo file, and not a network."""
    return text.endswith((".yaml", ".yml", ".json"))


def settings_of(kind: type[Many], **values: Any) -> Many:
    """Settings of a kind.

    Raises:
        SettingsError: a value is none that it may have.
    """
    try:
        return kind(**values)
    except ValidationError as error:
        raise SettingsError(first_error(error)) from None


def first_error(error: ValidationError) -> str:
    """What is wrong, in one line: the place and the reason of the first error."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    reason = first["msg"].removeprefix("Value error, ")
    return f"{place}: {reason}" if place else reason
