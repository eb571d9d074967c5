"""The reports of a running tool, from any thread, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from ._context import Report

MAX_QUEUED = 1000


class ReportQueue:
    """Queues reports for one sender. Progress that was not sent yet is replaced by newer progress."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._queue: list[Report] = []
        self._wake = asyncio.Event()
        self._is_closed = False

    def put(self, report: Report) -> None:
        """Adds a report. The oldest is dropped if the sender is too slow."""
        with self._lock:
            if self._is_closed:
                return
            last = self._queue[-1] if self._queue else None
            is_state = not report.keys() - {"tip", "progress"}
            if last is not None and is_state and not last.keys() - {"tip", "progress"}:
                last.update(report)
            else:
                self._queue.append(dict(report))
                del self._queue[:-MAX_QUEUED]
        self._loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """Ends the queue: its sender returns after the last report."""
        with self._lock:
            self._is_closed = True
        self._wake.set()

    async def send_all(self, send: Callable[[Report], Awaitable[None]]) -> None:
        """Sends the reports until the queue is closed."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            with self._lock:
                reports, self._queue = self._queue, []
                is_closed = self._is_closed
            for report in reports:
                await send(report)
            if is_closed and not reports:
                return
            if is_closed:
                self._wake.set()
