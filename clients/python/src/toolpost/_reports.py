"""The reports of a running tool, from any thread, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from ._context import Report

MAX_QUEUED = 1000


class ReportQueue:
    """Sends reports one after the other. Progress that was not sent yet is replaced by newer progress.

    Args:
        send: Sends a report.
    """

    def __init__(self, send: Callable[[Report], Awaitable[None]]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._queue: list[Report] = []
        self._is_closed = False
        #: Sends the reports of the queue. Most calls have none.
        self._sender: asyncio.Task[None] | None = None

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
        self._loop.call_soon_threadsafe(self._start)

    async def close(self) -> None:
        """Ends the queue. Returns when the last report is sent."""
        with self._lock:
            self._is_closed = True
        self._start()
        if self._sender is not None:
            await self._sender

    def cancel(self) -> None:
        """Drops the reports that are left."""
        with self._lock:
            self._is_closed, self._queue = True, []
        if self._sender is not None:
            self._sender.cancel()

    def _start(self) -> None:
        if self._queue and (self._sender is None or self._sender.done()):
            self._sender = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        while True:
            with self._lock:
                reports, self._queue = self._queue, []
            if not reports:
                return
            for report in reports:
                await self._send(report)
