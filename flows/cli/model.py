"""``tilework model``: the cost models of a store, and which one searches begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import options
from flows.cli.commands import Commands
from flows.cli.output import console, print_json, table, warn
from flows.model_tables import EXPLAINED, JUDGED, gain, history_rows, judged_rows, lineage, share
from flows.numbers import when
from flows.texts import target_words

if TYPE_CHECKING:
    from storage.cards import Move
    from storage.models import Models

app = Commands(
    help="Look at the learned cost models of a store; say which one searches begin with.",
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A model, or as much of its name as is needed.")
]
Reason = Annotated[str, typer.Option("--reason", "-m", help="Why; kept in the history.")]


@app.command("list")
def list_models(
    store: options.Store = options.DEFAULT_STORE,
    history: Annotated[
        bool, typer.Option("--history", help="Also what was champion when, and why.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the models, newest first; the champion is what searches begin with."""
    models = _models(store)
    champions = {kind: models.champion_name(kind) for kind in models.kinds()}
    cards = models.cards()
    if json:
        moves = {kind: models.moves.of(kind) for kind in champions}
        documents = [
            {"name": name, "champion": _now(champions, name), **vars(c)} for name, c in cards
        ]
        print_json({"models": documents, "champions": champions, "history": moves})
        return
    for problem in models.problems:
        warn(f"warning: {problem}")
    out = console()
    if not cards:
        out.print(f"{models.place}: no models; `tilework retrain {store}` makes one", markup=False)
        return
    rows = [
        (
            name,
            _state(champions, name, card.promoted),
            when(card.created),
            card.records,
            len({t.target for t in card.taught}),
            f"{len(card.serves)}{' +' if card.anywhere else ''}",
            card.reason,
        )
        for name, card in cards
    ]
    columns = ["Model", "State", "Made", ">Records", ">Targets", ">Serves", "Why"]
    out.print(table(columns, rows))
    if any(card.anywhere for _, card in cards):
        out.print("+ serves targets that it has not seen, too", style="dim")
    for kind, name in champions.items():
        if name and name not in {one for one, _ in cards}:
            warn(f"warning: the champion of {kind}, {name}, is not among them")
        if history:
            _print_history(kind, models.moves.of(kind))


@app.command("show")
def show(
    name: Name = "champion",
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Show a model's card: how it was judged, where it comes from, what it serves.

    tilework model show                   the champion, if there is one kind of machine
    """
    models = _models(store)
    full_name = models.find(name)
    card = models.card(full_name)
    champions = {kind: models.champion_name(kind) for kind in models.kinds()}
    state = _state(champions, full_name, card.promoted)
    if json:
        print_json({"name": full_name, "state": state, **vars(card)})
        return
    out = console()
    out.print(table(["", ""], lineage(full_name, card, state)))
    out.print(table(JUDGED, judged_rows(card.judged)))
    out.print(EXPLAINED, style="dim")
    taught = [(target_words(t.target), t.device, t.workloads, t.records) for t in card.taught]
    out.print(table(["Learnt from", "Device", ">Tasks", ">Records"], taught))


@app.command("compare")
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model, or 'champion'.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Compare two models by their cards, target by target.

    Each was judged on the records of its day: small differences between models of different days
    say little. What counts for a promotion is judged on the same records, when it is trained.
    """
    models = _models(store)
    names = [models.find(first), models.find(second)]
    cards = [models.card(name) for name in names]
    judged = [{one.target: one for one in card.judged} for card in cards]
    targets = sorted({*judged[0], *judged[1]})
    if json:
        print_json({name: vars(card) for name, card in zip(names, cards, strict=True)})
        return
    rows = []
    for target in targets:
        cells = [target_words(target)]
        for verdicts in judged:
            one = verdicts.get(target)
            cells += ["-", "-"] if one is None else [share(one.top, "model"), gain(one.over_draft)]
        rows.append(cells)
    out = console()
    facts = [
        ("made", *(when(card.created) for card in cards)),
        ("records", *(f"{card.records} of {card.held}" for card in cards)),
        ("code", *(f"{card.engine_version}, {card.code}" for card in cards)),
        ("after", *(card.parent or "no champion" for card in cards)),
        ("why", *(card.reason for card in cards)),
    ]
    out.print(table(["", *names], facts))
    columns = ["Target", ">A", ">A over the draft", ">B", ">B over the draft"]
    out.print(table(columns, rows))
    out.print(EXPLAINED, style="dim")


@app.command("promote")
def promote(name: Name, reason: Reason = "", store: options.Store = options.DEFAULT_STORE) -> None:
    """Make a model the champion, whatever it was judged to be: searches begin with it.

    It then serves every target of its kind of machine. `tilework model rollback` takes it back.
    """
    from storage.cards import BY_HAND

    models = _models(store)
    full_name = models.find(name)
    _check(models, full_name)
    _tell(models.promote(full_name, by=_who(BY_HAND), reason=reason))


@app.command("rollback")
def rollback(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="Of machine; needed if there are several."),
    ] = None,
    reason: Reason = "",
    store: options.Store = options.DEFAULT_STORE,
) -> None:
    """Bring back the champion before the present one; again: the one before that.

    tilework model rollback -m "searches of resnet-50 were slower with it"
    """
    from storage.cards import ModelError

    models = _models(store)
    if kind is None:
        moved = [one for one in models.kinds() if models.champion_name(one)]
        if len(moved) != 1:
            some = f"name one of {', '.join(moved)}" if moved else "there is no champion"
            raise ModelError(f"{models.place}: nothing is taken back: {some}")
        (kind,) = moved
    _tell(models.rollback(kind, by=_who("tilework model rollback"), reason=reason))


def _models(path: str) -> Models:
    from storage import RecordStore

    return RecordStore(path, must_exist=True).models


def _check(models: Models, name: str) -> None:
    """Refuse what no search could begin with.

    Raises:
        ModelError: it cannot be read.
    """
    from storage.cards import ModelError
    from tilework.model import CostModelError, XGBModel

    try:
        XGBModel.from_json(models.document(name))
    except CostModelError as error:
        raise ModelError(f"{models.place}: {name!r} is not promoted: {error}") from None


def _tell(move: Move) -> None:
    now = move.name or "none: searches begin with the draft alone"
    typer.echo(f"champion of {move.kind}: {now} (before: {move.before or 'none'})")


def _who(command: str) -> str:
    import getpass

    try:
        return f"{getpass.getuser()}, {command}"
    except (OSError, KeyError, ImportError):  # a user without a name
        return command


def _now(champions: dict[str, str], name: str) -> bool:
    return name in champions.values()


def _state(champions: dict[str, str], name: str, promoted: bool) -> str:
    if _now(champions, name):
        return "champion"
    return "was champion" if promoted else "not promoted"


def _print_history(kind: str, moves: list[Move]) -> None:
    rows: list[Any] = history_rows(moves)
    if rows:
        columns = ["When", "", "Model", "By", "Why"]
        console().print(table(columns, rows, title=f"Champions of {kind}"))
