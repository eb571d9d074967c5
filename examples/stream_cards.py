#!/usr/bin/env python3
"""Pipes a model's stream into Toolpost and prints the cards as they fill: stream_cards.py [http://127.0.0.1:8080]

The stream is Anthropic's, from a script, and is sent in chunks of any size. A card opens with the name of its tool, its
parameters fill in while the model writes them, and each call starts when its own block is complete. Uses the standard library
only: one thread writes to the socket, and another one reads from it.
"""
import http.client
import json
import sys
import threading
import time
import urllib.parse

SERVICE = urllib.parse.urlsplit(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
PREFIX = SERVICE.path.rstrip("/")

FORECAST = {
    "name": "forecast",
    "description": "The weather of the next days.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["city", "days"],
    },
    "annotations": {"read_only": True},
    "executor": {"type": "builtin", "name": "echo"},
}


def model():
    """Yields the bytes of a model's answer with two calls, in small chunks."""

    def event(name, **data):
        return f"event: {name}\ndata: {json.dumps({'type': name, **data}, ensure_ascii=False)}\n\n"

    text = event("message_start", message={"id": "msg_1", "type": "message", "role": "assistant", "content": []})
    for index, city in enumerate(["Zürich", "北京"]):
        arguments = json.dumps({"city": city, "days": 3, "note": "with wind and rain"}, ensure_ascii=False)
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": "forecast", "input": {}}
        text += event("content_block_start", index=index, content_block=block)
        for at in range(0, len(arguments), 8):
            delta = {"type": "input_json_delta", "partial_json": arguments[at : at + 8]}
            text += event("content_block_delta", index=index, delta=delta)
        text += event("content_block_stop", index=index)
    text += event("message_delta", delta={"stop_reason": "tool_use"}) + event("message_stop")
    stream = text.encode()
    for at in range(0, len(stream), 50):
        yield stream[at : at + 50]
        time.sleep(0.01)  # a model takes its time


def send(socket):
    """Yields the body of the request in the chunked encoding (RFC 9112, section 7.1)."""
    for piece in model():
        socket.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    socket.sendall(b"0\r\n\r\n")


def events(response):
    """Yields the events of a text/event-stream: (name, data)."""
    event = {}
    for line in response:
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        if field:
            event[field] = value.removeprefix(" ")
        elif "data" in event:
            yield event.get("event"), json.loads(event["data"])
            event = {}


def refuse(response, expected):
    """Exits with the problem document (RFC 9457) of a refused request."""
    if response.status not in expected:
        sys.exit(f"{response.status} {response.read().decode()}")


connection = http.client.HTTPConnection(SERVICE.hostname, SERVICE.port or 80)
connection.request("PUT", PREFIX + "/tools/forecast", json.dumps(FORECAST), {"content-type": "application/json"})
answer = connection.getresponse()
refuse(answer, (200, 201))
answer.read()

connection.putrequest("POST", PREFIX + "/tool-calls/stream?format=anthropic")
connection.putheader("content-type", "text/event-stream")
connection.putheader("accept", "text/event-stream")
connection.putheader("transfer-encoding", "chunked")
connection.endheaders()
threading.Thread(target=send, args=[connection.sock], daemon=True).start()

answer = connection.getresponse()
refuse(answer, (200,))
for name, data in events(answer):
    if name == "tool_call":
        print(f"[{data['call_id']}] {data['name']}")
    elif name == "status":
        print(f"[{data['call_id']}] {data['status']} {json.dumps(data.get('params'), ensure_ascii=False)}")
    elif name == "tool_result":
        print(f"[{data['call_id']}] => {data['output']}")
    elif name == "batch":
        print("for the next turn:", json.dumps(data["messages"], ensure_ascii=False))
