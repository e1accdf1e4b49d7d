"""Reading an ONNX file without trusting it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from tilework.errors import NetworkError
from tilework.frozen import frozen
from tilework.graph.onnx.content import without_weights
from tilework.graph.onnx.messages import first_line
from tilework.graph.onnx.protos import ModelProto, messages
from tilework.runtime.content import Content, read_content, unreadable

_PLAIN = (".onnx", ".pb")
"""Endings of files that hold a message as it is."""
_LARGEST = 2**31  # bytes; what a protobuf message may have. Weights beside the file do not count


@frozen
class ReadModel:
    """A model that was read, the file that it was in, and that file's bytes.

    Large initializers of ``model`` are without their data: `tilework.graph.onnx.content`.

    Attributes:
        briefly: large weights may stay in their files, which are mapped: nobody writes to them
            while the model is used.
    """

    path: Path
    model: ModelProto
    content: Content
    briefly: bool = False


def read(path: Path, content: Content | None = None, briefly: bool = False) -> ReadModel:
    """The model in a file; tensors that lie in other files are not read.

    Args:
        content: what is in the file, if it was read already.
        briefly: see `ReadModel`.

    Raises:
        NetworkError: the file is missing, or not an ONNX file.
    """
    try:
        size = path.stat().st_size
        if size >= _LARGEST and path.is_file():
            raise NetworkError(
                f"'{path}' is not a valid ONNX file: it has {size} bytes, and 2 GiB are the most; "
                "export the model with its weights in a file of their own"
            )
        if content is None:
            with open(path, "rb", buffering=0) as opened:
                content = read_content(opened, size, briefly)
        model = _parsed(without_weights(content), path)
    except OSError as e:
        raise unreadable(path, e) from e
    except NetworkError:
        raise
    except Exception as e:  # the parsers for the various file forms raise types of their own
        raise NetworkError(f"'{path}' is not a valid ONNX file: {first_line(e)}") from e
    if not model.graph.node and not model.graph.output:
        raise NetworkError(f"'{path}' is not a valid ONNX file: it holds no network")
    return ReadModel(path, model, content, briefly)


def _parsed(data: bytes, path: Path) -> ModelProto:
    """A model, in the form that the ending of its file's name says."""
    if path.suffix in _PLAIN:
        model: ModelProto = messages().ModelProto.FromString(data)
        return model
    import onnx

    file: Any = io.BytesIO(data)
    file.name = str(path)
    return onnx.load(file, load_external_data=False)
