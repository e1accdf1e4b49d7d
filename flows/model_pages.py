"""Pages of what was learnt, as Markdown: a model's card, and a report of transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.model_tables import (
    EXPLAINED,
    JUDGED,
    TRANSFER,
    history_rows,
    judged_rows,
    lineage,
    transfer_rows,
)
from flows.texts import sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.cards import Move
    from tasks.learning.retrain import Retrained
    from tasks.learning.transfer import Transfers


def model_card(done: Retrained, moves: Sequence[Move] = ()) -> str:
    """The card of a model: the verdict first, then how it was judged, then its lineage."""
    lines = [f"# Cost model for {done.kind}", "", f"**{sentence(done.verdict)}.**", ""]
    champion = moves[-1].name if moves else ""
    lines += [f"The champion is `{champion}`." if champion else "There is no champion.", ""]
    card = done.card
    if card is not None:
        lines += [*_table(JUDGED, judged_rows(card.judged)), "", EXPLAINED, ""]
        state = "champion" if done.name == champion else "not promoted"
        lines += _table(("", ""), [(f"**{a}**", b) for a, b in lineage(done.name, card, state)])
        taught = [(f"`{t.target}`", t.device, t.workloads, t.records) for t in card.taught]
        columns = ("Learnt from", "Device", ">Tasks", ">Records")
        lines += ["", *_table(columns, taught)]
        settings = ", ".join(f"{k} {v}" for k, v in card.parameters.items())
        lines += ["", f"Trained with {settings}."]
    if moves:
        rows = history_rows(moves)[:10]
        lines += ["", "## Champions", "", *_table(("When", "", "Model", "By", "Why"), rows)]
    lines += [f"- {note}" for note in done.notes]
    return "\n".join(lines)


def transfer_page(done: Transfers) -> str:
    """What records of other machines are worth on each that was left out."""
    title, verdict = f"# Transfer between targets of {done.kind}", sentence(done.verdict)
    lines = [title, "", f"**{verdict}.**", ""]
    lines += [*_table(TRANSFER, transfer_rows(done.rows)), "", EXPLAINED, ""]
    lines.append(
        "*Others*: trained on the records of the others only. *Own*: on its own only. *Both*: on "
        f"all. {done.records} records, champion `{done.champion or 'none'}`."
    )
    return "\n".join(lines)


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    marks = "|".join("--:" if name.startswith(">") else "---" for name in columns)
    head = " | ".join(name.lstrip(">") for name in columns)
    cells = (" | ".join(str(cell).replace("|", "/") for cell in row) for row in rows)
    return [f"| {head} |", f"|{marks}|", *(f"| {row} |" for row in cells)]
