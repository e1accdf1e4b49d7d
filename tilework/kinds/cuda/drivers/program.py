"""Launches of loaded functions: what devices that measure and modules that run have in common."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.errors import LaunchError
from tilework.kinds.cuda.architectures import STATIC_SHARED
from tilework.kinds.cuda.drivers.driver import Code, Driver
from tilework.kinds.cuda.launches import Launch

Resolved = tuple[int, int, int, int, tuple[int, ...]]
"""A launch with its addresses: function, blocks, threads, bytes of shared memory, parameters."""


class Launcher:
    """The launches of one kernel.

    Args:
        driver: of the device.
        code: the functions, loaded by it.
        launches: in order.

    Raises:
        LaunchError: a function is missing, or wants more shared memory than there is.
    """

    def __init__(self, driver: Driver, code: Code, launches: Sequence[Launch]) -> None:
        self._driver, self._code = driver, code
        self._launches = tuple(launches)
        self._functions = [code.function(launch.entry) for launch in launches]
        for function, launch in zip(self._functions, launches, strict=True):
            if launch.shared > STATIC_SHARED:
                driver.allow_shared(function, launch.shared)

    def check(self, symbol: str, arguments: int, workspace: int) -> None:
        """Refuse launches whose parameters are not there.

        Args:
            symbol: the kernel's name.
            arguments: how many it has.
            workspace: its bytes.

        Raises:
            LaunchError: see above.
        """
        check_places(symbol, self._launches, arguments, workspace)

    def resolved(self, arguments: Sequence[int], workspace: int) -> list[Resolved]:
        """The launches on arguments and a workspace at these addresses."""
        bases = {"argument": lambda at: arguments[at], "workspace": lambda at: workspace + at}
        return [
            (f, x.grid, x.block, x.shared, tuple(bases[kind](at) for kind, at in x.args))
            for f, x in zip(self._functions, self._launches, strict=True)
        ]

    def start(self, steps: Sequence[Resolved], stream: int) -> None:
        """Give launches to a stream."""
        launch = self._driver.launch
        for function, grid, block, shared, pointers in steps:
            launch(function, grid, block, shared, pointers, stream)


def check_places(symbol: str, launches: Sequence[Launch], arguments: int, workspace: int) -> None:
    """Refuse launches that name arguments or workspace which are not there: `Launcher.check`."""
    for launch in launches:
        for kind, at in launch.args:
            if at >= (arguments if kind == "argument" else max(workspace, 1)):
                raise LaunchError(
                    f"kernel {symbol} launches {launch.entry} with {kind} {at}, but it has "
                    f"{arguments} arguments and {workspace} bytes of workspace"
                )
