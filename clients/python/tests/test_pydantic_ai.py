"""Pydantic AI with its function model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolpost import AsyncToolpost, Toolpost
from toolpost.adapters.pydantic_ai import ToolpostToolset, ToolProgressEvent

from . import adapters


class Script:
    """A model that calls a tool once and then repeats the result."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.call = ToolCallPart(name, arguments, tool_call_id="call_1")
        self.info: AgentInfo | None = None

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.info = info
        found = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        return ModelResponse(parts=[TextPart(found[-1].model_response_str()) if found else self.call])


async def test_model_reads_the_result(client: Toolpost, aclient: AsyncToolpost, unique: str) -> None:
    adapters.register(client, unique)
    script = Script(f"{unique}_add", {"item": "pen", "count": "2"})
    agent = Agent(FunctionModel(script), toolsets=[ToolpostToolset(aclient, groups=[unique], session=unique)])
    result = await agent.run("Order a pen")
    assert result.output == '{"item":"pen","count":2}'
    part = next(part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart))
    assert part.metadata["structured"] == {"item": "pen", "count": 2}
    assert script.info is not None
    assert f"{unique}_add" in [tool.name for tool in script.info.function_tools]


async def test_model_reads_what_was_wrong(client: Toolpost, aclient: AsyncToolpost, unique: str) -> None:
    adapters.register(client, unique)
    agent = Agent(FunctionModel(Script(f"{unique}_add", {"itm": "pen"})), toolsets=[ToolpostToolset(aclient)])
    assert "Invalid parameters" in (await agent.run("Order a pen")).output


async def test_progress_is_an_event_of_the_run(client: Toolpost, aclient: AsyncToolpost, unique: str) -> None:
    adapters.register(client, unique)
    seen: list[ToolProgressEvent] = []

    async def handle(_: Any, events: Any) -> None:
        seen.extend([event async for event in events if isinstance(event, ToolProgressEvent)])

    script = Script(f"{unique}_wait", {"ms": 60, "steps": 2})

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Any:
        part = script(messages, info).parts[0]
        if isinstance(part, TextPart):
            yield part.content
        else:
            from pydantic_ai.models.function import DeltaToolCall

            yield {0: DeltaToolCall(f"{unique}_wait", '{"ms": 60, "steps": 2}', tool_call_id="call_1")}

    agent = Agent(FunctionModel(stream_function=stream), toolsets=[ToolpostToolset(aclient, groups=[unique])])
    assert (await agent.run("Wait", event_stream_handler=handle)).output == "Waited 60 ms"
    assert [(event.current, event.total, event.tool_call_id) for event in seen] == [
        (1.0, 2.0, "call_1"), (2.0, 2.0, "call_1"),
    ]


@pytest.mark.parametrize("decision", [True, ToolDenied("too expensive")])
async def test_approval_defers_the_call(
    client: Toolpost, aclient: AsyncToolpost, unique: str, decision: Any
) -> None:
    adapters.register(client, unique)
    toolset: ToolpostToolset[None] = ToolpostToolset(aclient, groups=[unique], session=unique)
    tools = await toolset._bridge.alist_tools(groups=[unique])
    name = next(tool.name for tool in tools if tool.needs_approval)
    agent = Agent(
        FunctionModel(Script(name, {"item": "pen"})), toolsets=[toolset], output_type=[str, DeferredToolRequests]
    )
    first = await agent.run("Order a pen")
    assert isinstance(first.output, DeferredToolRequests)
    assert [part.tool_name for part in first.output.approvals] == [name]
    results = DeferredToolResults(approvals={"call_1": decision})
    second = await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    made = [call async for call in aclient.calls(session=unique)]
    if decision is True:
        assert second.output == '{"item":"pen"}'
        assert made[0].approval is not None and made[0].approval.status == "approved"
    else:
        assert "too expensive" in str(second.output) and made == []
