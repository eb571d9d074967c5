#!/usr/bin/env python3
"""An agent's loop, with the standard library only: agent_loop.py [http://127.0.0.1:8080]

What the model says goes to Toolpost as it is; the `messages` that come back are appended to the conversation as they are.
The model here is a script. It gets the arguments wrong at first, reads the error and mends them: once as OpenAI's Chat
Completions speak, once as Anthropic's Messages do.
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
    """The answer. A request that is refused is a problem document (RFC 9457)."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(SERVICE + path, data, headers, method=method)) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.status} {error.read().decode()}")


def openai_model(conversation, tools):
    """In place of POST /v1/chat/completions: the assistant's message."""
    assert tools[0]["type"] == "function"
    results = [message for message in conversation if message["role"] == "tool"]
    if results and not results[-1]["content"].startswith("Error"):
        return {"role": "assistant", "content": "The forecast is: " + results[-1]["content"]}
    function = {"name": "forecast", "arguments": json.dumps(ATTEMPTS[len(results)])}
    call = {"id": f"call_{len(results)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def anthropic_model(conversation, tools):
    """In place of POST /v1/messages: the assistant's message."""
    assert "input_schema" in tools[0]
    results = [message["content"][0] for message in conversation if isinstance(message["content"], list)]
    results = [block for block in results if block["type"] == "tool_result"]
    if results and not results[-1].get("is_error"):
        text = "The forecast is: " + json.dumps(results[-1]["content"], ensure_ascii=False)
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}
    call = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": "forecast", "input": ATTEMPTS[len(results)]}
    return {"role": "assistant", "content": [call]}


def wants_tools(message):
    """Whether the model waits for results."""
    blocks = message["content"] if isinstance(message["content"], list) else []
    return bool(message.get("tool_calls")) or any(block["type"] == "tool_use" for block in blocks)


def run(vendor, model):
    """The loop, which is the same for every vendor."""
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
