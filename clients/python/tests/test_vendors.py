"""`run` with the responses of the vendors' SDKs, as objects and as dicts."""

from __future__ import annotations

import json
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from google.genai import types as gemini

from toolpost import AsyncToolpost, Toolpost
from toolpost._vendor import to_json

ARGUMENTS = {"text": "北京", "nothing": None}
TEXT = json.dumps(ARGUMENTS)


def openai_chat() -> openai.types.chat.ChatCompletion:
    return openai.types.chat.ChatCompletion.model_validate({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "echo", "arguments": TEXT}}],
        }}],
    })


def openai_responses() -> openai.types.responses.Response:
    return openai.types.responses.Response.model_construct(
        id="resp_1", status="completed", output=[openai.types.responses.ResponseFunctionToolCall(
            type="function_call", id="fc_1", call_id="call_1", name="echo", arguments=TEXT)],
    )


def anthropic_message() -> anthropic.types.Message:
    return anthropic.types.Message.model_validate({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "content": [{"type": "text", "text": "I echo."},
                    {"type": "tool_use", "id": "toolu_1", "name": "echo", "input": ARGUMENTS}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    })


def gemini_response() -> gemini.GenerateContentResponse:
    return gemini.GenerateContentResponse.model_validate({
        "candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
            {"functionCall": {"id": "g1", "name": "echo", "args": ARGUMENTS}, "thoughtSignature": "c2ln"}]}}],
    })


def result_of(message: dict[str, Any]) -> str:
    """Returns the text of the first result in a vendor's message."""
    if "tool_call_id" in message:
        return str(message["content"])
    if message.get("type") == "function_call_output":
        return str(message["output"])
    if "parts" in message:
        return json.dumps(message["parts"][0]["functionResponse"]["response"], ensure_ascii=False)
    content = message["content"][0]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


SAMPLES = [openai_chat, openai_responses, anthropic_message, gemini_response]


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("form", ["object", "dict"])
def test_response_of_a_vendor_runs(client: Toolpost, sample: Any, form: str) -> None:
    response = sample()
    run = client.run(response if form == "object" else to_json(response))
    assert [call.structured for call in run.results] == [ARGUMENTS]
    assert run.messages is not None and len(run.messages) == 1
    assert "北京" in result_of(run.messages[0])


@pytest.mark.parametrize("pick", [
    lambda: openai_chat().choices[0].message,
    lambda: openai_responses().output,
    lambda: anthropic_message().content,
    lambda: gemini_response().candidates[0].content,  # type: ignore[index]
])
def test_part_of_a_response_runs(client: Toolpost, pick: Any) -> None:
    assert [call.structured for call in client.run(pick()).results] == [ARGUMENTS]


def test_response_without_calls_has_no_results(client: Toolpost) -> None:
    run = client.run({"role": "assistant", "content": "Hello"})
    assert (run.results, run.messages) == ([], [])


def test_failed_call_is_told_to_the_model(client: Toolpost) -> None:
    message = anthropic_message()
    message.content[1].name = "ecko"  # type: ignore[union-attr]
    run = client.run(message)
    assert run.results[0].is_error and run.messages is not None
    block: dict[str, Any] = to_json(run.messages[0]["content"])[0]
    assert block["is_error"] and "Did you mean: echo?" in str(block["content"])


def test_truncated_response_runs_nothing(client: Toolpost) -> None:
    response = openai_chat()
    response.choices[0].finish_reason = "length"
    assert client.run(response).results[0].error.code == "ARGUMENTS_TRUNCATED"  # type: ignore[union-attr]


def chunks() -> list[openai.types.chat.ChatCompletionChunk]:
    def chunk(delta: dict[str, Any], end: str | None = None) -> openai.types.chat.ChatCompletionChunk:
        return openai.types.chat.ChatCompletionChunk.model_validate({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
        })

    def call(**function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}

    return [chunk({"role": "assistant", **call(name="echo", arguments="")}), chunk(call(arguments='{"te')),
            chunk(call(arguments='xt":"hi"}')), chunk({}, "tool_calls")]


def test_streamed_response_runs(client: Toolpost) -> None:
    last = list(client.stream_response(iter(chunks())))[-1]
    assert last.event == "batch" and last.results[0].structured == {"text": "hi"}
    assert last.messages == [{"role": "tool", "tool_call_id": "call_1", "content": '{"text":"hi"}'}]


async def test_streamed_response_runs_asynchronously(aclient: AsyncToolpost) -> None:
    async def stream() -> Any:
        for chunk in chunks():
            yield chunk

    last = [event async for event in aclient.stream_response(stream())][-1]
    assert last.event == "batch" and last.results[0].structured == {"text": "hi"}


async def test_raw_stream_runs(aclient: AsyncToolpost) -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "tool_use", "id": "toolu_1", "name": "echo", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    raw = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    for found in ([event async for event in aclient.stream_response(raw, format="anthropic")],
                  [event async for event in aclient.stream_response(events)]):
        last = found[-1]
        assert last.event == "batch" and last.results[0].structured == {"a": 1}
