"""What the tables of ``tilework records`` share: their options, columns and closing lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from flows.texts import target_words
from tilework.target.runs import CAVEATS, run_of

if TYPE_CHECKING:
    from tasks.analysis.failures import Cause

OnlyNetwork = Annotated[str | None, typer.Option("--network", help="Only this network.")]
OnlyTarget = Annotated[
    str | None, typer.Option("--target", help="Only targets whose text contains this.")
]


class Measured(Protocol):
    """Something that was measured on a device."""

    @property
    def target(self) -> str:
        """The target's text."""

    @property
    def device(self) -> str:
        """The device's id."""


@dataclass(frozen=True)
class Place:
    """A target and a device."""

    target: str
    device: str


class Places:
    """How a table says where its rows were measured: in columns, or if all agree in its title."""

    def __init__(self, rows: Sequence[Measured]) -> None:
        targets, devices = {row.target for row in rows}, {row.device for row in rows}
        self._target, self._device = len(targets) > 1, len(devices) > 1
        common = [*(targets if len(targets) == 1 else ()), *(devices if len(devices) == 1 else ())]
        self.title = ", on ".join(common) or None

    @property
    def heads(self) -> list[str]:
        """The columns."""
        return ["Target"] * self._target + ["Device"] * self._device

    def cells(self, row: Measured) -> list[str]:
        """What stands in them."""
        return [target_words(row.target)] * self._target + [row.device] * self._device


def failed_text(failed: Mapping[str, int]) -> str:
    """Failures by kind, the commonest first."""
    return ", ".join(f"{count} {kind}" for kind, count in failed.items()) or "none"


def print_caveats(targets: Iterable[str]) -> None:
    """One line for each way in which latencies above are not those of a device."""
    for run in sorted({run_of(target) for target in targets} & CAVEATS.keys()):
        typer.echo(f"Rows of targets with -run={run} are {CAVEATS[run]}.")


def print_causes(causes: Sequence[Cause], store: str) -> None:
    """Causes of failures, with a command that shows one of each again."""
    from flows.cli.hints import store_option

    for cause in causes:
        typer.echo(f"{cause.count} x {cause.status}: {cause.message or 'no message'}")
        typer.echo(f"  tilework reproduce {cause.record}{store_option(store)}")
