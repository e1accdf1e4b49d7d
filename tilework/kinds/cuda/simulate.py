"""Latencies for runs on no device at all: invented, repeatable, and worth learning.

A simulated device takes, for each term of the analytic model (multiply-adds, shared memory,
second-level cache, ...), what the model predicts from the code's true registers, times a hidden
bias of the term, which the device's name alone decides. It puts the terms together as the model
does, and adds noise that the code's hash decides. So a learned model has something to find that
the analytic one does not know, equal code takes equal time, and runs can be repeated.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from statistics import NormalDist

import numpy as np

from tilework.kinds.cuda.draft import Terms
from tilework.kinds.cuda.features.terms import TERMS

BIAS = 0.35
"""Standard deviation of the logarithm of a term's hidden bias: most lie in 0.7 to 1.4."""

NOISE = 0.04
"""The same of a code's own noise: what no model of schedules can know."""

JITTER = 0.004
"""The same of a single sample."""

_NORMAL = NormalDist()


def fact(term: str, kernel: int) -> str:
    """The name among a kernel's facts of what a term of one of its launches takes, in seconds.

    Args:
        term: one of `tilework.kinds.cuda.features.terms.TERMS`.
        kernel: the number of the stage, as the analytic model counts.
    """
    return f"seconds_{term}_{kernel}"


def latency_s(facts: Mapping[str, float], device: str, code_hash: str) -> float:
    """What a kernel takes on a simulated device.

    Args:
        facts: of the kernel.
        device: the model's name: other devices have other biases.
        code_hash: the kernel's.

    Raises:
        ValueError: the facts say nothing of its terms.
    """
    kernels = 0
    while fact(TERMS[0], kernels) in facts:
        kernels += 1
    names = [[fact(term, k) for k in range(kernels)] for term in TERMS]
    if not kernels or not all(name in facts for row in names for name in row):
        raise ValueError("its facts have no predicted seconds by term")
    parts = zip(TERMS, names, strict=True)
    terms = Terms({t: np.array([[facts[name] for name in row]]) for t, row in parts})
    seconds = float(terms.total({term: bias(device, term) for term in TERMS})[0])
    return seconds * math.exp(NOISE * _drawn(f"noise {device} {code_hash}"))


def bias(device: str, term: str) -> float:
    """The hidden factor of a term."""
    return math.exp(BIAS * _drawn(f"bias {device} {term}"))


def jitter(code_hash: str, sample: int) -> float:
    """The factor of one sample."""
    return math.exp(JITTER * _drawn(f"sample {code_hash} {sample}"))


def _drawn(text: str) -> float:
    """A number of a normal distribution of mean 0 and deviation 1, the same for the same text."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return _NORMAL.inv_cdf((number + 0.5) / 2.0**64)
