#!/usr/bin/env python3
"""An agent loop, with the standard library only: agent_loop.py [http://127.0.0.1:8080]

The model's message is sent to Toolpost unchanged, and the returned `messages` are appended to the conversation unchanged.
The model is a script. Its first call has wrong arguments; it reads the error and corrects them: once with OpenAI's Chat
Completions, and once with Anthropic's Messages.
"""
import json
import sys
import urllib.error
import urllib.request

SERVICE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"

FORECAST = {
    "name": "forecast",
    "description": "The weather of the next days.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
    "annotations": {"read_only": True},
    "executor": {"type": "builtin", "name": "echo"},
}
ATTEMPTS = [{"town": "Zürich", "days": "many"}, {"city": "Zürich", "days": 3}]


def request(method, path, body=None):
    """Returns the answer. A refused request is a problem document (RFC 9457)."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(SERVICE + path, data, headers, method=method)) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.status} {error.read().decode()}")


def openai_model(conversation, tools):
    """Replaces POST /v1/chat/completions and returns the assistant's message."""
    assert tools[0]["type"] == "function"
    results = [message for message in conversation if message["role"] == "tool"]
    if results and not results[-1]["content"].startswith("Error"):
        return {"role": "assistant", "content": "The forecast is: " + results[-1]["content"]}
    function = {"name": "forecast", "arguments": json.dumps(ATTEMPTS[len(results)])}
    call = {"id": f"call_{len(results)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def anthropic_model(conversation, tools):
    """Replaces POST /v1/messages and returns the assistant's message."""
    assert "input_schema" in tools[0]
    results = [message["content"][0] for message in conversation if isinstance(message["content"], list)]
    results = [block for block in results if block["type"] == "tool_result"]
    if results and not results[-1].get("is_error"):
        text = "The forecast is: " + json.dumps(results[-1]["content"], ensure_ascii=False)
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}
    call = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": "forecast", "input": ATTEMPTS[len(results)]}
    return {"role": "assistant", "content": [call]}


def wants_tools(message):
    """Returns whether the model waits for results."""
    blocks = message["content"] if isinstance(message["content"], list) else []
    return bool(message.get("tool_calls")) or any(block["type"] == "tool_use" for block in blocks)


def run(vendor, model):
    """Runs the loop, which is the same for every vendor."""
    print(vendor)
    all_tools = request("GET", f"/tools?format={vendor}")["tools"]
    tools = [tool for tool in all_tools if tool.get("name", tool.get("function", {}).get("name")) == "forecast"]
    conversation = [{"role": "user", "content": "How will the weather be in Zürich?"}]
    while True:
        said = model(conversation, tools)
        conversation.append(said)
        if not wants_tools(said):
            break
        answer = request("POST", "/tool-calls", said)
        for call in answer["results"]:
            print(" ", call["status"], call["output"].splitlines()[0])
        conversation += answer["messages"]
    print(" ", said["content"] if isinstance(said["content"], str) else said["content"][0]["text"])


request("PUT", "/tools/forecast", FORECAST)
run("openai", openai_model)
run("anthropic", anthropic_model)
