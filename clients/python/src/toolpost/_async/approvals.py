"""Approvals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from .._transport import path, without_none
from ..errors import ToolpostError
from ..models import AnyEvent, ApprovalStatus, ToolCall

if TYPE_CHECKING:
    from .client import AsyncToolpost


class AsyncApprovals:
    """The approvals of a client. Deciding needs the scope `approve`, and another key than the call's."""

    def __init__(self, client: AsyncToolpost) -> None:
        self._client = client

    async def list(
        self, *, status: ApprovalStatus | None = None, session: str | None = None, name: str | None = None
    ) -> AsyncIterator[ToolCall]:
        """Yields the calls with an approval, oldest first; by default the calls that wait for a decision."""
        cursor: str | None = None
        while True:
            params = {"status": status, "session": session, "name": name, "cursor": cursor}
            page = (await self._client.request("GET", "/approvals", params=params)).json()
            for call in page["approvals"]:
                yield ToolCall(call)
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def watch(self, *, session: str | None = None, name: str | None = None) -> AsyncIterator[AnyEvent]:
        """Yields the events of calls whose approval is requested or decided."""
        after: str | None = None
        while True:
            async for event in self._client._events("/approvals/events", {"session": session, "name": name}, after):
                after = event.event_id or after
                yield event

    async def approve(
        self,
        call: ToolCall | str,
        *,
        digest: str | None = None,
        reason: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        remember: Literal["session"] | None = None,
    ) -> ToolCall:
        """Approves a call as the caller has seen it. `arguments` replace those of the call."""
        more = {"arguments": arguments, "remember": remember}
        return await self._decide(call, {"decision": "approve", "digest": digest, "reason": reason, **more})

    async def reject(self, call: ToolCall | str, *, digest: str | None = None, reason: str | None = None) -> ToolCall:
        """Rejects a call. The model reads the reason."""
        return await self._decide(call, {"decision": "reject", "digest": digest, "reason": reason})

    async def _decide(self, call: ToolCall | str, body: dict[str, Any]) -> ToolCall:
        if isinstance(call, ToolCall) and body["digest"] is None and call.approval is not None:
            body["digest"] = call.approval.digest
        if body["digest"] is None:
            raise ToolpostError("`digest` is missing: pass the ToolCall, or the digest of the approval that was shown")
        call_id = call if isinstance(call, str) else call.id
        place = path("tool-calls", call_id, "approval")
        return ToolCall((await self._client.request("POST", place, json=without_none(body))).json())
