"""The sync client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Iterable, Mapping
from typing import Any, Literal, cast, overload

from .._definition import Definable, definition_of
from .._sse import Parser
from .._transport import LONG_POLL_MS, backoff, new_key, path, query, without_none
from .._vendor import AnyIterable, peek, message_body
from ..errors import APIConnectionError, ToolpostError
from ..models import AnyEvent, Batch, Tool, ToolCall, ToolStats, Validation
from ..params import Agent, CallItem, Limits, RetryOverride
from .approvals import Approvals
from .base import Base
from .sessions import Sessions

Mode = Literal["auto", "parallel", "serial"]
Wait = Literal["result", "accepted"] | int
VendorFormat = Literal["openai", "openai-responses", "openai-strict", "anthropic", "gemini", "mcp"]
MessageFormat = Literal["openai", "openai-responses", "anthropic", "gemini"]


class Toolpost(Base):
    """A client of Toolpost.

    The address and the key are by default those of `TOOLPOST_URL` and `TOOLPOST_API_KEY`. A rejected request raises an
    `APIStatusError`. A failed call is a value: a `ToolCall` whose `is_error` is true and whose `output` tells the model
    what to correct.

    Every `call` and `run` sends an idempotency key. Therefore they are retried without running a tool twice.
    """

    @property
    def sessions(self) -> Sessions:
        """The sessions: conversations with their calls."""
        return Sessions(self)

    @property
    def approvals(self) -> Approvals:
        """The calls that wait for the decision of a person."""
        return Approvals(self)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        id: str | None = None,
        session: str | None = None,
        context: Mapping[str, Mapping[str, Any]] | None = None,
        agent: Agent | None = None,
        limits: Limits | None = None,
        retry: RetryOverride | None = None,
        priority: int | None = None,
        wait: Wait | None = None,
        callback_url: str | None = None,
        dedupe: Literal["call_id"] | None = None,
        idempotency_key: str | None = None,
    ) -> ToolCall:
        """Calls a tool and returns the call with its result.

        The call has not ended yet (`is_done`) if the tool is asynchronous, if it needs an approval, or if `wait` is
        over: `wait_for` waits for its end. With `wait="result"` this method waits as long as it takes.
        """
        body = without_none({
            "name": name, "arguments": arguments, "id": id, "session": session, "context": context, "agent": agent,
            "limits": limits, "retry": retry, "priority": priority, "wait": wait, "callback_url": callback_url,
            "dedupe": dedupe,
        })
        response = self.request("POST", "/tool-calls", json=body, idempotency_key=idempotency_key or new_key())
        return ToolCall(response.json())

    def run(
        self,
        response: Any,
        *,
        format: MessageFormat | None = None,
        session: str | None = None,
        context: Mapping[str, Mapping[str, Any]] | None = None,
        agent: Agent | None = None,
        mode: Mode | None = None,
        limits: Limits | None = None,
        retry: RetryOverride | None = None,
        priority: int | None = None,
        wait: Wait | None = None,
        callback_url: str | None = None,
        idempotency_key: str | None = None,
    ) -> Batch:
        """Runs the calls in a model's response: an object of the SDK of OpenAI, Anthropic or Gemini, or its dict.

        Returns `results`, the calls in their order, and `messages`, which the caller appends to the conversation after
        the response. Both are empty if the model called no tool.
        """
        body = message_body(response, without_none({
            "format": format, "session": session, "context": context, "agent": agent, "mode": mode, "limits": limits,
            "retry": retry, "priority": priority, "wait": wait, "callback_url": callback_url,
        }))
        return self._run(body, idempotency_key)

    def batch(
        self,
        calls: Iterable[CallItem | Mapping[str, Any]],
        *,
        format: MessageFormat | None = None,
        session: str | None = None,
        context: Mapping[str, Mapping[str, Any]] | None = None,
        agent: Agent | None = None,
        mode: Mode | None = None,
        limits: Limits | None = None,
        wait: Wait | None = None,
        idempotency_key: str | None = None,
    ) -> Batch:
        """Makes several calls, each `{"name", "arguments", "id"}`, and returns their results in this order."""
        body = without_none({
            "calls": list(calls), "format": format, "session": session, "context": context, "agent": agent,
            "mode": mode, "limits": limits, "wait": wait,
        })
        return self._run(body, idempotency_key)

    def _run(self, body: Mapping[str, Any], idempotency_key: str | None) -> Batch:
        response = self.request("POST", "/tool-calls", json=body, idempotency_key=idempotency_key or new_key())
        data = response.json()
        # A format that has one call only is answered with that call.
        return Batch(data if "results" in data else {"batch_id": None, "results": [data], "messages": None})

    def stream(
        self, name: str, arguments: Mapping[str, Any] | str | None = None, **options: Any
    ) -> Iterator[AnyEvent]:
        """Calls a tool and yields its events. The last one is `batch`, whose `results` has the call.

        The options are those of `call`. A call continues if its caller stops reading, unless
        `on_disconnect="cancel"` is set. After a lost connection, the events of the call continue without a gap.
        """
        body = without_none({"name": name, "arguments": arguments, **options})
        call_id = after = None
        try:
            for event in self._stream("/tool-calls", new_key(), json=body):
                if event.event != "batch":
                    call_id, after = str(event["id"]), event.event_id
                yield event
            return
        except APIConnectionError:
            if call_id is None:
                raise
        for event in self.watch(call_id, after=after):
            yield event
        call = self.get(call_id)
        yield Batch({"batch_id": None, "results": [call.to_dict()], "messages": None})

    def stream_response(
        self, chunks: AnyIterable, *, format: MessageFormat | None = None, **options: Any
    ) -> Iterator[AnyEvent]:
        """Runs the calls in a model's response while the model still generates it.

        `chunks` is the stream of an SDK of OpenAI, Anthropic or Gemini, or its raw bytes (with `format`). Each call
        starts when its arguments are complete. The last event is `batch`, whose `messages` continue the conversation.
        Events are read after the model's stream has ended.
        """
        found, content = peek(chunks)
        if format is None and found is None:
            raise ToolpostError("`format` is missing: raw bytes do not name the vendor of the model")
        params = query({"format": format or found, **options})
        headers = {"content-type": "text/event-stream"}
        # The stream can be sent only once, so it is not retried.
        options = {"params": params, "content": content, "headers": headers}
        with self._open("POST", "/tool-calls/stream", **options) as response:
            parser = Parser()
            for line in response.iter_lines():
                event = parser.feed(line)
                if event is not None:
                    yield event

    def watch(
        self,
        call_id: str | None = None,
        *,
        session: str | None = None,
        name: str | None = None,
        after: str | None = None,
    ) -> Iterator[AnyEvent]:
        """Yields the events of a call from its begin to its end, or those of a session, or of all calls.

        The stream resumes without a gap after a lost connection. `after` is the `event_id` to continue from.
        """
        if call_id is None:
            place = path("sessions", session, "events") if session else "/events"
            while True:
                for event in self._events(place, {"name": name}, after):
                    after = event.event_id or after
                    yield event
                # A service that restarts ends its streams.
                time.sleep(backoff(0))
        is_done = is_last = False
        while True:
            for event in self._events(path("tool-calls", call_id, "events"), {}, after):
                after = event.event_id or after
                yield event
                is_done = is_done or event.event == "tool_result"
            # A stream without an end is the stream of a service that stopped, or `after` was the last event of the call.
            # If the call has ended, the next stream is certain to have what is left.
            if is_done or is_last:
                return
            is_last = (self.get(call_id)).is_done
            time.sleep(0 if is_last else backoff(0))

    def get(self, call_id: str, *, wait_ms: int | None = None) -> ToolCall:
        """Returns a call, after at most `wait_ms` if it has not ended."""
        response = self.request("GET", path("tool-calls", call_id), params={"wait_ms": wait_ms})
        return ToolCall(response.json())

    def wait_for(self, call: ToolCall | str) -> ToolCall:
        """Waits until a call has ended, and returns it."""
        if isinstance(call, ToolCall) and call.is_done:
            return call
        call_id = call if isinstance(call, str) else call.id
        while True:
            found = self.get(call_id, wait_ms=LONG_POLL_MS)
            if found.is_done:
                return found

    def calls(self, **filters: Any) -> Iterator[ToolCall]:
        """Yields the calls that match, newest first: `session`, `batch_id`, `name`, `status`, `code`, `q` and so on."""
        cursor: str | None = None
        while True:
            response = self.request("GET", "/tool-calls", params={**filters, "cursor": cursor})
            page = response.json()
            for call in page["tool_calls"]:
                yield ToolCall(call)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def cancel(self, call: ToolCall | str) -> ToolCall:
        """Cancels a call. A call that has ended stays unchanged."""
        call_id = call if isinstance(call, str) else call.id
        # Cancelling twice is the same as once, so the key only allows a retry.
        response = self.request("POST", path("tool-calls", call_id, "cancel"), idempotency_key=new_key())
        return ToolCall(response.json())

    def cancel_all(
        self,
        *,
        session: str | None = None,
        batch_id: str | None = None,
        name: str | None = None,
        ids: list[str] | None = None,
    ) -> int:
        """Cancels the calls that match every given filter, and returns their number."""
        body = without_none({"session": session, "batch_id": batch_id, "name": name, "ids": ids})
        response = self.request("POST", "/tool-calls/cancel", json=body)
        return int(response.json()["cancelled"])

    @overload
    def tools(
        self, format: Literal["native"] = "native", *, session: str | None = None, groups: list[str] | None = None,
        q: str | None = None, limit: int | None = None, include_inactive: bool | None = None,
    ) -> list[Tool]: ...

    @overload
    def tools(
        self, format: VendorFormat, *, session: str | None = None, groups: list[str] | None = None,
        q: str | None = None, limit: int | None = None, include_inactive: bool | None = None,
    ) -> list[Any]: ...

    @overload
    def tools(
        self, format: Literal["prompt"], *, session: str | None = None, groups: list[str] | None = None,
        q: str | None = None, limit: int | None = None, include_inactive: bool | None = None,
    ) -> str: ...

    def tools(
        self,
        format: Literal["native", "prompt"] | VendorFormat = "native",
        *,
        session: str | None = None,
        groups: list[str] | None = None,
        q: str | None = None,
        limit: int | None = None,
        include_inactive: bool | None = None,
    ) -> list[Tool] | list[Any] | str:
        """Lists the tools: as `Tool`, as what goes into a vendor's request, or as the text of a prompt."""
        params = {
            "format": format, "session": session, "groups": groups, "q": q, "limit": limit,
            "include_inactive": include_inactive,
        }
        response = self.request("GET", "/tools", params=params)
        if format == "prompt":
            return response.text
        tools = cast("list[Any]", response.json()["tools"])
        return [Tool(tool) for tool in tools] if format == "native" else tools

    def register(self, definition: Definable) -> Tool:
        """Creates or replaces a tool: a definition or a `@tool` with an `executor`."""
        body = definition_of(definition)
        return Tool((self.request("PUT", path("tools", str(body["name"])), json=body)).json())

    def unregister(self, name: str) -> None:
        """Deletes a registered tool."""
        self.request("DELETE", path("tools", name))

    def validate(self, name: str, arguments: Mapping[str, Any] | str) -> Validation:
        """Checks arguments without running the tool."""
        body = {"arguments": arguments}
        return Validation((self.request("POST", path("tools", name, "validate"), json=body)).json())

    def stats(self, name: str) -> ToolStats:
        """Returns the counts and durations of a tool."""
        return ToolStats((self.request("GET", path("tools", name, "stats"))).json())
