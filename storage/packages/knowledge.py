"""Everything that is known before a search: a store, and the packages beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from storage.packages.folders import LEFT_OUT
from storage.packages.used import PackageFile, Used, all_packages
from storage.rules import present_rules
from tilework.kept import folder_state, key_of
from tilework.overriding import override
from tilework.record import History
from tilework.union import Union

if TYPE_CHECKING:
    from storage.store import RecordStore


class Knowledge(Union):
    """The records of a store, of installed packages and of those that come with Tilework.

    A `tilework.record.History` in this order, to compile with. Only records of the present rules
    count. Packages are read at once, and looked into when there is a question: a compile whose
    choices are kept has none.

    Attributes:
        store: the store; None if none was given.
        package_problems: one line for each package that is not used, or of which a part is not.
    """

    def __init__(self, store: RecordStore | None, packages: Sequence[PackageFile]) -> None:
        self.store = store
        self._file = tuple(packages)
        super().__init__(())

    @cached_property
    def _looked_at(self) -> list[Used]:
        """The packages, looked into when they are first asked for anything."""
        return [one.used() for one in self._file]

    @property
    def _packages(self) -> list[Used]:
        return [one for one in self._looked_at if one.content is not None]

    @property
    def package_problems(self) -> list[str]:
        """See the class's text."""
        return [_problem(one) for one in self._looked_at if one.problem]

    @property
    @override
    def layers(self) -> tuple[History, ...]:
        return self._each

    @cached_property
    def _each(self) -> tuple[History, ...]:
        from storage.packages.history import PackageHistory

        layers: list[History] = [] if self.store is None else [self.store]
        for shipped, what in ((False, "package"), (True, "shipped package")):
            mine = {
                one.name: one.content
                for one in self._packages
                if one.content is not None and one.shipped == shipped
            }
            if mine:
                layers.append(PackageHistory(mine, what))
        return tuple(layers)

    @property
    def problems(self) -> list[str]:
        """One line for each part that is not used: of the store, see `RecordStore.problems`."""
        return self.package_problems + ([] if self.store is None else self.store.problems)

    def state(self) -> str | None:
        """See `tilework.record.Stated`; None with a store that is not on this machine's disks."""
        readable = "Arrow" if find_spec("pyarrow") else ""  # packages without an index, that is
        names = [readable, *(one.state for one in self._file)]
        if self.store is not None:
            location = self.store.location
            if not location.local:
                return None
            names.append(folder_state(location.path))
        return key_of(*names)

    @property
    def names(self) -> list[str]:
        """The packages that are looked at."""
        return [one.name for one in self._packages]


def knowledge(
    store: RecordStore | str | os.PathLike[str] | None = None, *, packages: bool = True
) -> Knowledge:
    """What there is to compile with: ``tw.compile(net, target, records=knowledge("records"))``.

    Args:
        store: a store of records, or where one is; asked before any package.
        packages: whether installed and shipped packages are looked at. The environment variable
            ``TILEWORK_NO_PACKAGES`` leaves them out, too.

    Raises:
        StoreError: the store cannot be opened. A package that cannot be read is left out: see
            `Knowledge.problems`.
    """
    opened = None if store is None else _opened(store)
    wanted = packages and not os.environ.get(LEFT_OUT)
    return Knowledge(opened, all_packages() if wanted else [])


def _opened(store: RecordStore | str | os.PathLike[str]) -> RecordStore:
    from storage.store import RecordStore  # with it comes pyarrow

    if isinstance(store, RecordStore):
        return store
    return RecordStore(store, rules_version=present_rules)


def _problem(one: Used) -> str:
    if one.content is None:
        return f"{one.problem}; `tilework records uninstall {one.name}` removes it"
    return f"package {one.name}: not used: {one.problem}"
