"""Runs `toolpost watch` in a pseudo-terminal: waits for a call, presses a key, and checks that the terminal is restored.

    live_view.py TOOLPOST URL q|ctrl-c
"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import urllib.request

program, url, key = sys.argv[1:]
PATIENCE = 60
seen = b""

child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 100, 0, 0))
    os.execv(program, [program, "watch", "--server", url])


def read():
    """Reads more of the screen; returns False at its end."""
    global seen
    ready, _, _ = select.select([terminal], [], [], PATIENCE)
    assert ready, f"nothing more came after {seen!r}"
    try:
        part = os.read(terminal, 65536)
    except OSError:  # The program has closed the terminal.
        return False
    seen += part
    return bool(part)


def until(*parts):
    while not all(part in seen for part in parts):
        assert read(), f"the program ended: {seen!r}"


def call(name, arguments):
    body = json.dumps({"name": name, "arguments": arguments}).encode()
    request = urllib.request.Request(url + "/tool-calls", body, {"content-type": "application/json"})
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE).read()


until(b"\x1b[?1049h", b"q quits")  # the alternate screen
call("wait", {"ms": 1, "steps": 1})
call("nothing", {})
until(b"wait", b"SUCCESS", "█".encode(), b"100%", b"TOOL_NOT_FOUND", b"\x1b[38;5;10m", b"\x1b[38;5;9m")
os.write(terminal, {"q": b"q", "ctrl-c": b"\x03"}[key])
while read():
    pass
_, status = os.waitpid(child, 0)
code = os.waitstatus_to_exitcode(status)
assert code == {"q": 0, "ctrl-c": 130}[key], (code, seen)
assert b"\x1b[?1049l" in seen and b"\x1b[?25h" in seen, seen
