"""Responses of models as JSON, from SDK objects or dicts, without importing an SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Union

AnyIterable = Union[Iterable[Any], AsyncIterable[Any]]


def to_json(value: Any) -> Any:
    """Converts an object of an SDK to the JSON that its vendor's API sends."""
    if hasattr(value, "model_dump"):
        # Gemini's SDK has camelCase aliases, which are the names of its API. OpenAI and Anthropic have none.
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def message_body(response: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the body of `POST /tool-calls` for a model's response and options next to it."""
    body = to_json(response)
    if isinstance(body, list):
        # Items of OpenAI's Responses API or blocks of Anthropic or parts of Gemini, as the caller keeps them.
        kinds = {str(item.get("type")) for item in body if isinstance(item, dict)}
        if any(isinstance(item, dict) and "functionCall" in item for item in body):
            body = {"parts": body}
        else:
            body = {"content": body} if kinds & {"tool_use", "text", "thinking"} else {"output": body}
    if not isinstance(body, dict):
        raise TypeError(f"`response` must be a model's response, message or dict, got {type(response).__name__}")
    return {**body, **options}


def stream_format(chunk: dict[str, Any]) -> str:
    """Returns the format of a streamed response by its first chunk."""
    if "choices" in chunk:
        return "openai"
    if "candidates" in chunk or "usageMetadata" in chunk:
        return "gemini"
    return "openai-responses" if str(chunk.get("type", "")).startswith("response.") else "anthropic"


def stream_chunk(chunk: Any) -> bytes:
    """Returns a chunk of a streamed response as its vendor sends it."""
    if isinstance(chunk, bytes):
        return chunk
    if isinstance(chunk, str):
        return chunk.encode()
    data = to_json(chunk)
    name = data.get("type")
    event = f"event: {name}\n" if isinstance(name, str) else ""
    return f"{event}data: {json.dumps(data)}\n\n".encode()


def peek(chunks: AnyIterable) -> tuple[str | None, Iterator[bytes]]:
    """Returns the format of a stream of SDK objects, or `None` for raw bytes, and the stream as bytes."""
    if isinstance(chunks, AsyncIterable):
        raise TypeError("the stream is asynchronous: use `AsyncToolpost`")
    iterator = iter(chunks)
    first = next(iterator, b"")

    def joined() -> Iterator[bytes]:
        yield stream_chunk(first)
        for chunk in iterator:
            yield stream_chunk(chunk)

    return _format_of(first), joined()


async def apeek(chunks: AnyIterable) -> tuple[str | None, AsyncIterator[bytes]]:
    """Does the same as `peek`, for streams of both kinds."""
    if isinstance(chunks, AsyncIterable):
        iterator = chunks.__aiter__()
    else:
        iterator = _as_async(chunks)
    first = await anext(iterator, b"")

    async def joined() -> AsyncIterator[bytes]:
        yield stream_chunk(first)
        async for chunk in iterator:
            yield stream_chunk(chunk)

    return _format_of(first), joined()


async def _as_async(chunks: Iterable[Any]) -> AsyncIterator[Any]:
    for chunk in chunks:
        yield chunk


def _format_of(first: Any) -> str | None:
    return None if isinstance(first, (bytes, str)) else stream_format(to_json(first))
