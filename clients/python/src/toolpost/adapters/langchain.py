"""Toolpost's tools in LangChain and LangGraph.

A tool that needs an approval calls LangGraph's `interrupt`: resume the graph with `Command(resume={"type": "approve"})`,
`{"type": "reject", "message": …}` or `{"type": "edit", "args": {…}}`. Progress is a custom event `toolpost_progress`
(`astream_events`) and a custom chunk of a graph (`stream_mode="custom"`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.callbacks.manager import adispatch_custom_event
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException

from ..models import StatusEvent, ToolCall
from ._bridge import AnyClient, Bridge, RemoteTool, blocks, progress_data

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
) -> list[BaseTool]:
    """Returns the tools for an agent or for `model.bind_tools`. The artifact of a result is the `ToolCall` as a dict.

    Args:
        client: The client that makes the calls.
        groups: Only tools of these groups.
        q: Only tools that match this search.
        session: The session of the calls.
        context: Context objects for tools that name them.
        approver: The client that records approvals; by default `client`.
        on_progress: Receives the progress of calls, in addition to the events.
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
) -> list[BaseTool]:
    """Does the same as `toolpost_tools`, asynchronously."""
    bridge = Bridge(client, session=session, context=context, approver=approver, on_progress=on_progress)
    return [_tool(bridge, tool) for tool in await bridge.alist_tools(groups=groups, q=q)]


class _ToolpostTool(BaseTool):
    """A tool whose arguments may have any name: the service checks them, not a signature."""

    bridge: Any
    remote: Any

    def _run(self, /, *args: Any, toolpost_config: RunnableConfig, **arguments: Any) -> Any:
        arguments, is_approved = self._asked(arguments)
        return _result(self.bridge.call_sync(self.remote.name, arguments, approved=is_approved))

    async def _arun(self, /, *args: Any, toolpost_config: RunnableConfig, **arguments: Any) -> Any:
        arguments, is_approved = self._asked(arguments)
        write = _graph_writer()

        async def emit(event: StatusEvent) -> None:
            data = progress_data(event)
            if write is not None:
                write({"toolpost_progress": data})
            try:
                await adispatch_custom_event("toolpost_progress", data, config=toolpost_config)
            except RuntimeError:
                pass  # the tool is called without a run that has events

        return _result(await self.bridge.call(self.remote.name, arguments, approved=is_approved, on_progress=emit))

    def _asked(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Interrupts the graph for an approval. Returns the arguments to use and whether they are approved."""
        if not self.remote.needs_approval or not _is_in_graph():
            return arguments, False
        from langgraph.types import interrupt

        request = {"type": "approval", "name": self.name, "args": arguments, "description": self.description}
        answer = interrupt(request)
        answer = answer if isinstance(answer, dict) else {"type": "approve" if answer is True else "reject"}
        if answer.get("type") not in ("approve", "edit"):
            reason = answer.get("message") or "no reason given"
            raise ToolException(f'Error: Tool call "{self.name}" was rejected: {reason}')
        edited = answer.get("args") or (answer.get("edited_action") or {}).get("args")
        return (dict(edited) if edited else arguments), True


def _tool(bridge: Bridge, tool: RemoteTool) -> BaseTool:
    return _ToolpostTool(
        name=tool.name,
        description=tool.description or tool.name,
        args_schema=tool.schema,
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={"toolpost": tool.tool.name},
        bridge=bridge,
        remote=tool,
    )


def _result(call: ToolCall) -> tuple[Any, dict[str, Any]]:
    if call.is_error:
        raise ToolException(call.output or "the call failed")
    found = blocks(call)
    if all(block["type"] == "text" for block in found):
        return call.output or "", call.to_dict()
    content = [
        {"type": "text", "text": block["text"]}
        if block["type"] == "text"
        else {"type": "image", "base64": block["data"], "mime_type": block["mime_type"]}
        for block in found
    ]
    return content, call.to_dict()


def _is_in_graph() -> bool:
    """Returns `True` within a graph that can be interrupted. Elsewhere, a call waits for a decision in Toolpost."""
    try:
        from langgraph.config import get_config

        return "__pregel_checkpointer" in get_config().get("configurable", {})
    except (ImportError, RuntimeError):
        return False


def _graph_writer() -> Callable[[Any], None] | None:
    try:
        from langgraph.config import get_stream_writer

        return get_stream_writer()
    except (ImportError, RuntimeError, KeyError):
        return None
