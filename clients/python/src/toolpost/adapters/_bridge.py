"""What the adapters share: the list of tools, and calls with progress and approval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Union
from weakref import WeakKeyDictionary

from .._async.client import AsyncToolpost
from .._sync.client import Toolpost
from ..errors import NotFoundError, ToolpostError
from ..models import StatusEvent, Tool, ToolCall

AnyClient = Union[Toolpost, AsyncToolpost]
OnProgress = Callable[[StatusEvent], Awaitable[None]]
#: What a vendor accepts as the name of a tool.
MAX_NAME = 64


@dataclass(frozen=True)
class RemoteTool:
    """A tool of the service as a framework presents it to a model."""

    name: str
    description: str
    schema: dict[str, Any]
    needs_approval: bool
    tool: Tool


def match(native: Mapping[str, Any], vendor: Mapping[str, Any]) -> list[RemoteTool]:
    """Joins two lists of the same tools. Vendors accept no dots in names, so some tools have an alias."""
    skipped = {found["name"] for found in vendor.get("left_out") or []}
    tools = [Tool(tool) for tool in native["tools"] if tool["name"] not in skipped]
    shown = [found["function"] for found in vendor["tools"]]
    if len(tools) != len(shown) or any(
        tool.name != found["name"] for tool, found in zip(tools, shown) if _is_plain(tool.name)
    ):
        raise ToolpostError("the tools changed while they were listed: list them again")
    return [
        RemoteTool(
            name=found["name"],
            description=found.get("description") or "",
            schema=found.get("parameters") or {"type": "object", "properties": {}},
            needs_approval=bool(tool.approval and tool.approval.required),
            tool=tool,
        )
        for tool, found in zip(tools, shown)
    ]


def _is_plain(name: str) -> bool:
    return "." not in name and len(name) <= MAX_NAME


class Bridge:
    """Calls tools for a framework.

    A tool that needs an approval is approved in the framework: then `call(approved=True)` records the decision with the
    key of `approver`, which needs the scope `approve`. A call that a policy stops waits for a decision in Toolpost.
    """

    def __init__(
        self,
        client: AnyClient,
        *,
        session: str | None = None,
        context: Mapping[str, Mapping[str, Any]] | None = None,
        approver: AnyClient | None = None,
        on_progress: Callable[[StatusEvent], None] | None = None,
    ) -> None:
        self._client = client
        self._approver = approver or client
        self._options = {"session": session, "context": context}
        self._session = session
        self._on_progress = on_progress
        self._clones: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, AsyncToolpost]] = WeakKeyDictionary()

    def list_tools(self, **filters: Any) -> list[RemoteTool]:
        """Lists the tools with a sync client."""
        client = self._client
        if not isinstance(client, Toolpost):
            raise TypeError("an AsyncToolpost lists its tools asynchronously: use the function that begins with `a`")
        for params in self._views(filters):
            try:
                native = client.request("GET", "/tools", params=params).json()
                vendor = client.request("GET", "/tools", params={**params, "format": "openai"}).json()
                return match(native, vendor)
            except NotFoundError as error:
                missing = error
        raise missing

    async def alist_tools(self, **filters: Any) -> list[RemoteTool]:
        """Lists the tools."""
        client = self._of_loop(self._client)
        for params in self._views(filters):
            try:
                native = (await client.request("GET", "/tools", params=params)).json()
                vendor = (await client.request("GET", "/tools", params={**params, "format": "openai"})).json()
                return match(native, vendor)
            except NotFoundError as error:
                missing = error
        raise missing

    def _views(self, filters: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the parameters to try: the first call creates the session, so it may not exist yet."""
        return [{**filters, "session": session} for session in ([self._session, None] if self._session else [None])]

    def _of_loop(self, client: AnyClient) -> AsyncToolpost:
        """Returns a client for the running loop: frameworks run tools in loops of their own."""
        clones = self._clones.setdefault(asyncio.get_running_loop(), {})
        if id(client) not in clones:
            clones[id(client)] = AsyncToolpost(
                client.url, headers=client._headers, timeout=client._timeout, max_retries=client.max_retries
            )
        return clones[id(client)]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        *,
        call_id: str | None = None,
        approved: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ToolCall:
        """Calls a tool and waits for its end. If the task is cancelled, so is the call."""
        client = self._of_loop(self._client)
        options = {**self._options, "id": call_id, "wait": "result"}
        found: str | None = None
        decided: set[str] = set()
        try:
            async for event in client.stream(name, arguments, **options):
                if event.event == "batch":
                    continue
                found = str(event["id"])
                if event.event != "status":
                    continue
                approval = event.approval
                if approved and approval and approval.status == "pending" and approval.digest not in decided:
                    decided.add(approval.digest)
                    await self._of_loop(self._approver).approvals.approve(found, digest=approval.digest)
                await self._tell(event, on_progress)
        except BaseException:
            # An error of an approval, too: the framework believes that the call failed.
            if found is not None:
                with suppress(ToolpostError):
                    await asyncio.shield(client.cancel(found))
            raise
        if found is None:
            raise ToolpostError(f"the call of {name!r} has no events")
        # Events have the begin of long outputs only.
        return await client.get(found)

    async def _tell(self, event: StatusEvent, on_progress: OnProgress | None) -> None:
        if event.progress is None and event.tip is None or event.result is not None:
            return
        if self._on_progress is not None:
            self._on_progress(event)
        if on_progress is not None:
            await on_progress(event)

    def call_sync(self, name: str, arguments: Mapping[str, Any] | str, **options: Any) -> ToolCall:
        """Calls a tool from a thread without an event loop."""

        async def run() -> ToolCall:
            try:
                return await self.call(name, arguments, **options)
            finally:
                for client in self._clones.pop(asyncio.get_running_loop(), {}).values():
                    await client.close()

        return asyncio.run(run())


def progress_data(event: StatusEvent) -> dict[str, Any]:
    """Returns the progress of a call as a framework streams it."""
    progress = event.progress
    return {
        "call_id": event.call_id,
        "name": event.name,
        "current": progress.current if progress else None,
        "total": progress.total if progress else None,
        "message": progress.message if progress and progress.message else event.tip,
    }


def blocks(call: ToolCall) -> list[dict[str, Any]]:
    """Returns the content for the model: texts and images."""
    return [block for block in call.content if block.get("type") in ("text", "image")]
