"""In which form a network is meant: one parameter of a command, several options of its users."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from flows.cli import options
from flows.cli.output import say

if TYPE_CHECKING:
    from tasks.network import NetworkSpec

Result = TypeVar("Result")


@dataclass(frozen=True)
class NetworkForm:
    """The options that say in which form a network is meant; each is described in `options`."""

    batch: options.Batch = 1
    layout: options.Layout = "NHWC"
    shape: options.Shapes = None
    value: options.Values = None
    precision: options.Precision = "f32"
    calibrate: options.Calibrate = ""
    sparse: options.Sparse = ""
    block: options.Block = ""
    strict: options.Strict = False

    def settings(self, network: str) -> dict[str, Any]:
        """They by the names that flows give them; a line says what ``--shape any`` stands for.

        Raises:
            NetworkError: see `tasks.network.ranges_for_any`.
        """
        from tasks.network import ranges_for_any

        given, values = tuple(self.shape or ()), tuple(self.value or ())
        shapes = ranges_for_any(network, given, values)
        if shapes != given:
            say(f"--shape any: {', '.join(shapes)}")
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        del named["shape"], named["value"]
        return named | {"shapes": shapes, "values": values}

    def of(self, network: str) -> NetworkSpec:
        """The network NET in this form.

        Raises:
            NetworkError: ``--sparse``, ``--block``, ``--shape`` or ``--value`` cannot be read.
        """
        from tasks.network import NetworkSpec, parse_sparse

        pruned = parse_sparse(self.sparse, self.block)
        named = self.settings(network)
        del named["block"]
        return NetworkSpec(network, **named | {"sparse": pruned})

    @property
    def text(self) -> str:
        """What another command needs to mean the same form: options that are not the default.

        Each begins with a space. How parts that cannot be compiled are treated is not said.
        """
        said = ""
        for f in fields(self):
            given = getattr(self, f.name)
            if given == f.default or f.name == "strict":
                continue
            for one in given if isinstance(given, list) else [given]:
                said += f" --{f.name} {shlex.quote(str(one))}"
        return said


USUAL = NetworkForm()
"""As a network or a file has it."""


def of_network(command: Callable[..., Result]) -> Callable[..., Result]:
    """A command that has a parameter ``form``; its users see the options of `NetworkForm`."""
    kinds = get_type_hints(NetworkForm, include_extras=True)
    own = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        if parameter.name != "form":
            parameters.append(parameter)
            continue
        parameters += [
            parameter.replace(name=f.name, annotation=kinds[f.name], default=f.default)
            for f in fields(NetworkForm)
        ]

    @functools.wraps(command)
    def called(**given: Any) -> Result:
        of_form = {f.name: given.pop(f.name) for f in fields(NetworkForm)}
        return command(**given, form=NetworkForm(**of_form))

    # typer asks it for parameters; of functions it is no declared attribute
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called
