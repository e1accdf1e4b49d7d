"""What ``torch.compile(..., mode=, options=)`` says to this backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tilework.dtypes import PRECISIONS, Precision
from tilework.errors import TileworkError
from tilework.frozen import frozen

_PLAIN_MODES = (None, "default", "reduce-overhead")
_TUNING_MODES = ("max-autotune", "max-autotune-no-cudagraphs")
_TRIALS = 1000
"""Measurements of ``mode="max-autotune"``, all tasks of a graph together."""


@frozen
class Settings:
    """Options of a compilation.

    Attributes:
        target: text of what code is made for; by default this CPU with as many cores as PyTorch
            has threads.
        precision: of weights and intermediate values: see `tilework.compile`.
        store: a store of records: schedules are looked up there, and what is tuned goes there.
        packages: whether records of installed packages are looked up, too.
        cache: whether compiled networks are kept in the folder of `tilework.session.ModuleCache`,
            and taken from there.
        trials: measurements to tune with before anything is compiled; 0: none.
        forms: how many forms of a graph are compiled, for other sizes or changed parameters;
            what comes after them is left to PyTorch.
        smallest: operators that a part of a graph has at least; smaller ones stay with PyTorch,
            unless there is a product or a window among them.
    """

    target: str | None = None
    precision: Precision = "f32"
    store: str | None = None
    packages: bool = True
    cache: bool = True
    trials: int = 0
    forms: int = 8
    smallest: int = 3

    @classmethod
    def of(cls, mode: str | None = None, options: Mapping[str, Any] | None = None) -> Settings:
        """Settings from the arguments of `torch.compile`.

        Raises:
            TileworkError: a mode or an option is unknown, or makes no sense.
        """
        given = dict(options or {})
        known = {f.name: f for f in fields(cls)}
        unknown = [str(k) for k in given if k not in known]
        if unknown:
            raise TileworkError(
                f"backend 'tilework' has no option {', '.join(unknown)}; it has {', '.join(known)}"
            )
        if mode in _TUNING_MODES:
            given.setdefault("trials", _TRIALS)
        elif mode not in _PLAIN_MODES:
            modes = ", ".join(str(m) for m in (*_PLAIN_MODES[1:], *_TUNING_MODES))
            raise TileworkError(f"backend 'tilework' has no mode '{mode}'; it has {modes}")
        if given.get("store") is not None:
            given["store"] = str(given["store"])
        settings = cls(**given)
        settings._check()
        return settings

    def _check(self) -> None:
        if self.precision not in PRECISIONS:
            raise TileworkError(
                f"option precision is '{self.precision}'; it must be one of "
                f"{', '.join(PRECISIONS)}"
            )
        for name, least in (("trials", 0), ("forms", 1), ("smallest", 1)):
            number = getattr(self, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise TileworkError(
                    f"option {name} is {number!r}; it must be a number from {least} on"
                )
        for name in ("packages", "cache"):
            if not isinstance(getattr(self, name), bool):
                raise TileworkError(f"option {name} must be True or False")
        for name in ("target", "store"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise TileworkError(f"option {name} must be a text")
