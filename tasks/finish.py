"""What follows a search: compile, check, compare with what is there, and only then keep.

A compiled network goes to a temporary file beside its place first. What is checked and timed is
that file, opened again. It takes its name if its output is right and it is not slower than the
module that has the name now (`tasks.standing`); else the old file stays as it is, byte for byte.
Where the search found nothing that is as fast as the untuned network, that is what is kept.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.engines import random_inputs
from tasks.patience import Tell, patiently
from tasks.peers import Engine
from tasks.report import CheckResult, Standing
from tilework.errors import ModuleError, RunFailed
from tilework.runtime.folder import is_folder_module, take_place
from tilework.stages import stage
from tilework.whole import beside, remove

if TYPE_CHECKING:
    from tasks.extraction import Extracted
    from tilework.record import History
    from tilework.runtime.parts import AnyModule
    from tilework.target import Target


@dataclass(eq=False)
class Compiled:
    """A network compiled with the best records, and where it would be kept.

    Attributes:
        extracted: the network.
        target: what it is compiled for.
        tuned: the new module, as it was opened from its temporary file if there is one.
        untuned: compiled without any record (what untuned users get), if it is to be compared.
        old: the module that has the place now, if it computes the same; else None.
        output: the place; empty if the module is not kept.
        draft: the temporary file, until it is kept or discarded.
        tell: gets a line each time that writing has to be tried again.
        notes: lines on the old file, if it is replaced without a comparison.
    """

    extracted: Extracted
    target: Target
    tuned: AnyModule
    untuned: AnyModule | None
    tell: Tell
    old: AnyModule | None = None
    output: str = ""
    draft: Path | None = None
    notes: tuple[str, ...] = ()

    def engines(self) -> dict[str, Engine]:
        """What is timed in turns."""
        modules = {"untuned": self.untuned, "tuned": self.tuned, "old": self.old}
        return {name: module for name, module in modules.items() if module is not None}

    def reopen(self) -> None:
        """Open the modules' files again: their weights lie elsewhere then."""
        import tilework as tw

        if self.draft is not None:
            self.tuned = tw.load_module(self.draft)
        if self.old is not None:
            self.old = tw.load_module(self.output)

    @property
    def runs_here(self) -> bool:
        """Whether this machine can run the code."""
        return not self.target.missing_on_host()

    def keep(self) -> str:
        """Give the temporary file its name; where it is, empty if it is not kept."""
        draft = self.draft
        if draft is None:
            return ""
        patiently(lambda: _rename(draft, self.output), self.tell)
        self.draft = None
        return self.output

    def take_untuned(self) -> None:
        """Keep the untuned network in place of the tuned one."""
        assert self.untuned is not None
        self.discard()
        self.tuned = self.untuned
        if self.output:
            module, output = self.untuned, self.output
            self.draft = patiently(lambda: _draft_of(module, output), self.tell)
            self.reopen()

    def discard(self) -> None:
        """Remove the temporary file, unless it was kept."""
        if self.draft is not None:
            remove(self.draft)
            self.draft = None


def check_place(output: str, *, library: bool = False) -> None:
    """Fail before a search, not after it, if a module cannot be written.

    Args:
        library: whether it is a shared library, or belongs to one, and no module.

    Raises:
        ModuleError: ``output`` is no place for a file; empty, for no file, is fine.
    """
    if not output:
        return
    if output.endswith(".so") and not library:
        raise ModuleError(
            f"cannot write the module {output!r}: that is the name of a shared library, which "
            "'tilework compile NET --output NAME.so' makes; name a module NAME.tw"
        )
    path = Path(output)
    taken = path.is_dir() and not is_folder_module(path)
    if not output.strip() or taken or not os.access(path.parent, os.W_OK):
        raise ModuleError(
            f"cannot write the module {output!r}: name a file in a folder that exists and that "
            "you may write to, or '' for none"
        )


def compile_network(
    extracted: Extracted,
    target: Target,
    records: History,
    output: str,
    tell: Tell,
    untuned: bool = True,
    in_place: bool = False,
) -> Compiled:
    """Compile with the best records, to a temporary file, and without any.

    Args:
        output: where the module is to be kept; empty if it is not. Nothing there is touched.
        tell: gets a line each time that writing has to be tried again.
        untuned: whether it is to be compared with a module of no records.
        in_place: see `tilework.compile`.

    Raises:
        ModuleError: the temporary file cannot be written beside it.
    """
    import tilework as tw

    net, precision = extracted.network, extracted.precision
    tuned = tw.compile(net, target, records=records, precision=precision, in_place=in_place)
    foreign = bool(target.missing_on_host())
    other = None
    if untuned and not foreign:
        other = tw.compile(net, target, records=None, precision=precision, in_place=in_place)
    if not output:
        return Compiled(extracted, target, tuned, other, tell)
    draft = patiently(lambda: _draft_of(tuned, output), tell)
    try:
        if foreign:
            return Compiled(extracted, target, tuned, other, tell, None, output, draft)
        opened = tw.load_module(draft)
        old, notes = _replaced(opened, output)
        return Compiled(extracted, target, opened, other, tell, old, output, draft, notes)
    except BaseException:
        remove(draft)
        raise


def _draft_of(module: AnyModule, output: str) -> Path:
    """Save a module beside its place, under a name that is its own."""
    draft = beside(Path(output))
    try:
        module.save(draft)
    except BaseException:
        remove(draft)
        raise
    return draft


def _rename(draft: Path, output: str) -> None:
    """Put a module, which is on the disk, in the place of another; durably."""
    try:
        take_place(draft, Path(output))
    except OSError as error:
        reason = error.strerror or error
        raise ModuleError(f"cannot write the module to {output}: {reason}") from error


def _replaced(new: AnyModule, output: str) -> tuple[AnyModule | None, tuple[str, ...]]:
    """The module that ``new`` would replace, if the two can be compared; else why not."""
    import tilework as tw

    if not Path(output).exists():
        return None, ()
    try:
        old = tw.load_module(output)
    except ModuleError as error:
        return None, (f"the old module is replaced unseen: {error}",)
    for word in ("name", "target", "inputs", "outputs"):
        ours, theirs = getattr(new, word), getattr(old, word)
        if word == "outputs":  # are taken in order: older modules gave them other names
            ours, theirs = ([(v.shape, v.dtype) for v in each] for each in (ours, theirs))
        if ours != theirs:
            what = f"{word} {theirs}" if word in ("name", "target") else word
            return None, (f"the old module {output} is replaced unseen: it has other {what}",)
    return old, ()


def check(compiled: Compiled) -> CheckResult | None:
    """Compare the module's output with a reference's; None where this machine cannot run it."""
    if not compiled.runs_here:
        return None
    return compiled.extracted.check(compiled.tuned)


def run_once(compiled: Compiled) -> None:
    """Run the module once, if this machine can, as whoever opens it does first."""
    try:
        if compiled.runs_here:
            inputs = random_inputs(compiled.extracted.network)
            with stage("run"):
                compiled.tuned.run(inputs)
    except BaseException:
        compiled.discard()
        raise


def keep(compiled: Compiled, check: CheckResult | None, standing: Standing | None) -> str:
    """Give the module its name; where it is, empty if it is not kept.

    Where the tuned network is slower than the untuned one, that one gets the name.

    Raises:
        RunFailed: its output is wrong, or it is slower than the module that it would replace; what
            is there stays as it is.
    """
    if check is not None and check.passed and standing is not None and standing.untuned_kept:
        compiled.take_untuned()
        check = compiled.extracted.check(compiled.tuned)
    reason = _objection(check, standing)
    if reason:
        kept = ""
        if compiled.output:
            there = Path(compiled.output).exists()
            kept = f"; {compiled.output} {'stays as it was' if there else 'is not written'}"
        raise RunFailed(f"{compiled.extracted.network.name}: {reason}{kept}")
    return compiled.keep()


def _objection(check: CheckResult | None, standing: Standing | None) -> str:
    if check is not None and check.fault:
        return check.fault
    if standing is None or standing.slower_than != "old" or standing.old is None:
        return ""
    times = "" if standing.over_old is None else f"{standing.over_old:.2f} times as long as "
    return (
        f"the tuned network takes {times}the module that it would replace "
        f"({standing.old.median_ms:.4g} ms)"
    )


def gap_lines(module: AnyModule, end_to_end_ms: float | None = None) -> tuple[str, ...]:
    """Where the network loses time against its tasks' records; nothing if it loses little.

    Args:
        end_to_end_ms: the network's time; measured here if it is not given.
    """
    from tilework.runtime import Module, explain_gap

    if not isinstance(module, Module):  # what another engine takes is in no record
        return ()
    gap = explain_gap(module, end_to_end_ms)
    return tuple(gap.lines()) if gap is not None and gap.large else ()
