"""Workers: programs that fetch the calls of their tools from the service."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx

from ._async.client import AsyncToolpost
from ._context import Context, Report
from ._output import ToolError, encode, error_output
from ._reports import ReportQueue
from ._results import ResultSender
from ._tool import REGISTRY, ToolFunction
from ._transport import backoff, headers_of, path
from .errors import (
    APIConnectionError, APIStatusError, BadRequestError, ConflictError, InvalidRequestError, RateLimitError,
    ServiceUnavailableError, ToolpostError,
)

log = logging.getLogger("toolpost.worker")

MAX_HEARTBEAT_S = 5.0
MAX_CLAIM = 64
#: The maximum number of calls of a heartbeat.
MAX_HEARTBEAT = 1000
#: The tries to deliver a result. The service gives the call out again, or settles it, when its lease ends.
RESULT_TRIES = 12
#: A longer result has a request of its own.
MAX_SHARED_BYTES = 64 * 1024
TRANSIENT = (APIConnectionError, RateLimitError, ServiceUnavailableError)


class Worker:
    """Runs tools for the calls of a queue.

    `run` returns after `stop`, when the running calls have ended or `drain_s` is over. The service gives calls that are
    left to another worker if their tool allows it.

    Args:
        url: The address of the service, by default that of `TOOLPOST_URL`.
        queue: The queue whose calls the worker runs.
        tools: The tools, by default all that `@tool` declares in this process.
        api_key: The key, with the scopes `work` and `tools`, by default that of `TOOLPOST_API_KEY`.
        concurrency: The maximum number of tools that run at once, each sync tool in a thread of its own. At most
            twice as many calls run or send their results.
        lease_ms: The time after which the service considers a silent worker lost.
        drain_s: How long `stop` waits for running calls.
        poll_ms: How long a claim waits for a call. `stop` waits for the last claim, because its calls would be lost
            until their lease ends.
        name: The name of the worker, by default that of the host and the process.
        register: `False` if the tools are registered already. Then the key needs the scope `work` only.
    """

    def __init__(
        self,
        url: str | None = None,
        queue: str = "default",
        *,
        tools: Iterable[ToolFunction[Any, Any]] | None = None,
        api_key: str | None = None,
        concurrency: int = 8,
        lease_ms: int = 30_000,
        drain_s: float = 25.0,
        poll_ms: int = 5_000,
        name: str | None = None,
        register: bool = True,
    ) -> None:
        found = list(REGISTRY if tools is None else tools)
        if not found:
            raise ToolpostError("no tools: declare them with @tool before the worker starts")
        if concurrency < 1:
            raise ToolpostError(f"`concurrency` must be at least 1, got {concurrency}")
        self.tools = {tool.name: tool for tool in found}
        self.queue = queue
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.concurrency = concurrency
        self.lease_ms = lease_ms
        self.drain_s = drain_s
        self.poll_ms = poll_ms
        self._registers = register
        headers = {"user-agent": headers_of(None, "toolpost-python-worker")["user-agent"]}
        self._client = AsyncToolpost(url, api_key, max_retries=0, headers=headers)
        self._results = ResultSender(self._post_results, self.name)
        self._running: dict[str, _Run] = {}
        self._running_tools = 0
        self._claiming: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="toolpost")

    @property
    def running(self) -> int:
        """The number of calls that run or send their results."""
        return len(self._running)

    def stop(self) -> None:
        """Claims no more calls. A second time, it abandons the running ones and does not wait for the last claim."""
        if self._stopping.is_set():
            self.drain_s = 0
            if self._claiming is not None:
                self._claiming.cancel()
            for run in self._running.values():
                run.abandon()
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Claims and runs calls until `stop`. Waits for the service if it is unavailable."""
        heartbeat = asyncio.create_task(self._keep_leases())
        self._claiming = asyncio.create_task(self._claim_calls())
        try:
            # The claims may be cancelled by a second stop, or together with this task.
            await asyncio.wait([self._claiming])
            if not self._claiming.cancelled():
                self._claiming.result()
            await self._drain()
        finally:
            heartbeat.cancel()
            self._claiming.cancel()
            for run in self._running.values():
                run.abandon()
            with suppress(asyncio.CancelledError):
                await heartbeat
            self._threads.shutdown(wait=False, cancel_futures=True)
            await self._client.close()

    async def _claim_calls(self) -> None:
        failures, is_registered = 0, not self._registers
        while not self._stopping.is_set():
            free = self._free()
            if free <= 0:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                if not is_registered:
                    await self._register()
                    is_registered = True
                calls = await self._claim(min(free, MAX_CLAIM))
            except (ConflictError, *TRANSIENT) as error:
                if isinstance(error, ConflictError) and error.code != "TOOL_CHANGED":
                    raise
                # The service may have forgotten the tools of a worker that it has not seen.
                is_registered = not self._registers
                delay = backoff(min(failures, 5), getattr(error, "retry_after", None))
                log.warning("claim failed; the next try is in %.1f s: %s", delay, error)
                failures += 1
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), delay)
                continue
            if failures:
                log.info("connected again")
            failures = 0
            for call in calls:
                self._start(call)

    def _free(self) -> int:
        """Returns how many calls may start. At most twice as many as `concurrency` run or send their results."""
        return min(self.concurrency - self._running_tools, 2 * self.concurrency - len(self._running))

    async def _register(self) -> None:
        executor = {"type": "worker", "queue": self.queue, "lease_ms": self.lease_ms}
        body = {"worker": self.name, "tools": [tool.definition(executor) for tool in self.tools.values()]}
        await self._client.request("PUT", path("workers", self.queue, "tools"), json=body)
        log.info("worker %s serves queue %s: %s", self.name, self.queue, ", ".join(self.tools))

    async def _claim(self, free: int) -> list[dict[str, Any]]:
        body = {"worker": self.name, "max": free, "wait_ms": self.poll_ms}
        timeout = httpx.Timeout(self.poll_ms / 1000 + 30, connect=10)
        response = await self._client.request("POST", path("workers", self.queue, "claim"), json=body, timeout=timeout)
        calls: list[dict[str, Any]] = response.json()["calls"]
        return calls

    async def _post_results(self, body: bytes) -> list[str]:
        place = path("workers", self.queue, "results")
        response = await self._client.request("POST", place, content=body, timeout=30)
        return [receipt["outcome"] for receipt in response.json().get("results", ())]

    def _start(self, call: dict[str, Any]) -> None:
        tool = self.tools.get(call["name"])
        run = _Run(self._client, self._results, tool, call, self._threads, self._tool_ended)
        self._running[call["id"]] = run
        self._running_tools += 1
        run.task.add_done_callback(lambda _: self._ended(run))
        self._changed.set()

    def _tool_ended(self) -> None:
        self._running_tools -= 1
        self._changed.set()

    def _ended(self, run: _Run) -> None:
        if self._running.get(run.id) is run:
            del self._running[run.id]
        self._changed.set()

    async def _keep_leases(self) -> None:
        """Renews the leases of the running calls, and learns which of them are cancelled."""
        while True:
            if not self._running:
                self._changed.clear()
                await self._changed.wait()
                continue
            lease_ms = min(run.lease_ms for run in self._running.values())
            await asyncio.sleep(min(lease_ms / 3000, MAX_HEARTBEAT_S))
            calls = list(self._running)
            for start in range(0, len(calls), MAX_HEARTBEAT):
                await self._renew(calls[start : start + MAX_HEARTBEAT])

    async def _renew(self, calls: list[str]) -> None:
        body = {"worker": self.name, "calls": calls}
        try:
            place = path("workers", self.queue, "heartbeat")
            answer = (await self._client.request("POST", place, json=body, timeout=10)).json()
        except ToolpostError as error:
            log.warning("heartbeat failed: %s", error)
            return
        for call_id in [*answer["cancelled"], *answer["lost"]]:
            if call_id in self._running:
                self._running[call_id].abandon()

    async def _drain(self) -> None:
        tasks = [run.task for run in self._running.values()]
        if tasks and self.drain_s > 0:
            log.info("stopping; waiting for %d calls", len(tasks))
            await asyncio.wait(tasks, timeout=self.drain_s)


class _Run:
    """One claimed call."""

    def __init__(
        self,
        client: AsyncToolpost,
        results: ResultSender,
        tool: ToolFunction[Any, Any] | None,
        call: Mapping[str, Any],
        threads: ThreadPoolExecutor,
        tool_ended: Callable[[], None],
    ) -> None:
        self.id = str(call["id"])
        self.lease_ms = int(call.get("lease_ms") or 30_000)
        self._call = call
        self._client = client
        self._results = results
        self._tool = tool
        self._threads = threads
        self._tool_ended = tool_ended
        self._reports = ReportQueue(self._send_report)
        self._context = Context(call, send=self._reports.put)
        self._is_abandoned = False
        self._work: asyncio.Task[Any] | None = None
        self.task = asyncio.create_task(self._run())

    def abandon(self) -> None:
        """Stops the call without a result. A sync function continues until it looks at `ctx.cancelled`."""
        self._is_abandoned = True
        self._context.cancel()
        if self._work is not None and self._tool is not None and self._tool.is_async:
            self._work.cancel()

    async def _run(self) -> None:
        try:
            output = await self._output()
        finally:
            self._tool_ended()
        await self._reports.close()
        if not self._is_abandoned:
            await self._post_result(output)

    async def _output(self) -> bytes:
        if self._tool is None:
            return encode(error_output(ToolError(f"worker has no tool {self._call['name']!r}")))
        self._work = asyncio.create_task(self._tool.invoke(self._call["arguments"], self._context, self._threads))
        try:
            return encode(await self._work)
        except asyncio.CancelledError:
            if not self._is_abandoned:
                raise
            return b""
        except ToolError as error:
            return encode(error_output(error))
        except Exception as error:
            log.exception("tool %s failed", self._tool.name)
            return encode(error_output(error))

    async def _send_report(self, report: Report) -> None:
        if self._is_abandoned:
            return
        try:
            await self._post("progress", encode(report))
        except (ToolpostError, ValueError) as error:
            # Progress is not part of the result.
            log.warning("progress of %s is not reported: %s", self._call["name"], error)

    async def _post_result(self, output: bytes) -> None:
        for attempt in range(RESULT_TRIES):
            if self._is_abandoned:
                return
            try:
                if await self._send_result(output):
                    return
                await asyncio.sleep(backoff(attempt))
            except (BadRequestError, InvalidRequestError) as error:
                failed = ToolError(f"the result was rejected: {error.detail}")
                if output == encode(error_output(failed)):
                    log.error("result of %s is rejected: %s", self._call["name"], error)
                    return
                output = encode(error_output(failed))
            except TRANSIENT as error:
                log.warning("result of %s is not delivered yet: %s", self._call["name"], error)
                await asyncio.sleep(backoff(attempt, getattr(error, "retry_after", None)))
            except APIStatusError as error:
                log.error("result of %s is rejected: %s", self._call["name"], error)
                return

    async def _send_result(self, output: bytes) -> bool:
        """Sends the result. Returns `False` if the service cannot accept it now."""
        if len(output) <= MAX_SHARED_BYTES:
            try:
                outcome = await self._results.send(self.id, str(self._call["token"]), output)
                if outcome == "refused":
                    log.error("the service refused the token of %s", self._call["name"])
                return outcome != "retry"
            except ToolpostError as error:
                if isinstance(error, TRANSIENT):
                    raise
                # One result of the request may be invalid, or the service is older than shared results.
        await self._post("result", output)
        return True

    async def _post(self, what: str, body: bytes) -> None:
        headers = {"authorization": f"Bearer {self._call['token']}"}
        await self._client.request("POST", path("tool-calls", self.id, what), content=body, headers=headers, timeout=30)


async def serve_async(url: str | None = None, queue: str = "default", **options: Any) -> None:
    """Runs a worker until SIGINT or SIGTERM. The options are those of `Worker`."""
    await _until_signal(Worker(url, queue, **options))


async def _until_signal(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Windows and threads other than the main one have no such handlers.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, worker.stop)
    await worker.run()


def serve(url: str | None = None, queue: str = "default", **options: Any) -> None:
    """Runs a worker until SIGINT or SIGTERM: the tools of this process, by default all that `@tool` declares.

    Args:
        url: The address of the service, by default that of `TOOLPOST_URL`.
        queue: The queue whose calls the worker runs.
        options: The options of `Worker`: `tools`, `api_key`, `concurrency`, `drain_s` and so on.
    """
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("httpx").setLevel(logging.WARNING)

    async def run() -> int:
        worker = Worker(url, queue, **options)
        await _until_signal(worker)
        return worker.running

    if asyncio.run(run()):
        # A thread cannot be stopped, and the interpreter would wait for it.
        log.warning("stopped; abandoned the calls that still run")
        os._exit(1)
