"""Parameters of the flows that look after machines and stores; see `flows.settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from flows.settings import StoreText
from tasks.canary.run import CanaryPlan
from tasks.network import target_of
from tilework.target import Target


class CanarySettings(BaseModel):
    """Which device to watch, by which store, and what may be done about slow kernels."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    target: str = Field("llvm -mcpu=native", description="Target of the kernels to watch")
    threads: int | None = Field(None, ge=1, description="Threads of the kernels; none: all cores")
    store: StoreText = "records"
    seconds: float = Field(10.0, gt=0, description="Time that timing takes, about")
    trials: int = Field(64, ge=0, description="To tune a slow kernel's task with; 0: do not tune")
    host: str = Field("", description="Name that readings are kept under; empty: the host's")
    refreeze: bool = Field(False, description="Choose kernels and learn what is usual anew")

    def resolved_target(self) -> Target:
        """The target with ``threads`` applied.

        Raises:
            TargetError: the target text does not name a supported machine.
        """
        return target_of(self.target, self.threads)

    def plan(self) -> CanaryPlan:
        """What the canary does."""
        return CanaryPlan(self.seconds, self.trials, self.host, self.refreeze)


class MaintainSettings(BaseModel):
    """Which store to look after, and whether what is damaged may be set aside."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    store: StoreText = "records"
    repair: bool = Field(
        False,
        description="Set damaged files aside (their bytes are kept) and finish what others began",
    )
