"""LlamaIndex with its mock model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock

from toolpost import AsyncToolpost, Toolpost
from toolpost.adapters.llama_index import ApprovalDecided, ApprovalRequested, ToolProgress, atoolpost_tools, toolpost_tools

from . import adapters
from .conftest import WAITS, are_two_steps


def model(name: str, arguments: dict[str, Any]) -> MockFunctionCallingLLM:
    """Returns a model that calls one tool and then repeats its result."""

    def respond(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        if messages[-1].role == "tool":
            return ChatMessage(role="assistant", blocks=[TextBlock(text=messages[-1].content or "")])
        call = ToolCallBlock(tool_call_id="call_1", tool_name=name, tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[call])

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


def test_tool_is_called_without_a_workflow(client: Toolpost, unique: str) -> None:
    adapters.register(client, unique)
    tools = {tool.metadata.name: tool for tool in toolpost_tools(client, groups=[unique])}
    tool = tools[f"{unique}_add"]
    assert tool.metadata.get_parameters_dict()["required"] == ["item"]
    output = tool.call(item="pen", count="2")
    assert output.content == '{"item":"pen","count":2}' and output.raw_output["structured"] == {"item": "pen", "count": 2}
    failed = tool.call(itm="pen")
    assert failed.is_error and failed.content.startswith("Error: Invalid parameters")


async def test_agent_calls_the_tool_and_streams_progress(client: Toolpost, aclient: AsyncToolpost, unique: str) -> None:
    adapters.register(client, unique)
    tools: list[Any] = list(await atoolpost_tools(aclient, groups=[unique]))
    for ms in WAITS:
        agent = FunctionAgent(tools=tools, llm=model(f"{unique}_wait", {"ms": ms, "steps": 2}), streaming=False)
        run = agent.run("Wait")
        events = [event async for event in run.stream_events()]
        assert str(await run) == f"Waited {ms} ms"
        if are_two_steps([event.current for event in events if isinstance(event, ToolProgress)]):
            return
    pytest.fail("no call shows both steps")


@pytest.mark.parametrize("is_approved", [True, False])
async def test_approval_waits_for_a_person(
    client: Toolpost, aclient: AsyncToolpost, unique: str, is_approved: bool
) -> None:
    adapters.register(client, unique)
    tools: list[Any] = list(await atoolpost_tools(aclient, groups=[unique], session=unique))
    name = next(tool.metadata.name for tool in tools if "order" in tool.metadata.name)
    agent = FunctionAgent(tools=tools, llm=model(name, {"item": "pen"}), streaming=False)
    run = agent.run("Order a pen")
    results = []
    async for event in run.stream_events():
        if isinstance(event, ApprovalRequested):
            assert event.arguments == {"item": "pen"}
            decided = ApprovalDecided(approval_id=event.approval_id, approved=is_approved, reason="too expensive")
            run.ctx.send_event(decided)
        elif isinstance(event, ToolCallResult):
            results.append(event.tool_output)
    answer = str(await run)
    made = [call async for call in aclient.calls(session=unique)]
    if is_approved:
        assert answer == '{"item":"pen"}'
        assert [call.approval.status for call in made if call.approval] == ["approved"]
    else:
        assert "was rejected: too expensive" in answer and made == [] and results[-1].is_error
