"""What models and reports of transfer say, as rows: the same on terminals and on pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.numbers import counted, when
from flows.texts import target_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from storage.cards import Card, Judged, Move
    from tasks.learning.transfer import Transfer

JUDGED = ("Target", ">Tasks", ">Draft", ">Champion", ">Model", ">Over the draft", "Verdict")
"""Columns of `judged_rows`; ``>`` is aligned to the right."""
TRANSFER = ("Left out", ">Tasks", ">Draft", ">Others", ">Own", ">Both", ">Others over draft", "")
"""Columns of `transfer_rows`."""
EXPLAINED = (
    "Shares of the best speed, for the first and for the best of the first five programs that a "
    "ranker puts in front, on tasks that it has not seen; every task counts the same. Intervals "
    "are of 90 % of a bootstrap over tasks."
)


def judged_rows(judged: Iterable[Judged]) -> list[tuple[str, ...]]:
    """A row for each target."""
    return [
        (
            target_words(one.target),
            str(one.workloads),
            share(one.top, "draft"),
            share(one.top, "champion"),
            share(one.top, "model"),
            gain(one.over_draft),
            one.verdict,
        )
        for one in judged
    ]


def transfer_rows(rows: Iterable[Transfer]) -> list[tuple[str, ...]]:
    """A row for each target or device that was left out."""
    return [
        (
            target_words(row.name) if row.what == "target" else f"device {row.name}",
            str(row.workloads),
            *(share(row.top, ranker) for ranker in ("draft", "others", "own", "both")),
            gain(row.over_draft),
            row.verdict,
        )
        for row in rows
    ]


def lineage(name: str, card: Card, state: str) -> list[tuple[str, str]]:
    """What a model is and where it comes from, as names and values."""
    targets = {one.target for one in card.taught}
    devices = {one.device for one in card.taught}
    facts = [
        ("model", name),
        ("state", state),
        ("why", card.reason),
        ("made", f"{when(card.created)}, in {card.seconds:.0f} s"),
        ("learnt from", f"{card.records} of {card.held} records"),
        ("of", f"{counted(len(targets), 'target')}, {counted(len(devices), 'device')}"),
        ("stores", ", ".join(card.stores)),
        ("after", card.parent or "no champion"),
        ("serves", ", ".join(map(target_words, card.serves)) or "no target that it was judged on"),
        ("elsewhere", _elsewhere(card)),
        ("code", f"Tilework {card.engine_version}, {card.code}, rules {card.rules_version}"),
        ("records' digest", card.digest),
    ]
    return [(word, value) for word, value in facts if value]


def history_rows(moves: Sequence[Move]) -> list[tuple[str, ...]]:
    """What became champion, when, by whom and why; the newest first."""
    words = {"promote": "promoted", "rollback": "taken back to"}
    return [
        (when(one.at), words[one.action], one.name or "no model", one.by, one.reason)
        for one in reversed(moves)
    ]


def share(top: Mapping[str, tuple[float, float]], ranker: str) -> str:
    """Top-1 and top-5 of a ranker, or a dash."""
    if ranker not in top:
        return "-"
    first, fifth = top[ranker]
    return f"{first:.3f} {fifth:.3f}"


def gain(interval: Sequence[float]) -> str:
    """A difference with its interval, or a dash."""
    if not interval:
        return "-"
    low, middle, high = interval
    return f"{middle:+.3f} ({low:+.3f}, {high:+.3f})"


def _elsewhere(card: Card) -> str:
    if not card.elsewhere:
        return "not judged: one target only, or too few tasks"
    word = "serves other targets, too" if card.anywhere else "not shown to help other targets"
    return f"{word}: {gain(card.elsewhere)} over the draft on targets left out"
