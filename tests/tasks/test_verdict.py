"""The rule of promotion, on made-up judgements."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from storage.cards import Card, Judged, serves
from tasks.learning.judging import Trial
from tasks.learning.verdict import verdict
from tilework.model.judge import Case

ROWS = 10


def cases(target: str, count: int = 12, first: int = 0, **skill: float) -> list[Case]:
    """Cases in which a ranker puts the best program in front so often, and else a slow one."""
    rng = np.random.default_rng(first)
    found = []
    for number in range(count):
        latency = 1.0 + np.arange(ROWS) * 0.2
        scores = {}
        for ranker, chance in skill.items():
            score = np.zeros(ROWS)
            score[0 if rng.random() < chance else ROWS - 1] = 1.0
            scores[ranker] = score
        found.append(Case(f"workload {number}", target, 1.0, latency, scores))
    return found


def card(**changes) -> Card:
    return replace(Card("llvm", datetime.now(UTC), "1", "", 6, "xgb"), **changes)


def test_a_first_model_that_is_better_than_the_draft_is_promoted_and_serves_where_it_is():
    trial = Trial((*cases("a", model=1, draft=0.2), *cases("b", model=0.3, draft=0.3)))
    said = verdict(trial, None)
    assert said.promoted and said.serves == ("a",) and not said.anywhere
    assert said.reason == "better than the draft on 1 of 2 targets"
    better, other = said.judged
    assert better.over_draft[0] > 0 and better.passed and better.top["model"][0] == 1
    assert other.passed is False and other.verdict == "not shown to be better than the draft"


def test_what_is_nowhere_better_is_not_promoted():
    said = verdict(Trial((*cases("a", model=0.2, draft=0.9),)), None)
    assert not said.promoted and said.serves == ()
    assert said.reason.startswith("not shown to be better than the draft on any target; on a -")


def test_where_nothing_can_be_judged_nothing_is_promoted():
    for trial in (Trial(()), Trial((*cases("a", 3, model=1, draft=0),))):
        said = verdict(trial, None)
        assert not said.promoted and said.reason.startswith(
            "nothing can be judged: no target has 8"
        )
    assert said.judged[0].verdict == "not judged: 3 workloads, 8 needed"
    assert said.judged[0].passed is None


def test_targets_that_were_left_out_decide_whether_it_serves_others():
    own = cases("a", model=1, draft=0.2)
    good = verdict(Trial((*own,), (), (*cases("b", model=1, draft=0.2),)), None)
    poor = verdict(Trial((*own,), (), (*cases("b", model=0.2, draft=1),)), None)
    few = verdict(Trial((*own,), (), (*cases("b", 2, model=1, draft=0.2),)), None)
    assert good.anywhere and not poor.anywhere and not few.anywhere and few.elsewhere == ()


def test_against_a_champion_it_has_to_be_better_on_what_neither_has_seen():
    own = cases("a", model=1, draft=0.2)
    champion = card(serves=("a",))

    def said(**skill):
        return verdict(Trial((*own,), (*cases("a", 20, **skill),)), champion, "llvm-now")

    better = said(model=1, champion=0.3)
    assert better.promoted and "over the champion llvm-now by +0." in better.reason
    worse = said(model=0.3, champion=1)
    assert not worse.promoted and worse.reason.startswith("on a -0.")
    assert worse.judged[0].verdict.endswith("may be worse than the champion")
    same = said(model=1, champion=1)
    assert not same.promoted and same.reason.startswith("no better than the champion llvm-now")


def test_too_little_that_is_new_changes_no_champion():
    own = cases("a", model=1, draft=0.2)
    for few in ([], cases("a", 4, model=1, champion=0)):
        said = verdict(Trial((*own,), (*few,)), card(serves=("a",)), "llvm-now")
        assert not said.promoted and "too little is new since the champion llvm-now" in said.reason


def test_what_the_champion_serves_has_to_be_served_still():
    trial = Trial(
        (*cases("a", model=1, draft=0.2), *cases("b", model=0.5, draft=0.5)),
        (*cases("a", 20, model=1, champion=0.3),),
    )
    said = verdict(trial, card(serves=("a", "b")), "llvm-now")
    assert not said.promoted and "not on b, which the champion llvm-now serves" in said.reason
    assert verdict(trial, card(serves=("a",)), "llvm-now").promoted
    judged = (Judged("b", 9, passed=False),)
    assert not serves(card(anywhere=True, judged=judged), "b")
    assert verdict(trial, card(serves=("a",), anywhere=True, judged=judged), "llvm-now").promoted
    assert not verdict(trial, card(serves=("a",), anywhere=True), "llvm-now").promoted


def test_a_champion_that_cannot_be_asked_any_more_gives_way():
    trial = Trial((*cases("a", model=1, draft=0.2),), note="the champion cannot be asked any more")
    said = verdict(trial, card(serves=("a",)), "llvm-now")
    assert said.promoted and said.reason.endswith("the champion cannot be asked any more")
