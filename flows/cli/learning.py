"""``tilework retrain``, ``tilework evaluate-transfer``: learn from stores, as the flows do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli import options
from flows.cli.output import console, print_json, say, table, warn
from flows.model_tables import EXPLAINED, JUDGED, TRANSFER, judged_rows, transfer_rows

if TYPE_CHECKING:
    from tasks.learning.retrain import Retrained

Stores = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STORE]...",
        help=f"Stores to learn from; what is learnt is kept in the first. "
        f"Default: {options.DEFAULT_STORE}.",
    ),
]


def retrain(
    stores: Stores = None,
    most: Annotated[
        int, typer.Option("--most", min=100, help="Records to learn from at most.")
    ] = 40_000,
    grown: Annotated[
        float,
        typer.Option("--grown", min=0.0, help="Only if the stores grew by this share, like 0.2."),
    ] = 0.0,
    force: Annotated[
        bool, typer.Option("--force", help="Also if there is nothing new to learn from.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Train the cost model on all records, judge it, promote it if it is better.

    It is judged on tasks, and on targets, that it has not seen: against the draft and against the
    present champion. Searches begin with the champion. Nothing is measured; others may tune
    meanwhile. A model that loses is kept for `tilework model compare`, and is no error.

      tilework retrain records                      the usual store

      tilework retrain laptop-records server-records     models are kept in the first
    """
    from flows.learning_settings import RetrainSettings
    from tasks.learning.retrain import retrain as learn

    settings = RetrainSettings(
        stores=tuple(stores or (options.DEFAULT_STORE,)), most=most, grown=grown, force=force
    )
    done = learn(
        settings.stores, say, most=settings.most, force=settings.force, grown=settings.grown
    )
    if json:
        print_json(
            [{"verdict": one.verdict, "promoted": one.promoted, **vars(one)} for one in done]
        )
        return
    for one in done:
        _print(one)


def evaluate_transfer(
    stores: Stores = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="TARGET", help="Leave out this target or device only."),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Only what the last report does not have.")
    ] = False,
    most: Annotated[
        int, typer.Option("--most", min=100, help="Records to learn from at most.")
    ] = 20_000,
    json: options.Json = False,
) -> None:
    """Leave out each target of a store in turn: what are the others' records worth there?

    tilework evaluate-transfer records --only 'llvm -mcpu=znver4 -num-cores=2'
    """
    from flows.learning_settings import TransferSettings
    from tasks.learning.transfer import evaluate_transfer as evaluate

    settings = TransferSettings(
        stores=tuple(stores or (options.DEFAULT_STORE,)),
        only=tuple(only or ()),
        new=new,
        most=most,
    )
    done = evaluate(settings.stores, say, only=settings.only, new=settings.new, most=settings.most)
    if json:
        print_json([{"verdict": one.verdict, **vars(one)} for one in done])
        return
    out = console()
    for report in done:
        if report.rows:
            out.print(table(TRANSFER, transfer_rows(report.rows)))
            out.print(EXPLAINED, style="dim")
        out.print(report.verdict, markup=False)


def _print(done: Retrained) -> None:
    out = console()
    for note in done.notes:
        warn(f"warning: {note}")
    if done.card is not None:
        out.print(table(JUDGED, judged_rows(done.card.judged)))
        out.print(EXPLAINED, style="dim")
    out.print(done.verdict, style="green" if done.promoted else "", markup=False)
