"""What is to be known of a learned cost model: its card, its name, and the moves of champions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from tilework.errors import StoreError

NAME = re.compile(r"([a-z][a-z0-9_]*)-[0-9a-f]{12}")
"""Of models; the first group is the kind of machine."""

Action = Literal["promote", "rollback"]


class ModelError(StoreError):
    """A model that is not there, cannot be read, or is not what its name says."""


@dataclass(frozen=True)
class Taught:
    """Records of one target and device among those that a model has learnt from.

    Attributes:
        target: canonical text.
        device: its id, or its name for records of before devices had one.
        workloads: distinct workloads.
        records: distinct programs.
    """

    target: str
    device: str
    workloads: int
    records: int


@dataclass(frozen=True)
class Judged:
    """How a model did on one target, on tasks that it had not seen.

    Shares are those of `tilework.model.judge.top_k`; a gain is (low, middle, high) of the
    difference, by bootstrap over workloads.

    Attributes:
        target: canonical text.
        workloads: that it was judged on; fewer than needed: `verdict` says so.
        top: by ranker ("draft", "model", "champion"), its top-1 and top-5.
        over_draft: gain in top-1 over the draft; empty where it was not judged.
        over_champion: gain in top-1 over the champion, on records that neither has seen.
        verdict: one of "better", "not better", "worse than the champion", "not judged", with
            what it needs to be said.
        passed: whether the target speaks for the promotion; None: it says nothing.
    """

    target: str
    workloads: int
    top: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    over_draft: tuple[float, ...] = ()
    over_champion: tuple[float, ...] = ()
    verdict: str = ""
    passed: bool | None = None


@dataclass(frozen=True)
class Card:
    """What there is to know of a model without loading it.

    Attributes:
        kind: of machine.
        created: when it was made, an aware UTC time.
        engine_version, code: version of Tilework, and a digest of what models are made by.
        rules_version: of the sketch rules of its records.
        model_id: as records name it.
        parent: the champion at that time; empty if there was none.
        stores: where its records were.
        taught: how many of which target and device.
        records: how many it has learnt from; `held`: how many the stores held.
        digest: of its programs and their latencies.
        parameters: what it was trained with, and what was fitted.
        judged: by target.
        elsewhere: gain in top-1 over the draft on targets that were left out; empty: not judged.
        serves: targets that it was shown to be better on.
        anywhere: whether it was shown to help targets that it has not seen.
        promoted: whether that was enough.
        reason: why, or why not, in one line.
        seconds: how long all of it took.
    """

    kind: str
    created: datetime
    engine_version: str
    code: str
    rules_version: int
    model_id: str
    parent: str = ""
    stores: tuple[str, ...] = ()
    taught: tuple[Taught, ...] = ()
    records: int = 0
    held: int = 0
    digest: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    judged: tuple[Judged, ...] = ()
    elsewhere: tuple[float, ...] = ()
    serves: tuple[str, ...] = ()
    anywhere: bool = False
    promoted: bool = False
    reason: str = ""
    seconds: float = 0.0


BY_HAND = "tilework model promote"
"""How `Move.by` ends for a promotion that a person made."""


@dataclass(frozen=True)
class Move:
    """One step in the history of a kind's champion.

    Attributes:
        kind: of machine.
        number: moves are counted; two that were made at once may share a number.
        action: whether a model was promoted, or one taken back.
        name: the champion from here on; empty: none.
        before: the champion until then, as who made the move saw it.
        at: when, an aware UTC time.
        by: whom or what: a command or a flow.
        reason: one line.
    """

    kind: str
    number: int
    action: Action
    name: str
    before: str
    at: datetime
    by: str
    reason: str = ""

    @property
    def by_hand(self) -> bool:
        """Whether a person promoted the model, whatever it was judged to be."""
        return self.action == "promote" and self.by.endswith(BY_HAND)


def champions(moves: Sequence[Move]) -> list[str]:
    """The line of champions that lead to the present one, which is the last; empty: none.

    A promotion adds to it, a rollback cuts it behind what it went back to.
    """
    line: list[str] = []
    for move in moves:
        if move.action == "promote":
            line.append(move.name)
        elif not move.name:
            line.clear()
        elif move.name in line:
            while line[-1] != move.name:
                line.pop()
        else:
            line.append(move.name)
    return line


def serves(card: Card, target: str) -> bool:
    """Whether a model was shown to be of use for a target.

    It was judged there and is better than the draft; or it was not, and is on targets left out.
    """
    judged = {one.target for one in card.judged if one.passed is not None}
    return target in card.serves or (card.anywhere and target not in judged)


def name_of(kind: str, document: str) -> str:
    """What a model is called: its kind and 12 hexadecimal digits of its content's hash."""
    name = f"{kind}-{hashlib.sha256(document.encode()).hexdigest()[:12]}"
    if not NAME.fullmatch(name):
        raise ModelError(f"{kind!r} is no kind of machine")
    return name


def kind_of(name: str) -> str:
    """The kind of machine of a model.

    Raises:
        ModelError: that is no model's name.
    """
    parsed = NAME.fullmatch(name)
    if parsed is None:
        raise ModelError(f"{name!r} is no name of a model, such as llvm-0123456789ab")
    return parsed[1]


def card_text(card: Card) -> bytes:
    """A card as JSON."""
    content: bytes = _form().dump_json(card)
    return content


def read_card(content: bytes) -> Card:
    """What `card_text` wrote.

    Raises:
        ValueError: it cannot be read; the message says where.
    """
    from pydantic import ValidationError

    try:
        card: Card = _form().validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"its card cannot be read ({where}: {first['msg']})") from None
    return card


def _form() -> Any:
    global _card_form
    if _card_form is None:
        from pydantic import TypeAdapter

        _card_form = TypeAdapter(Card)
    return _card_form


_card_form: Any = None


def read_move(content: bytes) -> Move | None:
    """None for what is no move: a damaged one must not end every search of the store."""
    try:
        document = json.loads(content)
        at = datetime.fromisoformat(document["at"])
        texts = [document[name] for name in ("kind", "action", "name", "before", "by", "reason")]
        if document["action"] not in get_args(Action) or not all(
            isinstance(t, str) for t in texts
        ):
            return None
        if at.tzinfo is None or (document["name"] and not NAME.fullmatch(document["name"])):
            return None
        return Move(**{**document, "number": int(document["number"]), "at": at})
    except (ValueError, KeyError, TypeError):
        return None
