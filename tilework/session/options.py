"""The options that programs written for ONNX Runtime set, and what becomes of them here."""

from __future__ import annotations

import enum
from typing import Any

from tilework.errors import TileworkError


class GraphOptimizationLevel(enum.IntEnum):
    """Accepted; a network is always optimised."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Accepted; kernels run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Accepted; the order of kernels is fixed when a network is compiled."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_ACCEPTED: dict[str, Any] = {
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "execution_order": ExecutionOrder.DEFAULT,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "inter_op_num_threads": 0,
    "intra_op_num_threads": 0,
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "profile_file_prefix": "onnxruntime_profile_",
    "use_deterministic_compute": False,
    "use_per_session_threads": True,
}
_REFUSED: dict[str, tuple[Any, str]] = {
    "enable_profiling": (False, "profile the compiled network: session.module.profile()"),
    "optimized_model_filepath": ("", "save the compiled network: session.module.save(path)"),
}
_METHODS = {
    "register_custom_ops_library": "operators of other libraries are not known here",
    "add_initializer": "store the constants in the model",
    "add_external_initializers": "store the constants in the model, or in files beside it",
    "add_external_initializers_from_files_in_memory": "pass the model as a path",
    "add_provider": "a session runs on its target: Session(model, target=...)",
    "add_provider_for_devices": "a session runs on its target: Session(model, target=...)",
    "set_provider_selection_policy": "a session runs on its target: Session(model, target=...)",
}


class SessionOptions:
    """Options of a session, under the names that ONNX Runtime has for them.

    Of effect are ``intra_op_num_threads`` (0: all cores) and
    `add_free_dimension_override_by_name`. Those that say how ONNX Runtime goes about it (memory
    pools, optimisation levels, logging) are accepted and change nothing. Those that ask for
    something that there is not are refused when the session is made, and unknown ones at once.
    """

    def __init__(self) -> None:
        object.__setattr__(
            self, "_values", {**_ACCEPTED, **{k: v for k, (v, _) in _REFUSED.items()}}
        )
        object.__setattr__(self, "_entries", {})
        object.__setattr__(self, "_dimensions", {})

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        if name in _METHODS:
            return lambda *_, **__: _refuse(name)
        raise AttributeError(
            f"SessionOptions has no option '{name}'; there are {', '.join(values)}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._values:
            known = ", ".join(self._values)
            raise AttributeError(f"SessionOptions has no option '{name}'; there are {known}")
        self._values[name] = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Accepted without effect."""
        self._entries[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """What `add_session_config_entry` was given.

        Raises:
            TileworkError: nothing was.
        """
        if key not in self._entries:
            raise TileworkError(f"the session has no configuration entry '{key}'")
        return str(self._entries[key])

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """Fix a symbolic extent, so that the network is compiled at once."""
        self._dimensions[str(name)] = int(extent)

    @property
    def free_dimensions(self) -> dict[str, int]:
        """Symbolic extents that were fixed."""
        return dict(self._dimensions)


def _refuse(name: str) -> None:
    raise TileworkError(f"SessionOptions.{name} is not supported: {_METHODS[name]}")


def threads_of(options: Any) -> int | None:
    """The number of threads that options ask for; None: all cores.

    Args:
        options: `SessionOptions`, or those of ONNX Runtime itself.

    Raises:
        TileworkError: the number makes no sense, or something is asked for that there is not.
    """
    for name, (usual, instead) in _REFUSED.items():
        if getattr(options, name, usual) not in (usual, None):
            raise TileworkError(f"the session option {name} is not supported: {instead}")
    count = getattr(options, "intra_op_num_threads", 0)
    if not isinstance(count, int) or count < 0:
        raise TileworkError(f"intra_op_num_threads must be 0 (all cores) or more, not {count!r}")
    return count or None


class RunOptions:
    """Options of a run: accepted, without effect."""

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.terminate = False
        self._entries: dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Accepted without effect."""
        self._entries[str(key)] = str(value)

    def get_run_config_entry(self, key: str) -> str:
        """What `add_run_config_entry` was given, or an empty text."""
        return self._entries.get(key, "")
