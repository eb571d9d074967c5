#!/usr/bin/env python3
"""Asks for approvals in Slack, and sends the answers back: docs/guide/slack.md. slack_approvals.py [PORT]"""
import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import environ
from urllib.error import HTTPError
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

import standard_webhooks

KEY, SLACK_KEY = standard_webhooks.secret(), environ["SLACK_SIGNING_SECRET"].encode()
TOOLPOST, SLACK = environ["TOOLPOST_URL"].rstrip("/"), environ.get("SLACK_API", "https://slack.com/api")


def post(url, token, body):
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"}
    try:
        return json.load(urlopen(Request(url, json.dumps(body).encode(), headers), timeout=10))
    except HTTPError as problem:  # Toolpost's body says why a decision does not count
        return json.load(problem)


def show(method, text, buttons, **place):
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": text[:3000], "emoji": False}}]
    blocks += [{"type": "actions", "elements": buttons}] if buttons else []
    answer = post(f"{SLACK}/{method}", environ["SLACK_TOKEN"], {"text": "Approval", "blocks": blocks, **place})
    if not answer["ok"]:
        raise RuntimeError(f"{method}: {answer}")


def ask(call):
    text = f"{call['name']} {json.dumps(call['effective_arguments'], ensure_ascii=False, indent=1)}"
    value = json.dumps({"id": call["id"], "digest": call["approval"]["digest"]})
    buttons = [{"type": "button", "action_id": decision, "value": value, "style": style,
                "text": {"type": "plain_text", "text": decision.title()}}
               for decision, style in (("approve", "primary"), ("reject", "danger"))]
    if len(text) > 2500:  # people must see everything that they approve, and Slack shows 3,000 characters
        text, buttons = f"{call['name']} {call['id']}: too long to be shown here, decide in the console", []
    show("chat.postMessage", text, buttons, channel=environ["SLACK_CHANNEL"])


def decide(click):
    decision, value, by = click["actions"][0]["action_id"], json.loads(click["actions"][0]["value"]), click["user"]["id"]
    body = {"decision": decision, "digest": value["digest"], "reason": f"decided in Slack by {by}"}
    answer = post(f"{TOOLPOST}/tool-calls/{value['id']}/approval", environ["TOOLPOST_KEY"], body)
    outcome = f"{decision} by {by}" if "approval" in answer else f"not decided: {answer['detail']}"
    text = f"{click['message']['blocks'][0]['text']['text']}\n{outcome}"
    show("chat.update", text, [], channel=click["channel"]["id"], ts=click["message"]["ts"])


def is_from_slack(headers, body):
    sent_at = headers.get("x-slack-request-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > 300:
        return False  # reject old requests, which may be replays
    expected = "v0=" + hmac.new(SLACK_KEY, f"v0:{sent_at}:".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get("x-slack-signature", "").encode())


class Relay(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/toolpost" and standard_webhooks.is_genuine(KEY, self.headers, body):
            event = json.loads(body)
            if event["type"] == "approval.requested":
                ask(event["data"])  # if this fails, Toolpost gets no answer and sends the event again
            self.answer(204)
        elif self.path == "/slack" and is_from_slack(self.headers, body):
            self.answer(200)  # Slack waits 3 seconds
            decide(json.loads(parse_qs(body.decode())["payload"][0]))
        else:
            self.answer(401)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9003), Relay)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
