#!/usr/bin/env python3
"""Receives callbacks of ended calls. Give a call "callback_url": "http://127.0.0.1:9002/". callback_receiver.py [PORT]"""
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import standard_webhooks

KEY = standard_webhooks.secret()
SEEN = set()  # a callback may arrive twice with the same webhook-id; a real receiver stores the ids on disk


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not standard_webhooks.is_genuine(KEY, self.headers, body):
            return self.answer(401)  # Toolpost retries, so a wrong secret loses nothing after it is fixed
        if self.headers["webhook-id"] not in SEEN:
            SEEN.add(self.headers["webhook-id"])
            call = json.loads(body)  # the complete ToolCall
            print(call["name"], call["id"], call["status"], call["output"], flush=True)
        self.answer(204)  # any 2xx acknowledges it

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9002), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
