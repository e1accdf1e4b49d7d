"""What runs, tags and artifacts are called: network, target and device, as people say them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flows.texts import target_words

if TYPE_CHECKING:
    from tilework.target import Target

LONGEST = 60  # letters of a device's name in the name of a run


def artifact_key(*parts: str) -> str:
    """An artifact key: Prefect allows lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def device_words(target: Target) -> str:
    """The device that measures for a target, as its maker calls it, without decoration."""
    from tilework.target.identity import identity_of

    name = re.sub(r"\((R|TM|C)\)", "", identity_of(target).name, flags=re.IGNORECASE)
    return " ".join(name.split())[:LONGEST].strip()


def run_name(network: str, target: Target) -> str:
    """``tune resnet-18 · llvm znver4 x2 · AMD EPYC 9B14``."""
    return " · ".join([f"tune {network}", target_words(target), device_words(target)])


def run_tags(networks: Iterable[str], target: Target) -> list[str]:
    """Tags to filter runs by: network, target and device."""
    from tilework.target.identity import identity_of

    return [
        *(f"network: {network}" for network in networks),
        f"target: {target_words(target)}",
        f"device: {identity_of(target).id}",
    ]
