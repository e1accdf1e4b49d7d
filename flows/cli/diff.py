"""``tilework records diff``: the best records of two stores or packages, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import options
from flows.cli.output import console, print_json, table
from flows.cli.record_tables import OnlyNetwork, OnlyTarget, Place, Places
from flows.numbers import milliseconds, plural

if TYPE_CHECKING:
    from storage.packages.diff import Difference

_SHOWN = 40

_STATES = {
    "same": "with the same schedule",
    "only in A": "only in A",
    "only in B": "only in B",
    "rules": "of other rules",
    "schedule": "with another schedule",
    "engine": "with the same schedule of another version of Tilework",
}


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A store or a package.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    network: OnlyNetwork = None,
    target: OnlyTarget = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Show so many rows at most.")
    ] = _SHOWN,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if they differ, 0 if they do not.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Compare the best records of two stores or packages.

    Workloads that one of them lacks, other schedules and how much faster or slower they are on the
    same device (B over A: below 1, B is faster), other rules, other versions of the engine.

    [bold]Example[/]

      tilework records diff old.parquet records --exit-code
    """
    from storage.packages.diff import bests_in
    from storage.packages.diff import diff as compared

    sides = [
        [
            record
            for record in bests_in(text)
            if (network is None or record.network == network)
            and (target is None or target in record.target)
        ]
        for text in (a, b)
    ]
    differences = compared(*sides)
    count = Counter(one.state for one in differences)
    others = [one for one in differences if one.state != "same"]
    if json:
        print_json({"a": a, "b": b, "count": count, "differences": list(map(_document, others))})
    else:
        _print_differences(others[:rows])
        if (hidden := len(others) - rows) and hidden > 0:
            console().print(f"{hidden:,} more row{plural(hidden)} left out: --rows")
        states = ", ".join(f"{n} {_STATES[state]}" for state, n in sorted(count.items()))
        console().print(f"A {a}: {len(sides[0])}; B {b}: {len(sides[1])} records")
        console().print(states or "both are empty")
    if exit_code and others:
        raise typer.Exit(1)


def _document(one: Difference) -> dict[str, Any]:
    record = one.of
    document: dict[str, Any] = {
        "state": one.state,
        "workload": record.workload,
        "workload_key": record.workload_key,
        "target": record.target,
        "device": record.device_id or record.device,
        "ratio": one.ratio,
    }
    for side, best in (("a", one.a), ("b", one.b)):
        document[side] = best and {
            "record_id": best.record_id,
            "latency_s": best.latency_s,
            "sketch_id": best.sketch_id,
            "decisions": best.decisions,
            "rules_version": best.rules_version,
            "engine_version": best.engine_version,
        }
    return document


def _print_differences(shown: Sequence[Difference]) -> None:
    if not shown:
        return
    where = [Place(one.of.target, one.of.device_id or one.of.device) for one in shown]
    places = Places(where)
    cells = [
        (
            one.of.workload, *places.cells(place), _what(one),
            *(milliseconds(best.latency_s if best else None) for best in (one.a, one.b)),
            "" if one.ratio is None else f"{one.ratio:.3f}",
        )
        for one, place in zip(shown, where, strict=True)
    ]  # fmt: skip
    heads = ["Workload", *places.heads, "Difference", ".A (ms)", ".B (ms)", ".B / A"]
    console().print(table(heads, cells, title=places.title))


def _what(one: Difference) -> str:
    if one.a is None or one.b is None:
        return one.state
    if one.state == "rules":
        return f"rules {one.a.rules_version}, {one.b.rules_version}"
    if one.state == "engine":
        return f"engine {one.a.engine_version}, {one.b.engine_version}"
    return "schedule"
