#!/usr/bin/env python3
"""Posts the call in LOAD_BODY at a constant rate: open_loop.py PORT RATE SECONDS CONNECTIONS.

Calls are independent, as those of many callers: none waits for the response to another. The latency of a call starts when the
call is due. If all connections are in use at that time, the call is counted as lost on this side. Prints one JSON line: counts,
percentiles of accepted (200) and rejected (503) calls, and the delay of the load generator itself.
"""
import collections
import json
import os
import re
import selectors
import socket
import sys
import time

PORT, RATE, SECONDS, CONNECTIONS = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
BODY = os.environ["LOAD_BODY"].encode()
REQUEST = (
    b"POST /tool-calls HTTP/1.1\r\nhost: load\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)
) + BODY
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
# Maximum number of calls that are sent before the next responses are read.
AT_ONCE = 64
# Timeout for the last responses, in seconds.
LINGER = 10.0


class Connection:
    def __init__(self):
        self.due, self.received = 0.0, b""
        self.socket = socket.create_connection(("127.0.0.1", PORT))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def read(self):
        """Returns the status of the response, or None while it is incomplete."""
        try:
            piece = self.socket.recv(65536)
        except BlockingIOError:
            return None
        if not piece:
            raise ConnectionError("the service has closed the connection")
        self.received += piece
        head = self.received.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = LENGTH.search(self.received, 0, head)
        if length is None:
            raise ValueError(f"an answer without its length: {self.received[:200]!r}")
        if len(self.received) < head + 4 + int(length[1]):
            return None
        status = int(self.received[9:12])
        if status == 503 and b"retry-after" not in self.received[:head].lower():
            raise ValueError(f"a 503 without Retry-After: {self.received[:300]!r}")
        self.received = b""
        return status


def percentile(samples, share):
    return round(samples[min(len(samples) - 1, int(len(samples) * share))] * 1000, 3) if samples else None


def main():
    selector = selectors.DefaultSelector()
    free = collections.deque()
    for _ in range(CONNECTIONS):
        one = Connection()
        selector.register(one.socket, selectors.EVENT_READ, one)
        free.append(one)
    latencies, late, lost, sent, broken = collections.defaultdict(list), [], 0, 0, 0
    began = time.perf_counter()
    end, busy = began + SECONDS, 0
    number, total = 0, int(RATE * SECONDS)
    while True:
        now = time.perf_counter()
        for _ in range(AT_ONCE):
            due = began + number / RATE
            if number >= total or due > now:
                break
            number += 1
            if not free:
                lost += 1
                continue
            one = free.pop()
            one.due = due
            try:
                one.socket.send(REQUEST)
            except OSError:
                broken += 1
                continue
            late.append(now - due)
            sent += 1
            busy += 1
        if number >= total and (busy == 0 or now > end + LINGER):
            break
        wait = 0.05 if number >= total else max(0.0, min(0.05, began + number / RATE - time.perf_counter()))
        for key, _ in selector.select(wait):
            one = key.data
            try:
                status = one.read()
            except OSError:
                broken += 1
                busy -= 1
                selector.unregister(one.socket)
                continue
            if status is not None:
                latencies[status].append(time.perf_counter() - one.due)
                free.append(one)
                busy -= 1
    took = max(SECONDS, time.perf_counter() - began)
    late.sort()
    accepted, refused = sorted(latencies.pop(200, [])), sorted(latencies.pop(503, []))
    print(json.dumps({
        "offered": sent + lost, "sent": sent, "lost": lost, "broken": broken, "unanswered": busy, "seconds": took,
        "accepted": len(accepted), "accepted_p50_ms": percentile(accepted, 0.5), "accepted_p99_ms": percentile(accepted, 0.99),
        "refused": len(refused), "refused_p50_ms": percentile(refused, 0.5), "refused_p99_ms": percentile(refused, 0.99),
        "others": {str(status): len(samples) for status, samples in latencies.items()},
        "late_p99_ms": percentile(late, 0.99),
    }))


if __name__ == "__main__":
    main()
