#!/usr/bin/env python3
"""A slow tool: it answers 202 immediately, reports progress, and posts its result later.
Register it with report_tool.json. report_server.py [PORT] listens on 127.0.0.1, port 9001 unless given."""
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import standard_webhooks

KEY = standard_webhooks.secret()
SEEN = set()  # ids of calls; a tool that must survive a crash of its own keeps them, and its work, on disk


def post(url, token, value):
    """Returns whether the service accepted it. Retries for a while, because the service may be restarting."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, json.dumps(value).encode(), headers)
    for rest in (0.5, 1, 2, 4, 8, 16, 30):
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return True
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return False  # 409: the call has already ended
        except OSError:
            pass  # the service cannot be reached
        time.sleep(rest)
    return False


def work(call):
    topic, pages = call["arguments"]["topic"], call["arguments"]["pages"]
    for page in range(1, pages + 1):
        time.sleep(0.5)  # the work
        report = {"tip": f"Page {page} of {pages}", "progress": {"current": page, "total": pages}}
        if not post(call["progress_url"], call["token"], report):
            print(f"{call['id']} is not wanted any more", flush=True)  # cancelled, or its time is over
            return
    result = {"output": f"A report of {pages} pages on {topic}.", "structured": {"topic": topic, "pages": pages}}
    taken = post(call["result_url"], call["token"], result)
    print(f"{call['id']} {'done' if taken else 'came too late'}", flush=True)


class Tool(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not standard_webhooks.is_genuine(KEY, self.headers, body):
            return self.answer(401)
        call = json.loads(body)
        if call["id"] not in SEEN:  # the id is the same on every attempt, so the work is done once
            SEEN.add(call["id"])
            threading.Thread(target=work, args=(call,), daemon=True).start()
        self.answer(202)  # the result comes later

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9001), Tool)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
