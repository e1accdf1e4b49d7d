"""Errors as one short line, for records."""

from __future__ import annotations


def shorten(text: str, limit: int = 512) -> str:
    """Text on one line, cut in the middle to `limit` characters."""
    line = " ".join(text.split())
    half = (limit - 5) // 2
    return line if len(line) <= limit else f"{line[:half]} ... {line[-half:]}"


def describe_exception(stage: str, error: BaseException) -> str:
    """Text "stage: Kind: message (file:line)", of the innermost line that raised."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f" ({code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return shorten(f"{stage}: {type(error).__name__}: {error}{place}")
