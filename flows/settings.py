"""Parameters of the flows: frozen, validated, shown by Prefect as a form."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tasks.network import Precision, target_of
from tilework.errors import StoreError

if TYPE_CHECKING:
    from tasks.network import NetworkSpec
    from tilework.measure import Measurer
    from tilework.search import TuningOptions
    from tilework.target import Target
    from tilework.target.identity import DeviceIdentity

NO_PASSWORD = (
    r"^(?!.*[?&][^=&]*(?:secret|password|token|key|credential|sig)[^=&]*=[^&])"
    r"(?:[^@]*|[^:]*|[^:@]*://[^:@/]*@[^@]*)$"
)
"""What a store's text has to match, so that Prefect refuses others before a run shows them."""

_SECRET = re.compile(r"(?i)[?&][^=&]*(secret|password|token|key|credential|sig)[^=&]*=[^&]")


def without_credentials(store: object) -> object:
    """A store's text, if it can be shown: parameters are, to all who see the run.

    Raises:
        StoreError: it holds credentials.
    """
    if isinstance(store, str) and (
        _SECRET.search(store) or not re.match(NO_PASSWORD, store, re.DOTALL)
    ):
        raise StoreError(
            "the store's URI holds credentials, which everybody could read among the run's "
            "parameters: leave them out, and give them to the process that runs, for S3 as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in ~/.aws/credentials"
        )
    return store


StoreText = Annotated[
    str,
    BeforeValidator(without_credentials),
    Field(
        json_schema_extra={"pattern": NO_PASSWORD},
        description="Record store: a directory or a URI",
    ),
]
"""A store among a flow's parameters."""

Effort = Literal["draft", "quick", "full"]
Layout = Literal["NHWC", "NCHW", "NDHWC", "NCDHW"]


class NetworkChoice(BaseModel):
    """Which network, in which form, and for which machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    network: str = Field(description="A built-in network's name, or an ONNX file")
    target: str = Field("llvm -mcpu=native", description="Machine to tune for")
    threads: int | None = Field(None, ge=1, description="Threads of the network; none: all cores")
    batch: int = Field(1, ge=1, description="Batch size of a built-in network")
    layout: Layout = Field("NHWC", description="Input layout of a built-in network")
    shapes: tuple[str, ...] = Field(
        (),
        description="For an ONNX file: NAME=1,3,224,224, batch=4, or seq=1..512:16,64",
    )
    values: tuple[str, ...] = Field(
        (), description="For an ONNX file: inputs that become constants, use_cache_branch=1"
    )
    precision: Precision = Field("f32", description="Weights and values between kernels")
    calibrate: str = Field("", description="Samples (.npz) for int8 and int4; empty: random ones")
    sparse: str = Field("", description="Share of weights' blocks to prune, or 'own'; none: dense")
    block: str = Field("", description="Rows x columns of sparse blocks; none: 16x1")

    def resolved_target(self) -> Target:
        """The target with ``threads`` applied.

        Raises:
            TargetError: the target text does not name a supported machine.
        """
        return target_of(self.target, self.threads)

    def spec_of(self, *, strict: bool) -> NetworkSpec:
        """Which network, and in which form; ``strict`` is that of `NetworkSpec`.

        Raises:
            NetworkError: ``sparse`` or ``block`` cannot be read.
        """
        from tasks.network import NetworkSpec, parse_sparse

        return NetworkSpec(
            self.network, self.batch, self.layout, self.precision, self.shapes,
            parse_sparse(self.sparse, self.block), strict, self.calibrate,
            self.values,
        )  # fmt: skip


class TuneSettings(NetworkChoice):
    """What to tune, for which machine, and how much to spend on it.

    Either of ``trials`` and ``seconds`` replaces the budgets of ``effort``, both of them. Budgets
    are for the run in all: what earlier, equal calls have spent counts, unless ``extend`` is set.
    ``output`` is where the compiled module is written; empty means that it is not kept.
    """

    effort: Effort = Field("quick", description="How thorough: budgets and search depth")
    trials: int | None = Field(None, ge=1, description="Measurements, instead of effort's budget")
    seconds: float | None = Field(
        None, gt=0, description="Search time, instead of effort's budget"
    )
    min_gain: float | None = Field(
        None, ge=0, lt=1, description="Stop when a round promises a smaller share; none: effort's"
    )
    extend: bool = Field(False, description="Spend the budget on top of what was spent before")
    store: StoreText = "records"
    seed: int = Field(0, ge=0, description="Same seed and records give the same candidates")
    strict: bool = Field(False, description="Refuse what ONNX Runtime would have to run")
    output: str = Field("", description="File for the compiled module; empty: not kept")
    model: str = Field(
        "champion",
        pattern=r"^(champion|none|[a-z0-9_-]+)$",
        description="Cost model to begin with: the champion, none, or one's name",
    )
    packages: bool = Field(True, description="Also try what installed and shipped packages hold")

    def spec(self) -> NetworkSpec:
        """Which network, and in which form; raises as `spec_of`."""
        return self.spec_of(strict=self.strict)

    def tuning_options(self) -> TuningOptions:
        """The search options of ``effort``, with the budgets replaced if any is given."""
        from tilework.search import EFFORTS

        options = EFFORTS[self.effort]
        if self.min_gain is not None:
            options = replace(options, min_gain=self.min_gain)
        if self.trials is None and self.seconds is None:
            return options
        return replace(options, num_measure_trials=self.trials, seconds=self.seconds)

    def measurer(self) -> Measurer:
        """A measurer for the target; a context manager that owns worker processes."""
        from tilework.measure import Measurer

        return Measurer(self.resolved_target(), seed=self.seed)

    def run_id(self, network_fingerprint: str, device: DeviceIdentity) -> str:
        """Identity of a tuning run: the same settings find their finished rounds again.

        Budgets and the store's place are left out: a larger budget continues the same run, and a
        moved store still knows it. ``network_fingerprint`` stands for the network's content, so
        that an edited ONNX file of the same name begins a new run. Another device begins a run of
        its own; another version of Tilework does not, unless its rules are others.
        """
        from tilework.space import space_of

        target = self.resolved_target()
        identity = {
            "network": network_fingerprint,
            "target": str(target),
            "effort": self.effort,
            "seed": self.seed,
            "device": device.id,
            "rules": space_of(target).version,
        }
        if self.model != "champion":  # what begins with another model is another run
            identity["model"] = self.model
        text = json.dumps(identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
