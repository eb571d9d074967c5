"""Toolpost's tools in LlamaIndex.

A tool that needs an approval writes `ApprovalRequested` to the event stream of the workflow and waits for
`ApprovalDecided`. Progress is written as `ToolProgress`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.bridge.pydantic import BaseModel, ConfigDict
from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context, Event, HumanResponseEvent, InputRequiredEvent

from ..models import StatusEvent, ToolCall
from ._bridge import AnyClient, Bridge, RemoteTool, blocks, progress_data

__all__ = ["ApprovalDecided", "ApprovalRequested", "ToolProgress", "atoolpost_tools", "toolpost_tools"]


class ToolProgress(Event):
    """Progress that a tool reported."""

    call_id: str
    name: str
    current: float | None = None
    total: float | None = None
    message: str | None = None


class ApprovalRequested(InputRequiredEvent):
    """A call that needs the approval of a person. `ApprovalDecided` answers it with the same `approval_id`."""

    approval_id: str
    name: str
    arguments: dict[str, Any]


class ApprovalDecided(HumanResponseEvent):
    """The decision about a call. `arguments` replace those of the model."""

    approval_id: str
    approved: bool
    reason: str | None = None
    arguments: dict[str, Any] | None = None


def toolpost_tools(
    client: AnyClient,
    *,
    groups: list[str] | None = None,
    q: str | None = None,
    session: str | None = None,
    context: Mapping[str, Mapping[str, Any]] | None = None,
    approver: AnyClient | None = None,
    on_progress: Callable[[StatusEvent], None] | None = None,
) -> list[FunctionTool]:
    """Returns the tools for an agent. `raw_output` of a result is the `ToolCall`.

    Args:
        client: The client that makes the calls.
        groups: Only tools of these groups.
        q: Only tools that match this search.
        session: The session of the calls.
        context: Context objects for tools that name them.
        approver: The client that records approvals; by default `client`.
        on_progress: Receives the progress of calls, in addition to the event stream.
    """
    bridge = Bridge(client, session=session, context=context, approver=approver, on_progress=on_progress)
    return [_ToolpostTool(bridge, tool) for tool in bridge.list_tools(groups=groups, q=q)]


async def atoolpost_tools(
    client: AnyClient,
    *,
    groups: list[str] | None = None,
    q: str | None = None,
    session: str | None = None,
    context: Mapping[str, Mapping[str, Any]] | None = None,
    approver: AnyClient | None = None,
    on_progress: Callable[[StatusEvent], None] | None = None,
) -> list[FunctionTool]:
    """Does the same as `toolpost_tools`, asynchronously."""
    bridge = Bridge(client, session=session, context=context, approver=approver, on_progress=on_progress)
    return [_ToolpostTool(bridge, tool) for tool in await bridge.alist_tools(groups=groups, q=q)]


def _placeholder(toolpost_context: Context) -> None:
    """Makes the framework pass the context of the workflow."""


# The framework inspects the signature, where an annotation as text would hide the context.
_placeholder.__annotations__["toolpost_context"] = Context


class _ToolpostTool(FunctionTool):
    def __init__(self, bridge: Bridge, tool: RemoteTool) -> None:
        metadata = ToolMetadata(name=tool.name, description=tool.description, fn_schema=_schema_model(tool))
        super().__init__(fn=_placeholder, metadata=metadata)
        self._bridge = bridge
        self._tool = tool

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Calls the tool from a thread without an event loop."""
        arguments = {name: value for name, value in kwargs.items() if name != self.ctx_param_name}
        return self._output(arguments, self._bridge.call_sync(self._tool.name, arguments))

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Calls the tool."""
        context: Context | None = kwargs.pop(self.ctx_param_name or "", None)
        arguments, is_approved = kwargs, False
        if self._tool.needs_approval and context is not None:
            answer = await self._decision(context, arguments)
            if not answer.approved:
                text = f'Error: Tool call "{self._tool.name}" was rejected: {answer.reason or "no reason given"}'
                return ToolOutput(
                    content=text, tool_name=self._tool.name, raw_input=arguments, raw_output=text, is_error=True
                )
            arguments, is_approved = answer.arguments or arguments, True

        async def emit(event: StatusEvent) -> None:
            if context is not None:
                context.write_event_to_stream(ToolProgress(**progress_data(event)))

        call = await self._bridge.call(self._tool.name, arguments, approved=is_approved, on_progress=emit)
        return self._output(arguments, call)

    async def _decision(self, context: Context, arguments: dict[str, Any]) -> ApprovalDecided:
        """Waits for a decision. The framework runs the step again when it arrives, so nothing happens before."""
        approval_id = f"{self._tool.name}:{sorted(arguments.items())}"
        return await context.wait_for_event(
            ApprovalDecided,
            waiter_id=approval_id,
            waiter_event=ApprovalRequested(approval_id=approval_id, name=self._tool.name, arguments=arguments),
            requirements={"approval_id": approval_id},
            timeout=None,
        )

    def _output(self, arguments: dict[str, Any], call: ToolCall) -> ToolOutput:
        found: list[Any] = [
            TextBlock(text=block["text"])
            if block["type"] == "text"
            else ImageBlock(image=block["data"].encode(), image_mimetype=block["mime_type"])
            for block in blocks(call)
        ]
        return ToolOutput(
            blocks=found, tool_name=self._tool.name, raw_input=arguments, raw_output=call.to_dict(),
            is_error=call.is_error,
        )


def _schema_model(tool: RemoteTool) -> type[BaseModel]:
    """Returns a model that has the schema of the tool: LlamaIndex reads schemas from models only."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return {"properties": {}, **tool.schema}

    Arguments.__name__ = tool.name
    return Arguments
