"""The thread that publishes: in order, in batches, with a circuit breaker and a journal."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flows.shell.backlog import Sends, replay, send_backlog
from flows.shell.breaker import Breaker
from flows.shell.items import Item, groups
from flows.shell.journal import Journal
from flows.shell.sender import SETTLED_S, Unreachable, impatient_context

LINGER_S = 0.3  # what comes within this time shares requests
DOUBTFUL_S = 30.0  # a server that is killed may have lost what it took in so many seconds before
WATCH_S = 2.0  # so often a server is asked how it is while it holds what it may lose
LONGEST_END_S = 20.0  # what a busy server is waited for at the end of a process


class Publisher:
    """Takes items at once and from any thread; sends them when the server answers.

    While it does not, items are kept in a `Journal`. They are sent when the server is back, by
    this process, by the next one that publishes to the same server, or by ``tilework publish``.
    """

    def __init__(
        self,
        folder: Path,
        sender: Sends,
        tell: Callable[[str], None] = lambda text: None,
        breaker: Breaker | None = None,
        linger_s: float = LINGER_S,
    ) -> None:
        """Start the thread.

        Args:
            folder: where journals are, see `flows.shell.journal.folder_of`.
            tell: called with a line for people when the server goes away and when it is back.
        """
        self.tell = tell
        self._folder = folder
        self._sender = sender
        self._breaker = breaker or Breaker()
        self._linger_s = linger_s
        self._journal = Journal.new(folder)
        self._waiting: deque[Item] = deque()
        self._recent: deque[tuple[float, Item]] = deque()
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._put = self._handled = 0
        self._hurried = self._closing = False
        self._thread = threading.Thread(
            target=impatient_context().run, args=(self._work,), name="publisher", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)

    @property
    def away(self) -> bool:
        """Whether the server did not answer when it was last asked."""
        return not self._breaker.closed

    @property
    def closed(self) -> bool:
        """Whether it takes nothing more."""
        return self._closing

    def put(self, item: Item) -> None:
        """Publish ``item``, now or later; returns at once."""
        with self._changed:
            if self._closing:
                return
            self._waiting.append(item)
            self._put += 1
            self._changed.notify_all()

    def flush(self, wait_s: float) -> bool:
        """Wait until all so far is sent or on disk, for ``wait_s`` at most; whether it is.

        A server that was away is asked again.
        """
        with self._changed:
            wanted = self._put
            self._hurried = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._handled >= wanted, wait_s)

    def close(self, wait_s: float = LONGEST_END_S) -> None:
        """Send what can be sent, keep the rest, end the thread."""
        atexit.unregister(self.close)
        if os.getpid() != self._process:  # a fork has no thread
            return
        self.flush(wait_s)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(wait_s)

    def _work(self) -> None:
        self._adopt()
        while not self._closing or self._waiting:
            items, hurried = self._collect()
            try:
                self._publish(items, hurried)
            except OSError as error:  # the journal's disk: they stay in memory
                self.tell(f"what is to be published cannot be kept on disk: {error}")
                with self._changed:
                    self._waiting.extendleft(reversed(items))
                if self._closing:
                    break
                time.sleep(1.0)
                continue
            except Exception as error:  # one strange item must not end all publishing
                self.tell(f"{len(items)} things cannot be published: {error!r}")
            with self._changed:
                self._handled += len(items)
                self._changed.notify_all()
        self._end()

    def _end(self) -> None:
        """One more attempt before the process ends."""
        with suppress(OSError):  # the journal's disk is full to the end
            if self.away:
                self._try_again()
            if self._waiting and not self.away:
                self._send(list(self._waiting))
        self._journal.close()
        self._sender.close()

    def _publish(self, items: list[Item], hurried: bool) -> None:
        if not self._breaker.closed:
            self._journal.append(items)
            if hurried or self._breaker.due_s == 0.0:
                self._try_again()
        elif items:
            self._send(items)
        else:
            self._watch()

    def _collect(self) -> tuple[list[Item], bool]:
        """What waits, after a moment in which more may come; and whether somebody waits for it."""
        with self._changed:
            pause = WATCH_S if self._recent else None
            pause = pause if self._breaker.closed else self._breaker.due_s
            self._changed.wait_for(lambda: self._waiting or self._hurried or self._closing, pause)
            if self._waiting:
                self._changed.wait_for(lambda: self._hurried or self._closing, self._linger_s)
            items = list(self._waiting)
            self._waiting.clear()
            hurried, self._hurried = self._hurried, False
            return items, hurried

    def _send(self, items: list[Item]) -> None:
        pending = groups(items)
        while pending:
            try:
                self._sender.send(pending[0])
            except Unreachable as error:
                self._leave([item for group in pending for item in group], error)
                return
            self._remember(pending.pop(0))

    def _remember(self, sent: list[Item]) -> None:
        """Keep in mind what the server may hold in memory only."""
        now = time.monotonic()
        self._recent.extend((now, item) for item in sent if item.kind == "event")
        self._forget()

    def _forget(self) -> None:
        while self._recent and self._recent[0][0] < time.monotonic() - DOUBTFUL_S:
            self._recent.popleft()

    def _watch(self) -> None:
        """Notice a server that goes away while nothing is sent: it may forget what it took."""
        self._forget()
        if self._recent and not self._sender.alive():
            self._leave([], Unreachable("not even to a question"))

    def _leave(self, unsent: list[Item], error: Unreachable) -> None:
        """Open the circuit: the server is away."""
        self._breaker.failed(SETTLED_S if error.slow else 0.0)
        self.tell(f"the Prefect server does not answer ({error}): going on, publishing later")
        self._journal.append([item for _, item in self._recent] + unsent)
        self._recent.clear()

    def _try_again(self) -> None:
        """Send the journal if the server answers again."""
        if not self._sender.alive():
            self._breaker.failed()
            return
        try:
            count = replay(self._journal, self._sender, self._remember)
        except Unreachable as error:
            self._breaker.failed(SETTLED_S if error.slow else 0.0)
            return
        self._breaker.succeeded()
        self.tell(f"the Prefect server is back: {count} things were published late")
        self._adopt()

    def _adopt(self) -> None:
        """Publish what processes before this one could not."""
        try:
            send_backlog(self._folder, self._sender, self._remember)
        except (Unreachable, OSError):
            return  # the next one that succeeds with anything tries again
