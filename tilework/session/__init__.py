"""Sessions: run an ONNX file through the calls that users of ONNX Runtime know.

    model      what a file is: its content's digest, its inputs and outputs
    entry      a compiled network as a file that is opened quickly
    cache      such files in a folder of bounded size, by key
    records    which measured schedules a session compiles with, and what tells that they changed
    session    `Session`: `get_inputs`, `run`, and when something is compiled

Opening a session whose network is in the cache imports neither ``onnx`` nor the compiler.
"""

from __future__ import annotations

from tilework.session.cache import ModuleCache

__all__ = ["ModuleCache"]
