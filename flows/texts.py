"""Lines about a run that are the same everywhere: on the terminal, in logs, in Prefect's UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.numbers import change, latency, percent
from tilework.target.runs import mark

if TYPE_CHECKING:
    from tasks.report import Progress
    from tilework.target import Target


def sentence(text: str) -> str:
    """``text`` with a capital letter, unless it begins with a name, such as a model's."""
    first = text.partition(" ")[0]
    name = any(one in "-./:" or one.isdigit() for one in first)
    return text if name else text[:1].upper() + text[1:]


def target_words(target: Target | str) -> str:
    """A target in few words: ``llvm znver4 x2`` for ``llvm -mcpu=znver4 -num-cores=2``."""
    kind, *options = str(target).split()
    words = [kind]
    for option in options:
        name, _, value = option.lstrip("-").partition("=")
        words.append(f"x{value}" if name == "num-cores" else value or name)
    return " ".join(words)


def round_name(progress: Progress) -> str:
    """What the round that has just ended was and brought.

    For instance ``round 17: conv2d 56x56x64, 0.126 ms (-3.0 %), 2 failed``.
    """
    assert progress.current is not None
    kind = "finals" if progress.final else f"round {progress.rounds}"
    parts = [f"{kind}: {progress.rows[progress.current].desc}", latency(progress.after_s)]
    if progress.after_s is None:
        parts[-1] = "nothing valid yet"
    elif progress.before_s is None:
        parts[-1] += " (first)"
    elif progress.after_s != progress.before_s:
        parts[-1] += f" ({change(progress.before_s, progress.after_s)})"
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return ", ".join(parts)


def round_line(progress: Progress) -> str:
    """The round's line: what it brought, where the network stands, what is spent, drift."""
    line = f"{round_name(progress)}; {total_text(progress)}; {budget_text(progress)}"
    return line + drift_text(progress.drift)


def clock(seconds: float) -> str:
    """``seconds`` as m:ss."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def budget_text(progress: Progress) -> str:
    """Trials and time spent, each with its limit where there is one."""
    trials = f"{progress.trials} trials"
    if progress.trials_budget is not None:
        trials = f"{progress.trials} of {progress.trials_budget} trials"
    spent = clock(progress.elapsed_s)
    if progress.seconds_budget is not None:
        spent += f" of {clock(progress.seconds_budget)}"
    return f"{trials}, {spent}"


def budget_share(progress: Progress) -> float:
    """How much of the tightest budget is spent, 0 to 1."""
    shares = [0.0]
    if progress.trials_budget:
        shares.append(progress.trials / progress.trials_budget)
    if progress.seconds_budget:
        shares.append(progress.elapsed_s / progress.seconds_budget)
    return min(1.0, max(shares))


def total_text(progress: Progress) -> str:
    """The estimated total latency, and how many tasks' share of it is measured."""
    text = f"estimated total {latency(progress.estimated_total_s)}{mark(progress.target)}"
    if progress.measured_tasks < len(progress.rows):
        text += f", {progress.measured_tasks} of {len(progress.rows)} tasks measured"
    return text


def disturbed_text(progress: Progress) -> str:
    """Which finals were far off from their tasks' own records, and what that means; or nothing."""
    if not progress.disturbed:
        return ""
    tasks = ", ".join(f"task {index} {ratio:.1f}x" for index, ratio in progress.disturbed)
    return (
        f"; far from their own earlier records ({tasks}): something else ran beside them, "
        "and sums of latencies are off by as much"
    )


def drift_text(drift: float) -> str:
    """A word on the machine's speed, if its calibration is noticeably off; else nothing."""
    from tilework.measure.drift import LIMIT

    if abs(drift) <= LIMIT:
        return ""
    return f"  [machine {percent(abs(drift))} {'slower' if drift > 0 else 'faster'} than usual]"
