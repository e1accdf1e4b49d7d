"""All models of the set, and the folder that keeps what they are exported to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SMALL = "small_"
"""What the names of small models begin with."""


@dataclass(frozen=True)
class Kept:
    """An exported model in a folder: its file, its inputs, and what is to be said of it."""

    name: str
    path: Path
    words: str
    exporter: str

    @property
    def inputs(self) -> Path:
        """The file of the inputs that it is run on."""
        return self.path.with_suffix(".npz")


def listed() -> Iterator[tuple[str, str, str]]:
    """Name, words and exporter of each model."""
    for model in _models().values():
        yield model.name, model.words, model.exporter


def export(folder: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    """Export those that the folder lacks; yields each name and what became of it.

    No names are all models but the small ones; ``small`` are those.
    """
    models = _models()
    small = [name for name in models if name.startswith(SMALL)]
    named = [n for name in names for n in (small if name == "small" else [name])]
    names = named or [name for name in models if name not in small]
    unknown = set(names) - models.keys()
    if unknown:
        raise SystemExit(f"no model {', '.join(sorted(unknown))}; there are {', '.join(models)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        model, about = models[name], folder / f"{name}.json"
        if about.exists():
            yield name, "is there"
            continue
        path = folder / f"{name}.new"
        try:
            feeds = model.write(path)
        except Exception as error:  # a release of PyTorch that cannot export it is a result, too
            yield name, f"is not exported: {type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        np.savez(folder / f"{name}.npz", **feeds)
        os.replace(path, folder / f"{name}.onnx")
        _write(about, {"words": model.words, "exporter": model.exporter})
        yield name, f"{(folder / f'{name}.onnx').stat().st_size / 2**20:.0f} MiB"


def _models() -> dict[str, Any]:
    """By name; what they are made with is imported here, so that a run needs none of it."""
    from model_set import (
        decoders,
        detection,
        diffusion,
        images,
        others,
        sizes,
        small,
        speech,
        text,
    )

    families = (text, decoders, speech, images, detection, diffusion, sizes, others, small)
    return {model.name: model for family in families for model in family.MODELS}


def kept(folder: Path, names: list[str]) -> list[Kept]:
    """The exported models of a folder; the names in their order, or all of them."""
    found = []
    there = sorted(path.with_suffix(".json") for path in folder.glob("*.onnx"))
    for about in [folder / f"{n}.json" for n in names] or there:
        if not about.exists():
            raise SystemExit(f"{folder} has no {about.stem}: --export {folder} {about.stem}")
        facts = json.loads(about.read_text())
        found.append(Kept(about.stem, about.with_suffix(".onnx"), **facts))
    return found


def _write(path: Path, document: dict[str, str]) -> None:
    whole = path.with_suffix(".part")
    whole.write_text(json.dumps(document))
    whole.replace(path)
