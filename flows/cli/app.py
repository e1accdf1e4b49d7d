"""The typer application: its commands, their order in ``--help``, and how errors end."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from flows.cli import (
    automations,
    bench,
    cache,
    canary,
    compile,
    doctor,
    explain,
    learning,
    model,
    networks,
    publish,
    quantize,
    records,
    release,
    tune,
    upkeep,
    zoo,
)
from flows.cli.commands import Commands
from flows.interrupts import insistent
from tilework.errors import TileworkError
from tilework.systems import require_system


class TileworkGroup(TyperGroup):
    """Turns errors meant for users into one line and exit code 2; no Ctrl-C is lost."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a `TileworkError` is printed, not traced."""
        try:
            require_system()
            with insistent():
                return super().invoke(ctx)
        except TileworkError as error:
            typer.secho(f"error: {error}", fg="red", err=True)
            raise typer.Exit(2) from None


app = Commands(cls=TileworkGroup, add_completion=False, pretty_exceptions_enable=False)


def _show_version(value: bool) -> None:
    if value:
        import tilework

        typer.echo(f"tilework {tilework.__version__}")
        raise typer.Exit


@app.callback()
def tilework(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Tune neural networks for the hardware they run on.

    NET is the name of a built-in network ([bold]tilework networks[/]) or an ONNX file.

    [bold]Start here[/]

      tilework tune resnet-18 --effort draft   a minute: search, compile

      tilework bench resnet-18                 how fast is it now?

      tilework tune model.onnx                 your own, up to 15 minutes

      tilework records show                    what was measured
    """


app.command("networks")(networks.networks)
app.command("extract")(networks.extract)
app.command("tune")(tune.tune)
app.command("tune-zoo")(zoo.tune_zoo)
app.command("compile")(compile.compile_network)
app.command("quantize")(quantize.quantize)
app.command("compile-release")(release.compile_release)
app.command("bench")(bench.bench)
app.command("explain")(explain.explain)
app.command("reproduce")(explain.reproduce)
app.add_typer(records.app, name="records")
app.command("publish")(publish.publish)
app.command("doctor")(doctor.doctor)
app.add_typer(cache.app, name="cache")
app.command("canary")(canary.canary)
app.command("maintain")(upkeep.maintain)
app.command("retrain")(learning.retrain)
app.command("evaluate-transfer")(learning.evaluate_transfer)
app.add_typer(model.app, name="model")
app.add_typer(automations.app, name="automations")
