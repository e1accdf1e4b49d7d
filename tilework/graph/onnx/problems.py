"""What an import could not convert: noted node by node, so that all of it is told at once."""

from __future__ import annotations

from collections.abc import Iterable

from tilework.errors import NetworkError
from tilework.graph.onnx.context import ValuesNeeded
from tilework.graph.onnx.messages import summary

LONGEST = 300
"""Characters of a reason."""


class Problems:
    """The nodes of one model that have no conversion, and why.

    Attributes:
        found: (operator, node, reason or an empty text), in the order of the nodes.
    """

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str]] = []
        self._needed: dict[str, None] = {}  # inputs whose values are needed, in order
        self._only_values = True  # no problem but unknown values of inputs

    def note(self, op: str, where: str, reason: str) -> None:
        """Note that a node has no conversion."""
        self._append(op, where, reason)
        self._only_values = False

    def note_value(self, op: str, where: str, reason: str, inputs: Iterable[str] | None) -> None:
        """Note a node that needs a constant where the network computes one.

        Args:
            inputs: whose values would make it one; None where no small inputs would.
        """
        self._append(op, where, reason)
        self._needed.update(dict.fromkeys(inputs or ()))
        self._only_values = self._only_values and inputs is not None

    def _append(self, op: str, where: str, reason: str) -> None:
        if len(reason) > LONGEST:
            reason = f"{reason[:LONGEST]} ..."
        self.found.append((op, where[:LONGEST], reason))

    def check(self) -> None:
        """Tell all problems, if there are any.

        Raises:
            ValuesNeeded: the nodes can be converted once the values of some inputs are known.
            NetworkError: some nodes are not supported.
        """
        if not self.found:
            return
        text = summary(self.found)
        if self._only_values:
            first = next(iter(self._needed))
            raise ValuesNeeded(
                f"{text}; give the values of {', '.join(self._needed)}, such as --value "
                f"{first}=1, in Python values={{'{first}': 1}}",
                list(self._needed),
            )
        raise NetworkError(text)
