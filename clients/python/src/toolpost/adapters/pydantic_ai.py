"""Toolpost's tools in Pydantic AI.

A tool that needs an approval is deferred: the run ends with `DeferredToolRequests`, and `DeferredToolResults` continues it.
Progress is emitted as `ToolProgressEvent` into the event stream of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai import CustomEvent, RunContext, ToolFailed
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from ..models import StatusEvent, ToolCall
from ._bridge import AnyClient, Bridge, RemoteTool, blocks, progress_data

__all__ = ["ToolProgressEvent", "ToolpostToolset"]

#: The service checks and coerces the arguments.
ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


@dataclass(kw_only=True)
class ToolProgressEvent(CustomEvent):
    """Progress that a tool reported."""

    current: float | None = None
    total: float | None = None
    message: str | None = None


class ToolpostToolset(AbstractToolset[AgentDepsT]):
    """The tools of a service, for `Agent(toolsets=[…])`. They are listed for each step of a run."""

    def __init__(
        self,
        client: AnyClient,
        *,
        groups: list[str] | None = None,
        q: str | None = None,
        session: str | None = None,
        context: Mapping[str, Mapping[str, Any]] | None = None,
        approver: AnyClient | None = None,
        on_progress: Callable[[StatusEvent], None] | None = None,
        id: str | None = "toolpost",
    ) -> None:
        """Creates a toolset.

        Args:
            client: The client that makes the calls.
            groups: Only tools of these groups.
            q: Only tools that match this search.
            session: The session of the calls.
            context: Context objects for tools that name them.
            approver: The client that records approvals; by default `client`.
            on_progress: Receives the progress of calls, in addition to the event stream.
            id: The id of the toolset.
        """
        self._bridge = Bridge(client, session=session, context=context, approver=approver, on_progress=on_progress)
        self._filters = {"groups": groups, "q": q}
        self._id = id

    @property
    def id(self) -> str | None:
        """The id of the toolset."""
        return self._id

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Lists the tools."""
        tools = await self._bridge.alist_tools(**self._filters)
        return {tool.name: self._tool(tool) for tool in tools}

    def _tool(self, tool: RemoteTool) -> ToolsetTool[AgentDepsT]:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.schema,
            kind="unapproved" if tool.needs_approval else "function",
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=1, args_validator=ANY_ARGUMENTS)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Calls a tool. A failed call raises `ToolFailed`, whose message the model reads."""

        async def emit(event: StatusEvent) -> None:
            data = progress_data(event)
            try:
                await ctx.emit(ToolProgressEvent(current=data["current"], total=data["total"], message=data["message"]))
            except UserError:
                pass  # the toolset is used without a run

        call = await self._bridge.call(
            name, tool_args, call_id=ctx.tool_call_id, approved=ctx.tool_call_approved, on_progress=emit
        )
        return _result(call)


def _result(call: ToolCall) -> Any:
    if call.is_error:
        raise ToolFailed(call.output or "the call failed")
    images = [BinaryContent.from_data_uri(f"data:{block['mime_type']};base64,{block['data']}")
              for block in blocks(call) if block["type"] == "image"]
    return ToolReturn(return_value=call.output or "", content=images or None, metadata=call.to_dict())
