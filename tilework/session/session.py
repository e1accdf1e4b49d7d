"""`Session`: a compiled network behind the calls of ``onnxruntime.InferenceSession``."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache as once
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tilework.collector import paused
from tilework.errors import ModuleError, ShapeError, TileworkError
from tilework.kept import keeps
from tilework.runtime.module import Module
from tilework.runtime.parts import PartedModule
from tilework.session import ahead, later
from tilework.session.binding import IOBinding
from tilework.session.cache import ModuleCache
from tilework.session.facts import Source, facts_of
from tilework.session.feeds import Feeds
from tilework.session.forms import Compiled, Forms, How
from tilework.session.options import SessionOptions, threads_of
from tilework.session.outputs import outputs_of
from tilework.session.records import RecordSource
from tilework.session.values import ModelMetadata, NodeArg, metadata, node_arg, type_text
from tilework.session.whole import Ranges
from tilework.target import Target

if TYPE_CHECKING:
    from tilework.graph.onnx.ranges import Loose
    from tilework.graph.precision import Precision
    from tilework.record import History
    from tilework.runtime.past import Past

Array = NDArray[Any]

PROVIDERS = ("TileworkExecutionProvider", "CPUExecutionProvider")
"""What a session says that it runs on. The second name is there for programs that look for it."""


class Session:
    """An ONNX model, ready to run.

    ```
    session = tw.Session("model.onnx")
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    ```

    A model whose shapes are fixed is compiled when the session is made; one with symbolic extents
    at its first run, for the shapes of that run, and at the first run of other shapes once more,
    for all shapes (of what cannot be compiled so, for each combination; the last
    eight stay in memory). What was compiled is kept on disk, so that the next session starts at
    once. Several threads may run one session.

    Args:
        model: path of an ONNX file, or the bytes of one, or an ``onnx.ModelProto``.
        sess_options: `tilework.session.SessionOptions`, or those of ONNX Runtime.
        providers: accepted, and of no effect: ``target`` says what the model runs on. Names that
            are unknown are warned of.
        provider_options: accepted, of no effect.
        store: measured schedules to compile with: a store of records (path, URI, or a
            `tilework.record.History`). Installed packages and those that come with Tilework are
            looked at in any case.
        target: what to compile for; by default this CPU, with as many cores as
            ``intra_op_num_threads`` says.
        precision: of weights and intermediate values, see `tilework.compile`.
        cache: where compiled forms are kept: a folder, a `ModuleCache`; None: the default folder
            (`tilework.kept.default_folder`); False: nowhere, kernels neither.
        strict: refuse a model of which some operators cannot be compiled. Else ONNX Runtime runs
            these, if it is installed, and a warning says once which.
        shapes: ranges of symbolic extents, such as ``{"seq": "1..512:16,128"}`` with typical
            values behind the range, and numbers of others: the model is compiled once for all
            shapes within. For a shape outside another form is made, and a warning says so once.
        in_place: that form writes new positions of a cache behind those that are there, in a past
            that is given to `run` (`new_past`); outputs that continue an input are found.

    Raises:
        NetworkError: the model is missing, corrupt, or uses something unsupported.
        ModuleError: ONNX Runtime is needed and not installed.
        TargetError: the target text makes no sense.
        TileworkError: an option is not supported, or ``in_place`` is given without ``shapes``.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        store: str | os.PathLike[str] | History | None = None,
        target: str | Target | None = None,
        precision: Precision = "f32",
        cache: ModuleCache | str | os.PathLike[str] | bool | None = None,
        strict: bool = False,
        shapes: Loose | None = None,
        in_place: bool = False,
    ) -> None:
        self._options = SessionOptions() if sess_options is None else sess_options
        threads = threads_of(self._options)
        _check_providers(providers)
        source = Source(_source(model))
        kept = _cache(cache)
        self._answered = False
        if target is None:
            ahead.loading_llvm()
        with paused():
            self._facts = facts_of(source, kept)  # imports what the target needs, too
            self._outputs = once(partial(outputs_of, source, self._facts, kept))
            cores = "" if threads is None else f" -num-cores={threads}"
            overridden = getattr(self._options, "free_dimensions", {})
            text = str(
                Target(f"llvm -mcpu=native{cores}") if target is None else Target(str(target))
            )
            how = How(
                text,
                precision,
                threads if target is not None else None,
                RecordSource(store),
                strict,
                _ranges({**overridden, **shapes}) if shapes else {},
                in_place,
            )
            self._forms = Forms(source, self._facts, how, kept)
            self._feeds = Feeds(self._facts)
            fixed = self._feeds.fixed_shapes(overridden)
            if in_place and not shapes and fixed is None:
                raise TileworkError(
                    "in_place=True takes ranges of the extents that grow, such as "
                    "shapes={'past': '0..1023', 'seq': '1..64'}"
                )
            self._fixed = None if fixed is None else self._forms.get(fixed)
            self._whole = self._forms.whole() if fixed is None else None

    # --- what ONNX Runtime's sessions say ------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """What `run` takes: names, shapes, and types such as ``tensor(float)``."""
        return [node_arg(i) for i in self._facts.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """What `run` returns, in order."""
        if self._fixed is not None:
            values: Sequence[Any] = self._fixed.outputs
            return [
                NodeArg(o.name, list(v.shape or ()), type_text(v.dtype))
                for o, v in zip(self._facts.outputs, values, strict=True)
            ]
        return [node_arg(o) for o in self._outputs()]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Constants that the file lists as inputs. They stay what they are in the file."""
        return [node_arg(i) for i in self._facts.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself."""
        return metadata(self._facts.about)

    def get_providers(self) -> list[str]:
        """See `PROVIDERS`."""
        return list(PROVIDERS)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """There are none."""
        return {name: {} for name in PROVIDERS}

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Any = None
    ) -> None:
        """Accepted, of no effect."""
        _check_providers(providers)

    def get_session_options(self) -> Any:
        """The options that the session was made with."""
        return self._options

    def enable_fallback(self) -> None:
        """Accepted, of no effect."""

    def disable_fallback(self) -> None:
        """Accepted, of no effect."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
        *,
        past: Past | None = None,
    ) -> list[Any]:
        """Run the model once.

        Args:
            output_names: which outputs to return, in this order; None (or none): all.
            input_feed: an array per input, by name.
            run_options: accepted, of no effect.
            past: what the run continues, from `new_past`: it stands for the inputs that are
                continued, and has the positions of this run behind them afterwards. Outputs that
                continue it are views of its memory.

        Raises:
            ModuleError: a name is unknown, or an array is missing or of another shape or type; or
                the past is another session's, in use, or full.
            NetworkError: the model cannot be compiled for these shapes.
        """
        return self._run(output_names, input_feed, past, {})

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Array], Any, str], None],
        user_data: Any = None,
        run_options: Any = None,
    ) -> None:
        """Run in a thread; ``callback(outputs, user_data, error)``: no error is an empty text."""

        def work() -> None:
            try:
                outputs, error = self.run(output_names, input_feed, run_options), ""
            except TileworkError as e:
                outputs, error = [], str(e)
            callback(outputs, user_data, error)

        threading.Thread(target=work, name="tilework run_async").start()

    def io_binding(self) -> IOBinding:
        """Inputs and outputs that are bound before a run; see `run_with_iobinding`."""
        return IOBinding(self._feeds.inputs, self._feeds.outputs)

    def run_with_iobinding(self, binding: IOBinding, run_options: Any = None) -> None:
        """Run on the inputs of a binding; its outputs hold the results."""
        names, past, into = binding.output_names, binding.past, binding.arrays
        binding.keep(self._run(names, binding.inputs, past, into))

    # --- ours ----------------------------------------------------------------------------------

    def new_past(self, arrays: Mapping[str, Any] | None = None) -> Past:
        """Memory for a sequence that runs continue in place: `run`, `IOBinding.bind_past`.

        Args:
            arrays: what to begin with, by name of each input that is continued; it is copied. By
                default nothing.

        Raises:
            ModuleError: the session was made without ``in_place=True``; or an array is missing or
                unknown, or has another shape or type.
        """
        return self._continuing().new_past(arrays)

    @property
    def module(self) -> Compiled:
        """The compiled network; of symbolic shapes with ranges, the one for all within.

        Raises:
            ModuleError: there is none yet: shapes are symbolic, or values of inputs decide some.
        """
        module = self._fixed or self._whole
        if module is None:
            raise ModuleError(
                "the session has no compiled network of its own: shapes are symbolic, or follow "
                "from the values of inputs; session.module_for(feeds) has the one for some feeds"
            )
        return module

    def module_for(self, input_feed: Mapping[str, Any]) -> Compiled:
        """The compiled network that runs these inputs."""
        arrays = self._feeds.arrays(input_feed)

        def which(module: Compiled) -> Compiled:
            module.require(arrays)
            return module

        within = None if self._fixed is not None else self._forms.within(which)
        return within or self._alone(arrays)

    # --- inside --------------------------------------------------------------------------------

    def _run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        past: Past | None,
        into: Mapping[str, Array],
    ) -> list[Any]:
        places = self._feeds.places(output_names)
        whole = self._whole
        if past is not None and isinstance(whole, Module):
            ready = past.follow(whole.image, whole.num_threads, input_feed, places)
            if ready is not None:
                return ready
        # what a first run's compile leaves is looked through when the answer is there
        with nullcontext() if self._answered else paused():
            if past is None:
                arrays = self._feeds.arrays(input_feed)

                def run(module: Compiled) -> list[Any]:
                    given = {name: arrays[name] for name in module.inputs}
                    if into and not isinstance(module, PartedModule):
                        return module.run(given, into=into)
                    return module.run(given)

                within = None if self._fixed is not None else self._forms.within(run)
                try:
                    outputs = run(self._alone(arrays)) if within is None else within
                except ShapeError as e:  # an extent between parts leaves its range
                    if self._fixed is not None:
                        raise
                    self._forms.warn("another form is made", str(e))
                    outputs = run(self._alone(arrays, shared=False))
            else:
                whole = self._continuing()
                fed = [v.name for v in whole.image.ends.fed]
                arrays = self._feeds.arrays(input_feed, fed)
                outputs = whole.run(*arrays.values(), past=past, wanted=places)
                places = None
            later.answered()
        self._answered = True
        return outputs if places is None else [outputs[i] for i in places]

    def _continuing(self) -> Module:
        """The form that continues inputs in their memory."""
        if not isinstance(self._whole, Module) or not self._whole.image.rooms:
            raise ModuleError(
                "this session continues no input in its memory: make it with in_place=True, and "
                "ranges of the extents that grow"
            )
        return self._whole

    def _alone(self, arrays: Mapping[str, Any], shared: bool = True) -> Compiled:
        """The form for the shapes of these inputs, and for no others unless it is ``shared``."""
        if self._fixed is not None:
            return self._fixed
        compiled = self._forms.get(self._feeds.shapes(arrays), arrays, shared)
        assert compiled is not None  # the values were given
        return compiled


def _ranges(given: Loose) -> Ranges:
    from tilework.graph.onnx.ranges import shapes_of

    return shapes_of(given)


def _source(model: Any) -> Path | bytes:
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model)
    if isinstance(model, str | os.PathLike):
        return Path(model)
    if hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    raise TileworkError(
        f"a session takes the path or the bytes of an ONNX model, not {type(model).__name__}"
    )


def _cache(given: ModuleCache | str | os.PathLike[str] | bool | None) -> ModuleCache | None:
    if given is False or (given is None and not keeps()):
        return None
    if isinstance(given, ModuleCache):
        return given
    return ModuleCache(None if given is None or given is True else given)


def _check_providers(providers: Sequence[Any] | None) -> None:
    names = [p[0] if isinstance(p, tuple | list) and p else p for p in providers or ()]
    if not all(isinstance(n, str) for n in names):
        raise TileworkError("providers are names, or pairs of a name and a dictionary of options")
    unknown = [n for n in names if n not in PROVIDERS]
    if unknown:
        warnings.warn(
            f"a Tilework session does not run on {', '.join(unknown)}: "
            "target= says what it runs on",
            stacklevel=3,
        )
