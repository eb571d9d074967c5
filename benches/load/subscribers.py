#!/usr/bin/env python3
"""Holds many subscriptions to GET /events open: subscribers.py PORT COUNT.

Prints `ready` when all have received the head of the response, and one JSON line with totals when standard input ends.
After a line `next`, it prints the time in seconds since 1970 at which the last subscriber has received something.
It reads and discards the events, so that it uses little of the load's core. Disconnected subscribers reconnect and resume.
"""
import json
import re
import selectors
import socket
import sys
import time

PORT, COUNT = int(sys.argv[1]), int(sys.argv[2])
KEPT = 1 << 16  # the end of a stream that is kept to find the last id in
LAST_ID = re.compile(rb"(?:^|\n)id: ?([^\r\n]+)\r?\n")


class Subscriber:
    def __init__(self, last_id=None):
        self.tail, self.started, self.last_id = b"", False, last_id
        self.socket = socket.create_connection(("127.0.0.1", PORT))
        resume = b"last-event-id: " + last_id + b"\r\n" if last_id else b""
        self.socket.sendall(b"GET /events HTTP/1.1\r\nhost: load\r\naccept: text/event-stream\r\n" + resume + b"\r\n")
        self.socket.setblocking(False)

    def read(self):
        """Returns the number of bytes read; 0 at the end of the stream."""
        try:
            piece = self.socket.recv(1 << 18)
        except BlockingIOError:
            return None
        except OSError:
            return 0
        self.tail = piece[-KEPT:] if len(piece) >= KEPT else (self.tail + piece)[-KEPT:]
        return len(piece)

    def successor(self):
        self.socket.close()
        found = LAST_ID.findall(self.tail)
        return Subscriber(found[-1] if found else self.last_id)


def main():
    selector = selectors.DefaultSelector()
    for _ in range(COUNT):
        one = Subscriber()
        selector.register(one.socket, selectors.EVENT_READ, one)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    started = received = cut_off = 0
    missing = set()
    while True:
        for key, _ in selector.select():
            one = key.data
            if one is None and sys.stdin.readline():
                missing = {key.data for key in selector.get_map().values() if key.data}
                print("listening", flush=True)
                continue
            if one is None:
                print(json.dumps({"bytes": received, "cut_off": cut_off}), flush=True)
                return
            count = one.read()
            if count:
                received += count
                if missing:
                    missing.discard(one)
                    if not missing:
                        print(time.time(), flush=True)
                if not one.started and b"\r\n\r\n" in one.tail:
                    if not re.match(rb"HTTP/1\.1 200 ", one.tail):
                        sys.exit(f"GET /events answered {one.tail[:200]!r}")
                    one.started = True
                    started += 1
                    if started == COUNT:
                        print("ready", flush=True)
            elif count == 0:
                cut_off += 1
                selector.unregister(one.socket)
                one = one.successor()
                selector.register(one.socket, selectors.EVENT_READ, one)


if __name__ == "__main__":
    main()
