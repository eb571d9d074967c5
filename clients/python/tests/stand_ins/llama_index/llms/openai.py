"""Replaces the package `llama-index-llms-openai`, which needs another version of `openai` than OpenAI Agents.

The model is LlamaIndex's own mock, which calls `get_weather` once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM


def respond(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """Calls the tool, or answers with its result."""
    if messages[-1].role == "tool" and "18 °C" in str(messages[-1].content):
        return ChatMessage(role="assistant", blocks=[TextBlock(text="It is 18 °C in Paris.")])
    call = ToolCallBlock(tool_call_id="call_1", tool_name="get_weather", tool_kwargs={"city": "Paris"})
    return ChatMessage(role="assistant", blocks=[call])


class OpenAI(MockFunctionCallingLLM):
    """The model."""

    def __init__(self, model: str) -> None:
        super().__init__(response_generator=respond, is_chat_model=True)
