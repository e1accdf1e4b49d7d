"""Parameters of the flows: frozen, validated, shown by Prefect as a form."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tilework.target import Target

Effort = Literal["draft", "quick", "full"]
Layout = Literal["NHWC", "NCHW"]


class TuneSettings(BaseModel):
    """What to tune, for which machine, and how much to spend on it.

    ``trials`` and ``seconds`` replace the budgets of ``effort`` where they are given. ``output`` is
    where the compiled module is written; empty means that it is not kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    network: str = Field(description="A built-in network's name, or an ONNX file")
    target: str = Field("llvm -mcpu=native", description="Machine to tune for")
    effort: Effort = Field("quick", description="How thorough: budgets and search depth")
    trials: int | None = Field(None, ge=0, description="Measurements in all, instead of effort's")
    seconds: float | None = Field(None, gt=0, description="Time in all, instead of effort's")
    threads: int | None = Field(
        None, ge=1, description="Threads of the network; default all cores"
    )
    store: str = Field("records", description="Record store: a directory or a URI")
    seed: int = Field(0, ge=0, description="Same seed and records give the same candidates")
    batch: int = Field(1, ge=1, description="Batch size of a built-in network")
    layout: Layout = Field("NHWC", description="Input layout of a built-in network")
    output: str = Field("", description="File for the compiled module; empty: not kept")

    def resolved_target(self) -> Target:
        """The target with ``threads`` applied.

        Raises:
            TargetError: the target text does not name a supported machine.
        """
        target = Target(self.target)
        return target if self.threads is None else target.with_cores(self.threads)

    def run_id(self, network_fingerprint: str) -> str:
        """Identity of a tuning run: the same settings find their finished rounds again.

        Budgets and the store's place are left out: a larger budget continues the same run, and a
        moved store still knows it. ``network_fingerprint`` stands for the network's content, so
        that an edited ONNX file of the same name begins a new run.
        """
        import tilework
        from tilework.space import RULES_VERSION

        identity = {
            "network": network_fingerprint,
            "target": str(self.resolved_target()),
            "effort": self.effort,
            "seed": self.seed,
            "engine": tilework.__version__,
            "rules": RULES_VERSION,
        }
        text = json.dumps(identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
