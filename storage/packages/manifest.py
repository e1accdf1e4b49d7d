"""What a package is about: the part of its footer that is read before its records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tilework.frozen import frozen

FORMAT = 1
"""Version of the file's form; a newer one is refused."""
_LONGEST = 4096
_MOST = 10_000


class NotPackage(ValueError):
    """A file that is no package that can be used; the message says why, in a few words."""


@frozen
class Manifest:
    """What a package is about. Equal content has equal manifests: no date, no place.

    Attributes:
        engine: version of Tilework that made it. It decides nothing.
        networks: whose tasks it is meant to cover; empty if it was not made for any.
        traits: of targets that were measured on the machine of the maker: what makes another
            target the same kind of machine, see `tilework.target.Target.traits`.
    """

    engine: str
    networks: tuple[str, ...] = ()
    traits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of the footer; equal manifests give equal texts."""
        document = {
            "format": FORMAT,
            "engine": self.engine,
            "networks": sorted(set(self.networks)),
            "traits": {target: dict(traits) for target, traits in self.traits.items()},
        }
        return json.dumps(document, sort_keys=True)

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Reads what `to_json` wrote.

        Raises:
            NotPackage: it is damaged, or of a newer form.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise NotPackage("it is damaged: what it is about cannot be read") from None
        if not isinstance(document, dict) or not isinstance(document.get("format"), int):
            raise NotPackage("it is damaged: it does not say which form it has")
        if document["format"] > FORMAT:
            raise NotPackage(
                f"it has form {document['format']} and this Tilework reads up to {FORMAT}: "
                "update Tilework to use it"
            )
        networks, traits = document.get("networks", []), document.get("traits", {})
        if not isinstance(networks, list) or not isinstance(traits, dict):
            raise NotPackage("it is damaged: its networks or targets are no list")
        if len(networks) > _MOST or len(traits) > _MOST:
            raise NotPackage("it is damaged: it names more networks or targets than there are")
        return cls(
            _plain(document.get("engine", "")),
            tuple(_plain(name) for name in networks),
            {_plain(target): _pairs(pairs) for target, pairs in traits.items()},
        )


def _pairs(pairs: Any) -> dict[str, str]:
    if not isinstance(pairs, dict) or len(pairs) > 100:
        raise NotPackage("it is damaged: the traits of a target are no list")
    return {_plain(name): _plain(value) for name, value in pairs.items()}


def _plain(text: Any) -> str:
    if not isinstance(text, str) or not is_plain(text):
        raise NotPackage("it holds a text that is none, is too long or has unprintable characters")
    return text


def is_plain(text: str) -> bool:
    """Whether a text may be shown on a terminal as it is."""
    return len(text) <= _LONGEST and text.isprintable()
