"""A thread that works for a writer while its user goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

LOOK_S = 1.0
"""Longest wait without a look at whether the program has ended."""

Job = Callable[[], object]
NextJob = Callable[[bool], Job | float | None]
"""What to do next, asked with the lock held: a job, seconds to wait before asking again, or None: nothing.

The argument is true when the program has ended: then nothing that can be done now should wait.
"""


class Background:
    """Runs one job after another in a thread of its own, which lives only while there is something to do.

    It starts with `wake` and ends by itself, so that a program whose writer was never closed ends, too; what is due
    then is done before. A failure of a job goes to ``failed``; nothing is printed and nothing is lost.
    """

    def __init__(
        self, changed: threading.Condition, next_job: NextJob, failed: Callable[[BaseException], None], name: str
    ) -> None:
        self._changed, self._next_job, self._failed, self._name = changed, next_job, failed, name
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None

    def wake(self) -> None:
        """Have it ask for its next job. The caller holds the lock of ``changed``."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=False)
            self._thread.start()
        self._changed.notify_all()

    def join(self) -> None:
        """Wait until there is nothing to do. The caller does not hold the lock."""
        with self._changed:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException as failure:  # noqa: BLE001 - it is handed on, to the thread that waits for the result
                self._failed(failure)

    def _next(self) -> Job | None:
        with self._changed:
            while True:
                try:
                    found = self._next_job(not threading.main_thread().is_alive())
                except BaseException as failure:  # noqa: BLE001 - as above
                    self._failed(failure)
                    found = None
                if not isinstance(found, float):
                    break
                self._changed.wait(min(found, LOOK_S))
            if found is None:
                self._thread = None
            return found
