"""`override`: of a method that is described where its protocol or its base class is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import override as override
else:  # Python 3.11 has none

    def override(method):
        """Mark a method as one that the class's base has; a type checker sees that it does."""
        return method
