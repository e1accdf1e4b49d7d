"""The compiled forms of one model: one for all shapes within ranges, and one for each other shape.

A form follows from the model's content, the shapes of the inputs or the ranges of their symbols,
the values of inputs that decide shapes, the target, the precision, the records, and from what
Tilework itself is; all of it is in the key under which the form is kept. In memory the last few
forms stay, on disk what the cache has room for.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.errors import ShapeError, TileworkError
from tilework.freed import give_back
from tilework.frozen import frozen
from tilework.revision import code_version
from tilework.runtime.module import Module
from tilework.runtime.other import engine
from tilework.runtime.parts import PartedModule
from tilework.runtime.parts_list import list_to_json, listed
from tilework.session import later
from tilework.session.cache import ModuleCache
from tilework.session.common import EACH, Common
from tilework.session.facts import Facts, Source
from tilework.session.records import RecordSource, unchanged
from tilework.session.whole import Ranges, form_over, less_than
from tilework.stages import stage

if TYPE_CHECKING:
    import onnx

    from tilework.graph import Network, Parts
    from tilework.graph.onnx.files import ReadModel
    from tilework.graph.precision import Precision

KEPT = 8
"""Forms of a session that stay in memory."""
Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]
Compiled = Module | PartedModule
Key = tuple[tuple[tuple[str, Any], ...], tuple[object, ...]]
"""Of a form: its shapes by input, or its ranges; and what tells its values from others."""
Found = TypeVar("Found")

log = logging.getLogger(__name__)


@frozen
class How:
    """What forms are compiled for and with.

    Attributes:
        target: its text, complete.
        precision: see `tilework.compile`.
        threads: of a run; None: the target's cores.
        records: measured schedules.
        strict: refuse what cannot be compiled, instead of leaving it to ONNX Runtime.
        ranges: of symbols, as `tilework.graph.onnx.ranges` has them: shapes within share a form.
        in_place: that form continues inputs in their memory; see `tilework.compile`.
    """

    target: str
    precision: Precision
    threads: int | None
    records: RecordSource
    strict: bool = False
    ranges: Ranges = field(default_factory=dict)
    in_place: bool = False


class Forms:
    """The forms of a model, compiled when they are first asked for.

    Args:
        source: the model.
        cache: where forms are kept on disk; None: nowhere.

    Attributes:
        modules: those in memory.
    """

    def __init__(self, source: Source, facts: Facts, how: How, cache: ModuleCache | None) -> None:
        self._source, self._facts, self._how, self._cache = source, facts, how, cache
        self.modules: BoundedCache[Key, Compiled] = BoundedCache(KEPT)
        self._valued: tuple[str, ...] | None = None
        self._noted: set[str] = set()
        self._whole: Compiled | None = None
        self._tried = not how.ranges
        self._commons: BoundedCache[object, Common] = BoundedCache(KEPT)

    def whole(self) -> Compiled | None:
        """The form for all shapes within given ranges; None if there are none, or it cannot be.

        A warning says once why it cannot be.

        Raises:
            TileworkError: it cannot be, and is to continue inputs in their memory.
        """
        if not self._tried:
            self._tried, given = True, self._how.ranges
            try:
                self._whole, served = form_over(Valued(self, (), {}), given, self._how.in_place)
            except TileworkError as e:
                if self._how.in_place:
                    raise
                self.warn(EACH, str(e))
                return None
            if less := less_than(given, served):
                why = f"one network serves {', '.join(less)}, and not all that was given"
                self.warn("other shapes get forms of their own", why)
        return self._whole

    def within(self, use: Callable[[Compiled], Found]) -> Found | None:
        """What comes of a use of the form for all shapes, if it is for shapes within.

        None where there is no such form, or shapes are others; a warning says that once.
        """
        whole = self.whole()
        try:
            return None if whole is None else use(whole)
        except ShapeError as e:
            self.warn("another form is made", str(e))
            return None

    def get(
        self, shapes: Shapes, arrays: Mapping[str, Array] | None = None, shared: bool = True
    ) -> Compiled | None:
        """The form for some shapes.

        Args:
            shapes: of all inputs.
            arrays: their values, from which those are taken that decide shapes.
            shared: it may serve others.

        Returns:
            None only without ``arrays``: the values of some inputs decide shapes.

        Raises:
            TileworkError: the model cannot be compiled; the store of records cannot be read.
        """
        if self._valued is None:
            kept = self.noted("valued")
            self._valued = tuple(kept) if isinstance(kept, list) else ()
        while True:
            if self._valued and arrays is None:
                return None
            values = {n: (arrays or {})[n] for n in self._valued}
            rest = {n: s for n, s in shapes.items() if n not in values}
            known = [(n, a.shape, str(a.dtype), a.tobytes()) for n, a in sorted(values.items())]
            key = (tuple(sorted(rest.items())), tuple(known))
            compiled = self.modules.get(key)
            alone = not shared or (self._how.ranges and not self._valued)
            if compiled is None and not alone and arrays is not None:
                compiled = self._common(tuple(known), values).serving(key, rest)
            if compiled is not None:
                return compiled
            needed = self.form(key, rest, values)
            if needed is None:
                return self.modules.get(key)
            if not set(needed) - set(self._valued):
                raise RuntimeError(f"the values of {needed} were given and are asked for again")
            self._valued = tuple(dict.fromkeys((*self._valued, *needed)))
            self.note(list(self._valued), "valued")

    def _common(self, known: tuple[object, ...], values: Mapping[str, Array]) -> Common:
        """The form that shapes share for some values, which ``known`` tells from others."""
        common = self._commons.get(known)
        if common is None:
            inputs = [i for i in self._facts.inputs if i.name not in values]
            common = Common(Valued(self, known, values), inputs, self._how.ranges)
            self._commons.put(known, common)
        return common

    def form(
        self, key: Key, shapes: Shapes | Ranges, values: Mapping[str, Array]
    ) -> tuple[str, ...] | None:
        """Put a form into memory; returns the inputs whose values are needed, if there are any."""
        text = ""
        if self._cache is not None:
            text = self._base(
                json.dumps(sorted(shapes.items())), hashlib.sha256(repr(key).encode()).digest()
            )
            later.finish()  # it may be this one
        module = self._kept(text)
        fresh = module is None
        if module is None:
            from tilework.graph.onnx import ValuesNeeded

            try:
                module = self._compiled_once(text, shapes, values)
            except ValuesNeeded as e:
                return e.inputs
        self._source.let_go()
        if fresh:
            give_back()
        if self._how.threads is not None:
            module.set_threads(self._how.threads)
        if isinstance(module, PartedModule):
            engine(module.image.left.operators)  # refuse now if it is not there
            self.warn("", f"{module.name}: {module.left}")
        self.modules.put(key, module)
        return None

    def read(self) -> ReadModel | onnx.ModelProto:
        """The model as the importer takes it."""
        return self._source.read()

    def note(self, what: object, *name: str) -> None:
        """Tell later processes something of this model, compiled as it is here."""
        if self._cache is not None:
            self._cache.put_note(self._base(*name), what)

    def noted(self, *name: str) -> object:
        """What an earlier process has told; None if nothing."""
        return None if self._cache is None else self._cache.note(self._base(*name))

    def warn(self, what: str, why: str) -> None:
        """Say something, once of its kind."""
        if what not in self._noted:
            self._noted.add(what)
            log.warning("%s", f"{why}: {what}" if what else why)

    def _compiled_once(
        self, form: str, shapes: Shapes | Ranges, values: Mapping[str, Array]
    ) -> Compiled:
        """The form compiled, by one process if several ask for it at once."""
        if self._cache is None:
            return self._compiled(shapes, values)
        with ExitStack() as held:
            waited = held.enter_context(self._cache.making(form))
            kept = self._kept(form) if waited else None
            if kept is not None:
                return kept
            folders = self._how.records.folders()  # before they are read
            module = self._compiled(shapes, values)
            later.start(self._keeping(self._cache, form, module, folders), held.pop_all())
            return module

    def _base(self, *more: str | bytes) -> str:
        how = self._how
        return ModuleCache.key(
            "form 2",
            code_version(),
            self._facts.digest,
            how.target,
            how.precision,
            how.records.name,
            ("strict" if how.strict else "") + (" in place" if how.in_place else ""),
            *more,
        )

    def _kept(self, form: str) -> Compiled | None:
        """The form on disk, if its records are what they were."""
        if self._cache is None:
            return None
        note = self._cache.note(form)
        if not isinstance(note, dict):
            return None
        module: Compiled | None = None
        if isinstance(note.get("module"), str):
            module = self._cache.get(note["module"])
        elif isinstance(note.get("keys"), list):
            module = self._cache.parted(note.get("parts"), note["keys"])
        if module is None or unchanged(note.get("folders")):
            return module
        source = self._how.records
        if source.deciding(module.report, self._how.target) != note.get("records"):
            return None
        self._cache.put_note(form, {**note, "folders": source.folders()})
        return module

    def _compiled(self, shapes: Shapes | Ranges, values: Mapping[str, Array]) -> Compiled:
        from tilework.compiler import compile

        with stage("read"):
            how, network = self._how, self.network(shapes, values)
        with stage("choose"):
            history = how.records.history()
        module = compile(
            network,
            how.target,
            records=history,
            precision=how.precision,
            cache=False if self._cache is None else self._cache.named,
            in_place=how.in_place and (not how.ranges or str in map(type, shapes.values())),
            once=True,
        )
        self._source.files.require("after the session was opened: open it again")
        return module

    def _keeping(
        self, cache: ModuleCache, form: str, module: Compiled, folders: Any
    ) -> Callable[[], None]:
        """What keeps a form as it is now; it is found by the note, which is written last."""
        source = self._how.records
        decide = partial(source.deciding, module.report, self._how.target)
        early = decide() if source.changes else None  # else the same in a minute
        note: dict[str, Any] = {"folders": folders}
        if isinstance(module, PartedModule):
            parts, put_parts = range(len(module.image.parts)), cache.putting_parted(module)
            note["parts"] = list_to_json(listed(module.image, module.num_threads))

            def put(key: str) -> None:
                note["keys"] = [ModuleCache.key(key, str(n)) for n in parts]
                put_parts(note["keys"])
        else:
            put_whole = cache.putting(module)

            def put(key: str) -> None:
                note["module"] = key
                put_whole(key)

        def keep() -> None:
            note["records"] = decide() if early is None else early
            put(ModuleCache.key("module", form, note["records"]))
            cache.put_note(form, note)

        return keep

    def network(self, shapes: Shapes | Ranges, values: Mapping[str, Array]) -> Network | Parts:
        """The model as it is read for some shapes or ranges.

        Raises:
            TileworkError: it cannot be.
        """
        from tilework.graph import from_onnx
        from tilework.graph.onnx.cut import cut

        given = self._source.read()
        arrays = {n: np.asarray(a) for n, a in values.items()}
        if self._how.strict:
            return from_onnx(given, shapes, arrays)
        return cut(given, shapes, arrays, ask=True)


class Valued:
    """The forms for some values of the inputs whose values decide shapes: what `form_over` asks.

    Args:
        forms: all of the model.
        known: tells these values from others.
        values: by input.
    """

    def __init__(
        self, forms: Forms, known: tuple[object, ...], values: Mapping[str, Array]
    ) -> None:
        self._forms, self._known, self.values = forms, known, values
        self._name = (repr(known),) if known else ()
        self.read, self.warn = forms.read, forms.warn

    def over(self, ranges: Ranges) -> Compiled | None:
        """The form for all shapes within ranges; None if more values decide shapes.

        Raises:
            TileworkError: there is no such form.
        """
        key = (tuple(sorted(ranges.items())), self._known)
        needed = self._forms.form(key, ranges, self.values)
        if needed:
            what = EACH if self._known else "each has forms of its own"
            self.warn(what, f"values of {', '.join(needed)} decide shapes")
        return self._forms.modules.get(key)

    def let_go(self, form: Compiled, serves: Callable[[Shapes], bool]) -> None:
        """Let go of narrower forms, and of those for shapes that this one ``serves``."""
        for key, one in self._forms.modules.items():
            given = dict(key[0])
            less = any(isinstance(what, str) for what in given.values()) or serves(given)
            if less and key[1] == self._known and one is not form:
                self._forms.modules.discard(key)
        give_back()

    def takes(self, ranges: Ranges) -> bool:
        """Whether the model can be read for these ranges."""
        try:
            self._forms.network(ranges, self.values)
        except TileworkError:
            return False
        return True

    def note(self, what: object, *name: str) -> None:
        """Tell later processes something of the model at these values."""
        self._forms.note(what, *name, *self._name)

    def noted(self, *name: str) -> object:
        """What an earlier process has told."""
        return self._forms.noted(*name, *self._name)
