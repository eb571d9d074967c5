#!/usr/bin/env python3
"""Registers a tool, calls it and watches a call, with the standard library only: client.py [http://127.0.0.1:8080]"""
import json
import sys
import urllib.error
import urllib.request

SERVICE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"


def request(method, path, body=None, accept="application/json"):
    """Returns the open response. A refused request is a problem document (RFC 9457)."""
    headers = {"content-type": "application/json", "accept": accept}
    data = None if body is None else json.dumps(body).encode()
    try:
        return urllib.request.urlopen(urllib.request.Request(SERVICE + path, data, headers, method=method))
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.status} {error.read().decode()}")


def events(response):
    """Yields the events of a text/event-stream: (id, name, data)."""
    event = {}
    for line in response:
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        if field:
            event[field] = value.removeprefix(" ")
        elif not line.strip() and "data" in event:
            yield event.get("id"), event.get("event"), json.loads(event["data"])
            event = {}


shout = {
    "name": "shout",
    "description": "Answers with its arguments.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "executor": {"type": "builtin", "name": "echo"},
}
request("PUT", "/tools/shout", shout).close()
print("tools:", ", ".join(tool["name"] for tool in json.load(request("GET", "/tools"))["tools"]))

for arguments in ({"text": "hello"}, {"txt": "hello"}):
    call = json.load(request("POST", "/tool-calls", {"name": "shout", "arguments": arguments}))
    print(call["status"], call["output"])  # an ERROR is an answer too: give it to the model

slow = {"name": "wait", "arguments": {"ms": 600, "steps": 3}}
with request("POST", "/tool-calls", slow, "text/event-stream") as stream:
    for number, name, data in events(stream):
        print(number, name, data.get("status", ""), data.get("progress") or data.get("output") or "")
