"""Tools as an ASGI application, for the `http` executor."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from ._context import Context, Report
from ._output import ToolError, encode, error_output
from ._reports import ReportQueue
from ._tool import REGISTRY, ToolFunction
from .errors import ToolpostError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
MAX_BODY = 16 * 1024 * 1024
MAX_AGE_S = 300


class HttpApp:
    """An ASGI application that runs tools. Every server of ASGI serves it, also below a path of another application."""

    def __init__(
        self,
        tools: Iterable[ToolFunction[Any, Any]] | None = None,
        *,
        signing_secret: str | None = None,
        threads: int = 32,
    ) -> None:
        self._tools = tools
        secret = signing_secret or os.environ.get("TOOLPOST_SIGNING_SECRET")
        self._key = _key(secret) if secret else None
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="toolpost")

    @property
    def tools(self) -> dict[str, ToolFunction[Any, Any]]:
        """The tools by name; by default all that `@tool` declares."""
        return {tool.name: tool for tool in (REGISTRY if self._tools is None else self._tools)}

    def definitions(self, url: str) -> list[dict[str, Any]]:
        """Returns the definitions that register the tools, whose calls are sent to `url`."""
        return [tool.definition({"type": "http", "url": url}) for tool in self.tools.values()]

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await _respond(send, 405, {"error": "calls are sent with POST"}, [(b"allow", b"POST")])
            return
        body = await _body(receive)
        if body is None:
            return
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self._key is not None and not is_genuine(self._key, headers, body):
            await _respond(send, 401, {"error": "the signature is missing, wrong or older than 5 minutes"})
            return
        try:
            call = json.loads(body)
            tool = self.tools.get(call["name"])
        except (ValueError, TypeError, KeyError):
            await _respond(send, 400, {"error": "the body must be a call with `name` and `arguments`"})
            return
        if tool is None:
            await _respond(send, 404, {"error": f"unknown tool {call['name']!r}"})
            return
        await self._run(tool, call, receive, send)

    async def _run(self, tool: ToolFunction[Any, Any], call: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Responds with JSON, or with an event stream if the tool reports progress."""
        stream = _Stream(send)
        reports = ReportQueue(stream.progress)
        context = Context(call, send=reports.put)
        work = asyncio.create_task(_output(tool, call.get("arguments") or {}, context, self._threads))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                context.cancel()
                return
            await reports.close()
            await stream.result(work.result())
        finally:
            reports.cancel()
            for task in (work, gone):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(work, gone, return_exceptions=True)


class _Stream:
    """The response to one call."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._has_begun = False

    async def progress(self, report: Report) -> None:
        await self._begin()
        await self._event("progress", encode(report), more=True)

    async def result(self, output: bytes) -> None:
        if self._has_begun:
            await self._event("result", output, more=False)
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(output)).encode())]
            headers = headers if output else headers[1:]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send({"type": "http.response.body", "body": output})

    async def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _event(self, name: str, data: bytes, *, more: bool) -> None:
        body = b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


async def _output(
    tool: ToolFunction[Any, Any], arguments: Mapping[str, Any], context: Context, threads: ThreadPoolExecutor
) -> bytes:
    try:
        return encode(await tool.invoke(arguments, context, threads))
    except Exception as error:
        return encode(error_output(error))


async def _body(receive: Receive) -> bytes | None:
    """Returns the body, or `None` if the client is gone."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > MAX_BODY:
            return b""
        if not message.get("more_body"):
            return body


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _respond(send: Send, status: int, body: Any, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    found = [(b"content-type", b"application/json"), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": found})
    await send({"type": "http.response.body", "body": encode(body)})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _key(secret: str) -> bytes:
    if not secret.startswith("whsec_"):
        raise ToolpostError("`signing_secret` must begin with whsec_: `toolpost keys signing-secret` prints it")
    return base64.b64decode(secret.strip().removeprefix("whsec_"))


def is_genuine(key: bytes, headers: Mapping[str, str], body: bytes) -> bool:
    """Verifies that a request was signed by the service (Standard Webhooks), and that it is recent."""
    sent_at = headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > MAX_AGE_S:
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    signatures = headers.get("webhook-signature", "").encode("latin-1").split()
    return any(hmac.compare_digest(expected, signature) for signature in signatures)


def http_app(
    tools: Iterable[ToolFunction[Any, Any]] | None = None, *, signing_secret: str | None = None, threads: int = 32
) -> HttpApp:
    """Returns an ASGI application that runs tools for the `http` executor; by default all that `@tool` declares.

    With a signing secret (also `TOOLPOST_SIGNING_SECRET`), requests of others than the service are refused.
    """
    return HttpApp(tools, signing_secret=signing_secret, threads=threads)
