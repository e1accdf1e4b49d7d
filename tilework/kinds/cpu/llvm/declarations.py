"""What stands in a module beside its code."""

from __future__ import annotations


class Declarations:
    """Functions that a module's code calls: declared, or defined in the module itself.

    Attributes:
        features: what the target's CPU has; code chooses its instructions by these.
        declared: ``declare`` lines.
        definitions: helper functions, by symbol.
    """

    def __init__(self, features: frozenset[str] = frozenset()) -> None:
        self.features = features
        self.declared: set[str] = set()
        self.definitions: dict[str, str] = {}

    def declare(self, text: str) -> None:
        """Add a declaration (once)."""
        self.declared.add(text)

    def text(self) -> str:
        """Declarations, then definitions, each in an order of their own."""
        definitions = (self.definitions[k] for k in sorted(self.definitions))
        return "\n".join(["\n".join(sorted(self.declared)), "\n".join(definitions)])
