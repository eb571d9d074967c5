"""Toolpost's tools in the OpenAI Agents SDK.

A tool that needs an approval has `needs_approval`: the run is interrupted, and `state.approve(…)` continues it. The SDK
streams no progress of tools; `on_progress` receives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agents import FunctionTool, Tool, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext

from ..models import StatusEvent, ToolCall
from ._bridge import AnyClient, Bridge, RemoteTool, blocks

__all__ = ["atoolpost_tools", "toolpost_tools"]


def toolpost_tools(
    client: AnyClient,
    *,
    groups: list[str] | None = None,
    q: str | None = None,
    session: str | None = None,
    context: Mapping[str, Mapping[str, Any]] | None = None,
    approver: AnyClient | None = None,
    on_progress: Callable[[StatusEvent], None] | None = None,
) -> list[Tool]:
    """Returns the tools for `Agent(tools=…)`.

    Args:
        client: The client that makes the calls.
        groups: Only tools of these groups.
        q: Only tools that match this search.
        session: The session of the calls.
        context: Context objects for tools that name them.
        approver: The client that records approvals; by default `client`.
        on_progress: Receives the progress of calls.
    """
    bridge = Bridge(client, session=session, context=context, approver=approver, on_progress=on_progress)
    return [_tool(bridge, tool) for tool in bridge.list_tools(groups=groups, q=q)]


async def atoolpost_tools(
    client: AnyClient,
    *,
    groups: list[str] | None = None,
    q: str | None = None,
    session: str | None = None,
    context: Mapping[str, Mapping[str, Any]] | None = None,
    approver: AnyClient | None = None,
    on_progress: Callable[[StatusEvent], None] | None = None,
) -> list[Tool]:
    """Does the same as `toolpost_tools`, asynchronously."""
    bridge = Bridge(client, session=session, context=context, approver=approver, on_progress=on_progress)
    return [_tool(bridge, tool) for tool in await bridge.alist_tools(groups=groups, q=q)]


def _tool(bridge: Bridge, tool: RemoteTool) -> Tool:
    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        call = await bridge.call(
            tool.name, arguments, call_id=context.tool_call_id, approved=tool.needs_approval
        )
        return _output(call)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=tool.needs_approval,
    )


def _output(call: ToolCall) -> Any:
    """Returns the text, or texts and images. The text of a failed call tells the model what to correct."""
    found = blocks(call)
    if all(block["type"] == "text" for block in found):
        return call.output or ""
    return [
        ToolOutputText(text=block["text"])
        if block["type"] == "text"
        else ToolOutputImage(image_url=f"data:{block['mime_type']};base64,{block['data']}")
        for block in found
    ]
