"""The OpenAI Agents SDK with a fake model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Runner, Usage
from agents.items import TResponseStreamEvent
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from toolpost import AsyncToolpost, Toolpost
from toolpost.adapters.openai_agents import atoolpost_tools, toolpost_tools

from . import adapters
from .conftest import WAITS, are_two_steps


class FakeModel(Model):
    """Answers with the given outputs, one a turn, and keeps what it was given."""

    def __init__(self, *outputs: Any) -> None:
        self.outputs = list(outputs)
        self.inputs: list[Any] = []
        self.tools: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        self.inputs.append(input)
        self.tools = kwargs.get("tools") or args[1]
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError


def calls(name: str, arguments: dict[str, Any]) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id="call_1", name=name, arguments=json.dumps(arguments), id="fc_1"
    )


def says(text: str) -> ResponseOutputMessage:
    content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=content)  # type: ignore[arg-type]


def outputs(model: FakeModel) -> list[Any]:
    """Returns the results that the model was given in its last turn."""
    return [item["output"] for item in model.inputs[-1] if item.get("type") == "function_call_output"]


def test_model_reads_the_result(client: Toolpost, unique: str) -> None:
    adapters.register(client, unique)
    model = FakeModel(calls(f"{unique}_add", {"item": "pen", "count": "2"}), says("done"))
    tools = toolpost_tools(client, groups=[unique], session=unique)
    result = Runner.run_sync(Agent(name="a", model=model, tools=tools), "Order a pen")
    assert result.final_output == "done"
    # The service converted the number, which a check in the framework would have rejected.
    assert outputs(model) == ['{"item":"pen","count":2}']
    assert [call.call_id for call in client.calls(session=unique)] == ["call_1"]
    definition = next(tool for tool in model.tools if tool.name == f"{unique}_add")
    assert definition.params_json_schema["required"] == ["item"]


def test_model_reads_what_was_wrong(client: Toolpost, unique: str) -> None:
    adapters.register(client, unique)
    model = FakeModel(calls(f"{unique}_add", {"itm": "pen"}), says("done"))
    Runner.run_sync(Agent(name="a", model=model, tools=toolpost_tools(client, groups=[unique])), "Order a pen")
    assert outputs(model)[0].startswith("Error: Invalid parameters")


def test_progress_is_reported(client: Toolpost, unique: str) -> None:
    adapters.register(client, unique)
    steps: list[Any] = []
    tools = toolpost_tools(client, groups=[unique], on_progress=lambda event: steps.append(event.progress))
    for ms in WAITS:
        steps.clear()
        model = FakeModel(calls(f"{unique}_wait", {"ms": ms, "steps": 2}), says("done"))
        Runner.run_sync(Agent(name="a", model=model, tools=tools), "Wait")
        if are_two_steps([step.current for step in steps]):
            return
    pytest.fail("no call shows both steps")


@pytest.mark.parametrize("is_approved", [True, False])
async def test_approval_interrupts_the_run(
    client: Toolpost, aclient: AsyncToolpost, unique: str, is_approved: bool
) -> None:
    adapters.register(client, unique)
    tools = await atoolpost_tools(aclient, groups=[unique], session=unique)
    name = next(tool.name for tool in tools if "order" in tool.name)
    assert "." not in name  # vendors refuse dots
    model = FakeModel(calls(name, {"item": "pen"}), says("done"))
    agent: Agent[Any] = Agent(name="a", model=model, tools=tools)
    result = await Runner.run(agent, "Order a pen")
    assert [item.name for item in result.interruptions] == [name]
    assert [call async for call in aclient.calls(session=unique)] == []
    state = result.to_state()
    if is_approved:
        state.approve(result.interruptions[0])
    else:
        state.reject(result.interruptions[0])
    assert (await Runner.run(agent, state)).final_output == "done"
    made = [call async for call in aclient.calls(session=unique)]
    if is_approved:
        assert outputs(model) == ['{"item":"pen"}']
        assert made[0].approval is not None and made[0].approval.status == "approved"
    else:
        assert made == [] and "not approved" in outputs(model)[0]


async def test_cancelled_run_cancels_its_call(client: Toolpost, aclient: AsyncToolpost, unique: str) -> None:
    adapters.register(client, unique)
    client.sessions.create(unique)
    tools = await atoolpost_tools(aclient, groups=[unique], session=unique)
    model = FakeModel(calls(f"{unique}_wait", {"ms": 60_000}))
    run = asyncio.create_task(Runner.run(Agent(name="a", model=model, tools=tools), "Wait"))
    async for event in aclient.watch(session=unique):
        if event.event == "status" and event.phase == "running":
            break
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    call = [call async for call in aclient.calls(session=unique)][0]
    assert (await aclient.wait_for(call)).error.code == "CANCELLED"  # type: ignore[union-attr]
