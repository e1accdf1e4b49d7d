"""Hardware targets: which machine programs are made for, and the numbers that describe it."""

from __future__ import annotations

from tilework.target.base import Target
from tilework.target.chains import ChainLimits
from tilework.target.host import HOST_PLATFORM, available_cores

__all__ = ["HOST_PLATFORM", "ChainLimits", "Target", "available_cores"]
