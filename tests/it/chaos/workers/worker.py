"""A worker program that notes each run on disk before it begins, and works until it is killed.

Arguments: its name, the number before its first run, the file of its notes, the file that says that calls are held, and
the addresses of the nodes. It needs only the standard library.
"""

import http.client
import itertools
import json
import os
import sys
import threading
import time

NAME, FIRST, NOTES, HOLDING = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
NODES = sys.argv[5:]
QUEUE = "/workers/chaos"
# Number of calls that run concurrently.
SLOTS = 3
# Maximum wait of a claim, in milliseconds.
WAIT_MS = 500
# Timeouts of heartbeats and of other requests, in seconds.
BEAT_PATIENCE, PATIENCE = 0.7, 3.0
# Interval of heartbeats, duration of a slow run, and pause after a failed request, in seconds.
BEAT, SLOWLY, PAUSE = 0.3, 0.012, 0.02

notes = os.open(NOTES, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
numbers = itertools.count(FIRST + 1)
turns = itertools.count(FIRST)
free = threading.Semaphore(SLOTS)
parent = os.getppid()
running = {}


def note(**line):
    """Writes a line to disk."""
    os.write(notes, (json.dumps(line) + "\n").encode())
    os.fsync(notes)


def post(path, body, token=None, patience=PATIENCE):
    """Posts to the next node. Returns the status and the body; the status is 0 if no complete answer arrived."""
    connection = http.client.HTTPConnection(NODES[next(turns) % len(NODES)], timeout=patience)
    headers = {"content-type": "application/json", "user-agent": "chaos"}
    if token:
        headers["authorization"] = "Bearer " + token
    try:
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()


def beat():
    """Renews the leases of all running calls, until the test that started this program is gone."""
    while os.getppid() == parent:
        post(QUEUE + "/heartbeat", {"worker": NAME, "calls": list(running.values())}, patience=BEAT_PATIENCE)
        time.sleep(BEAT)
    os._exit(1)


def run(call):
    """Runs a call and posts its result until a node answers."""
    number = next(numbers)
    arguments = call["arguments"]
    running[number] = call["id"]
    note(run=number, id=call["id"], name=call["name"], attempt=call["attempt"])
    if arguments["route"] == "slowly":
        time.sleep(SLOWLY)
    if arguments["route"] == "hold" and call["attempt"] == 1 and os.path.exists(HOLDING):
        note(held=number, id=call["id"], key=arguments["key"])
        while os.path.exists(HOLDING):
            time.sleep(PAUSE)
    for attempt in itertools.count(1):
        status, answer = post(f"/tool-calls/{call['id']}/result", f"run {number}", call["token"])
        if status not in (0, 503):
            ignored = isinstance(answer, dict) and answer.get("ignored")
            note(posted=number, id=call["id"], status=status, ignored=ignored, is_first=attempt == 1)
            break
        time.sleep(PAUSE)
    del running[number]
    free.release()


def work():
    """Claims calls and runs each in a thread of its own."""
    while True:
        free.acquire()
        slots = 1 + sum(free.acquire(blocking=False) for _ in range(SLOTS - 1))
        status, answer = post(QUEUE + "/claim", {"worker": NAME, "max": slots, "wait_ms": WAIT_MS})
        calls = answer["calls"] if status == 200 else []
        for call in calls:
            threading.Thread(target=run, args=(call,), daemon=True).start()
        for _ in range(slots - len(calls)):
            free.release()
        if status != 200:
            time.sleep(PAUSE)


threading.Thread(target=beat, daemon=True).start()
work()
