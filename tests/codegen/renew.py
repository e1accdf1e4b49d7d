"""Renews the table of generated code, and says what changed, by task.

    python -m tests.codegen.renew            # write it
    python -m tests.codegen.renew --check    # write nothing; exit code 1 if anything changed
    python -m tests.codegen.renew --text DIR # the texts as files, to be compared with `diff -r`

An entry keeps its schedule as long as that is one; ``--anew`` chooses all of them again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.codegen.table import (
    GROUPS,
    Entry,
    Place,
    generated,
    places,
    read,
    text,
    write,
)


def renewed(place: Place, old: Entry | None) -> Entry:
    """The entry of now: with the schedule of before, if that is one."""
    if old is not None:
        now = generated(place, old.schedule)
        if now.hash:
            return now
    return generated(place, place.choose(place.case.task(place.target)))


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it changed")
    parser.add_argument("--anew", action="store_true", help="choose every schedule again")
    parser.add_argument("--text", type=Path, metavar="DIR", help="write the texts there")
    options = parser.parse_args(arguments)
    old, new = read(), {}
    tasks: dict[str, dict[str, list[str]]] = {"added": {}, "removed": {}, "changed": {}}
    for place in (p for group in GROUPS for p in places(group)):
        before = old.get(place.name)
        now = new[place.name] = renewed(place, None if options.anew else before)
        if before != now:
            kind = "changed" if before else "added"
            tasks[kind].setdefault(place.task_in_words, []).append(place.target)
        if options.text:
            _write_text(options.text, place, now)
    for name in old.keys() - new.keys():
        task, _, target = name.partition(" | ")
        tasks["removed"].setdefault(task, []).append(target)
    for kind, named in tasks.items():
        for task, targets in sorted(named.items()):
            _say(f"{kind:8} {task}: {'; '.join(targets)}")
    count = sum(len(targets) for named in tasks.values() for targets in named.values())
    _say(f"{len(new)} entries, {count} of them not as before" if count else f"{len(new)} entries")
    if not options.check:
        write(new)
    return int(options.check and count > 0)


def _write_text(folder: Path, place: Place, entry: Entry) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = place.name.replace("/", " ").replace(" | ", ", ").replace(" -> ", " to ")
    (folder / f"{name}.txt").write_text(text(place, entry.schedule))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
