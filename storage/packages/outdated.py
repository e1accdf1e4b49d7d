"""Records of packages that the present rules do not understand, and what to do about them."""

from __future__ import annotations

from collections import Counter

from storage.packages.index import Content
from storage.rules import present_rules
from tilework.version import __version__


def of_other_rules(package: Content) -> Counter[tuple[int, int | None]]:
    """How many records are not of the present rules: by their version, and by today's."""
    counts: Counter[tuple[int, int | None]] = Counter()
    for target, _, version in package.places():
        now = present_rules(target)
        if now != version:
            counts[version, now] += 1
    return counts


def other_rules_text(others: Counter[tuple[int, int | None]], rows: int) -> str:
    """What to say, and to do, of records of other rules; empty if there are none."""
    if not others:
        return ""
    (version, now), _ = others.most_common(1)[0]
    count = sum(others.values())
    share = f"its {count} records are" if count == rows else f"{count} of its {rows} records are"
    if now is None:
        return f"{share} of a kind of machine that this Tilework does not know: update Tilework"
    text = f"{share} of sketch rules {version}, and Tilework {__version__} has {now}: "
    if version > now:
        return text + "update Tilework to use them"
    return text + "get a package made with this version, or tune again and distill a new one"
