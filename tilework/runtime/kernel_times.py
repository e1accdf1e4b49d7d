"""Times of a module's kernels, within whole runs and by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilework.index.extents import known
from tilework.runtime.bound import new_outputs, random_inputs
from tilework.runtime.contexts import Contexts
from tilework.runtime.image import Step
from tilework.runtime.repeats import trips_of
from tilework.runtime.samples import take_samples
from tilework.runtime.sites import Site
from tilework.runtime.timing import KernelTime


def within_runs(contexts: Contexts, site: Site, threads: int, repeat: int) -> list[KernelTime]:
    """Times of all calls within runs on random inputs: the median of each."""
    buffers = [*random_inputs(site.ends), *new_outputs(site.ends, site.dims)]
    with contexts.turn(threads, site) as context:
        context.run(buffers, threads)
        runs = [context.profile(buffers, threads) for _ in range(max(repeat, 1))]
    seconds = np.maximum(np.median(runs, axis=0), 1e-9)
    total = float(np.sum(seconds))
    roof, image = contexts.loaded().roofline(threads), site.image
    trips = trips_of(image.repeats, len(image.steps))
    return [
        KernelTime(
            step.name,
            step.desc,
            time_ms=1e3 * s,
            share=s / total,
            gflops=step.operations / s * 1e-9,
            gb_per_s=known(step.nbytes) / s * 1e-9,
            roofline=times * roof.seconds(_once(step, times), image) / s,
            symbol=step.symbol,
        )
        for step, s, times in zip(image.steps, seconds.tolist(), trips, strict=True)
    ]


def _once(step: Step, trips: int) -> Step:
    """A step at one of its trips."""
    if trips <= 1:
        return step
    return replace(step, flops=step.operations / trips, nbytes=known(step.nbytes) // trips)


def alone(contexts: Contexts, site: Site, threads: int) -> dict[str, float]:
    """Milliseconds of each kernel run again and again by itself, by name of its function."""
    buffers = [*random_inputs(site.ends), *new_outputs(site.ends, site.dims)]
    context = contexts.new(site)
    with contexts.loaded().turn(threads):
        context.run(buffers, threads)
    out: dict[str, float] = {}
    for i, step in enumerate(site.image.steps):
        if step.symbol not in out:
            call = context.bind_step(i, buffers, threads)
            call()
            samples = take_samples(
                call,
                repeats=9,
                min_sample_s=1e-3,
                budget_s=0.02,
                stopwatch=contexts.loaded().stopwatch,
            )
            out[step.symbol] = 1e3 * samples.median
    return out
