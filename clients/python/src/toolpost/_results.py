"""Results of calls. Those that end while a request is under way share the next one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from .errors import ToolpostError

#: The maximum number of results of a request.
MAX_RESULTS = 64
#: The bytes after which a request gets no further result.
MAX_BYTES = 256 * 1024
#: The requests at the same time. A second one is prepared while the service commits the first.
MAX_REQUESTS = 2


class Result(NamedTuple):
    """The result of one call, as JSON."""

    id: str
    token: str
    output: bytes
    outcome: asyncio.Future[str]


class ResultSender:
    """Sends results in as few requests as keep up with them.

    Args:
        post: Sends the body of a request, and returns the outcome of each result: `recorded`, `ignored`,
            `retry` or `refused`.
        worker: The name of the worker.
    """

    def __init__(self, post: Callable[[bytes], Awaitable[list[str]]], worker: str) -> None:
        self._post = post
        self._head = b'{"worker":' + json.dumps(worker).encode() + b',"results":['
        self._waiting: list[Result] = []
        self._requests: set[asyncio.Task[None]] = set()

    async def send(self, call_id: str, token: str, output: bytes) -> str:
        """Sends a result. Returns its outcome; raises the error of the request."""
        result = Result(call_id, token, output, asyncio.get_running_loop().create_future())
        self._waiting.append(result)
        if len(self._requests) < MAX_REQUESTS:
            # A task of its own, because a call that is abandoned must not take the results of others with it.
            task = asyncio.create_task(self._send_waiting())
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
        return await result.outcome

    def _next(self) -> list[Result]:
        """Takes the results of the next request."""
        size, count = 0, 0
        for result in self._waiting[:MAX_RESULTS]:
            size += len(result.output)
            count += 1
            if size > MAX_BYTES:
                break
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    async def _send_waiting(self) -> None:
        while results := self._next():
            try:
                outcomes = await self._post(self._head + b",".join(map(_member, results)) + b"]}")
                if len(outcomes) != len(results):
                    raise ToolpostError(f"the service answered {len(outcomes)} of {len(results)} results")
            except Exception as error:
                for result in results:
                    if not result.outcome.done():
                        result.outcome.set_exception(error)
                continue
            for result, outcome in zip(results, outcomes, strict=True):
                if not result.outcome.done():
                    result.outcome.set_result(outcome)


def _member(result: Result) -> bytes:
    """Returns a result as JSON. A tool that returned nothing has no `result`."""
    head = b'{"id":"%s","token":"%s"' % (result.id.encode(), result.token.encode())
    return head + (b',"result":' + result.output if result.output else b"") + b"}"
