"""LangChain and LangGraph with a fake model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from toolpost import AsyncToolpost, Toolpost
from toolpost.adapters.langchain import atoolpost_tools, toolpost_tools

from . import adapters
from .conftest import WAITS, are_two_steps, echo_tool


def tool_call(name: str, arguments: dict[str, Any]) -> Any:
    return {"name": name, "args": arguments, "id": "call_1", "type": "tool_call"}


def graph(tools: list[Any], name: str, arguments: dict[str, Any]) -> Any:
    """Returns an agent whose model calls one tool and then ends."""
    answers = [AIMessage("", tool_calls=[tool_call(name, arguments)]), AIMessage("done")]
    model = GenericFakeChatModel(messages=iter(answers), disable_streaming=True)

    async def call_model(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call_model)
    builder.add_node("tools", ToolNode(tools))
    builder.set_entry_point("model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


START = {"messages": [HumanMessage("Go")]}
CONFIG = {"configurable": {"thread_id": "1"}}


def test_tool_is_invoked_without_a_graph(client: Toolpost, unique: str) -> None:
    adapters.register(client, unique)
    tools = {tool.name: tool for tool in toolpost_tools(client, groups=[unique])}
    tool = tools[f"{unique}_add"]
    assert tool.args["count"] == {"type": "integer"}
    assert tool.invoke({"item": "pen", "count": "2"}) == '{"item":"pen","count":2}'
    message = tool.invoke(tool_call(tool.name, {"item": "pen"}))
    assert isinstance(message, ToolMessage) and message.artifact["structured"] == {"item": "pen"}
    failed = tool.invoke(tool_call(tool.name, {"itm": "pen"}))
    assert failed.status == "error" and failed.content.startswith("Error: Invalid parameters")


def test_arguments_may_have_any_name(client: Toolpost, unique: str) -> None:
    names = ["self", "config", "run_manager", "name"]
    client.register(echo_tool(unique, input_schema={"type": "object", "properties": {name: {} for name in names}}))
    tool = next(tool for tool in toolpost_tools(client) if tool.name == unique)
    message = tool.invoke(tool_call(unique, {name: name for name in names}))
    assert message.artifact["structured"] == {name: name for name in names}


async def test_graph_calls_the_tool_and_streams_progress(client: Toolpost, aclient: AsyncToolpost, unique: str) -> None:
    adapters.register(client, unique)
    tools = await atoolpost_tools(aclient, groups=[unique])
    for ms in WAITS:
        agent = graph(tools, f"{unique}_wait", {"ms": ms, "steps": 2})
        chunks = [chunk["toolpost_progress"] async for chunk in agent.astream(START, CONFIG, stream_mode="custom")]
        messages = (await agent.aget_state(CONFIG)).values["messages"]
        assert [message.content for message in messages[-2:]] == [f"Waited {ms} ms", "done"]
        again = graph(tools, f"{unique}_wait", {"ms": ms, "steps": 2})
        events = [event async for event in again.astream_events(START, CONFIG, version="v2")]
        reports = [event["data"] for event in events if event["name"] == "toolpost_progress"]
        if all([are_two_steps([report["current"] for report in each]) for each in (chunks, reports)]):
            return
    pytest.fail("no call shows both steps")


@pytest.mark.parametrize(("answer", "content"), [
    ({"type": "approve"}, '{"item":"pen"}'),
    (True, '{"item":"pen"}'),
    ({"type": "edit", "args": {"item": "pencil"}}, '{"item":"pencil"}'),
    ({"type": "reject", "message": "too expensive"}, "was rejected: too expensive"),
])
async def test_approval_interrupts_the_graph(
    client: Toolpost, aclient: AsyncToolpost, unique: str, answer: Any, content: str
) -> None:
    adapters.register(client, unique)
    tools = await atoolpost_tools(aclient, groups=[unique], session=unique)
    name = next(tool.name for tool in tools if "order" in tool.name)
    agent = graph(tools, name, {"item": "pen"})
    state = await agent.ainvoke(START, CONFIG)
    assert state["__interrupt__"][0].value["args"] == {"item": "pen"}
    state = await agent.ainvoke(Command(resume=answer), CONFIG)
    assert content in state["messages"][-2].content
    made = [call async for call in aclient.calls(session=unique)]
    assert [call.approval.status for call in made if call.approval] == ([] if "rejected" in content else ["approved"])
