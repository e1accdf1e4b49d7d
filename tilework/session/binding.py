"""Inputs and outputs bound before a run, as programs written for ONNX Runtime do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.runtime.past import Past
from tilework.session.facts import Declared

Array = NDArray[Any]


class IOBinding:
    """What a run is to take and to return; all of it in the host's memory.

    Attributes:
        inputs: what was bound, by name.
        past: what runs continue in place.
    """

    def __init__(self, inputs: Mapping[str, Declared], outputs: Sequence[str]) -> None:
        self._known, self._outputs = inputs, outputs
        self.inputs: dict[str, Any] = {}
        self.past: Past | None = None
        self._into: dict[str, Array | None] = {}
        self._results: list[Array] = []

    @property
    def output_names(self) -> list[str]:
        """The outputs that were bound, in order; all if none was."""
        return list(self._into) or list(self._outputs)

    @property
    def arrays(self) -> dict[str, Array]:
        """What outputs are written to, by name, where that was given."""
        return {name: array for name, array in self._into.items() if array is not None}

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Have an input read from an array, at every run anew.

        Raises:
            ModuleError: the model has no such input.
        """
        if name not in self._known:
            raise ModuleError(
                f"the model has no input {name}; its inputs: {', '.join(self._known)}"
            )
        self.inputs[name] = array

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        """The same of a value with a method ``numpy``."""
        self.bind_cpu_input(name, value)

    def bind_past(self, past: Past | None) -> None:
        """Have runs continue a past of the session's; it stands for the inputs that it holds.

        Each run leaves its positions behind those that were there. None: it is given back.
        """
        self.past = past

    def bind_output(
        self, name: str, device_type: str = "cpu", *more: Any, buffer_ptr: Any = None, **_: Any
    ) -> None:
        """Have an output returned by `copy_outputs_to_cpu`; its memory is made at the run.

        Raises:
            ModuleError: the model has no such output, or it is to lie elsewhere than in the host's
                memory, or at an address.
        """
        address = buffer_ptr or (more[3] if len(more) > 3 else None)
        if device_type != "cpu" or address:
            raise ModuleError(
                f"output {name}: outputs lie in memory of the session's own, on the CPU; "
                "session.module.bind(inputs, outputs) writes to arrays that are given"
            )
        self._bind_output(name, None)

    def bind_cpu_output(self, name: str, array: Array) -> None:
        """Have an output written to an array of its shape and type.

        One that is bound as the input that this output continues, too, is written in place where
        the session is for that.

        Raises:
            ModuleError: the model has no such output.
        """
        self._bind_output(name, array)

    def _bind_output(self, name: str, into: Array | None) -> None:
        if name not in self._outputs:
            raise ModuleError(
                f"the model has no output {name}; its outputs: {', '.join(self._outputs)}"
            )
        self._into[name] = into

    def keep(self, results: Sequence[Array]) -> None:
        """Take the results of a run, in the order of `output_names`.

        Raises:
            ModuleError: an array that was bound has another shape or type.
        """
        kept = []
        for name, result in zip(self.output_names, results, strict=True):
            into = self._into.get(name)
            if into is not None and into is not result:
                if into.shape != result.shape or into.dtype != result.dtype:
                    raise ModuleError(
                        f"output {name}: expected an array of {result.dtype}{list(result.shape)}, "
                        f"not {into.dtype}{list(into.shape)}"
                    )
                np.copyto(into, result)
            kept.append(result if into is None else into)
        self._results = kept

    def copy_outputs_to_cpu(self) -> list[Array]:
        """The outputs of the last run."""
        return list(self._results)

    def clear_binding_inputs(self) -> None:
        """Forget the inputs, and the past."""
        self.inputs.clear()
        self.past = None

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._into.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Nothing is waited for."""

    def synchronize_outputs(self) -> None:
        """Nothing is waited for."""
