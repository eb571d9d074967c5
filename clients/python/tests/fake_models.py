"""A server with the APIs of OpenAI, Anthropic and Gemini, whose model calls a tool and then repeats its result.

The model calls `get_weather` with the city Paris. After the result "Paris: 18 °C, cloudy" it says "It is 18 °C in Paris."
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME, ARGUMENTS = "get_weather", {"city": "Paris"}
ANSWER = "It is 18 °C in Paris."


def openai_chat(has_result: bool) -> Any:
    call = {"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": json.dumps(ARGUMENTS)}}
    message = {"role": "assistant", "content": ANSWER} if has_result else {
        "role": "assistant", "content": None, "tool_calls": [call]}
    reason = "stop" if has_result else "tool_calls"
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def openai_chunks(has_result: bool) -> list[Any]:
    choice = openai_chat(has_result)["choices"][0]
    delta = choice["message"]
    if "tool_calls" in delta:
        delta["tool_calls"][0]["index"] = 0
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
    ]


def openai_response(has_result: bool) -> Any:
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": NAME, "arguments": json.dumps(ARGUMENTS)}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "output": [message if has_result else call], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }


def anthropic_message(has_result: bool) -> Any:
    text, call = {"type": "text", "text": ANSWER}, {"type": "tool_use", "id": "toolu_1", "name": NAME, "input": ARGUMENTS}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [text if has_result else call],
        "stop_reason": "end_turn" if has_result else "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def gemini_content(has_result: bool) -> Any:
    part = {"text": ANSWER} if has_result else {"functionCall": {"name": NAME, "args": ARGUMENTS}}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        body = json.loads(text)
        if NAME not in text:
            self.send_error(400, "the request has no tool get_weather")
            return
        has_result = "18 °C" in json.dumps(body, ensure_ascii=False)
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions") and body.get("stream"):
            events = [f"data: {json.dumps(chunk)}\n\n" for chunk in openai_chunks(has_result)]
            self._answer("text/event-stream", "".join([*events, "data: [DONE]\n\n"]))
            return
        make = {
            "completions": openai_chat, "responses": openai_response, "messages": anthropic_message,
        }.get(path.rsplit("/", 1)[1], gemini_content)
        self._answer("application/json", json.dumps(make(has_result)))

    def _answer(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def fake_models() -> Iterator[dict[str, str]]:
    """Starts the server. Yields the variables with which the vendors' SDKs find it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield {
            "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "key", "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "key",
            "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "key",
        }
    finally:
        server.shutdown()
        server.server_close()
