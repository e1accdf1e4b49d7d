"""Groups of commands, which all look alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """Commands whose help is what their functions say of themselves.

    Lines of a paragraph are joined, so that they are as long as the terminal is wide; lines that
    are indented stay as they are.
    """

    def __init__(self, **settings: Any) -> None:
        ours = {
            "no_args_is_help": True,
            "rich_markup_mode": "rich",
            "context_settings": {"help_option_names": ["-h", "--help"]},
        }
        super().__init__(**{**ours, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """See `typer.Typer.command`."""
        register = super().command

        def add(function: Function) -> Function:
            text = joined(inspect.getdoc(function) or "")
            return register(name, **{"help": text, **settings})(function)

        return add


def joined(text: str) -> str:
    """A text whose paragraphs are a line each, but for those with indented lines."""
    paragraphs = [
        paragraph if "\n " in f"\n{paragraph}" else paragraph.replace("\n", " ")
        for paragraph in text.split("\n\n")
    ]
    return "\n\n".join(paragraphs)
